package decider

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/towline-dev/towline/events"
)

// The laws that hold for every command, whatever came before. First on the samples, then on random histories.

// L-5: a command that was applied decides nothing when it comes again, or is refused. So a duplicate, a repeated request
// and a replayed message are harmless, whoever sent them.
func TestACommandDecidesOnce(t *testing.T) {
	for _, s := range samples() {
		id := s.command.Stream()
		before := Fold(id, history(id, s.given...))
		got, _ := Decide(before, s.command)
		require.NotEmpty(t, got, "a sample decides something: %T", s.command)

		after := Fold(id, history(id, and(s.given, then(hour, got)...)...))
		again, _ := Decide(after, s.command)
		require.Empty(t, again, "%T decides twice", s.command)
	}
}

// L-3: a fresh command is decided from the zero state without a read, so it must be able to.
func TestAFreshCommandDecidesFromTheZeroState(t *testing.T) {
	fresh := 0
	for _, s := range samples() {
		if s.command.Fresh() {
			fresh++
			require.Empty(t, s.given)
			require.NotEmpty(t, decide(t, Zero(s.command.Stream()), s.command))
		}
	}
	require.Equal(t, 6, fresh)
}

// world is what random commands change: one run, one unit, one job, one node, and the register of one kind.
type world struct {
	t         *rapid.T
	now       events.Micros
	kind      events.Kind
	mode      events.DeliveryMode
	states    map[events.StreamID]State
	logs      map[events.StreamID][]events.Envelope
	snapshots []snapshot
}

// snapshot is a state that somebody may still hold, and what it was when it was new.
type snapshot struct{ held, copied State }

func (w *world) state(id events.StreamID) State {
	if s, ok := w.states[id]; ok {
		return s
	}
	return Zero(id)
}

func (w *world) unit() Unit { return w.state(events.UnitStream(theUnit)).(Unit) }

func (w *world) node() Node { return w.state(events.NodeStream(nodeA)).(Node) }

func (w *world) register() Register {
	return w.state(events.RegisterStream(theRun, w.kind)).(Register)
}

// topics are the names of the command types by what they change, so that a random history goes deep into one thing.
func topics() map[string][]string {
	names := map[string][]string{}
	for _, typ := range commandTypes() {
		topic := "run, job, node and control"
		if _, isRegister := typ.FieldByName("Owner"); isRegister {
			topic = "register"
		} else if _, isTopic := reflect.Zero(typ).Interface().(AboutMessage); isTopic {
			topic = "message"
		} else if _, isUnit := reflect.Zero(typ).Interface().(Command).Stream().Unit(); isUnit {
			topic = "unit"
		} else if f := reflect.Zero(typ).Interface().(Command).Stream().Family(); f == events.FamilySchedule || f == events.FamilyOccurrence {
			topic = "schedule"
		}
		names[topic] = append(names[topic], typ.Name())
	}
	return names
}

// I-2 to I-4, I-11, L-3, L-5: in random histories no command decides twice; what has ended has ended; no step leaves the
// tables of section 6; who holds no lease or claim changes nothing; states are values; the fold is the sum of its steps.
func TestTheLawsHoldForRandomHistories(t *testing.T) {
	topics, types := topics(), map[string]reflect.Type{}
	for _, typ := range commandTypes() {
		types[typ.Name()] = typ
	}
	pauses := []events.Span{0, 0, 0, micro, second, second, 21 * second, minute, staleAfter, 24 * hour}
	for _, tt := range []struct {
		topic string
		kind  events.Kind
		mode  events.DeliveryMode
	}{
		{"unit", events.KindUnit, events.AtMostOnce}, {"register", events.KindUnit, events.AtMostOnce},
		{"register", events.KindPostSync, events.AtMostOnce}, {"register", events.KindPostSync, events.ExactlyOnce},
		{"run, job, node and control", events.KindUnit, events.AtMostOnce}, {"run, job, node and control", events.KindUnit, events.ExactlyOnce},
		{"register", events.KindMessage, events.AtMostOnce}, {"message", events.KindMessage, events.AtMostOnce},
		{"schedule", events.KindUnit, events.AtMostOnce},
	} {
		t.Run(tt.topic+" "+string(tt.kind)+" "+string(tt.mode), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				w := &world{t: t, now: t0, kind: tt.kind, mode: tt.mode, states: map[events.StreamID]State{}, logs: map[events.StreamID][]events.Envelope{}}
				for range rapid.IntRange(1, 100).Draw(t, "steps") {
					w.now = w.now.Add(rapid.SampledFrom(pauses).Draw(t, "pause"))
					w.step(w.command(types[rapid.SampledFrom(topics[tt.topic]).Draw(t, "command")]))
				}
				for id, log := range w.logs {
					require.Equal(t, Fold(id, log), w.states[id], "the fold is the sum of its steps")
				}
				for _, s := range w.snapshots {
					require.Equal(t, s.copied, s.held, "a state changed after it was handed out")
				}
			})
		})
	}
}

func (w *world) step(c Command) {
	id := c.Stream()
	before := w.state(id)
	copied := deepCopy(before)
	got, rejection := Decide(before, c)
	same, _ := Decide(before, c)
	require.Equal(w.t, got, same, "a rule is a function")
	require.Equal(w.t, copied, before, "a rule changes no state")
	if rejection != nil {
		for _, e := range got {
			require.IsType(w.t, events.UnitLateResult{}, e, "a refusal leaves a record, and nothing else")
		}
	}

	after := before
	for _, e := range got {
		env := events.Envelope{
			Position: events.Position(len(w.logs[id]) + 1), Version: events.Version(len(w.logs[id]) + 1), Stream: id, At: w.now,
			Meta: events.Meta{Node: rapid.SampledFrom([]events.NodeID{nodeA, nodeB}).Draw(w.t, "node")}, Event: e,
		}
		next := Evolve(after, env)
		w.requireAllowed(after, e, next)
		after = next
		w.logs[id] = append(w.logs[id], env)
		w.snapshots = append(w.snapshots, snapshot{after, deepCopy(after)})
	}
	w.states[id] = after

	again, _ := Decide(after, c)
	require.Empty(w.t, again, "%T decides twice", c)
	w.requireStrangersChangeNothing()
}

// unitSteps is section 6.1, without what this release does not do.
var unitSteps = map[events.UnitStatus][]events.UnitStatus{
	"":                       {events.UnitIsPlanned},
	events.UnitIsPlanned:     {events.UnitIsDispatching, events.UnitHasFailed, events.UnitIsCancelled},
	events.UnitIsRetrying:    {events.UnitIsDispatching, events.UnitIsCancelled},
	events.UnitIsDispatching: {events.UnitIsDispatching, events.UnitIsRunning, events.UnitHasFailed, events.UnitIsCancelled},
	events.UnitIsRunning: {
		events.UnitIsRunning, events.UnitHasSucceeded, events.UnitHasFailed, events.UnitIsRetrying, events.UnitIsCancelled,
	},
}

// registerSteps is section 6.3.
var registerSteps = map[RegisterStatus][]RegisterStatus{
	"": {RegisterPending},
	// Parked by its consumer, as is what is claimed; unresolved when the process dies that had begun an effect (HP-5).
	RegisterIdle:       {RegisterPending, RegisterParked, RegisterUnresolved},
	RegisterPending:    {RegisterPending, RegisterClaimed, RegisterParked}, // parked behind its release, or by an operator
	RegisterClaimed:    {RegisterClaimed, RegisterPending, RegisterIdle, RegisterMarked, RegisterParked},
	RegisterMarked:     {RegisterMarked, RegisterIdle, RegisterUnresolved},
	RegisterParked:     {RegisterPending},
	RegisterUnresolved: {RegisterUnresolved, RegisterIdle},
}

// requireAllowed: I-2 to I-4, I-6, I-11, I-13. A step is in the tables of section 6, and terminal is final.
func (w *world) requireAllowed(before State, e events.Event, after State) {
	switch b := before.(type) {
	case Occurrence: // J-2
		require.False(w.t, b.Ended(), "%s by %s", b.Status, e.EventType())
		require.NotEqual(w.t, b.Status, after.(Occurrence).Status)
	case Unit:
		a := after.(Unit)
		if _, late := e.(events.UnitLateResult); late {
			a.Late = b.Late
			require.Equal(w.t, b, a, "a late result changes nothing")
			return
		}
		require.Contains(w.t, unitSteps[b.Status], a.Status, "%s by %s", b.Status, e.EventType())
		if _, claimed := e.(events.UnitClaimed); claimed {
			require.Equal(w.t, b.Attempt+1, a.Attempt)
		} else {
			require.Equal(w.t, b.Attempt, a.Attempt)
		}
		require.Equal(w.t, a.Status == events.UnitIsRetrying, a.AvailableAt != 0)
		require.Equal(w.t, a.Status == events.UnitIsRunning, a.Lease != Lease{})
		require.LessOrEqual(w.t, a.Lease.ExpiresAt, max(a.Lease.EndsAt, theGrace(w.now).Ends))
		require.LessOrEqual(w.t, a.HandBacks, MaxHandBacks-1)
		require.LessOrEqual(w.t, a.RateLimitDeferrals, limit(0).MaxDeferrals)
		require.Equal(w.t, a.RateLimitDeferrals > 0, a.RateLimitFirstAt != 0)
	case Control:
		a := after.(Control)
		if _, released := e.(events.RestoreHoldReleased); released {
			b.Releases++
			require.Equal(w.t, b, a, "the end of a restored hold ends no pause")
			return
		}
		require.NotEqual(w.t, b.Paused, a.Paused, "what is so already appends nothing")
	case Run:
		a := after.(Run)
		if b.Status.Terminal() {
			require.Contains(w.t, []events.Type{events.TypePostSyncStarted, events.TypePostSyncCompleted, events.TypePostSyncFailed}, e.EventType())
			a.Posts = b.Posts
			require.Equal(w.t, b, a, "terminal is final")
		}
	case Register:
		w.requireSoundRegister(b, e, after.(Register))
	case Topic:
		before, after := b.Message(theMessage).Status, after.(Topic).Message(theMessage).Status
		require.Contains(w.t, messageSteps[before], after, "%s by %s", before, e.EventType())
	}
}

// messageSteps is J-3 without the register, and without what an application's own transaction writes.
var messageSteps = map[MessageStatus][]MessageStatus{
	"":          {MessageOpen},
	MessageOpen: {MessageRejected},
}

func (w *world) requireSoundRegister(b Register, e events.Event, a Register) {
	if _, resolved := e.(events.OutboxResolved); resolved && b.Status == RegisterPending {
		require.Equal(w.t, RegisterIdle, a.Status, "O-S10: it was sent in an earlier life")
		b.Status, b.Claimed = RegisterUnresolved, b.Current
	}
	require.Contains(w.t, registerSteps[b.Status], a.Status, "%s by %s", b.Status, e.EventType())
	if a.Status == RegisterParked && b.Status != RegisterPending {
		require.Equal(w.t, events.KindMessage, a.Kind, "M-11: only messages have a consumer that gives up")
	}
	require.LessOrEqual(w.t, a.Closed, a.Current)
	require.LessOrEqual(w.t, a.Current, a.Newest)
	require.GreaterOrEqual(w.t, a.Attempts, 0)
	require.True(w.t, a.Next == 0 || a.Next == a.Newest && a.Next == a.Current+1, "one waits, right behind the current one")
	require.Equal(w.t, a.Next != 0, a.NextAt != 0)
	require.Equal(w.t, a.Status == RegisterPending, a.AvailableAt != 0)
	require.GreaterOrEqual(w.t, a.Closed, b.Closed)
	require.LessOrEqual(w.t, a.Newest, b.Newest+1)
	if armed, ok := e.(events.OutboxArmed); ok {
		require.Equal(w.t, b.Announce(), armed.N, "K-1: the number announced is the number armed")
		require.Equal(w.t, armed.N, a.Announce(), "K-1: and it stays the open one")
	}
	if a.Kind == events.KindPostSync && w.mode == events.AtMostOnce {
		require.Equal(w.t, 1, a.Newest, "I-13: post_sync has one wakeup")
	}
	if len(a.Resolved) == 0 {
		require.LessOrEqual(w.t, a.Closed, a.Claimed, "what is closed was claimed")
	}
	require.LessOrEqual(w.t, a.Claimed, a.Current)
}

// requireStrangersChangeNothing: D-8, O-9. A token that was never given, or an attempt that is over, is refused, in
// every state; all that it may leave is the record of a late result.
func (w *world) requireStrangersChangeNothing() {
	const stranger = events.Token("never issued")
	u := w.unit()
	for attempt := range u.Attempt + 2 {
		for _, token := range []events.Token{stranger, "", u.Lease.Token} {
			held := attempt == u.Attempt && u.Status == events.UnitIsRunning && token == u.Lease.Token
			if held || token == tokenA || token == tokenB { // a real token may repeat a settle that was accepted
				continue
			}
			for _, c := range []Command{
				RenewLease{Unit: theUnit, At: w.now, RunOpen: true, Attempt: attempt, Token: token, Lease: lease},
				CompleteUnit{Unit: theUnit, At: w.now, RunOpen: true, Attempt: attempt, Token: token},
				FailUnit{Unit: theUnit, At: w.now, RunOpen: true, Attempt: attempt, Token: token, Category: events.Auth},
				HandBackUnit{Unit: theUnit, At: w.now, RunOpen: true, Attempt: attempt, Token: token},
			} {
				got, rejection := Decide(u, c)
				require.ErrorIs(w.t, rejection, ErrLeaseLost, "%+v", c)
				for _, e := range got {
					require.IsType(w.t, events.UnitLateResult{}, e)
				}
			}
		}
	}
	r := w.register()
	for _, c := range []Command{
		MarkWakeup{Owner: theRun, Kind: w.kind, Mode: w.mode, At: w.now, N: r.Current, Token: stranger},
		MarkWakeup{Owner: theRun, Kind: w.kind, Mode: w.mode, At: w.now, N: r.Current + 1, Token: r.Claim.Token},
		ReleaseWakeup{Owner: theRun, Kind: w.kind, Mode: w.mode, At: w.now, N: r.Current, Token: stranger, Cause: events.ReleaseShed},
		ReleaseWakeup{Owner: theRun, Kind: w.kind, Mode: w.mode, At: w.now, N: r.Current - 1, Token: r.Claim.Token, Cause: events.ReleaseRefused},
	} {
		got, rejection := Decide(r, c)
		require.ErrorIs(w.t, rejection, ErrClaimLost, "%+v", c)
		require.Empty(w.t, got)
	}
}

// command is a command with random fields, near to what the state makes interesting.
func (w *world) command(typ reflect.Type) Command {
	v := reflect.New(typ).Elem()
	for i := range typ.NumField() {
		v.Field(i).Set(w.field(typ, typ.Field(i)).Convert(typ.Field(i).Type))
	}
	return v.Interface().(Command)
}

func pick[T any](w *world, name string, from ...T) reflect.Value {
	return reflect.ValueOf(rapid.SampledFrom(from).Draw(w.t, name))
}

// field draws one field. It is exhaustive: a field of a type that it does not know fails the test.
func (w *world) field(c reflect.Type, f reflect.StructField) reflect.Value {
	register, u := w.register(), w.unit()
	switch f.Name {
	case "New":
		return reflect.ValueOf(register.Newest == 0)
	case "RunOpen", "Sent", "Taken", "SlotFree", "Counted":
		return pick(w, f.Name, true, true, true, true, true, true, true, false)
	case "N":
		if c == reflect.TypeFor[ClaimWakeup]() {
			return reflect.ValueOf(register.Current) // what the caller has just read
		}
		return pick(w, f.Name, register.Current, register.Current, register.Current, register.Newest)
	case "Attempt":
		return pick(w, f.Name, u.Attempt, u.Attempt, u.Attempt, u.Attempt-1)
	case "Wakeup":
		return reflect.ValueOf(u.Dispatches + 1) // rises as a register's numbers do
	case "Messages":
		return pick(w, f.Name, 0, 1, 2)
	case "MaxLosses":
		return pick(w, f.Name, 0, 1, 3)
	case "MaxAttempts":
		return pick(w, f.Name, 1, 3, 20)
	case "ExpiresAt":
		return reflect.ValueOf(w.now.Add(minute))
	case "Lease":
		return reflect.ValueOf(lease)
	case "Lifetime":
		return pick(w, f.Name, lifetime, 90*second)
	case "StaleAfter":
		return reflect.ValueOf(staleAfter)
	case "NeverStarted":
		return pick(w, f.Name, 0, 24*hour)
	case "Number":
		return pick(w, f.Name, w.node().Steps, w.node().Steps+1, w.node().Steps+2)
	case "Wall":
		return pick(w, f.Name, w.now, w.now.Add(-hour), w.now.Add(-30*hour))
	case "Confirmed":
		return pick(w, f.Name, 0, 0, hour)
	case "Bound":
		return reflect.ValueOf(30 * second)
	case "Stepped":
		return pick(w, f.Name, 0, 0, w.now)
	case "Target":
		return pick(w, f.Name, "activity", "digest")
	case "MessageID":
		return pick(w, f.Name, "1", "2", "3")
	case "Config":
		return pick(w, f.Name, json.RawMessage(nil), json.RawMessage(`{"cap.run":4}`), json.RawMessage(`{"cap.engine":8,"cap.run":5}`))
	case "Counts":
		return pick(w, f.Name, counts(2, 2, 0, 0), counts(2, 1, 1, 0), counts(2, 1, 0, 0), events.Counts{})
	}
	if c == reflect.TypeFor[ArmWakeup]() && f.Name == "At" {
		return pick(w, f.Name, w.now, w.now.Add(5*second), w.now.Add(minute), w.now.Add(hour))
	}
	switch f.Type {
	case reflect.TypeFor[events.RunID](), reflect.TypeFor[[16]byte](): // the owner of a register
		return reflect.ValueOf(theRun)
	case reflect.TypeFor[events.UnitID]():
		return reflect.ValueOf(theUnit)
	case reflect.TypeFor[events.JobID]():
		return reflect.ValueOf(theJob)
	case reflect.TypeFor[events.NodeID]():
		return reflect.ValueOf(nodeA)
	case reflect.TypeFor[events.Micros]():
		return reflect.ValueOf(w.now)
	case reflect.TypeFor[events.Token]():
		for _, held := range []events.Token{register.Claim.Token, u.Lease.Token} {
			if held != "" {
				return pick(w, f.Name, tokenA, tokenB, held, held)
			}
		}
		return pick(w, f.Name, tokenA, tokenB)
	case reflect.TypeFor[events.MessageID]():
		return reflect.ValueOf(theMessage)
	case reflect.TypeFor[events.MessageSubmitted]():
		return reflect.ValueOf(events.MessageSubmitted{Message: theMessage})
	case reflect.TypeFor[Imported]():
		return pick(w, f.Name, ImportPending, ImportInProgress, ImportSpent)
	case reflect.TypeFor[events.Kind]():
		return reflect.ValueOf(w.kind)
	case reflect.TypeFor[events.DeliveryMode]():
		return reflect.ValueOf(w.mode)
	case reflect.TypeFor[events.ReleaseCause]():
		return pick(w, f.Name, events.ReleaseRefused, events.ReleasePublishUnknown, events.ReleaseClaimExpired, events.ReleaseIncarnationGone, events.ReleaseShed, events.ReleaseBreakerOpen)
	case reflect.TypeFor[Failure]():
		return pick(w, f.Name, Failure{}, Failure{Transport: "nats"}, Failure{Transport: "nats", Overtaken: true}, Failure{Transport: "nats", Accepted: w.now})
	case reflect.TypeFor[events.BreakerOpened]():
		return pick(w, f.Name, opened("nats", 10*second), opened("nats", minute), opened("redis", minute))
	case reflect.TypeFor[events.BreakerClosed]():
		return pick(w, f.Name, events.BreakerClosed{Transport: "nats"}, events.BreakerClosed{Transport: "redis"})
	case reflect.TypeFor[events.DropReason]():
		return pick(w, f.Name, "", "", events.DropNothingOwed)
	case reflect.TypeFor[events.ArmCause]():
		return reflect.ValueOf(events.ArmMaterialized)
	case reflect.TypeFor[events.Resolution]():
		return pick(w, f.Name, events.ResolvedDelivered, events.ResolvedLost)
	case reflect.TypeFor[events.CancelReason]():
		return pick(w, f.Name, events.CancelledWithRun, events.CancelledAlone, events.CancelledWithReference)
	case reflect.TypeFor[events.Outcome]():
		return pick(w, f.Name, events.Accepted, events.Refused, events.Unknown)
	case reflect.TypeFor[events.Category]():
		return pick(w, f.Name, events.Network, events.Network, events.Auth, events.ExpiredLease, events.RateLimit)
	case reflect.TypeFor[RateLimit]():
		return pick(w, f.Name, limit(0), limit(30*second), limit(24*hour))
	case reflect.TypeFor[events.RunStatus]():
		return pick(w, f.Name, events.RunSucceeded, events.RunFailed)
	case reflect.TypeFor[[]events.RetryPolicy]():
		return pick(w, f.Name, nil, []events.RetryPolicy{Linear(1, minute)}, []events.RetryPolicy{retryOn(2, events.Network, events.ExpiredLease)})
	case reflect.TypeFor[[]events.Watermark]():
		return reflect.ValueOf([]events.Watermark(nil))
	case reflect.TypeFor[events.Result]():
		return reflect.ValueOf(events.Result{Rows: 1})
	case reflect.TypeFor[Grace]():
		return pick(w, f.Name, Grace{}, Grace{}, theGrace(w.now))
	case reflect.TypeFor[Backoff]():
		return reflect.ValueOf(theBackoff)
	case reflect.TypeFor[events.RunPlanned]():
		several, none := plannedRun(2), plannedRun(0)
		several.Policy.PostSync, several.Policy.MaxDeliveries = w.mode, 2
		return pick(w, f.Name, several, several, none)
	case reflect.TypeFor[events.UnitPlanned]():
		return reflect.ValueOf(thePlan)
	case reflect.TypeFor[events.RunsArchived]():
		return pick(w, f.Name, events.RunsArchived{Segment: "9", Hash: "00", Streams: []string{"run/x"}}, events.RunsArchived{})
	case reflect.TypeFor[events.JobOpened](), reflect.TypeFor[events.NodeStarted](), reflect.TypeFor[events.NodeRecovered]():
		return reflect.Zero(f.Type)
	case reflect.TypeFor[events.ScheduleDefined]():
		other := nightly()
		other.Cron = "0 4 * * *"
		return pick(w, f.Name, nightly(), nightly(), other)
	case reflect.TypeFor[events.OccurrencesMissed]():
		return pick(w, f.Name, events.OccurrencesMissed{}, missed(2), missed(3))
	case reflect.TypeFor[int](): // of RestoreStore.Epoch
		return pick(w, f.Name, 2, 3)
	case reflect.TypeFor[events.Position]():
		return pick(w, f.Name, events.Position(1), events.Position(1187))
	case reflect.TypeFor[events.SkipReason]():
		return pick(w, f.Name, events.SkippedOverlap, events.SkippedQueueFull, events.SkippedPaused)
	case reflect.TypeFor[bool]():
		return pick(w, f.Name, false, false, true)
	case reflect.TypeFor[string]():
		return reflect.ValueOf("text")
	}
	require.FailNow(w.t, "field of an unknown type", "teach world.field: %s.%s %s", c, f.Name, f.Type)
	return reflect.Value{}
}

// L-7: what is in the log has happened. No event, in any order, with any content, makes a fold panic or changes a state
// that was handed out; and no rule panics on what came of it.
func TestAnyEventInAnyOrderIsFolded(t *testing.T) {
	types := events.Types()
	streams := []events.StreamID{
		events.RunStream(theRun), events.UnitStream(theUnit), events.JobStream(theJob), events.NodeStream(nodeA),
		events.RegisterStream(theRun, events.KindUnit), events.RegisterStream(theRun, events.KindPostSync), events.AppStream("x"),
	}
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.SampledFrom(streams).Draw(t, "stream")
		state := Zero(id)
		var log []events.Envelope
		var snapshots []snapshot
		for range rapid.IntRange(0, 30).Draw(t, "events") {
			zero, err := events.Decode(events.Record{Type: rapid.SampledFrom(types).Draw(t, "type"), Schema: 1, Data: []byte(`{}`)})
			require.NoError(t, err)
			v := reflect.New(reflect.TypeOf(zero)).Elem()
			drawInto(t, v)
			log = append(log, events.Envelope{
				Position: events.Position(len(log)), Stream: id, At: t0.Add(events.Span(len(log))),
				Meta: events.Meta{Node: rapid.SampledFrom([]events.NodeID{{}, nodeA, nodeB}).Draw(t, "node")}, Event: v.Interface().(events.Event),
			})
			state = Evolve(state, log[len(log)-1])
			snapshots = append(snapshots, snapshot{state, deepCopy(state)})
		}
		require.Equal(t, Fold(id, log), state)
		for _, s := range samples() {
			if s.command.Stream() == id {
				Decide(state, s.command)
			}
		}
		for _, s := range snapshots {
			require.Equal(t, s.copied, s.held)
		}
	})
}

// drawInto fills a payload with small, colliding values.
func drawInto(t *rapid.T, v reflect.Value) {
	switch v.Interface().(type) {
	case json.RawMessage:
		v.SetBytes([]byte(`{}`))
		return
	case events.Window:
		v.Set(reflect.ValueOf(events.NewWindow(rapid.SampledFrom([]time.Time{{}, now}).Draw(t, "from"), now)))
		return
	case events.Token, events.Order, events.Category, events.Outcome:
		words := []string{"", "token-a", "mark_first", "handed_back", "unknown"}
		v.SetString(rapid.SampledFrom(words).Draw(t, "word"))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.SampledFrom([]int64{-1 << 63, -1, 0, 1, 2, 3, 1<<63 - 1}).Draw(t, "number"))
	case reflect.String:
		v.SetString(rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "string"))
	case reflect.Array:
		v.Index(0).SetUint(uint64(rapid.IntRange(0, 1).Draw(t, "id")))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 4))
		drawInto(t, v.Index(0))
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"a": "b"}))
	case reflect.Struct:
		for i := range v.NumField() {
			drawInto(t, v.Field(i))
		}
	default:
		require.FailNow(t, "field of an unknown kind", v.Type())
	}
}

// deepCopy shares nothing with its argument.
func deepCopy(s State) State {
	return deepValue(reflect.ValueOf(s)).Interface().(State)
}

func deepValue(v reflect.Value) reflect.Value {
	switch v.Kind() {
	case reflect.Slice:
		if v.IsNil() {
			return v
		}
		out := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		for i := range v.Len() {
			out.Index(i).Set(deepValue(v.Index(i)))
		}
		return out
	case reflect.Struct:
		out := reflect.New(v.Type()).Elem()
		out.Set(v) // also the unexported fields of times, which are values
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				out.Field(i).Set(deepValue(v.Field(i)))
			}
		}
		return out
	}
	return v
}
