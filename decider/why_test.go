package decider

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

// sight is a horizon at t0 plus an hour, without breakers.
func sight() Horizon {
	return Horizon{
		Now: t0.Add(hour), StaleAfter: staleAfter, RedriveAfter: minute, PostRedriveAfter: 15 * minute, Interval: minute,
		Breaker: func(Register) events.Micros { return 0 },
		GivenUp: func(r Register) events.Micros { return r.Claim.ExpiresAt },
		Unit:    func(events.UnitID) Reason { return Reason{Why: WaitRunning, Next: t0.Add(2 * hour)} },
	}
}

// WHY-2, I-30, DUR-5, O-16: a register that is not idle shows one reason, whichever state it is in.
func TestWhyARegisterWaits(t *testing.T) {
	held, away, stepped := sight(), sight(), sight()
	held.Held = true
	away.Breaker = func(Register) events.Micros { return t0.Add(hour + 10*second) }
	stepped.GivenUp = func(Register) events.Micros { return t0.Add(hour + minute) } // CLK-8: a whole claim time
	pass := t0.Add(hour + minute)
	for _, tt := range []struct {
		name     string
		register Register
		horizon  Horizon
		want     Reason
	}{
		{"never armed", Register{}, sight(), Reason{}},
		{"idle", Register{Status: RegisterIdle}, sight(), Reason{}},
		{"due", Register{Status: RegisterPending, AvailableAt: t0}, sight(), Reason{Why: WaitDue, Next: pass}},
		{"due later", Register{Status: RegisterPending, AvailableAt: t0.Add(2 * hour)}, sight(), Reason{Why: WaitDue, Next: t0.Add(2*hour + minute)}},
		{"restored", Register{Status: RegisterPending, AvailableAt: t0}, held, Reason{Why: WaitRestoredHold}},
		{"breaker", Register{Status: RegisterPending, AvailableAt: t0, Transport: "nats"}, away, Reason{Why: WaitBreakerOpen, Next: pass.Add(10 * second), On: "nats"}},
		{"claimed", Register{Status: RegisterClaimed, Claim: Claim{ExpiresAt: pass}}, away, Reason{Why: WaitClaimed, Next: pass.Add(minute)}},
		{"marked", Register{Status: RegisterMarked, Claim: Claim{ExpiresAt: pass}}, held, Reason{Why: WaitClaimed, Next: pass.Add(minute)}},
		{"marked, behind a step of the clock", Register{Status: RegisterMarked, Claim: Claim{ExpiresAt: t0}}, stepped, Reason{Why: WaitClaimed, Next: pass.Add(minute)}},
		{"parked", Register{Status: RegisterParked, LastCause: "attempts"}, sight(), Reason{Why: WaitParked, On: "attempts"}},
		{"unresolved", Register{Status: RegisterUnresolved}, sight(), Reason{Why: WaitUnresolved}},
	} {
		t.Run(tt.name, func(t *testing.T) { require.Equal(t, tt.want, tt.horizon.WhyRegister(tt.register)) })
	}
}

// WHY-1, WHY-4: what a unit waits for, and by when that will have changed.
func TestWhyAUnitWaits(t *testing.T) {
	now, pass := t0.Add(hour), t0.Add(hour+minute)
	idle := Register{Kind: events.KindDispatch, Status: RegisterIdle, LastClosedAt: now.Add(-second)}
	due := Register{Kind: events.KindDispatch, Status: RegisterPending, AvailableAt: now}
	parked := Register{Kind: events.KindDispatch, Status: RegisterParked, LastCause: "operator"}
	fanOut := Register{Kind: events.KindUnit, Status: RegisterClaimed, Claim: Claim{ExpiresAt: pass}}
	toDispatch, toAnnounce := Wait{Reason: WaitPublish, Kind: events.KindDispatch}, Wait{Reason: WaitPublish, Kind: events.KindUnit}
	for _, tt := range []struct {
		name     string
		wait     Wait
		dispatch Register
		want     Reason
	}{
		{"ended", Wait{}, idle, Reason{}},
		{"engine", Wait{Reason: WaitEnginePaused}, due, Reason{Why: WaitEnginePaused}},
		{"source", Wait{Reason: WaitSourcePaused, On: "wiki"}, due, Reason{Why: WaitSourcePaused, On: "wiki"}},
		{"unconfigured", Wait{Reason: WaitUnconfigured, On: `sync "x"`}, due, Reason{Why: WaitUnconfigured, On: `sync "x"`}},
		{"reference", Wait{Reason: WaitReference, Behind: theReference}, due, Reason{Why: WaitReference, Behind: theReference, Next: t0.Add(2 * hour)}},
		{"suspect", Wait{Reason: WaitCrashSuspect, Behind: theReference}, due, Reason{Why: WaitCrashSuspect, Behind: theReference, Next: t0.Add(2 * hour)}},
		{"cooldown", Wait{Reason: WaitCooldown, At: pass, On: "git/wiki"}, due, Reason{Why: WaitCooldown, Next: pass, On: "git/wiki"}},
		{"retry", Wait{Reason: WaitRetryAt, At: pass}, due, Reason{Why: WaitRetryAt, Next: pass}},
		{"running", Wait{Reason: WaitRunning, At: pass}, due, Reason{Why: WaitRunning, Next: pass.Add(minute)}},
		{"capped, with its net", Wait{Reason: WaitCapped, On: CapEngine}, due, Reason{Why: WaitCapped, On: CapEngine, Kind: events.KindDispatch, Next: pass}},
		{"capped, its message is out", Wait{Reason: WaitCapped, On: CapRun}, idle, Reason{Why: WaitCapped, On: CapRun, Kind: events.KindDispatch, Next: pass.Add(59 * second)}},
		{"dispatch is due", toDispatch, due, Reason{Why: WaitPublish, Kind: events.KindDispatch, Next: pass}},
		{"dispatch is out", toDispatch, idle, Reason{Why: WaitForWorker, Kind: events.KindDispatch, Since: now.Add(-second), Next: pass.Add(59 * second)}},
		{"dispatch is parked", toDispatch, parked, Reason{Why: WaitOutboxParked, Kind: events.KindDispatch, On: "operator"}},
		{"fan-out is claimed", toAnnounce, parked, Reason{Why: WaitPublish, Kind: events.KindUnit, Next: pass.Add(minute)}},
		{"no worker", Wait{Reason: WaitForWorker, At: now}, due, Reason{Why: WaitForWorker, Since: now, Next: now.Add(staleAfter + minute)}},
	} {
		t.Run(tt.name, func(t *testing.T) { require.Equal(t, tt.want, sight().WhyUnit(tt.wait, tt.dispatch, fanOut)) })
	}
}

// WHY-4, O-16: what is capped is looked at by its net, and not before the breaker lets that through.
func TestTheNetOfACappedUnitWaitsForTheBreaker(t *testing.T) {
	away := sight()
	away.Breaker = func(Register) events.Micros { return t0.Add(2 * hour) }
	net := Register{Kind: events.KindDispatch, Status: RegisterPending, AvailableAt: t0.Add(hour)}
	want := Reason{Why: WaitCapped, On: CapRun, Kind: events.KindDispatch, Next: t0.Add(2*hour + minute)}
	require.Equal(t, want, away.WhyUnit(Wait{Reason: WaitCapped, On: CapRun}, net, Register{}))
}

// WHY-3: 99 units that retry never hide the one that waits for somebody; without such a one the earliest leads.
func TestWhyARunWaits(t *testing.T) {
	soon, later := t0.Add(hour), t0.Add(2*hour)
	retry, capped := Reason{Why: WaitRetryAt, Next: soon}, Reason{Why: WaitCapped, Next: later}
	parked, unknown := Reason{Why: WaitOutboxParked, Kind: events.KindUnit}, Reason{Why: WaitCapped}
	idle := Register{Kind: events.KindFinalize, Status: RegisterIdle}

	reason, lead, counts := sight().WhyRun(append(slices.Repeat([]Reason{retry}, 99), parked), idle)
	require.Equal(t, parked, reason)
	require.Equal(t, 99, lead)
	require.Equal(t, []ReasonCount{{WaitOutboxParked, 1}, {WaitRetryAt, 99}}, counts)

	reason, lead, counts = sight().WhyRun([]Reason{unknown, capped, capped, retry}, idle)
	require.Equal(t, retry, reason)
	require.Equal(t, 3, lead)
	require.Equal(t, []ReasonCount{{WaitRetryAt, 1}, {WaitCapped, 3}}, counts)

	reason, lead, counts = sight().WhyRun(nil, Register{Kind: events.KindFinalize, Status: RegisterPending, AvailableAt: soon})
	require.Equal(t, Reason{Why: WaitFinalizing, Kind: events.KindFinalize, Next: soon.Add(minute)}, reason)
	require.Equal(t, -1, lead)
	require.Empty(t, counts)

	reason, _, _ = sight().WhyRun(nil, Register{Kind: events.KindFinalize, Status: RegisterParked})
	require.Equal(t, Reason{Why: WaitOutboxParked, Kind: events.KindFinalize}, reason)
}

// WHY-3, REC-10: of a run that has ended its post_sync may still wait.
func TestWhyAPostSyncWaits(t *testing.T) {
	idle := Register{Kind: events.KindPostSync, Status: RegisterIdle, LastClosedAt: t0.Add(hour)}
	none, most := Run{}, events.Policy{PostSync: events.ExactlyOnce, Targets: []string{"a", "b"}, MaxDeliveries: 2}
	of := func(posts ...Post) Run {
		return Run{ID: theRun, PostSyncOwed: true, Plan: events.RunPlanned{Policy: most}, Posts: posts}
	}
	post := func(target string, s PostStatus, n, failures int) Post {
		return Post{Target: target, Status: s, MessageID: TargetMessageID(theRun, n, target), Failures: failures, At: t0.Add(minute)}
	}
	done := post("a", PostCompleted, 1, 0)
	require.Equal(t, Reason{}, sight().WhyPost(idle, none))
	require.Equal(t, Reason{}, sight().WhyPost(idle, of(done, post("b", PostCompleted, 1, 1))))
	require.Equal(t, Reason{Why: WaitEffectsHeld, Kind: events.KindPostSync}, sight().WhyPost(idle, of(done, post("b", PostFailed, 2, 2))))
	sent := idle
	sent.Claimed = 2
	require.Equal(t, Reason{Why: WaitEffectFailed, On: "b", Kind: events.KindPostSync, Since: t0.Add(minute), Next: t0.Add(hour + 16*minute)},
		sight().WhyPost(sent, of(done, post("b", PostFailed, 2, 1))))
	require.Equal(t, WaitForWorker, sight().WhyPost(sent, of(done, post("b", PostFailed, 1, 1))).Why, "it was sent again since")
	require.False(t, WaitEffectFailed.NeedsPerson())
	require.Equal(t, Reason{Why: WaitForWorker, Kind: events.KindPostSync, Since: t0.Add(hour), Next: t0.Add(hour + 16*minute)},
		sight().WhyPost(idle, of(done)))
	require.Equal(t, WaitUnresolved, sight().WhyPost(Register{Status: RegisterUnresolved}, none).Why)
}
