package check

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

// published is the broker's record of a run of quickToEnd.
func published(s *script) []Published {
	id, r := runID(1).String(), runID(1)
	marked := findIn[events.OutboxDispatched](s, reg(1, events.KindPostSync), 0).position
	claim := func(k events.Kind) events.Position { return findIn[events.OutboxClaimed](s, reg(1, k), 0).position }
	return []Published{
		{ID: id + ".dispatch_sync_run.1", Kind: events.KindDispatch, Run: r, N: 1, After: claim(events.KindDispatch)},
		{ID: id + ".run_sync_unit.1." + unitID(1, 1).String() + ".1", Kind: events.KindUnit, Run: r, N: 1, After: claim(events.KindUnit)},
		{ID: id + ".finalize_sync_run.1", Kind: events.KindFinalize, Run: r, N: 1, After: claim(events.KindFinalize)},
		{ID: id + ".post_sync.1.report", Kind: events.KindPostSync, Run: r, N: 1, Target: "report", After: marked},
	}
}

// brokerCorruption changes what a broker has received of a correct log.
type brokerCorruption struct {
	rule, name string
	plant      func(*script, []Published) ([]Published, events.Position)
}

func (c brokerCorruption) inject(t testing.TB) fault {
	t.Helper()
	s := newScript(t)
	s.start(1)
	s.quickToEnd(1)
	s.render()
	record, at := c.plant(s, published(s))
	checker := checkLog(s.render(), Options{Broker: true})
	require.Empty(t, checker.Violations())
	f := fault{c.rule, c.name, ByBroker, at, checker.Broker(record)}
	require.Equal(t, f.found, checker.Violations())
	return f
}

var brokerCorruptions = []brokerCorruption{
	{"I-14", "post_sync is published twice", func(s *script, p []Published) ([]Published, events.Position) {
		return append(p, p[3]), p[3].After
	}},
	{"I-14", "post_sync is published before its mark", func(s *script, p []Published) ([]Published, events.Position) {
		p[3].After--
		return p, p[3].After
	}},
	{"I-14", "post_sync is published and never marked", func(s *script, p []Published) ([]Published, events.Position) {
		claim := findIn[events.OutboxClaimed](s, reg(1, events.KindPostSync), 0)
		s.entries = s.entries[:s.index(claim)+1]
		p[3].After = claim.position
		return p, claim.position
	}},
	{"I-15", "a mark without a message", func(s *script, p []Published) ([]Published, events.Position) {
		return p[1:], findIn[events.OutboxDispatched](s, reg(1, events.KindDispatch), 0).position
	}},
	{"I-15", "a mark without the message of a unit", func(s *script, p []Published) ([]Published, events.Position) {
		return slices.Delete(p, 1, 2), findIn[events.OutboxDispatched](s, reg(1, events.KindUnit), 0).position
	}},
	{"I-16", "a message before its claim", func(s *script, p []Published) ([]Published, events.Position) {
		p[0].After--
		return p, p[0].After
	}},
	{"I-16", "a message of no wakeup", func(s *script, p []Published) ([]Published, events.Position) {
		return append(p, Published{ID: runID(1).String() + ".dispatch_sync_run.2", Kind: events.KindDispatch, Run: runID(1), N: 2, After: 7}), 7
	}},
	{"I-16", "a message of a kind that does not exist", func(s *script, p []Published) ([]Published, events.Position) {
		return append(p, Published{ID: "x", Kind: "x", After: 7}), 7
	}},
	{"I-16", "a message for an attempt that it does not invite", func(s *script, p []Published) ([]Published, events.Position) {
		p[1].ID = p[1].ID[:len(p[1].ID)-1] + "2"
		return p, p[1].After
	}},
}

// I-14 to I-16: the broker's record against the log.
func TestPlantedBrokerRecordsAreNamed(t *testing.T) {
	s := newScript(t)
	s.start(1)
	s.quickToEnd(1)
	log := s.render()
	clean := checkLog(log, Options{Broker: true})
	require.Empty(t, clean.Broker(published(s)))
	require.Zero(t, clean.Total())
	for _, c := range brokerCorruptions {
		t.Run(c.rule+" "+c.name, func(t *testing.T) {
			requireNamed(t, c.inject(t))
		})
	}
	require.Panics(t, func() { checkLog(log, Options{}).Broker(nil) })
}

// K-3: after a restore the ids of an earlier life are no ids of this one.
func TestIDsOfARestoredStore(t *testing.T) {
	s := newScript(t)
	s.start(1)
	s.add(events.NodeStream(s.node), events.StoreRestored{Epoch: 2})
	s.add(events.EngineControlStream(), events.RestoreHoldReleased{Actor: "me"})
	s.quickToEnd(1)
	s.post(1, 1, "report")
	change(find[events.PostSyncStarted](s, 0), func(p *events.PostSyncStarted) { p.MessageID += ".e2" })
	log := s.render()
	record := published(s)
	require.Len(t, checkLog(log, Options{Broker: true}).Broker(record[:1]), 1+3, "one message of nothing, three marks without one")
	for i := range record {
		record[i].ID += ".e2"
	}
	c := checkLog(log, Options{Broker: true})
	require.Empty(t, c.Broker(record))
	require.Empty(t, c.Violations())
	require.Equal(t, 2, c.Epoch())
}

// providerCorruption is what no provider was asked and no sink has taken in a correct log.
type providerCorruption struct {
	name   string
	calls  []Called
	writes []Written
}

func (c providerCorruption) inject(t testing.TB) fault {
	t.Helper()
	s := newScript(t)
	s.start(1)
	s.quickToEnd(1)
	log := s.render()
	f := fault{"I-29", c.name, ByProviders, log[len(log)-1].Position, checkLog(log, Options{}).Providers(c.calls, c.writes)}
	require.Equal(t, f.found, checkLog(log, Options{Keep: true}).Providers(c.calls, c.writes))
	return f
}

var providerCorruptions = []providerCorruption{
	{"a call without a claim", []Called{{unitID(1, 1), 1}, {unitID(1, 1), 1}}, nil},
	{"a call of a unit that nobody knows", []Called{{unitID(9, 9), 1}}, nil},
	{"an old attempt writes", []Called{{unitID(1, 1), 1}}, []Written{{unitID(1, 1), 2}, {unitID(1, 1), 1}}},
}

// I-29: the calls of providers and the writes of sinks against the log.
func TestPlantedCallsAreNamed(t *testing.T) {
	s := newScript(t)
	s.start(1)
	s.quickToEnd(1)
	log := s.render()
	for _, keep := range []bool{false, true} {
		require.Empty(t, checkLog(log, Options{Keep: keep}).Providers(
			[]Called{{unitID(1, 1), 1}}, []Written{{unitID(1, 1), 1}, {unitID(1, 1), 1}}))
	}
	for _, c := range providerCorruptions {
		f := c.inject(t)
		requireNamed(t, f)
		require.Len(t, f.found, 1, c.name)
	}
}
