package decider

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

// once is a run that ended well at t0, in exactly_once mode, with more behind it. A target is held after two failures.
func once(more ...events.Event) []happening {
	planned := plannedRun(1)
	planned.Policy.PostSync, planned.Policy.MaxDeliveries = events.ExactlyOnce, 2
	hs := endedRun(more...)
	hs[0].event = planned
	return hs
}

func completed(target string) events.PostSyncCompleted {
	return events.PostSyncCompleted{Generation: Generation(theRun), Target: target, MessageID: TargetMessageID(theRun, 1, target)}
}

func failed(target string, n int) events.PostSyncFailed {
	return events.PostSyncFailed{
		Generation: Generation(theRun), Target: target, MessageID: TargetMessageID(theRun, n, target), Category: events.HandlerFailed,
	}
}

// postRegister is a post_sync register that was claimed once, with more behind it.
func postRegister(more ...events.Event) []happening {
	return and(claimedRegister(), then(second, more)...)
}

// HP-3, K-6, SC-066: in exactly_once mode nothing is taken, however often it is asked for: the ledger decides. It is
// completed once, and then nobody is asked to run it.
func TestAnEffectIsAskedForUntilItIsDone(t *testing.T) {
	complete := CompletePost{Run: theRun, Target: "activity", MessageID: "m", Sent: true, Result: "ok"}
	for name, given := range map[string][]happening{
		"ended": once(), "failed before": once(failed("activity", 1)), "held": once(failed("activity", 1), failed("activity", 2)),
		"another is done": once(completed("digest")),
	} {
		t.Run(name, func(t *testing.T) {
			requireNothing(t, givenRun(given...), start("activity"))
			require.Equal(t, []events.Event{events.PostSyncCompleted{
				Generation: Generation(theRun), Target: "activity", MessageID: "m", Result: "ok",
			}}, decide(t, givenRun(given...), complete))
		})
	}
	done := givenRun(once(completed("activity"))...)
	requireNothing(t, done, start("activity"))
	requireNothing(t, done, complete)
	requireNothing(t, done, FailPost{Run: theRun, Target: "activity", MessageID: "n", Sent: true})
}

// HP-3, REC-10: a failure is recorded once for each wakeup, however often a transport delivers its message.
func TestAFailureIsRecordedOncePerWakeup(t *testing.T) {
	fail := func(n int) FailPost {
		return FailPost{Run: theRun, Target: "activity", MessageID: TargetMessageID(theRun, n, "activity"), Sent: true, Category: events.HandlerFailed}
	}
	require.Equal(t, []events.Event{failed("activity", 1)}, decide(t, givenRun(once()...), fail(1)))
	after := givenRun(once(failed("activity", 1))...)
	requireNothing(t, after, fail(1))
	require.Equal(t, []events.Event{failed("activity", 2)}, decide(t, after, fail(2)))
	p, _ := givenRun(once(failed("activity", 1), failed("digest", 1), failed("activity", 2))...).Post("activity")
	require.Equal(t, 2, p.Failures)
	p, _ = givenRun(once(failed("activity", 1), completed("activity"))...).Post("activity")
	require.Equal(t, 1, p.Failures, "how often it failed stays on record")
}

// HP-1: an effect that nobody can have been asked for neither ends nor fails.
func TestAnUnexpectedEndIsRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		given  []happening
		target string
		sent   bool
	}{
		"no such run": {nil, "activity", true}, "run is open": {once()[:1], "activity", true},
		"never claimed": {once(), "activity", false}, "no target": {once(), "nobody", true},
	} {
		t.Run(name, func(t *testing.T) {
			r := givenRun(tt.given...)
			require.Empty(t, requireRefused(t, r, StartPost{Run: theRun, Target: tt.target, Sent: tt.sent}, ErrInvalid))
			require.Empty(t, requireRefused(t, r, CompletePost{Run: theRun, Target: tt.target, Sent: tt.sent}, ErrInvalid))
			require.Empty(t, requireRefused(t, r, FailPost{Run: theRun, Target: tt.target, Sent: tt.sent}, ErrInvalid))
		})
	}
}

// K-8, REC-10, O-8: which targets a wakeup goes to, and how far the effects of a run are.
func TestWhatIsLeftOfAPostSync(t *testing.T) {
	both := []string{"activity", "digest"}
	notOwed := once()
	notOwed[1].event = events.RunFinalized{Status: events.RunFailed, Counts: counts(1, 0, 1, 0)}
	for name, tt := range map[string]struct {
		given       []happening
		outstanding []string
		effects     Effects
	}{
		"at most once":              {endedRun(), both, EffectsNone},
		"at most once, taken":       {endedRun(started("activity"), completed("activity")), both, EffectsNone},
		"still open":                {once()[:1], both, EffectsNone},
		"none is owed":              {notOwed, both, EffectsNone},
		"nothing done":              {once(), both, EffectsOpen},
		"one done":                  {once(completed("activity")), both[1:], EffectsOpen},
		"one failed":                {once(failed("activity", 1)), both, EffectsOpen},
		"one held, one open":        {once(failed("activity", 1), failed("activity", 2)), both, EffectsOpen},
		"one held, one done":        {once(failed("activity", 1), failed("activity", 2), completed("digest")), both[:1], EffectsHeld},
		"both held":                 {once(failed("activity", 1), failed("digest", 1), failed("activity", 2), failed("digest", 2)), both, EffectsHeld},
		"both done":                 {once(completed("digest"), completed("activity")), nil, EffectsDone},
		"done after it was held":    {once(failed("activity", 1), failed("activity", 2), completed("digest"), completed("activity")), nil, EffectsDone},
		"cancelled, with a success": {and(once()[:1], at(0, events.RunCancelled{Actor: "ada", PostSyncOwed: true})), both, EffectsOpen},
	} {
		t.Run(name, func(t *testing.T) {
			r := givenRun(tt.given...)
			require.Equal(t, tt.outstanding, r.Outstanding())
			require.Equal(t, tt.effects, r.Effects())
		})
	}
	unbounded := once(failed("activity", 1), failed("activity", 2))
	p := unbounded[0].event.(events.RunPlanned)
	p.Policy.MaxDeliveries, p.Policy.Targets = 0, both[:1]
	unbounded[0].event = p
	require.Equal(t, EffectsOpen, givenRun(unbounded...).Effects(), "a run that names no bound is never held")
}

// O-8, REC-10: a wakeup finds nothing owed when every target is done; what is done or held is not armed again.
func TestEffectsThatAreOwed(t *testing.T) {
	for effects, want := range map[Effects]struct {
		drop events.DropReason
		owes bool
	}{
		EffectsNone: {"", true}, EffectsOpen: {"", true}, EffectsHeld: {"", false}, EffectsDone: {events.DropNothingOwed, false},
	} {
		o := Owing{RunTerminal: true, PostSync: true, Effects: effects}
		require.Equal(t, want.drop, o.Drop(events.KindPostSync), effects)
		require.Equal(t, want.owes, o.Owes(events.KindPostSync), effects)
	}
}

// REC-10, REC-12, N-3, SC-068: in exactly_once mode a post_sync register that wakes nobody is armed again: after
// post_sync.redrive_after, exactly, or at once when its message died with its process.
func TestALostEffectIsArmedAgain(t *testing.T) {
	now := t0.Add(hour)
	local, remote := published(1, tokenA), published(1, tokenA)
	remote.Transport = "nats"
	for name, tt := range map[string]struct {
		given []happening
		gone  bool
		want  bool
	}{
		"never armed":                  {given: nil, want: true},
		"sent long enough ago":         {given: and(claimedRegister(), at(hour-15*minute, remote)), want: true},
		"sent a moment later":          {given: and(claimedRegister(), at(hour-15*minute+micro, remote)), want: false},
		"its process is gone":          {given: and(claimedRegister(), at(hour-second, local)), gone: true, want: true},
		"its process lives":            {given: and(claimedRegister(), at(hour-second, local)), want: false},
		"a broker has it":              {given: and(claimedRegister(), at(hour-second, remote)), gone: true, want: false},
		"pending":                      {given: []happening{at(0, armed(1, 0))}, want: false},
		"claimed":                      {given: claimedRegister(), gone: true, want: false},
		"held by a release":            {given: and(claimedRegister(), at(0, released(1, tokenA, events.ReleaseRefused, 2*hour, false))), want: false},
		"parked":                       {given: and(claimedRegister(), at(0, released(1, tokenA, events.ReleaseRefused, 0, false)), at(0, events.OutboxParked{N: 1})), want: false},
		"redrive_after of other kinds": {given: and(claimedRegister(), at(hour-2*minute, remote)), want: false},
	} {
		t.Run(name, func(t *testing.T) {
			d := Redrive{
				Now: now, Countdown: minute, RedriveAfter: minute, PostRedrive: 15 * minute, Mode: events.ExactlyOnce, CloserGone: tt.gone,
			}
			r := givenRegister(events.KindPostSync, tt.given...)
			require.Equal(t, tt.want, d.Materialize(events.KindPostSync, r))
			d.Mode = events.AtMostOnce
			require.Equal(t, tt.given == nil, d.Materialize(events.KindPostSync, r), "at_most_once has one wakeup")
		})
	}
}

// K-3, K-8, HP-1: the number under which a message can have been published is that of the newest claim.
func TestTheNewestClaimIsKnown(t *testing.T) {
	for name, tt := range map[string]struct {
		given []happening
		want  int
	}{
		"armed": {[]happening{at(0, armed(1, 0))}, 0}, "claimed": {claimedRegister(), 1},
		"given back": {postRegister(events.OutboxReleased{N: 1, Token: tokenA, Cause: events.ReleaseShed, AvailableAt: t0}), 1},
		"closed":     {postRegister(published(1, tokenA)), 1}, "armed again": {postRegister(published(1, tokenA), armed(2, 0)), 1},
		"claimed again": {postRegister(published(1, tokenA), armed(2, 0), taken(2, 1, tokenB, second)), 2},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tt.want, givenRegister(events.KindPostSync, tt.given...).Claimed) })
	}
}
