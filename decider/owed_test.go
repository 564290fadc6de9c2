package decider

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

var (
	kinds = []events.Kind{events.KindDispatch, events.KindUnit, events.KindFinalize, events.KindPostSync}
	// everything is an open run that owes all that an open run can owe.
	everything = Owing{RunOpen: true, Dispatchable: true, Announced: 2}
)

// O-8, SC-044, SC-045, SC-142, SC-160: why a wakeup need not be published any more; each fact flipped alone.
func TestAWakeupIsDroppedWhenNothingIsOwed(t *testing.T) {
	ended := everything
	ended.RunOpen, ended.RunTerminal = false, true
	without := func(change func(*Owing)) Owing {
		o := everything
		change(&o)
		return o
	}
	for name, tt := range map[string]struct {
		owing Owing
		want  map[events.Kind]events.DropReason
	}{
		"all is owed": {everything, map[events.Kind]events.DropReason{}},
		"run has ended": {ended, map[events.Kind]events.DropReason{
			events.KindDispatch: events.DropRunTerminal, events.KindUnit: events.DropRunTerminal, events.KindFinalize: events.DropRunTerminal,
		}},
		"no such run": {Owing{}, map[events.Kind]events.DropReason{
			events.KindDispatch: events.DropRunTerminal, events.KindUnit: events.DropRunTerminal, events.KindFinalize: events.DropRunTerminal,
		}},
		"nothing to dispatch": {without(func(o *Owing) { o.Dispatchable = false }), map[events.Kind]events.DropReason{
			events.KindDispatch: events.DropNothingOwed,
		}},
		"expansion is empty": {without(func(o *Owing) { o.Announced = 0 }), map[events.Kind]events.DropReason{
			events.KindUnit: events.DropUnitGone,
		}},
		"a unit is open": {without(func(o *Owing) { o.OpenUnits = 1 }), map[events.Kind]events.DropReason{
			events.KindFinalize: events.DropNothingOwed,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, k := range kinds {
				require.Equal(t, tt.want[k], tt.owing.Drop(k), k)
			}
		})
	}
}

// REC-7 to REC-10, SC-061, SC-063: what the state of a run says must be published.
func TestWhatARunOwes(t *testing.T) {
	open := Owing{RunOpen: true, OpenUnits: 1}
	for name, tt := range map[string]struct {
		owing Owing
		want  []events.Kind
	}{
		"no such run":                {Owing{}, nil},
		"units are in flight":        {open, nil},
		"a unit can be dispatched":   {Owing{RunOpen: true, OpenUnits: 1, Dispatchable: true}, []events.Kind{events.KindDispatch}},
		"no unit is open":            {Owing{RunOpen: true}, []events.Kind{events.KindFinalize}},
		"ended with something after": {Owing{RunTerminal: true, PostSync: true}, []events.Kind{events.KindPostSync}},
		"ended with nothing after":   {Owing{RunTerminal: true}, nil},
		"ended, whatever units say":  {Owing{RunTerminal: true, Dispatchable: true, Announced: 1}, nil},
		"open, whatever comes after": {Owing{RunOpen: true, OpenUnits: 1, PostSync: true}, nil},
		"announced is no obligation": {Owing{RunOpen: true, OpenUnits: 1, Announced: 3}, nil}, // REC-8
	} {
		t.Run(name, func(t *testing.T) {
			var got []events.Kind
			for _, k := range kinds {
				if tt.owing.Owes(k) {
					got = append(got, k)
				}
			}
			require.Equal(t, tt.want, got)
		})
	}
}

// REC-12, REC-7, SC-013, SC-062, SC-068, SC-149, SC-228, SC-243, SC-245: which registers have lost the wakeup they owe.
func TestALostWakeupIsMaterialized(t *testing.T) {
	now := t0.Add(hour)
	idle := and(claimedRegister(), at(hour-minute, published(1, tokenA)))
	remote := published(1, tokenA)
	remote.Transport = "nats"
	idleByBroker := and(claimedRegister(), at(hour-second, remote))
	idleInProcess := and(claimedRegister(), at(hour-second, published(1, tokenA)))
	unknown := and(claimedRegister(), at(hour-second, released(1, tokenA, events.ReleasePublishUnknown, hour-second, true)))
	far := released(1, tokenA, events.ReleaseRefused, 2*hour, false)
	for name, tt := range map[string]struct {
		given []happening
		gone  bool
		want  bool
	}{
		"never armed":                       {given: nil, want: true},
		"idle since redrive_after, exactly": {given: idle, want: true},
		"idle for less":                     {given: and(claimedRegister(), at(hour-minute+micro, published(1, tokenA))), want: false},
		"idle for less, in-process, gone":   {given: idleInProcess, gone: true, want: true},
		"idle for less, in-process, alive":  {given: idleInProcess, want: false},
		"idle for less, broker, gone":       {given: idleByBroker, gone: true, want: false},
		"dropped just now":                  {given: and(claimedRegister(), at(hour-second, events.OutboxDropped{N: 1, Token: tokenA})), want: false},
		"dropped long ago":                  {given: and(claimedRegister(), at(minute, events.OutboxDropped{N: 1, Token: tokenA})), want: true},
		"pending, due":                      {given: []happening{at(0, armed(1, 0))}, want: false},
		"pending within the countdown":      {given: []happening{at(0, armed(1, hour+minute))}, want: false},
		"pending beyond the countdown":      {given: []happening{at(0, armed(1, hour+minute+micro))}, want: true},
		"beyond, but closed just now":       {given: and(idleByBroker, at(hour, armed(2, 3*hour))), want: false},
		"beyond, and closed long ago":       {given: and(idle, at(hour, armed(2, 3*hour))), want: true},
		"held by a release":                 {given: and(claimedRegister(), at(second, far)), want: false},
		"perhaps published":                 {given: unknown, want: false},
		"claimed":                           {given: claimedRegister(), want: false},
		"claimed, its claim has expired":    {given: claimedRegister(), gone: true, want: false},
		"parked":                            {given: and(claimedRegister(), at(0, released(1, tokenA, events.ReleaseRefused, 0, false)), at(0, events.OutboxParked{N: 1})), want: false},
		"marked":                            {given: and(claimedRegister(), at(0, marked(1, tokenA, 1))), want: false},
		"unresolved":                        {given: and(claimedRegister(), at(0, marked(1, tokenA, 1)), at(0, outcome("", events.Unknown))), want: false},
	} {
		t.Run(name, func(t *testing.T) {
			d := Redrive{Now: now, Countdown: minute, RedriveAfter: minute, Mode: events.AtMostOnce, CloserGone: tt.gone}
			for _, k := range []events.Kind{events.KindDispatch, events.KindFinalize} {
				require.Equal(t, tt.want, d.Materialize(k, givenRegister(k, tt.given...)), k)
			}
			r := givenRegister(events.KindPostSync, tt.given...)
			require.Equal(t, tt.given == nil, d.Materialize(events.KindPostSync, r), "REC-10: post_sync only if never armed")
		})
	}
}

// N-3, C-9: a unit whose message died with its process is not waited for either, whatever the dispatch register did last.
func TestALostUnitIsMaterializedAtOnce(t *testing.T) {
	mark := published(1, tokenA)
	mark.Transport = "nats"
	for _, k := range []events.Kind{events.KindDispatch, events.KindFinalize} {
		r := givenRegister(k, and(claimedRegister(), at(hour-second, mark))...)
		d := Redrive{Now: t0.Add(hour), Countdown: minute, RedriveAfter: minute, CloserGone: true}
		require.False(t, d.Materialize(k, r), k)
		d.UnitLost = true
		require.Equal(t, k == events.KindDispatch, d.Materialize(k, r), k)
		d.CloserGone = false
		require.False(t, d.Materialize(k, r), k)
	}
}

// REC-12, B-6, C-5, C-9, C-11: a wakeup within the countdown is left alone, unless it is the net of a dispatch whose own
// message died with its process while a free slot lets a unit in. Each condition alone keeps it.
func TestACountdownIsNotWaitedForWhenItsDispatchDied(t *testing.T) {
	net := func(after events.Span, transport string) []happening {
		mark := published(1, tokenA)
		mark.Transport = transport
		return and(claimedRegister(), at(hour-second, mark), at(hour-second, armed(2, after)))
	}
	died := Redrive{Now: t0.Add(hour), Countdown: minute, RedriveAfter: minute, CloserGone: true, Room: true}
	full, alive, unit := died, died, died
	full.Room, alive.CloserGone, unit.UnitLost = false, false, true
	aliveUnit := unit
	aliveUnit.CloserGone = false
	local := events.TransportLocal
	for name, tt := range map[string]struct {
		redrive Redrive
		kind    events.Kind
		given   []happening
		want    bool
	}{
		"all hold":           {died, events.KindDispatch, net(hour+minute, local), true},
		"due by a moment":    {died, events.KindDispatch, net(hour+micro, local), true},
		"no slot is free":    {full, events.KindDispatch, net(hour+minute, local), false},
		"its node is alive":  {alive, events.KindDispatch, net(hour+minute, local), false},
		"a broker has it":    {died, events.KindDispatch, net(hour+minute, "nats"), false},
		"a unit was lost":    {unit, events.KindDispatch, net(hour+minute, "nats"), true},
		"but its node lives": {aliveUnit, events.KindDispatch, net(hour+minute, "nats"), false},
		"it is due":          {died, events.KindDispatch, net(hour, local), false},
		"another kind":       {died, events.KindFinalize, net(hour+minute, local), false},
		"nothing was closed": {died, events.KindDispatch, []happening{at(0, armed(1, hour+minute))}, false},
		"held by a release":  {died, events.KindDispatch, and(claimedRegister(), at(0, released(1, tokenA, events.ReleaseRefused, hour, false))), false},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.want, tt.redrive.Materialize(tt.kind, givenRegister(tt.kind, tt.given...)))
		})
	}
}

// REC-12: what materialization asks for is what the arm then does: it moves a far wakeup earlier, and never twice.
func TestMaterializationMovesAFarWakeupEarlier(t *testing.T) {
	given := []happening{at(0, armed(1, 3*hour))}
	d := Redrive{Now: t0.Add(hour), Countdown: minute, RedriveAfter: minute}
	require.True(t, d.Materialize(events.KindDispatch, givenRegister(events.KindDispatch, given...)))
	got := decide(t, givenRegister(events.KindDispatch, given...), arm(hour))
	after := givenRegister(events.KindDispatch, and(given, then(hour, got)...)...)
	require.False(t, d.Materialize(events.KindDispatch, after))
	require.Equal(t, 1, after.Current)
}

// C-9, C-11, REC-12, N-3: a message that died with its process is not waited for. Whatever the dispatch register was
// doing last, a unit whose message is gone is dispatched again at once; and while a slot is free, no wakeup that is due
// within the countdown stands for the one that was lost.
func TestALostMessageIsNotWaitedFor(t *testing.T) {
	now := t0.Add(hour)
	inProcess := and(claimedRegister(), at(hour-second, published(1, tokenA)))
	dropped := and(claimedRegister(), at(hour-second, events.OutboxDropped{N: 1, Token: tokenA}))
	net := func(hs []happening) []happening { return and(hs, at(hour-second, armed(2, hour+minute-second))) }
	for name, tt := range map[string]struct {
		given               []happening
		gone, unitLost, own bool // own: a free slot lets a unit in
		want                bool
	}{
		"dropped last":                        {given: dropped, gone: true, want: false},
		"dropped last, a unit is lost":        {given: dropped, gone: true, unitLost: true, want: true},
		"a unit is lost, we closed since":     {given: dropped, unitLost: true, want: false},
		"net within the countdown, no room":   {given: net(inProcess), gone: true, unitLost: true, want: false},
		"net within the countdown, and room":  {given: net(inProcess), gone: true, own: true, want: true},
		"the same, dropped last, a unit lost": {given: net(dropped), gone: true, unitLost: true, own: true, want: true},
		"net and room, nobody is gone":        {given: net(inProcess), own: true, want: false},
	} {
		t.Run(name, func(t *testing.T) {
			d := Redrive{Now: now, Countdown: minute, RedriveAfter: minute, CloserGone: tt.gone, UnitLost: tt.unitLost, Room: tt.own}
			require.Equal(t, tt.want, d.Materialize(events.KindDispatch, givenRegister(events.KindDispatch, tt.given...)))
		})
	}
	due := and(inProcess, at(hour-second, armed(2, hour)))
	d := Redrive{Now: now, Countdown: minute, RedriveAfter: minute, CloserGone: true, UnitLost: true, Room: true}
	require.False(t, d.Materialize(events.KindDispatch, givenRegister(events.KindDispatch, due...)), "it is due already")
	finalize := d.Materialize(events.KindFinalize, givenRegister(events.KindFinalize, dropped...))
	require.False(t, finalize, "a lost unit is no obligation of finalize")
}
