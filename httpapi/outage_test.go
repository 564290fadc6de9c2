package httpapi_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/httpapi"
	"github.com/towline-dev/towline/transport"
)

// O-16, T-2, the promise of case 1: with a publisher that refuses, a trigger is accepted all the same; when it takes messages
// again the run goes to its end, and no attempt was used up. readyz is degraded meanwhile, never down.
func TestARunIsAcceptedWhileTheBrokerIsAway(t *testing.T) {
	b := &broker{refuses: true}
	w := start(t, oneDay, func(c *setup) {
		byWorkers(c)
		c.node.Routes[events.KindUnit] = b // behind it the units wait for workers, as with any broker
		c.node.Knobs.BreakerFailures, c.node.Knobs.BreakerOpen = 1, 100*time.Millisecond
	})
	run := w.plan(2)
	var entry httpapi.Entry
	w.eventually(func() bool {
		r := w.send("GET", "/v1/outbox/"+run.ID.String()+".run_sync_unit", nil)
		return r.status == http.StatusOK && r.is(http.StatusOK, &entry).status == http.StatusOK && entry.LastCause != ""
	})
	require.Equal(t, "pending", entry.State)
	var ready httpapi.Readiness
	w.eventually(func() bool {
		w.send("GET", "/readyz", nil).is(http.StatusOK, &ready)
		return ready.Status == "degraded"
	})
	require.Equal(t, "breaker_open", ready.Reasons[0].What)
	require.Equal(t, "broker", ready.Reasons[0].ID)
	second := w.plan(1)
	var why httpapi.Explanation
	w.eventually(func() bool {
		w.send("GET", "/v1/runs/"+second.Alias+"/why", nil).is(http.StatusOK, &why)
		return why.Reason == "breaker_open"
	})
	require.False(t, why.NeedsPerson)
	require.NotNil(t, why.Next)

	b.refuse(false)
	for range 3 {
		w.claimAndComplete()
	}
	for _, r := range []httpapi.Run{run, second} {
		require.Equal(t, "succeeded", string(w.wait(r.ID).State))
		var list httpapi.List[httpapi.Entry]
		w.send("GET", "/v1/outbox?where=run:"+r.ID.String(), nil).is(http.StatusOK, &list)
		for _, e := range list.Items {
			require.LessOrEqual(t, e.Attempts, 1, "%s: the claim that was published, and no other: %+v", e.Alias, e)
		}
	}
}

// claimAndComplete does one unit, as a worker does that asks.
func (w *world) claimAndComplete() {
	w.t.Helper()
	var got httpapi.Leases
	w.send("POST", "/v1/leases/claim", map[string]any{"worker": "w", "wait_ms": 60000}).is(http.StatusOK, &got)
	w.send("POST", "/v1/leases/complete", map[string]any{"result": map[string]any{"rows": 1}}, "Lease-Token", got.Leases[0].Token).is(http.StatusOK, nil)
}

// The issue's own sentence: with the dispatch wakeup itself refused, 202 says what the transport is like and when it is tried.
func TestAnAcceptedRunSaysThatItsTransportIsAway(t *testing.T) {
	b := &broker{refuses: true}
	w := start(t, oneDay, func(c *setup) {
		c.node.Routes = map[events.Kind]transport.Publisher{events.KindDispatch: b}
		c.node.Knobs.BreakerFailures, c.node.Knobs.BreakerOpen = 1, time.Minute
	})
	first := w.plan(1)
	var run httpapi.Run
	w.eventually(func() bool {
		w.send("GET", first.Links.Self, nil).is(http.StatusOK, &run)
		return run.Dispatch.Breaker == "open"
	})
	second := w.plan(1)
	require.Equal(t, "planned", string(second.State))
	require.Equal(t, "broker", second.Dispatch.Transport)
	require.Equal(t, "open", second.Dispatch.Breaker)
	require.Contains(t, second.Dispatch.Error, "the broker is away")
	require.Positive(t, second.Dispatch.NextTryMS)
	require.Zero(t, second.Dispatch.Attempts)
}

// O-15, O-17, O-18: what is parked is requeued, what is unknown is resolved, each with a reason; what is in another state is
// refused; and a post_sync that is delivered at most once is never sent again.
func TestAPersonEndsWhatOnlyAPersonCan(t *testing.T) {
	w := start(t, oneDay, func(c *setup) {
		c.node.Routes = map[events.Kind]transport.Publisher{events.KindPostSync: unsure{}}
	})
	run := w.plan(1)
	w.wait(run.ID)
	entry := "/v1/outbox/" + escape(run.Alias+"/post_sync#1")
	var e httpapi.Entry
	w.eventually(func() bool {
		w.send("GET", entry, nil).is(http.StatusOK, &e)
		return e.State == "unresolved"
	})
	require.Equal(t, "at_most_once", e.Guarantee)
	require.Equal(t, "unknown", e.Outcome)
	var why httpapi.Explanation
	w.send("GET", entry+"/why", nil).is(http.StatusOK, &why)
	require.Equal(t, "unresolved", why.Reason)
	require.True(t, why.NeedsPerson)
	require.Equal(t, "W8", why.Window)
	require.Contains(t, why.Fix, "towline outbox resolve")
	w.send("GET", "/v1/runs/"+run.Alias+"/why", nil).is(http.StatusOK, &why)
	require.Equal(t, "towline outbox resolve "+run.Alias+"/post_sync --delivered | --lost --reason …", why.Fix)
	var ready httpapi.Readiness
	w.send("GET", "/readyz", nil).is(http.StatusOK, &ready)
	require.Equal(t, "unresolved", ready.Reasons[0].What)

	w.send("POST", entry+"/requeue", map[string]any{"reason": "r"}).problem("conflict")
	w.send("POST", entry+"/resolve", map[string]any{"outcome": "delivered"}).problem("invalid_request")
	w.send("POST", entry+"/resolve", map[string]any{"reason": "r"}).problem("invalid_request")
	w.send("POST", entry+"/resolve", map[string]any{"outcome": "maybe", "reason": "r"}).problem("invalid_request")
	w.send("POST", entry+"/resolve", map[string]any{"outcome": "lost", "reason": "it is not there"}, "Towline-Actor", "bob").is(http.StatusOK, &e)
	require.Equal(t, "idle", e.State)
	require.Equal(t, []httpapi.Target{{Target: "index", Outcome: "unknown", Cause: e.Targets[0].Cause, Resolved: "lost", By: "bob", Why: "it is not there"}}, e.Targets)
	w.send("POST", entry+"/resolve", map[string]any{"outcome": "lost", "reason": "again"}).problem("conflict")
}

// O-18, O-21: a wakeup that an operator has parked goes out when it is requeued.
func TestWhatIsParkedIsRequeued(t *testing.T) {
	w := start(t, oneDay, func(c *setup) { c.idle = true })
	run := w.plan(1)
	require.NoError(t, w.node.Engine().Park(context.Background(), towline.RegisterKey{Owner: run.ID, Kind: events.KindDispatch}, towline.Actor{Name: "ann", Reason: "r"}))
	var e httpapi.Entry
	path := "/v1/outbox/" + run.ID.String() + ".dispatch_sync_run"
	w.send("GET", path, nil).is(http.StatusOK, &e)
	require.Equal(t, "parked", e.State)
	var why httpapi.Explanation
	w.send("GET", "/v1/runs/"+run.Alias+"/why", nil).is(http.StatusOK, &why)
	require.Equal(t, "outbox_parked", why.Reason)
	require.Equal(t, "towline outbox requeue "+run.Alias+"/dispatch_sync_run --reason …", why.Fix)
	var units httpapi.List[httpapi.Unit]
	w.send("GET", run.Links.Units, nil).is(http.StatusOK, &units)
	w.send("GET", "/v1/units/"+escape(units.Items[0].Alias)+"/why", nil).is(http.StatusOK, &why)
	require.Equal(t, units.Items[0].Alias, why.ID)
	require.Equal(t, "towline outbox requeue "+run.Alias+"/dispatch_sync_run --reason …", why.Fix)
	w.send("POST", path+"/requeue", nil).problem("invalid_request")
	w.send("POST", path+"/requeue", map[string]any{"reason": "go on"}).is(http.StatusAccepted, &e)
	require.Equal(t, "pending", e.State)
	require.Equal(t, 2, e.N)
	w.send("POST", path+"/requeue", map[string]any{"reason": "go on"}).problem("conflict")
}

// Surfaces 0, M-1: the entry of an application message is called by the id of the message, now and in the past.
func TestAMessageHasAnEntry(t *testing.T) {
	w := start(t, func(c *setup) { c.idle = true })
	m, err := w.node.Engine().Submit(t.Context(), towline.Message{Topic: "t", Payload: []byte(`{}`)})
	require.NoError(t, err)
	var e, then httpapi.Entry
	w.send("GET", "/v1/outbox/"+escape(m.Message.String()+"/message#1"), nil).is(http.StatusOK, &e)
	require.Equal(t, m.Message.String()+"/message#1", e.Alias)
	r := w.send("GET", "/v1/outbox/"+m.Message.String()[18:]+".message", nil)
	r.is(http.StatusOK, &then)
	require.Equal(t, e, then)
	w.plan(1)
	w.send("GET", "/v1/outbox/"+m.Message.String()+".message.1?at_seq="+r.header.Get("Towline-Seq"), nil).is(http.StatusOK, &then)
	require.Equal(t, e, then)
	w.send("GET", "/v1/outbox/"+m.Message.String()+".message.1?at_seq=2", nil).problem("not_found")
	var why httpapi.Explanation
	w.send("GET", "/v1/outbox/"+m.Message.String()+".message/why", nil).is(http.StatusOK, &why)
	require.Equal(t, "unconfigured", why.Reason)
}

// unsure is a transport of which nobody knows what it has done.
type unsure struct{}

func (unsure) Name() string { return "unsure" }

func (unsure) Send(context.Context, string, *message.Message) transport.Receipt {
	return transport.Unknown(errors.New("no confirm"))
}
