package decider

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

// O-S1 to O-S9: every transition of section 6.3, as the fold has it. Each line is given, one event, and what stands then.
func TestTheRegisterFollowsItsTable(t *testing.T) {
	waiting := and(claimedRegister(), at(second, armed(2, hour)))
	maybe := and(claimedRegister(), at(second, released(1, tokenA, events.ReleasePublishUnknown, second, true)))
	refused := and(claimedRegister(), at(second, released(1, tokenA, events.ReleaseRefused, second, false)))
	parked := and(refused, at(second, events.OutboxParked{N: 1, Cause: events.ParkAttempts, Attempts: 1}))
	idle := and(claimedRegister(), at(second, published(1, tokenA)))
	type stands struct {
		status          RegisterStatus
		current, closed int
		at              events.Micros
		attempts, next  int
	}
	for name, tt := range map[string]struct {
		given []happening
		event events.Event
		want  stands
	}{
		"first arm":                     {nil, armed(1, second), stands{RegisterPending, 1, 0, t0.Add(second), 0, 0}},
		"O-S1 idle is armed":            {idle, armed(2, hour), stands{RegisterPending, 2, 1, t0.Add(hour), 0, 0}},
		"O-S2 pending moves earlier":    {[]happening{at(0, armed(1, hour))}, armed(1, second), stands{RegisterPending, 1, 0, t0.Add(second), 0, 0}},
		"O-S3 claimed, one waits":       {claimedRegister(), armed(2, hour), stands{RegisterClaimed, 1, 0, 0, 1, 2}},
		"O-S3 maybe out, one waits":     {maybe, armed(2, hour), stands{RegisterPending, 1, 0, t0.Add(6 * second), 1, 2}},
		"O-S3 the waiting one is moved": {waiting, armed(2, minute), stands{RegisterClaimed, 1, 0, 0, 1, 2}},
		"O-S4 claim":                    {[]happening{at(0, armed(1, 0))}, taken(1, 1, tokenA, 0), stands{RegisterClaimed, 1, 0, 0, 1, 0}},
		"O-S4 second claim":             {refused, taken(1, 2, tokenB, minute), stands{RegisterClaimed, 1, 0, 0, 2, 0}},
		"O-S5 mark, nothing waits":      {claimedRegister(), published(1, tokenA), stands{RegisterIdle, 1, 1, 0, 0, 0}},
		"O-S5 mark, the next is open":   {waiting, published(1, tokenA), stands{RegisterPending, 2, 1, t0.Add(hour), 0, 0}},
		"O-S5 drop, nothing waits":      {claimedRegister(), events.OutboxDropped{N: 1, Token: tokenA}, stands{RegisterIdle, 1, 1, 0, 0, 0}},
		"O-S5 drop, the next is open":   {waiting, events.OutboxDropped{N: 1, Token: tokenA}, stands{RegisterPending, 2, 1, t0.Add(hour), 0, 0}},
		"O-S6 release":                  {claimedRegister(), released(1, tokenA, events.ReleaseRefused, second, false), stands{RegisterPending, 1, 0, t0.Add(6 * second), 1, 0}},
		"O-S6 release, one waits on":    {waiting, released(1, tokenA, events.ReleaseRefused, second, false), stands{RegisterPending, 1, 0, t0.Add(6 * second), 1, 2}},
		"O-S6 uncounted release":        {claimedRegister(), events.OutboxReleased{N: 1, Token: tokenA, Cause: events.ReleaseShed, AvailableAt: t0.Add(second)}, stands{RegisterPending, 1, 0, t0.Add(second), 0, 0}},
		"O-S7 park":                     {refused, events.OutboxParked{N: 1, Cause: events.ParkAttempts, Attempts: 1}, stands{RegisterParked, 1, 0, 0, 1, 0}},
		"O-S7 park, the next is open": {
			and(waiting, at(second, released(1, tokenA, events.ReleaseRefused, second, false))),
			events.OutboxParked{N: 1, Cause: events.ParkAttempts, Attempts: 1}, stands{RegisterPending, 2, 0, t0.Add(hour), 0, 0},
		},
		"O-S8 parked is armed":  {parked, armed(2, minute), stands{RegisterPending, 2, 0, t0.Add(minute), 0, 0}},
		"O-S5a mark_first mark": {claimedRegister(), marked(1, tokenA, 1), stands{RegisterMarked, 1, 1, 0, 1, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			r := givenRegister(events.KindDispatch, and(tt.given, at(minute, tt.event))...)
			require.Equal(t, tt.want, stands{r.Status, r.Current, r.Closed, r.AvailableAt, r.Attempts, r.Next})
			require.Equal(t, r.Status == RegisterClaimed || r.Status == RegisterMarked, r.Claim != Claim{})
			require.Equal(t, [16]byte(theRun), r.Owner)
			require.Equal(t, events.KindDispatch, r.Kind)
		})
	}
}

// outcome is what is known of the publish to a target.
func outcome(target string, o events.Outcome) events.OutboxOutcome {
	return events.OutboxOutcome{N: 1, Target: target, Outcome: o}
}

// O-S5a, O-S9, O-S10, K-8: a marked wakeup waits for every target; one unknown makes it unresolved, until each is resolved.
func TestAMarkedWakeupEndsWithItsLastOutcome(t *testing.T) {
	resolved := func(target string) events.OutboxResolved {
		return events.OutboxResolved{N: 1, Target: target, Outcome: events.ResolvedLost, Actor: "ada", Reason: "asked"}
	}
	hs := and(claimedRegister(), at(second, marked(1, tokenA, 2)))
	status := func(more ...events.Event) RegisterStatus {
		r := givenRegister(events.KindPostSync, and(hs, then(2*second, more)...)...)
		require.Equal(t, r.Status == RegisterMarked, r.Claim != Claim{}, "the claim lasts as long as outcomes are due")
		return r.Status
	}
	require.Equal(t, RegisterMarked, status())
	require.Equal(t, RegisterMarked, status(outcome("a", events.Accepted)))
	require.Equal(t, RegisterIdle, status(outcome("a", events.Accepted), outcome("b", events.Accepted)))
	require.Equal(t, RegisterIdle, status(outcome("a", events.Accepted), outcome("b", events.Refused)), "refused is lost, not unknown")
	require.Equal(t, RegisterMarked, status(outcome("a", events.Unknown)))
	require.Equal(t, RegisterUnresolved, status(outcome("a", events.Unknown), outcome("b", events.Accepted)))
	require.Equal(t, RegisterUnresolved, status(outcome("a", events.Unknown), outcome("b", events.Unknown), resolved("a")))
	require.Equal(t, RegisterIdle, status(outcome("a", events.Unknown), outcome("b", events.Unknown), resolved("a"), resolved("b")))

	r := givenRegister(events.KindPostSync, and(hs, at(2*second, outcome("a", events.Accepted)))...)
	require.Equal(t, Claim{Token: tokenA, ExpiresAt: t0.Add(minute), Node: nodeA, Messages: 1}, r.Claim, "REC-13 looks at its time and node")
	_, known := r.Outcome("b")
	require.False(t, known)
	got, known := r.Outcome("a")
	require.True(t, known)
	require.Equal(t, TargetOutcome{Target: "a", Outcome: events.Accepted}, got)
}

// O-S3: a wish moves the waiting number, and leaves the current one as it is.
func TestTheWaitingNumberHasATimeOfItsOwn(t *testing.T) {
	hs := and(claimedRegister(), at(second, armed(2, hour)))
	require.Equal(t, t0.Add(hour), givenRegister(events.KindUnit, hs...).NextAt)
	hs = and(hs, at(second, armed(2, minute)))
	require.Equal(t, t0.Add(minute), givenRegister(events.KindUnit, hs...).NextAt)
	hs = and(hs, at(2*second, published(1, tokenA)))
	r := givenRegister(events.KindUnit, hs...)
	require.Equal(t, []any{t0.Add(minute), 0, events.Micros(0)}, []any{r.AvailableAt, r.Next, r.NextAt})
}

// O-11, O-15, O-8: the last cause is that of the last end, and is gone with a publish.
func TestTheLastCauseIsThatOfTheLastEnd(t *testing.T) {
	refused := released(1, tokenA, events.ReleaseRefused, second, false)
	refused.Text = "no route"
	hs := and(claimedRegister(), at(second, refused))
	last := func(more ...events.Event) []string {
		r := givenRegister(events.KindUnit, and(hs, then(minute, more)...)...)
		return []string{r.LastCause, r.LastText}
	}
	again := taken(1, 2, tokenB, minute)
	require.Equal(t, []string{"refused", "no route"}, last())
	require.Equal(t, []string{"refused", "no route"}, last(again))
	require.Equal(t, []string{"", ""}, last(again, published(1, tokenB)))
	require.Equal(t, []string{"unit_gone", ""}, last(again, events.OutboxDropped{N: 1, Token: tokenB, Reason: events.DropUnitGone}))
	require.Equal(t, []string{"permanent", "too large"}, last(events.OutboxParked{N: 1, Cause: events.ParkPermanent, Text: "too large"}))
	parked := givenRegister(events.KindUnit, and(hs, at(minute, events.OutboxParked{N: 1}))...)
	require.False(t, parked.Floor)

	lost := outcome("", events.Unknown)
	lost.Cause = events.OutcomeRelayDied
	r := givenRegister(events.KindPostSync, and(hs, then(minute, []events.Event{again, marked(1, tokenB, 1), lost})...)...)
	require.Equal(t, "relay_died", r.LastCause)
}

// O-S5a: a mark without targets calls for one outcome.
func TestAMarkWithoutTargetsCallsForOneOutcome(t *testing.T) {
	r := givenRegister(events.KindPostSync, and(claimedRegister(), at(second, marked(1, tokenA, 0)))...)
	require.Equal(t, 1, r.Targets)
	r = givenRegister(events.KindPostSync, and(claimedRegister(), at(second, marked(1, tokenA, 0)), at(second, outcome("", events.Accepted)))...)
	require.Equal(t, RegisterIdle, r.Status)
}

// O-6: that a broker may know n stays true until n closes, whatever comes between; the next number starts clean.
func TestWhatABrokerMayKnowItMayKnowUntilTheClose(t *testing.T) {
	hs := and(claimedRegister(), at(second, released(1, tokenA, events.ReleasePublishUnknown, second, true)))
	require.True(t, givenRegister(events.KindUnit, hs...).MaybePublished)
	hs = and(hs, at(minute, taken(1, 2, tokenB, minute)))
	require.True(t, givenRegister(events.KindUnit, hs...).MaybePublished)
	hs = and(hs, at(minute, released(1, tokenB, events.ReleaseRefused, minute, false)))
	require.True(t, givenRegister(events.KindUnit, hs...).MaybePublished)
	hs = and(hs, at(hour, taken(1, 3, tokenA, hour)), at(hour, armed(2, hour)), at(hour, published(1, tokenA)))
	r := givenRegister(events.KindUnit, hs...)
	require.False(t, r.MaybePublished)
	require.Zero(t, r.Attempts, "O-2: attempts start at 0 with each number")
	require.Equal(t, 2, r.Current)
}

// O-4: a counted release is a floor until the next claim; an uncounted one and an arm are none.
func TestOnlyABackoffIsAFloor(t *testing.T) {
	hs := and(claimedRegister(), at(second, released(1, tokenA, events.ReleaseRefused, second, false)))
	require.True(t, givenRegister(events.KindUnit, hs...).Floor)
	require.False(t, givenRegister(events.KindUnit, and(hs, at(minute, taken(1, 2, tokenA, minute)))...).Floor)
	shed := events.OutboxReleased{N: 1, Token: tokenA, Cause: events.ReleaseShed, AvailableAt: t0.Add(second)}
	require.False(t, givenRegister(events.KindUnit, and(claimedRegister(), at(second, shed))...).Floor)
	require.False(t, givenRegister(events.KindUnit, at(0, armed(1, hour))).Floor)
}

// K-1: a parked number is closed with the next one that closes.
func TestAParkedNumberClosesWithTheNext(t *testing.T) {
	hs := and(claimedRegister(),
		at(second, released(1, tokenA, events.ReleaseRefused, second, false)), at(second, events.OutboxParked{N: 1, Cause: events.ParkPermanent}),
		at(minute, armed(2, minute)), at(minute, taken(2, 1, tokenB, minute)))
	require.Zero(t, givenRegister(events.KindUnit, hs...).Closed)
	require.Equal(t, 2, givenRegister(events.KindUnit, and(hs, at(minute, published(2, tokenB)))...).Closed)
}

// K-1: which number an arm would leave open, in every state of the register; OpenAt is its time, if it has one yet.
func TestAnnounceIsTheNumberThatAnArmWouldLeaveOpen(t *testing.T) {
	shed := events.OutboxReleased{N: 1, Token: tokenA, Cause: events.ReleaseShed, AvailableAt: t0.Add(second)}
	unknown := released(1, tokenA, events.ReleasePublishUnknown, second, true)
	parked := events.OutboxParked{N: 1, Cause: events.ParkAttempts, Attempts: 1}
	for name, tt := range map[string]struct {
		given  []happening
		n      int
		openAt events.Micros // 0: not open yet
	}{
		"never armed":                        {nil, 1, 0},
		"pending":                            {[]happening{at(0, armed(1, hour))}, 1, t0.Add(hour)},
		"claimed":                            {claimedRegister(), 2, 0},
		"claimed, one waits":                 {and(claimedRegister(), at(second, armed(2, hour))), 2, t0.Add(hour)},
		"released, surely not published":     {and(claimedRegister(), at(second, shed)), 1, t0.Add(second)},
		"released, one waits, surely not":    {and(claimedRegister(), at(second, armed(2, hour)), at(second, shed)), 1, t0.Add(second)},
		"released, perhaps published":        {and(claimedRegister(), at(second, unknown)), 2, 0},
		"perhaps published, one waits":       {and(claimedRegister(), at(second, unknown), at(second, armed(2, hour))), 2, t0.Add(hour)},
		"idle":                               {and(claimedRegister(), at(second, published(1, tokenA))), 2, 0},
		"parked":                             {and(claimedRegister(), at(second, unknown), at(second, parked)), 2, 0},
		"pending behind a parked number":     {and(claimedRegister(), at(second, unknown), at(second, parked), at(second, armed(2, hour))), 2, t0.Add(hour)},
		"claimed behind a parked number":     {and(claimedRegister(), at(second, unknown), at(second, parked), at(second, armed(2, 0)), at(second, taken(2, 1, tokenB, 0))), 3, 0},
		"pending again behind a closed mark": {and(claimedRegister(), at(second, armed(2, hour)), at(second, published(1, tokenA))), 2, t0.Add(hour)},
	} {
		t.Run(name, func(t *testing.T) {
			r := givenRegister(events.KindUnit, tt.given...)
			require.Equal(t, tt.n, r.Announce())
			openAt, open := r.OpenAt()
			require.Equal(t, tt.openAt != 0, open)
			require.Equal(t, tt.openAt, openAt)

			// The units that a dispatch has just announced travel with the arm that follows, whatever it appends.
			got := decide(t, r, ArmWakeup{Owner: theRun, Kind: events.KindUnit, At: t0.Add(second), Cause: events.ArmDispatched})
			for _, e := range got {
				require.Equal(t, tt.n, e.(events.OutboxArmed).N)
			}
			after := givenRegister(events.KindUnit, and(tt.given, then(second, got)...)...)
			require.Equal(t, tt.n, after.Announce(), "the number stays the open one")
			_, open = after.OpenAt()
			require.True(t, open)
		})
	}
}

// CLK-1, O-14: a claim is live strictly before its end, and without an end never.
func TestAClaimIsLiveUntilItsEnd(t *testing.T) {
	r := givenRegister(events.KindUnit, claimedRegister()...)
	require.True(t, r.ClaimLive(t0.Add(minute-micro)))
	require.False(t, r.ClaimLive(t0.Add(minute)))
	require.False(t, givenRegister(events.KindUnit, at(0, armed(1, 0))).ClaimLive(t0))

	endless := events.OutboxClaimed{N: 1, Token: tokenA, Attempt: 1}
	require.False(t, givenRegister(events.KindUnit, at(0, armed(1, 0)), at(0, endless)).ClaimLive(t0))
	require.False(t, givenRegister(events.KindPostSync, and(claimedRegister(), at(0, marked(1, tokenA, 1)))...).ClaimLive(t0))
}

// closes is one wakeup armed, claimed and closed in-process by a node.
func closes(n int, node events.NodeID, transport string) []happening {
	mark := published(n, tokenA)
	mark.Transport = transport
	return []happening{at(0, armed(n, 0)).by(node), at(0, taken(n, 1, tokenA, 0)).by(node), at(0, mark).by(node)}
}

// drops is one wakeup closed without a publish.
func drops(n int, node events.NodeID) []happening {
	return and(closes(n, node, "")[:2], at(0, events.OutboxDropped{N: n, Token: tokenA}).by(node))
}

// N-3, N-4: a message of the in-process transport is gone with the incarnation that published it. The register knows it of
// its newest close; which units' messages are gone is the units' own to say.
func TestInProcessMessagesDieWithTheirIncarnation(t *testing.T) {
	local := events.TransportLocal
	join := func(parts ...[]happening) (all []happening) {
		for _, p := range parts {
			all = append(all, p...)
		}
		return all
	}
	for name, tt := range map[string]struct {
		given []happening
		lost  bool // when the newest closer is gone
	}{
		"never armed":                   {},
		"armed only":                    {given: []happening{at(0, armed(1, 0))}},
		"claimed only":                  {given: claimedRegister()},
		"one close":                     {given: closes(1, nodeA, local), lost: true},
		"one close, broker":             {given: closes(1, nodeA, "nats")},
		"two closes of one node":        {given: join(closes(1, nodeA, local), closes(2, nodeA, local)), lost: true},
		"the second by another node":    {given: join(closes(1, nodeA, local), closes(2, nodeB, local)), lost: true},
		"the second by a broker":        {given: join(closes(1, nodeA, local), closes(2, nodeB, "nats"))},
		"dropped by another node":       {given: join(closes(1, nodeA, local), drops(2, nodeB))},
		"dropped by the same node":      {given: join(closes(1, nodeA, local), drops(2, nodeA)), lost: true},
		"broker first, then in-process": {given: join(closes(1, nodeA, "nats"), closes(2, nodeB, local)), lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := givenRegister(events.KindUnit, tt.given...)
			require.False(t, r.ClosedInProcess(false), "its closer is alive")
			require.Equal(t, tt.lost, r.ClosedInProcess(true))
		})
	}
}
