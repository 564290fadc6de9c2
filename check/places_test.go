package check

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

// placeCorruption changes the places of events, which render would put in order again.
type placeCorruption struct {
	rule, name string
	plant      func([]events.Envelope) ([]events.Envelope, events.Position)
}

func (c placeCorruption) inject(t testing.TB) ([]events.Envelope, events.Position) {
	t.Helper()
	s := newScript(t)
	fullRun(s)
	return c.plant(s.render())
}

var placeCorruptions = []placeCorruption{
	{"I-1", "an event is missing", func(l []events.Envelope) ([]events.Envelope, events.Position) {
		return slices.Delete(l, 9, 10), 10
	}},
	{"I-1", "the first event is missing", func(l []events.Envelope) ([]events.Envelope, events.Position) {
		return l[1:], 1
	}},
	{"I-1", "an event comes twice", func(l []events.Envelope) ([]events.Envelope, events.Position) {
		return slices.Insert(l, 10, l[9]), l[9].Position
	}},
	{"I-1", "a position comes twice", func(l []events.Envelope) ([]events.Envelope, events.Position) {
		l[9].Position, l[9].Tx = l[8].Position, l[8].Position
		return l, l[9].Position
	}},
	{"I-1", "two events change places", func(l []events.Envelope) ([]events.Envelope, events.Position) {
		l[8], l[9] = l[9], l[8]
		return l, l[9].Position
	}},
	{"I-1", "a version is left out", func(l []events.Envelope) ([]events.Envelope, events.Position) {
		l[9].Version++
		return l, l[9].Position
	}},
	{"I-1", "a version of a node is left out", func(l []events.Envelope) ([]events.Envelope, events.Position) {
		l[0].Version++
		return l, 1
	}},
	{"I-1", "time goes back", func(l []events.Envelope) ([]events.Envelope, events.Position) {
		l[9].At -= events.Micros(2 * second)
		return l, l[9].Position
	}},
	{"I-1", "a transaction has two times", func(l []events.Envelope) ([]events.Envelope, events.Position) {
		l[6].At++
		return l, l[6].Position
	}},
	{"I-1", "a transaction that is over goes on", func(l []events.Envelope) ([]events.Envelope, events.Position) {
		l[9].Tx = 2
		return l, l[9].Position
	}},
	{"I-1", "a transaction begins in the future", func(l []events.Envelope) ([]events.Envelope, events.Position) {
		l[9].Tx = l[9].Position + 1
		return l, l[9].Position
	}},
	{"I-1", "a purge names what is still there", func(l []events.Envelope) ([]events.Envelope, events.Position) {
		last := l[len(l)-1]
		last.Event = events.SegmentPurged{Positions: []events.Position{3, 99}}
		l[len(l)-1] = last
		return l, last.Position
	}},
	{"I-1", "a purge names what is still there, before what is not", func(l []events.Envelope) ([]events.Envelope, events.Position) {
		last := l[len(l)-1]
		last.Event = events.SegmentPurged{Positions: []events.Position{3, 10}}
		l[len(l)-1] = last
		return slices.Delete(l, 9, 10), last.Position
	}},
	{"I-2", "no event", func(l []events.Envelope) ([]events.Envelope, events.Position) {
		l[9].Event = nil
		return l, l[9].Position
	}},
	{"I-2", "a pointer is no event of the catalogue", func(l []events.Envelope) ([]events.Envelope, events.Position) {
		ev := l[9].Event.(events.OutboxDispatched)
		l[9].Event = &ev
		return l, l[9].Position
	}},
}

// I-1: the places of the events themselves.
func TestPlantedPlacesAreNamed(t *testing.T) {
	for _, c := range placeCorruptions {
		t.Run(c.rule+" "+c.name, func(t *testing.T) {
			log, at := c.inject(t)
			got := checkLog(log, Options{}).Violations()
			requireNamed(t, fault{c.rule, c.name, ByLog, at, got})
			require.True(t, slices.IsSortedFunc(got, func(a, b Violation) int { return int(a.Position - b.Position) }))
		})
	}
}

// I-1: the same of each event of each scenario, whatever stream it is in.
func TestThePlaceOfEveryEventIsChecked(t *testing.T) {
	for _, sc := range scenarios {
		s := newScript(t)
		sc.play(s)
		log := s.render()
		for i, e := range log {
			for what, move := range map[string]func(*events.Envelope){
				"a version is left out": func(e *events.Envelope) { e.Version++ },
				"a version comes twice": func(e *events.Envelope) { e.Version-- },
				"time goes back":        func(e *events.Envelope) { e.At = log[0].At - 1 },
			} {
				if i == 0 && what == "time goes back" {
					continue // nothing is before it
				}
				moved := slices.Clone(log)
				move(&moved[i])
				got := checkLog(moved, Options{AtMost: 1000}).Violations()
				require.True(t, slices.ContainsFunc(got, func(v Violation) bool { return v.Rule == "I-1" && v.Position == e.Position }),
					"%s: %s of event %d, %s in %s", sc.name, what, e.Position, events.Describe(e.Event), e.Stream)
			}
		}
	}
}

// L-1: positions that a purge names are not missing, also if the purge took the middle of the log and a transaction in
// part; a position that it leaves out is.
func TestPurgedPositionsAreNotMissing(t *testing.T) {
	s := newScript(t)
	s.start(1)
	s.quickToEnd(1)
	s.add(events.ScheduleStream("nightly"), events.ScheduleDefined{})
	s.tx(func() {
		s.planFor(2, policy(), "", "nightly/1", s.work("a", "other"))
		s.add(events.OccurrenceStream("nightly", "1"), events.OccurrenceTriggered{Job: jobID(2), Run: runID(2)})
	})
	s.relay(2, events.KindDispatch, 1, 1)
	log := s.render()

	for _, run := range []int{1, 2} { // run 2 is not over, but that is not what is tested
		var kept []events.Envelope
		var gone []events.Position
		for _, e := range log {
			owner, _, _ := e.Stream.Register()
			id, _ := e.Stream.Run()
			job, _ := e.Stream.Job()
			u, _ := e.Stream.Unit()
			if owner == runID(run) || id == runID(run) || job == jobID(run) || u == unitID(run, 1) {
				gone = append(gone, e.Position)
				continue
			}
			kept = append(kept, e)
		}
		purge := log[len(log)-1]
		purge.Position++
		purge.Tx, purge.Stream, purge.Version = purge.Position, events.NodeStream(nodeID(1)), 2
		purge.Event = events.SegmentPurged{Segment: "1", Positions: gone}
		require.Empty(t, checkLog(append(slices.Clip(kept), purge), Options{}).Violations())

		purge.Event = events.SegmentPurged{Segment: "1", Positions: gone[1:]}
		got := checkLog(append(slices.Clip(kept), purge), Options{}).Violations()
		require.Len(t, got, 1)
		require.Equal(t, "I-1", got[0].Rule)
	}
}
