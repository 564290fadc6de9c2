package check

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/towline-dev/towline/events"
)

// words are what a random text field holds: values that rules know, and some that they do not.
var words = []string{
	"", "a", "b", "commits", "refs", "git", "linear", "work_item", "reference", "light", "incremental", "backfill", "planned",
	"retry", "stale", "incarnation_gone", "expired", "no_lease", "released", "worker", "reconciler", "dispatch", "operator",
	"rate_limit", "expired_lease", "handed_back", "network", "worker_lost", "never_started", "reference_failed", "succeeded",
	"failed", "cancelled", "run_cancelled", "reference_cancelled", "publish_first", "mark_first", "local", "refused",
	"publish_unknown", "claim_expired", "breaker_open", "shed", "migration_no_claim_time", "run_terminal", "nothing_owed",
	"unit_gone", "attempts", "permanent", "accepted", "unknown", "relay_died", "delivered", "lost", "materialized", "redriven",
	"at_most_once", "exactly_once", "exclusive", "shared", "report", "git/light", "run_terminal", "attempt_old",
}

// world draws random envelopes about few things, so that they meet.
type world struct {
	t   *rapid.T
	now events.Micros
}

func (w *world) n(label string, most int) int { return rapid.IntRange(0, most).Draw(w.t, label) }

func (w *world) fill(v reflect.Value) {
	switch x := v.Addr().Interface().(type) {
	case *json.RawMessage:
		*x = json.RawMessage(rapid.SampledFrom([]string{
			``, `{}`, `null`, `[`, `{"cap.bucket": 1, "cap": {"engine": 2}, "dispatch.stale": 1}`, `{"relay.max_attempts": "2", "dispatch": {"stale": "1s"}}`,
		}).Draw(w.t, "json"))
		return
	case *events.Micros:
		if w.n("set", 5) > 0 {
			*x = w.now.Add(events.Span(rapid.IntRange(-3, 3).Draw(w.t, "offset")) * second)
		}
		return
	case *events.Span:
		*x = events.Span(w.n("span", 3)) * second
		return
	case *events.Window:
		*x = events.NewWindow(time.Time{}, w.now.Time())
		return
	case *events.Position:
		*x = events.Position(w.n("position", 60))
		return
	case *events.RunID:
		*x = runID(w.n("run", 2))
		return
	case *events.UnitID:
		*x = unitID(1, w.n("unit", 3))
		return
	case *events.JobID:
		*x = jobID(w.n("job", 2))
		return
	case *events.NodeID:
		*x = nodeID(w.n("node", 2))
		return
	case *events.MessageID:
		*x = messageID(w.n("message", 2))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			w.fill(v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), w.n("len", 2), 2))
		for i := range v.Len() {
			w.fill(v.Index(i))
		}
	case reflect.String:
		v.SetString(rapid.SampledFrom(words).Draw(w.t, "word"))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(rapid.IntRange(-1, 3).Draw(w.t, "int")))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(w.t, "bool"))
	}
}

func (w *world) event(typ events.Type) events.Event {
	zero, err := events.Decode(events.Record{Type: typ, Schema: 1, Data: []byte("{}")})
	require.NoError(w.t, err)
	v := reflect.New(reflect.TypeOf(zero)).Elem()
	w.fill(v)
	return v.Interface().(events.Event)
}

// stream is mostly one of the family that the event belongs to.
func (w *world) stream(typ events.Type) events.StreamID {
	if w.n("misplaced", 30) == 0 {
		typ = rapid.SampledFrom(events.Types()).Draw(w.t, "of")
	}
	switch {
	case typ < 20:
		return events.RunStream(runID(w.n("run", 2)))
	case typ < 40:
		return events.UnitStream(unitID(1, w.n("unit", 3)))
	case typ < 60:
		k := rapid.SampledFrom(events.Kinds[:]).Draw(w.t, "kind")
		if k == events.KindMessage {
			return events.MessageStream(messageID(w.n("message", 2)))
		}
		return events.RegisterStream(runID(w.n("run", 2)), k)
	case typ < 70:
		return events.JobStream(jobID(w.n("job", 2)))
	case typ < events.TypeOccurrenceQueued:
		return events.ScheduleStream("s")
	case typ < 90:
		return events.OccurrenceStream("s", "1")
	case typ < 100:
		return rapid.SampledFrom([]events.StreamID{events.EngineControlStream(), events.SourceControlStream("a")}).Draw(w.t, "control")
	case typ < 120:
		return events.NodeStream(nodeID(w.n("node", 2)))
	}
	return events.AppStream("topic")
}

// likely favours the events that open things and let the others get somewhere.
var likely = append(events.Types(),
	events.TypeRunPlanned, events.TypeUnitPlanned, events.TypeUnitPlanned, events.TypeUnitDispatched, events.TypeUnitDispatched,
	events.TypeUnitClaimed, events.TypeUnitClaimed, events.TypeOutboxArmed, events.TypeOutboxArmed, events.TypeOutboxClaimed,
	events.TypeOutboxClaimed, events.TypeOutboxReleased, events.TypeJobOpened, events.TypeUnitRetryScheduled)

// Section 23: whatever the log holds, the checker comes to an end, bounds its list, says the same twice, and answers
// for its fold.
func TestRandomLogsNeverPanic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{t: t, now: 1e15}
		versions := map[events.StreamID]events.Version{}
		var log []events.Envelope
		tx := events.Position(1)
		for i := range rapid.IntRange(1, 120).Draw(t, "events") {
			e := events.Envelope{Position: events.Position(i + 1), At: w.now}
			if w.n("place", 20) == 0 {
				e.Position += events.Position(rapid.IntRange(-3, 3).Draw(t, "off"))
			}
			if w.n("same tx", 2) == 0 {
				tx = e.Position
				w.now = w.now.Add(events.Span(w.n("later", 2)) * second)
				e.At = w.now
			}
			e.Tx = tx
			typ := rapid.SampledFrom(likely).Draw(t, "type")
			e.Stream, e.Event = w.stream(typ), w.event(typ)
			versions[e.Stream]++
			e.Version, e.Node = versions[e.Stream], nodeID(w.n("node", 2))
			log = append(log, e)
		}
		exercise(t, log)
	})
}

// Section 23: the same of correct logs into which random faults are planted.
func TestMangledLogsNeverPanic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newScript(failer{T: t})
		rapid.SampledFrom(scenarios).Draw(t, "scenario").play(s)
		w := &world{t: t, now: s.now}
		for range rapid.IntRange(1, 5).Draw(t, "faults") {
			e := s.entries[w.n("at", len(s.entries)-1)]
			switch w.n("fault", 4) {
			case 0:
				s.drop(e)
			case 1:
				s.insert(s.index(e), &entry{group: e.group, stream: e.stream, at: e.at, node: e.node, event: e.event})
			case 2:
				s.swap(e, s.entries[w.n("with", len(s.entries)-1)])
			case 3:
				e.event = w.event(e.event.EventType())
			case 4:
				e.node = nodeID(w.n("node", 3))
			}
			if len(s.entries) == 0 {
				return
			}
		}
		exercise(t, s.render())
	})
}

// failer lets a script run under rapid.
type failer struct {
	testing.TB
	T *rapid.T
}

func (f failer) Helper()                        {}
func (f failer) FailNow()                       { f.T.FailNow() }
func (f failer) Errorf(format string, a ...any) { f.T.Errorf(format, a...) }

func exercise(t *rapid.T, log []events.Envelope) {
	settings := Settings{CapBucket: 1, CapEngine: 2, Stale: second, MaxAttempts: 2, BackoffBase: second, BackoffCap: 2 * second, IdempotencyTTL: minute}
	whole := checkLog(log, Options{Keep: true, Broker: true, Settings: settings, AtMost: 10})
	require.LessOrEqual(t, len(whole.Violations()), 10)
	again := New(Options{Keep: true, Broker: true, Settings: settings, AtMost: 10})
	for _, e := range log {
		again.Apply(e)
		if last := log[len(log)-1]; e.Tx == last.Tx {
			again.Slots(e.At, second)
		}
	}
	require.Equal(t, whole.Violations(), again.Finish())

	_, now := whole.Head()
	total := 0
	for _, r := range whole.Runs() {
		us := whole.Units(r.ID)
		n := r.Units
		require.Equal(t, len(us), n.Open()+n.Succeeded+n.Failed+n.Cancelled)
		total += len(us)
	}
	slots := whole.Slots(now, whole.slots.stale)
	require.Equal(t, whole.slots.engine, slots.Engine, "the running count is that of a fresh count")
	require.LessOrEqual(t, slots.Engine, total)
	for _, r := range slots.Runs {
		require.Equal(t, whole.runs[r.Run].slots, r.Used)
	}
	for _, b := range slots.Buckets {
		require.Equal(t, whole.slots.buckets[b.Bucket].used, b.Used)
	}
	whole.Registers()
	whole.Jobs()
	whole.Watermarks()
	whole.Broker([]Published{{ID: "x", Kind: events.KindPostSync, Run: runID(1)}})
	whole.Providers([]Called{{unitID(1, 1), 1}}, nil)
	whole.Standstills(now)
}
