package towline_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/transport"
)

func (w *workshop) why(id string) towline.Why {
	w.t.Helper()
	why, err := w.e.Why(context.Background(), id)
	require.NoError(w.t, err)
	return why
}

// requireWhy asks about a unit, its run and its job, which say the same as long as the unit is the only open one.
func (w *workshop) requireWhy(p towline.Planned, reason decider.WaitReason) towline.Why {
	w.t.Helper()
	unit := w.unit(p.Run, 1)
	why := w.why(unit.Alias)
	require.Equal(w.t, reason, why.Reason.Why)
	require.Equal(w.t, [3]string{"unit", unit.Alias, string(unit.Status)}, [3]string{why.Of, why.ID, why.Status})
	require.Equal(w.t, why, w.why(unit.Unit.String()), "by its id")
	run := w.why(p.Run.String())
	require.Equal(w.t, why.Reason, run.Reason)
	require.Equal(w.t, []decider.ReasonCount{{Why: reason, Units: 1}}, run.Counts)
	job := w.why(p.Job.String())
	require.Equal(w.t, [2]string{"job", p.Job.String()}, [2]string{job.Of, job.ID})
	job.Of, job.ID = run.Of, run.ID
	require.Equal(w.t, run, job, "a job waits for its run")
	require.NotZero(w.t, why.Evidence.Position)
	return why
}

// WHY-1, WHY-4, WHY-5: one reason at each step of a unit's life, with what shows it and by when it changes; and nobody writes.
func TestWhyAUnitIsNoFurther(t *testing.T) {
	s := single("north")
	s.Datasets[0].Retry = towline.Retry{Max: 1, Backoff: 30 * time.Second, On: []events.Category{events.Network}}
	w := newWorkshop(t, s)
	p := w.plan(towline.RunSpec{Sync: "north"})
	head := w.head()
	why := w.requireWhy(p, decider.WaitPublish)
	require.Equal(t, events.KindDispatch, why.Reason.Kind)
	require.Contains(t, why.Evidence.Stream, "dispatch_sync_run")
	require.Equal(t, head, w.head(), "a question writes nothing")

	w.pauseEngine()
	require.Equal(t, "control/engine", w.requireWhy(p, decider.WaitEnginePaused).Evidence.Stream)
	require.True(t, w.why(p.Run.String()).Reason.Why.NeedsPerson())
	w.resumeEngine()
	w.pauseSource("north")
	require.Equal(t, "north", w.requireWhy(p, decider.WaitSourcePaused).Reason.On)
	w.resumeSource("north")

	w.step()
	require.Equal(t, events.KindDispatch, w.requireWhy(p, decider.WaitForWorker).Reason.Kind, "its message is out, nobody has handled it")
	w.dispatch(p.Run)
	require.Equal(t, events.KindUnit, w.requireWhy(p, decider.WaitPublish).Reason.Kind)
	w.step()
	why = w.requireWhy(p, decider.WaitForWorker)
	require.Equal(t, events.MicrosOf(w.now.Now().Add(16*time.Minute)), why.Reason.Next, "stale, and a pass")

	lease := w.claim(w.unit(p.Run, 1).Unit)
	why = w.requireWhy(p, decider.WaitRunning)
	require.Equal(t, "UnitClaimed", why.Evidence.Text[:len("UnitClaimed")])
	w.fail(lease, events.Network)
	why = w.requireWhy(p, decider.WaitRetryAt)
	require.Equal(t, events.MicrosOf(w.now.Now().Add(30*time.Second)), why.Reason.Next)
	w.advance(30 * time.Second)
	w.dispatch(p.Run)
	w.complete(w.claim(w.unit(p.Run, 1).Unit))
	require.Equal(t, decider.Reason{}, w.why(w.unit(p.Run, 1).Unit.String()).Reason, "it has ended")
	require.Equal(t, decider.WaitFinalizing, w.why(p.Run.String()).Reason.Why)
	w.finalize(p.Run)
	require.Equal(t, decider.Reason{}, w.why(p.Run.String()).Reason)
}

// WHY-2, WHY-3, O-21, O-18: what is parked leads, whatever else is due, and the register says so itself.
func TestWhyIsLedByWhatOnlyAPersonCanEnd(t *testing.T) {
	w := newWorkshop(t, single("north"))
	p := w.started(towline.RunSpec{Sync: "north"})
	w.complete(w.claim(w.unit(p.Run, 1).Unit))
	key := towline.RegisterKey{Owner: p.Run, Kind: events.KindFinalize}
	require.NoError(t, w.e.Park(context.Background(), key, ada))
	why := w.why(p.Run.String())
	require.Equal(t, decider.WaitOutboxParked, why.Reason.Why)
	require.Contains(t, why.Evidence.Text, "OutboxParked")
	register := w.why("outbox/" + p.Run.String() + "/finalize_sync_run")
	require.Equal(t, [2]string{"register", "parked"}, [2]string{register.Of, register.Status})
	require.Equal(t, decider.WaitParked, register.Reason.Why)
	require.NoError(t, w.e.Redrive(context.Background(), key, ada))
	require.Equal(t, decider.WaitFinalizing, w.why(p.Run.String()).Reason.Why)
}

// WHY-2, O-16: behind a transport that fails, everything waits for its breaker.
func TestWhyBehindABreaker(t *testing.T) {
	w := newWorkshop(t, single("north"), single("south"))
	w.broker.script = func(sent) transport.Receipt { return transport.Refused(errors.New("the broker is away")) }
	p := w.plan(towline.RunSpec{Sync: "north"})
	for range 10 {
		w.pass()
		w.advance(6 * time.Second)
	}
	w.plan(towline.RunSpec{Sync: "south"})
	why := w.requireWhy(p, decider.WaitBreakerOpen)
	require.Positive(t, why.Reason.Next)
	w.broker.script = nil
}

// WHY-2, O-16: a breaker is that of its node. Another one claims whatever is due, and the death of a process that shares its
// store is not seen, so its breakers stay on record as it left them.
func TestWhyBehindABreakerOfAnotherNode(t *testing.T) {
	config := func(seed byte) towline.Config {
		return towline.Config{Syncs: []towline.Sync{single("north"), single("south")}, Entropy: seeded(seed)}
	}
	a := openWorkshop(t, options{shared: true, config: config(1), unverified: true})
	a.broker.script = func(sent) transport.Receipt { return transport.Refused(errors.New("the broker is away")) }
	p := a.plan(towline.RunSpec{Sync: "north"})
	for range 10 {
		a.pass()
		a.advance(6 * time.Second)
	}
	a.requireWhy(p, decider.WaitBreakerOpen)
	b := openWorkshop(t, options{path: a.o.path, shared: true, clock: a.now, config: config(2)})
	b.requireWhy(p, decider.WaitPublish)
	a.broker.script = nil
}

// WHY-2, M-1: a message that waits for its time.
func TestWhyAMessageWaits(t *testing.T) {
	w := newWorkshop(t, single("north"))
	submitted, err := w.e.Submit(context.Background(), towline.Message{Topic: "t", AvailableAt: w.now.Now().Add(time.Hour)})
	require.NoError(t, err)
	id := submitted.Message
	why := w.why(id.String())
	require.Equal(t, decider.WaitDue, why.Reason.Why)
	require.Equal(t, [3]string{"message", id.String(), "pending"}, [3]string{why.Of, why.ID, why.Status})
	key := towline.MessageRegister(id)
	register := w.why(key.String())
	require.Equal(t, [2]string{"register", "outbox/" + id.String() + "/message"}, [2]string{register.Of, register.ID}, "a key prints what Why takes")
	require.Equal(t, why.Reason, register.Reason)
}

// WHY-6, J-3: a message shows its own state, and while it waits exactly one reason and what shows it.
func TestWhyAMessageIsNoFurther(t *testing.T) {
	w := newWorkshop(t, single("north"))
	w.broker.name = events.TransportLocalMessages
	requireWhy := func(id events.MessageID, status string, reason decider.WaitReason) towline.Why {
		why := w.why(id.String())
		require.Equal(t, [4]string{"message", id.String(), status, string(reason)}, [4]string{why.Of, why.ID, why.Status, string(why.Reason.Why)})
		require.Equal(t, reason != "", why.Evidence.Position != 0)
		return why
	}
	id := w.commit(1)[0]
	require.NoError(t, w.e.Follow(t.Context()))
	requireWhy(id, "pending", decider.WaitDue)
	w.step()
	why := requireWhy(id, "dispatched", decider.WaitForWorker)
	require.NotZero(t, why.Reason.Since)
	require.Zero(t, why.Reason.Next, "nobody knows how long its handler takes")
	require.NoError(t, w.e.FailMessage(t.Context(), id, "password=hunter2"))
	why = requireWhy(id, "parked", decider.WaitParked)
	require.Equal(t, "handler_failed", why.Reason.On)
	require.Contains(t, why.Evidence.Text, "password=***")
	require.NoError(t, w.e.Redrive(t.Context(), towline.MessageRegister(id), ada))
	w.step()
	require.NoError(t, w.e.RejectMessage(t.Context(), id, events.InvalidPayload, "no"))
	requireWhy(id, "rejected", "")
	_, err := w.e.Why(t.Context(), events.MessageID{15: 9}.String())
	require.ErrorIs(t, err, towline.ErrNotFound)
}

// WHY-6, X-9: in a process that sends messages nowhere no time ends the wait.
func TestWhyAMessageIsUnconfigured(t *testing.T) {
	w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{single("north")}, NoMessages: true}})
	id := w.commit(1)[0]
	require.NoError(t, w.e.Follow(t.Context()))
	why := w.why(id.String())
	require.Equal(t, decider.WaitUnconfigured, why.Reason.Why)
	require.Zero(t, why.Reason.Next)
	require.Contains(t, why.Evidence.Text, "NodeStarted")
}

// WHY-1: what does not exist, and what is no id.
func TestWhyOfNothing(t *testing.T) {
	w := newWorkshop(t, single("north"))
	p := w.plan(towline.RunSpec{Sync: "north"})
	for id, kind := range map[string]error{
		"":                                      towline.ErrInvalid,
		"north":                                 towline.ErrInvalid,
		"outbox/" + p.Run.String():              towline.ErrInvalid,
		"outbox/x/dispatch_sync_run":            towline.ErrInvalid,
		"outbox/" + p.Run.String() + "/message": towline.ErrNotFound,
		"01KKNS5TM0DBK7GFTFQXESPAG0":            towline.ErrNotFound,
		w.unit(p.Run, 1).Alias + "x":            towline.ErrNotFound,
	} {
		_, err := w.e.Why(context.Background(), id)
		require.ErrorIs(t, err, kind, "%q", id)
	}
}

// WHY-1, L-9: a question is asked in the writer, where everybody waits for it. So it reads no stream of every unit, neither
// of a large run nor of all those among which an alias is looked for.
func TestAQuestionReadsFewStreams(t *testing.T) {
	w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{single("north")}, Knobs: daily(towline.Knobs{})}})
	const many = 150
	large := w.started(days("north", many))
	for range 20 {
		w.plan(days("north", 3))
	}
	last := w.unit(large.Run, many)
	for _, id := range []string{large.Run.String(), last.Alias, last.Unit.String(), large.Job.String()} {
		w.e.ForgetMemory()
		require.NotEmpty(t, w.why(id).Reason.Why)
		require.Less(t, w.e.CachedFolds(), 10, id)
	}
	why := w.why(large.Run.String())
	require.Equal(t, many, why.Counts[0].Units+why.Counts[1].Units)
}

// WHY-1: the alias of a unit that has ended is known as long as its run is open.
func TestWhyOfAUnitThatHasEnded(t *testing.T) {
	w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{single("north")}, Knobs: daily(towline.Knobs{})}})
	p := w.started(days("north", 2))
	first := w.unit(p.Run, 1)
	w.complete(w.claim(first.Unit))
	why := w.why(first.Alias)
	require.Equal(t, "succeeded", why.Status)
	require.Empty(t, why.Reason)
}

// WHY-5, X-9: what is not configured is shown by the start that lacks it, whatever has happened to the node since.
func TestWhyShowsTheStartThatLacksSomething(t *testing.T) {
	w := newWorkshop(t, single("north"), single("south"))
	p := w.plan(towline.RunSpec{Sync: "south"})
	w.configure(single("north"))
	w.jump(time.Hour)
	w.plan(towline.RunSpec{Sync: "north"}) // CLK-3: a step is on record in the stream of the node
	why := w.why(p.Run.String())
	require.Equal(t, decider.WaitUnconfigured, why.Reason.Why)
	require.Equal(t, "NodeStarted", why.Evidence.Text[:len("NodeStarted")])
}

// WHY-5, CLK-3, M-1: a question writes nothing, also where the next transaction will record a step of the clock and arm what
// an application has submitted.
func TestAQuestionWritesNothing(t *testing.T) {
	w := newWorkshop(t, single("north"))
	p := w.started(towline.RunSpec{Sync: "north"})
	w.claim(w.unit(p.Run, 1).Unit)
	w.commit(1)
	w.jump(time.Hour)
	w.unchanged(func() { w.why(p.Run.String()) })
	before := w.head()
	w.plan(towline.RunSpec{Sync: "north"})
	types := enginetest.Types(w.since(before))
	require.Equal(t, []string{"ClockStepped", "OutboxArmed"}, types[:2])
	require.NotZero(t, w.since(before)[0].Event.(events.ClockStepped).GraceUntil, "CLK-4: the lease that the step would have ended lives on")
}

// WHY-4, WHY-5: what waits behind a unit names the time of that unit, and shows its newest event. A reference unit that works
// for longer than a lease renews it, and by the time that was named another event is shown.
func TestWhyBehindALongReference(t *testing.T) {
	s := single("north")
	s.Datasets = []towline.Dataset{{Name: "people", Tier: towline.Reference}, {Name: "pages"}}
	w := newWorkshop(t, s)
	p := w.started(towline.RunSpec{Sync: "north"})
	var lease towline.Lease
	waiting := projections.SyncRunUnit{}
	for _, u := range w.units(p.Run) {
		if u.Tier == towline.Reference {
			lease = w.claim(u.Unit)
		} else if waiting.Unit.IsZero() {
			waiting = u
		}
	}
	first := w.why(waiting.Unit.String())
	require.Equal(t, decider.WaitReference, first.Reason.Why)
	for now := events.MicrosOf(w.now.Now()); now <= first.Reason.Next; now = events.MicrosOf(w.now.Now()) {
		w.advance(20 * time.Second)
		var err error
		lease, err = w.e.Renew(context.Background(), lease)
		require.NoError(t, err)
	}
	later := w.why(waiting.Unit.String())
	require.Equal(t, first.Reason.Behind, later.Reason.Behind)
	require.Greater(t, later.Evidence.Position, first.Evidence.Position)
	require.Greater(t, later.Reason.Next, first.Reason.Next)
}

// WHY-1: written as JSON an answer has one kind of time, UTC text, and is read back as it was.
func TestWhyAsJSON(t *testing.T) {
	w := newWorkshop(t, single("north"))
	p := w.plan(towline.RunSpec{Sync: "north"})
	w.dispatch(p.Run)
	why := w.why(w.unit(p.Run, 1).Alias)
	require.NotZero(t, why.Reason.Next)
	why.Reason.Since = why.Reason.Next.Add(-events.SpanOf(time.Minute)) // which only some of them have
	b, err := json.Marshal(why)
	require.NoError(t, err)
	require.Contains(t, string(b), `"next":"`+why.Reason.Next.Time().Format(time.RFC3339Nano)+`"`)
	require.Contains(t, string(b), `"since":"`+why.Reason.Since.Time().Format(time.RFC3339Nano)+`"`)
	require.Contains(t, string(b), `"at":"`+why.Evidence.At.Format(time.RFC3339Nano)+`"`)
	var back towline.Why
	require.NoError(t, json.Unmarshal(b, &back))
	require.Equal(t, why, back)

	b, err = json.Marshal(towline.Why{Of: "run"})
	require.NoError(t, err)
	require.NotContains(t, string(b), "0001-01-01")
}
