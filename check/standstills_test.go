package check

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

// standstill is a run that goes nowhere: everything that was owed is closed, or due and left.
type standstill struct {
	name string
	play func(*script)
	wait events.Span
}

func (c standstill) inject(t testing.TB) fault {
	t.Helper()
	s := newScript(t)
	s.start(1)
	c.play(s)
	checker := checkLog(s.render(), Options{})
	require.Empty(t, checker.Violations())
	head, now := checker.Head()
	return fault{"I-27", c.name, ByStandstill, head, checker.Standstills(now.Add(c.wait))}
}

var standstills = []standstill{
	{"planned, and its wakeup is gone", func(s *script) { s.plan(1, policy(), s.work("a", "x")); s.relay(1, events.KindDispatch, 1, 1) }, 0},
	{"planned, and its wakeup is due for ever", func(s *script) { s.plan(1, policy(), s.work("a", "x")) }, 0},
	{"dispatched and stale", func(s *script) { s.quick(1, "a"); s.entries = s.entries[:len(s.entries)-1] }, 15*minute - second},
	{"running, and its lease is over", func(s *script) { s.quick(1, "a") }, minute},
	{"a claim that nobody releases", func(s *script) { s.plan(1, policy(), s.work("a", "x")); s.take(1, events.KindDispatch, 1, 1, 1) }, minute},
}

// I-27: what stands still is told from what waits.
func TestStandstillsAreNamed(t *testing.T) {
	for _, c := range standstills {
		t.Run(c.name, func(t *testing.T) {
			s := newScript(t)
			s.start(1)
			c.play(s)
			checker := checkLog(s.render(), Options{})
			require.Empty(t, checker.Violations())
			_, now := checker.Head()
			if c.wait > 0 {
				require.Empty(t, checker.Standstills(now.Add(c.wait-1)))
			}
			f := c.inject(t)
			requireNamed(t, f)
			require.Len(t, f.found, 1)
			require.Equal(t, run1, f.found[0].Stream)

			for _, hold := range []func(){
				func() { s.add(events.EngineControlStream(), events.EnginePaused{Actor: "me"}) },
				func() { s.add(events.NodeStream(s.node), events.StoreRestored{Epoch: 2}) },
			} {
				n := len(s.entries)
				hold()
				require.Empty(t, checkLog(s.render(), Options{}).Standstills(now.Add(c.wait)))
				s.entries = s.entries[:n]
			}
		})
	}
}

// I-27: a run that is held by somebody does not stand still.
func TestWhatIsHeldDoesNotStandStill(t *testing.T) {
	s := newScript(t)
	s.start(1)
	s.plan(1, policy(), s.work("a", "x"))
	s.relay(1, events.KindDispatch, 1, 1)
	n := len(s.entries)
	s.add(events.SourceControlStream("a"), events.SourcePaused{Actor: "me"})
	require.Empty(t, checkLog(s.render(), Options{}).Standstills(s.now))

	s.entries = s.entries[:n]
	s.arm(1, events.KindDispatch, 2, s.now, events.ArmMaterialized)
	s.add(reg(1, events.KindDispatch), events.OutboxParked{N: 2, Cause: events.ParkOperator})
	require.Empty(t, checkLog(s.render(), Options{}).Standstills(s.now))

	s = newScript(t)
	retries(s)
	r := s.lastOfTx(find[events.UnitRetryScheduled](s, 0))
	s.entries = s.entries[:s.index(r)+1]
	s.drop(r) // the wake of the retry is lost; the time is ahead all the same (REC-7)
	c := checkLog(s.render(), Options{})
	require.Empty(t, c.Standstills(r.at))
	require.Len(t, c.Standstills(r.at.Add(minute)), 1)
}
