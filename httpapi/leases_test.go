package httpapi_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/httpapi"
)

func (w *world) claimNext() httpapi.Lease {
	w.t.Helper()
	var got httpapi.Leases
	w.send("POST", "/v1/leases/claim", map[string]any{"worker": "w", "wait_ms": 60000}).is(http.StatusOK, &got)
	require.Len(w.t, got.Leases, 1)
	return got.Leases[0]
}

func (w *world) lease(call string, token string, body map[string]any) reply {
	w.t.Helper()
	if body == nil {
		body = map[string]any{}
	}
	return w.send("POST", "/v1/leases/"+call, body, "Lease-Token", token)
}

// U-5, D-8, surfaces 5.4: the worker of a message gets the lease, in times that no clock matters for; whoever comes second is
// told that it is not his, whatever he calls the unit.
func TestAUnitIsClaimedOnce(t *testing.T) {
	w := start(t, oneDay, byWorkers)
	run := w.plan(1)
	var units httpapi.List[httpapi.Unit]
	w.eventually(func() bool {
		w.send("GET", run.Links.Units, nil).is(http.StatusOK, &units)
		return units.Items[0].State == "dispatching"
	})
	u := units.Items[0]
	var lease httpapi.Lease
	w.send("POST", "/v1/units/"+escape(u.Alias)+"/claim", map[string]any{"worker": "first"}).is(http.StatusOK, &lease)
	require.Equal(t, u.ID, lease.Unit)
	require.Equal(t, 1, lease.Attempt)
	require.Equal(t, int64(20_000), lease.RenewEveryMS)
	require.Equal(t, int64(60_000), lease.ExpiresInMS)
	require.Equal(t, int64(3_600_000), lease.LifetimeMS)
	require.Regexp(t, `^00000001\.\d{16}$`, string(lease.Fence))
	require.Equal(t, u.Window, lease.Window)
	for _, name := range []string{u.ID.String(), "unit%2F" + u.ID.String(), escape(u.Alias)} {
		require.Contains(t, w.send("POST", "/v1/units/"+name+"/claim", map[string]any{"worker": "second"}).problem("not_claimable").Detail, "running")
	}
	w.send("POST", "/v1/units/"+u.ID.String()+"/claim", nil).problem("invalid_request")
	w.send("POST", "/v1/units/00000000000000000000000000/claim", map[string]any{"worker": "w"}).problem("not_found")

	var shown httpapi.Unit
	r := w.send("GET", "/v1/units/"+u.ID.String(), nil)
	r.is(http.StatusOK, &shown)
	require.Equal(t, "first", shown.Lease.Worker)
	require.True(t, shown.Lease.Node.IsZero(), "N-5: the lease belongs to no incarnation")
	secret := lease.Token[strings.LastIndex(lease.Token, ".")+1:]
	for _, path := range []string{"/v1/units/" + u.ID.String(), "/v1/events?limit=1000", "/v1/state", "/v1/units/" + u.ID.String() + "/why"} {
		require.NotContains(t, string(w.send("GET", path, nil).body), secret, "E-4: a token is on no page")
	}
	var why httpapi.Explanation
	w.send("GET", "/v1/units/"+u.ID.String()+"/why", nil).is(http.StatusOK, &why)
	require.Equal(t, "running", why.Reason)
	require.Equal(t, "W5", why.Window)
	require.True(t, why.MayRepeat)
	require.Positive(t, why.Next.InMS)

	var renewed httpapi.Renewed
	w.lease("renew", lease.Token, map[string]any{"progress": map[string]any{"done": 1, "total": 2}}).is(http.StatusOK, &renewed)
	require.Positive(t, renewed.ExpiresInMS)
	require.Equal(t, lease.RenewEveryMS, renewed.RenewEveryMS)

	var settled, again httpapi.Settled
	w.lease("complete", lease.Token, map[string]any{"result": map[string]any{"rows": 3}}).is(http.StatusOK, &settled)
	w.lease("complete", lease.Token, map[string]any{"result": map[string]any{"rows": 3}}).is(http.StatusOK, &again)
	require.Equal(t, settled, again, "HU-9: the same call again gives the same answer")
	require.Equal(t, "succeeded", string(w.wait(run.ID).State))
	require.Equal(t, "succeeded", w.send("GET", "/v1/units/"+u.ID.String(), nil).is(http.StatusOK, &shown).state())
}

func (r reply) state() string {
	_, rest, _ := strings.Cut(string(r.body), `"state":"`)
	state, _, _ := strings.Cut(rest, `"`)
	return state
}

// U-19, surfaces 5.4: who has lost his lease hears 410 and why, whatever he calls; his result is kept once, and changes nothing.
func TestALostLeaseSaysWhy(t *testing.T) {
	w := start(t, oneDay, byWorkers, shortLease(1), func(c *setup) { c.node.Knobs.Lease = time.Minute })
	lost := func(l httpapi.Lease, reason string) {
		t.Helper()
		for _, call := range []string{"renew", "complete", "complete", "release"} {
			require.Equal(t, reason, w.lease(call, l.Token, nil).problem("lease_lost").Reason, call)
		}
		require.Equal(t, reason, w.lease("fail", l.Token, map[string]any{"category": "network"}).problem("lease_lost").Reason)
		var u httpapi.Unit
		w.send("GET", "/v1/units/"+l.Unit.String(), nil).is(http.StatusOK, &u)
		require.Equal(t, 1, u.LateResults, "once an attempt")
	}
	w.plan(1)
	unit := w.claimNext()
	w.send("POST", "/v1/units/"+unit.Unit.String()+"/cancel", map[string]any{"reason": "r"}).is(http.StatusOK, nil)
	lost(unit, "cancelled")

	run := w.plan(1)
	of := w.claimNext()
	w.send("POST", "/v1/runs/"+run.Alias+"/cancel", map[string]any{"reason": "r"}).is(http.StatusOK, nil)
	require.Contains(t, []string{"cancelled", "run_ended"}, w.lease("renew", of.Token, nil).problem("lease_lost").Reason)

	w.leases(4 * time.Second)
	other := w.plan(1)
	first := w.claimNext()
	second := w.claimNext() // behind the end of the first, and its backoff
	require.Equal(t, first.Unit, second.Unit)
	require.Equal(t, 2, second.Attempt)
	require.Greater(t, string(second.Fence), string(first.Fence))
	lost(first, "taken_over")
	w.lease("complete", second.Token, nil).is(http.StatusOK, nil)
	require.Equal(t, "succeeded", string(w.wait(other.ID).State))

	w.leases(time.Second)
	w.plan(1)
	silent := w.claimNext()
	again := w.claimNext()
	require.Equal(t, silent.Unit, again.Unit)
	w.eventually(func() bool {
		return w.send("GET", "/v1/units/"+again.Unit.String(), nil).state() == "failed"
	})
	require.Contains(t, []string{"expired", "run_ended"}, w.lease("renew", again.Token, nil).problem("lease_lost").Reason)

	for _, token := range []string{"x", "01M8KSP2PGV3T0X6J2BD7Q4ZKD", "01M8KSP2PGV3T0X6J2BD7Q4ZKD.0.s", "01M8KSP2PGV3T0X6J2BD7Q4ZKD.1."} {
		require.Equal(t, "Lease-Token", w.lease("renew", token, nil).problem("bad_request").Field)
	}
	w.lease("renew", "01M8KSP2PGV3T0X6J2BD7Q4ZKD.1.secret", nil).problem("lease_lost")
	w.send("POST", "/v1/leases/renew", nil).problem("invalid_request")
	guessed := again.Token[:strings.LastIndex(again.Token, ".")] + ".guessed"
	w.lease("complete", guessed, nil).problem("lease_lost")
}

// leases makes the leases of runs to come as long as that (CFG-2). Only one that has to end is short: a slow machine ends the others.
func (w *world) leases(long time.Duration) {
	w.t.Helper()
	knobs := w.knobs
	knobs.Lease = long
	require.NoError(w.t, w.node.Engine().Reload(w.t.Context(), knobs, towline.Actor{Name: "ada"}))
}

// U-9, U-10, U-16: a rate limit and a hand-back come again, and who comes too early is told when.
func TestAnAttemptMayEndWithoutAnEnd(t *testing.T) {
	w := start(t, oneDay, byWorkers)
	run := w.plan(1)
	lease := w.claimNext()
	w.lease("fail", lease.Token, map[string]any{"category": "rate_limit", "retry_after_ms": 60000, "detail": "slow down"}).is(http.StatusOK, nil)
	p := w.send("POST", "/v1/units/"+lease.Unit.String()+"/claim", map[string]any{"worker": "w"}).problem("too_early")
	require.Greater(t, p.RetryAfterMS, int64(50_000))
	var u httpapi.Unit
	w.send("GET", "/v1/units/"+lease.Unit.String(), nil).is(http.StatusOK, &u)
	require.Equal(t, "retrying", string(u.State))
	require.Equal(t, 1, u.Deferrals)
	w.send("POST", "/v1/runs/"+run.Alias+"/cancel", map[string]any{"reason": "r"}).is(http.StatusOK, nil)

	w.send("POST", "/v1/runs", map[string]any{"sync": "days", "datasets": []string{"a"}, "sources": []string{"south"}}).is(http.StatusAccepted, nil)
	lease = w.claimNext()
	w.lease("release", lease.Token, map[string]any{"reason": "not now"}).is(http.StatusOK, nil)
	again := w.claimNext()
	require.Equal(t, lease.Unit, again.Unit)
	w.lease("fail", again.Token, map[string]any{"category": "worker_lost"}).problem("invalid_request")
	w.lease("fail", again.Token, map[string]any{"category": "auth", "detail": "password=hunter2"}).is(http.StatusOK, nil)
	w.send("GET", "/v1/units/"+lease.Unit.String(), nil).is(http.StatusOK, &u)
	require.Equal(t, httpapi.UnitError{Category: "auth", Text: "password=***"}, *u.Error)
	require.Equal(t, 1, u.HandBacks)
	w.lease("complete", again.Token, map[string]any{"state": 1, "result": map[string]any{"state": 2}}).problem("invalid_request")
}

// RL-2: a rate limit that asks for longer than there is has what is left of the budget, however long it asks for.
func TestARateLimitWithoutEndHasTheWholeBudget(t *testing.T) {
	w := start(t, oneDay, byWorkers)
	w.plan(1)
	lease := w.claimNext()
	w.lease("fail", lease.Token, map[string]any{"category": "rate_limit", "retry_after_ms": int64(9_223_372_036_855)}).is(http.StatusOK, nil)
	p := w.send("POST", "/v1/units/"+lease.Unit.String()+"/claim", map[string]any{"worker": "w"}).problem("too_early")
	require.Greater(t, p.RetryAfterMS, (119 * time.Minute).Milliseconds(), "rate_limit.max_wait is two hours")
}

// Surfaces 5.4: a worker that asks gets the units of the lanes that it knows, the oldest run first, as many as it wants, and
// waits for them no longer than it says.
func TestAWorkerAsksForWhatItKnows(t *testing.T) {
	w := start(t, oneDay, byWorkers)
	ask := func(body map[string]any) reply {
		body["worker"] = "w"
		return w.send("POST", "/v1/leases/claim", body)
	}
	require.Equal(t, http.StatusNoContent, ask(map[string]any{}).status)
	require.Equal(t, http.StatusNoContent, ask(map[string]any{"wait_ms": 10}).status)
	ask(map[string]any{"wait_ms": 60001}).problem("invalid_request")
	ask(map[string]any{"max": 17}).problem("invalid_request")
	w.send("POST", "/v1/leases/claim", nil).problem("invalid_request")

	waits := make(chan reply, 1)
	go func() { waits <- ask(map[string]any{"wait_ms": 60000}) }()
	first := w.plan(3)
	var got httpapi.Leases
	(<-waits).is(http.StatusOK, &got)
	require.Equal(t, first.ID, got.Leases[0].Run)
	second := w.plan(2) // not before: whichever of two is dispatched first is taken first
	require.Equal(t, http.StatusNoContent, ask(map[string]any{"syncs": []string{"nights"}}).status)
	require.Equal(t, http.StatusNoContent, ask(map[string]any{"sources": []string{"south"}}).status)
	var rest httpapi.Leases
	ask(map[string]any{"max": 16, "wait_ms": 60000, "datasets": []string{"a"}}).is(http.StatusOK, &rest)
	all := append(got.Leases, rest.Leases...)
	for len(all) < 5 {
		all = append(all, w.claimNext())
	}
	byRun := map[events.RunID]int{}
	fences := map[events.Fence]bool{}
	for i, l := range all {
		byRun[l.Run]++
		fences[l.Fence] = true
		w.lease("complete", l.Token, nil).is(http.StatusOK, nil)
		require.Equal(t, i < 3, l.Run == first.ID, "the oldest run goes first")
	}
	require.Equal(t, map[events.RunID]int{first.ID: 3, second.ID: 2}, byRun)
	require.Len(t, fences, 5)
}

// N-5, HC-11: a lease of which its worker never hears, because it has hung up, is handed back: no unit is lost with it.
func TestAWorkerThatHangsUpLosesNothing(t *testing.T) {
	w := start(t, oneDay, byWorkers, withToken, func(c *setup) { c.node.Knobs.Lease = 10 * time.Minute })
	run := w.plan(3)
	var units httpapi.List[httpapi.Unit]
	w.eventually(func() bool {
		w.send("GET", run.Links.Units+"?where=state:dispatching", nil).is(http.StatusOK, &units)
		return len(units.Items) == 3
	})
	w.hungUp("/v1/leases/claim", `{"worker":"w","max":2}`)
	w.send("GET", run.Links.Units, nil).is(http.StatusOK, &units)
	var claimed, back int
	for _, u := range units.Items {
		claimed += u.Attempt
		back += u.HandBacks
	}
	require.Equal(t, 2, claimed)
	require.Equal(t, 2, back)
	for range 3 {
		w.claimAndComplete()
	}
	require.Equal(t, "succeeded", string(w.wait(run.ID).State))
}

// an operator states that a worker is gone; what it says later is refused.
func TestAUnitIsReleasedFromAWorkerThatIsGone(t *testing.T) {
	w := start(t, oneDay, byWorkers)
	run := w.plan(1)
	lease := w.claimNext()
	w.send("POST", "/v1/units/"+lease.Unit.String()+"/release", map[string]any{}).problem("invalid_request")
	var u httpapi.Unit
	w.send("POST", "/v1/units/"+lease.Unit.String()+"/release", map[string]any{"reason": "its rack burnt down"}).is(http.StatusOK, &u)
	require.Equal(t, "failed", string(u.State))
	w.send("POST", "/v1/units/"+lease.Unit.String()+"/release", map[string]any{"reason": "again"}).problem("conflict")
	w.lease("complete", lease.Token, nil).problem("lease_lost")
	require.Equal(t, "failed", string(w.wait(run.ID).State))
	var retry httpapi.Run
	w.send("POST", "/v1/units/"+lease.Unit.String()+"/retry", nil).is(http.StatusAccepted, &retry)
	require.Equal(t, run.ID, retry.RetryOf)
	w.claimAndComplete()
	require.Equal(t, "succeeded", string(w.wait(retry.ID).State))
}

// N-5: a lease over the API outlives the restart of the node that has served it.
func TestALeaseOutlivesARestart(t *testing.T) {
	w := start(t, oneDay, byWorkers)
	run := w.plan(1)
	lease := w.claimNext()
	w.end()
	again := start(t, oneDay, byWorkers, func(c *setup) { c.node.Store = w.dir + "/towline.db" })
	again.lease("renew", lease.Token, nil).is(http.StatusOK, nil)
	again.lease("complete", lease.Token, nil).is(http.StatusOK, nil)
	require.Equal(t, "succeeded", string(again.wait(run.ID).State))
	v, err := again.node.Verify(t.Context())
	require.NoError(t, err)
	require.True(t, v.OK(), "%+v", v)
}

// HU-9, HC-11: a request for any unit that is repeated with its secret, because no answer came, gives the leases that it had got:
// the same attempt under the same token. Nobody else gets them,
// and one that was reported is over.
func TestAClaimIsRepeatedWithItsSecret(t *testing.T) {
	w := start(t, oneDay, byWorkers)
	w.plan(2)
	const secret = "0123456789abcdef0123456789abcdef"
	claim := func(secret string, most int) (got httpapi.Leases) {
		body := map[string]any{"worker": "w", "max": most, "wait_ms": 60000}
		if secret != "" {
			body["secret"] = secret
		}
		w.send("POST", "/v1/leases/claim", body).is(http.StatusOK, &got)
		return got
	}
	first := claim(secret, 1).Leases[0]
	again := claim(secret, 2).Leases
	require.Len(t, again, 1)
	require.Equal(t, []any{first.Unit, first.Attempt, first.Token, first.Fence}, []any{again[0].Unit, again[0].Attempt, again[0].Token, again[0].Fence})
	require.LessOrEqual(t, again[0].ExpiresInMS, first.ExpiresInMS, "it was not renewed by it")
	other := claim("another-secret-of-another-worker", 1).Leases[0]
	require.NotEqual(t, first.Unit, other.Unit)
	require.NotEqual(t, first.Token, other.Token)
	w.lease("complete", again[0].Token, map[string]any{"result": map[string]any{"rows": 1}}).is(http.StatusOK, nil)
	body := map[string]any{"worker": "w", "secret": secret}
	w.send("POST", "/v1/leases/claim", body).is(http.StatusNoContent, nil)
	w.send("POST", "/v1/leases/claim", map[string]any{"worker": "w", "secret": "short"}).problem("invalid_request")
}

// WHY-1: a worker whose token is refused does no unit, so people still read since when none has asked.
func TestARefusedWorkerIsNotHeardOf(t *testing.T) {
	w := start(t, byWorkers, oneDay, func(c *setup) { c.node.Knobs.Lease = time.Second })
	run := w.plan(1)
	var was, is httpapi.Explanation
	w.eventually(func() bool {
		w.send("GET", "/v1/runs/"+run.Alias+"/why", nil).is(http.StatusOK, &was)
		return !was.NoWorker.IsZero()
	})
	w.send("POST", "/v1/leases/claim", map[string]any{"worker": "stranger"}, "Authorization", "Bearer wrong").is(http.StatusUnauthorized, nil)
	w.send("GET", "/v1/runs/"+run.Alias+"/why", nil).is(http.StatusOK, &is)
	require.Equal(t, was.NoWorker, is.NoWorker)
}

// HU-9, N-5: a worker repeats a request that the engine is still at. What the second gives is the worker's, whatever the first does
// for a client that has hung up; and both together give no more than was asked for.
func TestARequestIsRepeatedWhileItIsAnswered(t *testing.T) {
	for round := range 20 {
		w := start(t, byWorkers, oneDay, withToken)
		run := w.plan(6)
		are := func(state events.UnitStatus) (n int) {
			var units httpapi.List[httpapi.Unit]
			w.send("GET", run.Links.Units, nil).is(http.StatusOK, &units)
			for _, u := range units.Items {
				if u.State == state {
					n++
				}
			}
			return n
		}
		w.eventually(func() bool { return are(events.UnitIsDispatching) == 6 })
		body := `{"worker":"one","max":3,"secret":"0123456789012345678901"}`
		first, hangUp := context.WithCancel(t.Context())
		var answer *httptest.ResponseRecorder
		var asking sync.WaitGroup
		asking.Go(func() { w.unconnected(first, "/v1/leases/claim", body) })
		asking.Go(func() {
			if round%2 == 0 {
				hangUp()
			}
			answer = w.unconnected(t.Context(), "/v1/leases/claim", body)
		})
		asking.Wait()
		hangUp()
		var leases httpapi.Leases
		require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &leases))
		require.NotEmpty(t, leases.Leases)
		for _, l := range leases.Leases {
			w.send("POST", "/v1/leases/renew", nil, "Lease-Token", l.Token).is(http.StatusOK, nil)
		}
		require.LessOrEqual(t, are(events.UnitIsRunning), 3)
		w.end()
	}
}
