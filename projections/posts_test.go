package projections_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/store"
)

// aftermath is a store in which runs have ended, and a test writes what follows, in the name of a node.
type aftermath struct {
	*history
	t           *testing.T
	node        events.NodeID // who writes
	gone, alive events.NodeID
	versions    map[events.StreamID]events.Version
}

func newAftermath(t *testing.T) *aftermath {
	a := &aftermath{history: told(t, 17, 0), t: t, versions: map[events.StreamID]events.Version{}}
	a.gone = a.e.Node()
	a.close()
	a.open()
	a.alive = a.e.Node()
	a.node = a.alive
	return a
}

func (a *aftermath) appends(id events.StreamID, evs ...events.Event) {
	a.t.Helper()
	require.NoError(a.t, a.write(func(tx store.Tx) error {
		if _, err := tx.Append(id, a.versions[id], events.Meta{Node: a.node}, evs...); err != nil {
			return err
		}
		return projections.CatchUp(tx)
	}))
	a.versions[id] += events.Version(len(evs))
}

func (a *aftermath) ended(n byte, policy events.Policy) events.RunID {
	a.t.Helper()
	id := events.RunID{15: n}
	if policy.Targets == nil {
		policy.Targets = []string{"t"}
	}
	a.appends(events.RunStream(id),
		events.RunPlanned{Job: events.JobID{15: n}, Sync: "s", TotalUnits: 1, Policy: policy},
		events.RunFinalized{Status: events.RunSucceeded, Counts: events.Counts{Total: 1, Succeeded: 1}, PostSyncOwed: true})
	return id
}

func (a *aftermath) register(id events.RunID, evs ...events.Event) {
	a.t.Helper()
	a.appends(events.RegisterStream(id, events.KindPostSync), evs...)
}

// sent publishes wakeup n and marks it.
func (a *aftermath) sent(id events.RunID, n int, order events.Order, transport string) {
	a.t.Helper()
	a.register(id, events.OutboxArmed{N: n, AvailableAt: 1}, events.OutboxClaimed{N: n, Token: "t", ClaimExpiresAt: 2, Attempt: 1, MessageCount: 1},
		events.OutboxDispatched{N: n, Token: "t", Order: order, Transport: transport, MessageCount: 1})
}

// scanned are the runs that the scan finds, and those that its indexes hold.
func (a *aftermath) scanned(d decider.Redrive, want ...events.RunID) {
	a.t.Helper()
	a.view(func(v projections.View) {
		found, err := v.UnwokenPosts(d, events.RunID{}, 100)
		require.NoError(a.t, err)
		var got []events.RunID
		for _, u := range found {
			got = append(got, u.Run)
		}
		require.Equal(a.t, want, got)
	})
}

// indexed counts the rows of a partial index.
func (a *aftermath) indexed(name string) int64 {
	a.t.Helper()
	index := a.plain(`SELECT sql FROM sqlite_schema WHERE name = '` + name + `'`)[0]["sql"].(string)
	_, predicate, _ := strings.Cut(index, " WHERE ")
	return a.plain(`SELECT count(*) AS n FROM runs WHERE ` + predicate)[0]["n"].(int64)
}

// REC-4, REC-10: a run is scanned for its post_sync until that is armed, and no longer: where the messages are consumed
// by somebody else nobody records what became of them, and the index must not keep these runs for ever. That a post_sync
// was owed stays on record.
func TestAnArmedPostSyncLeavesTheScan(t *testing.T) {
	a := newAftermath(t)
	first, second := a.ended(1, events.Policy{PostSync: events.AtMostOnce}), a.ended(2, events.Policy{PostSync: events.ExactlyOnce, MaxDeliveries: 2})
	a.scanned(decider.Redrive{}, first, second)
	a.appends(events.RegisterStream(first, events.KindDispatch), events.OutboxArmed{N: 1, AvailableAt: 1})
	a.scanned(decider.Redrive{}, first, second)
	a.register(first, events.OutboxArmed{N: 1, AvailableAt: 1})
	a.scanned(decider.Redrive{}, second)
	a.register(second, events.OutboxArmed{N: 1, AvailableAt: 1})
	a.scanned(decider.Redrive{})
	require.Zero(t, a.indexed("runs_post"), "the index holds nobody else")
	require.Len(t, a.plain(`SELECT 1 FROM runs WHERE post_sync_owed = 1`), 2)
}

// REC-4, REC-10: behind the first arm a run is scanned only in exactly_once mode, while it is idle and something of it may
// be sent again: since redrive_after, exactly, or because its message died with its process. What is done or held has left
// that part of the index, however much of it there is.
func TestOpenEffectsAreScanned(t *testing.T) {
	a := newAftermath(t)
	exactly := events.Policy{PostSync: events.ExactlyOnce, Targets: []string{"a", "b"}, MaxDeliveries: 2}
	brought, local, once := a.ended(1, exactly), a.ended(2, exactly), a.ended(3, events.Policy{PostSync: events.AtMostOnce})
	a.sent(brought, 1, events.PublishFirst, "nats")
	a.sent(once, 1, events.MarkFirst, "nats")
	a.node = a.gone
	a.sent(local, 1, events.PublishFirst, events.TransportLocal)
	a.node = a.alive
	closed := a.plain(`SELECT last_closed_at AS at FROM outbox WHERE kind = 'post_sync' ORDER BY owner`)[0]["at"].(int64)
	at := func(after events.Span) decider.Redrive {
		return decider.Redrive{Now: events.Micros(closed).Add(after), PostRedrive: 900}
	}
	a.scanned(at(899), local) // nobody of this life has sent it
	a.scanned(at(900), brought, local)

	fail := func(target string, n int) {
		a.appends(events.RunStream(brought), events.PostSyncFailed{Target: target, MessageID: decider.TargetMessageID(brought, n, target)})
	}
	fail("a", 1)
	fail("a", 2)
	a.scanned(at(900), brought, local)
	fail("b", 1)
	fail("b", 2)
	a.scanned(at(900), local)
	a.view(func(v projections.View) {
		held, err := v.HeldEffects(events.RunID{}, 10)
		require.NoError(t, err)
		require.Len(t, held, 1)
		require.Equal(t, brought, held[0].Run)
		require.Equal(t, decider.EffectsHeld, held[0].PostSync.Effects)
		n, err := v.Held()
		require.NoError(t, err)
		require.Equal(t, 1, n)
	})
	require.EqualValues(t, 2, a.indexed("runs_effects"))

	done := func(id events.RunID, target string) {
		a.appends(events.RunStream(id), events.PostSyncCompleted{Target: target})
	}
	done(brought, "a")
	done(brought, "b")
	done(local, "a")
	a.scanned(at(900), local)
	a.register(local, events.OutboxArmed{N: 2, AvailableAt: 1})
	a.scanned(at(900))
	done(local, "b")
	require.Zero(t, a.indexed("runs_effects"), "what is done has left the index")
}

// HP-4, O-12, K-8, C-46: what is known of each target, in declared order: what became of its publish, and of its effect; and
// whether anything is still under way.
func TestWhatIsKnownOfATarget(t *testing.T) {
	a := newAftermath(t)
	targets := []string{"good", "bad", "lost", "silent", "begun", "asked", "queue"}
	most := a.ended(1, events.Policy{PostSync: events.AtMostOnce, Targets: targets, Sent: []string{"queue"}})
	state := func(id events.RunID) (s projections.PostSyncState, unconfirmed any) {
		a.view(func(v projections.View) {
			run, ok, err := v.Run(id)
			require.NoError(t, err)
			require.True(t, ok)
			s = run.PostSync
		})
		return s, a.plain(`SELECT unconfirmed FROM runs_view WHERE run_id = '` + id.String() + `'`)[0]["unconfirmed"]
	}
	s, unconfirmed := state(most)
	require.Len(t, s.Targets, len(targets))
	require.Equal(t, projections.PostTarget{Target: "good"}, s.Targets[0])
	require.Nil(t, unconfirmed, "nothing was sent")
	require.False(t, s.Over())

	a.register(most, events.OutboxArmed{N: 1, AvailableAt: 1}, events.OutboxClaimed{N: 1, Token: "t", ClaimExpiresAt: 2, Attempt: 1, MessageCount: 7},
		events.OutboxDispatched{N: 1, Token: "t", Order: events.MarkFirst, Transport: "nats", MessageCount: 7})
	_, unconfirmed = state(most)
	require.Equal(t, strings.Join(targets, ", "), unconfirmed)
	outcome := func(target string, o events.Outcome, cause string) events.Event {
		return events.OutboxOutcome{N: 1, Target: target, Outcome: o, Cause: cause}
	}
	a.register(most, outcome("good", events.Accepted, ""), outcome("bad", events.Accepted, ""), outcome("lost", events.Refused, "full"),
		outcome("silent", events.Accepted, ""), outcome("begun", events.Accepted, ""), outcome("asked", events.Unknown, "timeout"),
		outcome("queue", events.Accepted, ""), events.OutboxResolved{N: 1, Target: "asked", Outcome: events.ResolvedLost, Actor: "ada"})
	a.appends(events.RunStream(most), events.PostSyncStarted{Target: "good"}, events.PostSyncStarted{Target: "bad"}, events.PostSyncStarted{Target: "begun"},
		events.PostSyncCompleted{Target: "good", Result: "3 rows"}, events.PostSyncFailed{Target: "bad", Category: events.SinkError, Text: "locked"})
	s, unconfirmed = state(most)
	for i := range s.Targets {
		require.Equal(t, s.Targets[i].Effect != "", !s.Targets[i].At.IsZero())
		s.Targets[i].At = events.Micros(0).Time()
	}
	require.Equal(t, []projections.PostTarget{
		{Target: "good", Outcome: events.Accepted, Effect: decider.PostCompleted, Result: "3 rows"},
		{Target: "bad", Outcome: events.Accepted, Effect: decider.PostFailed, Category: events.SinkError, Text: "locked", Failures: 1},
		{Target: "lost", Outcome: events.Refused, Cause: "full", Unconfirmed: true},
		{Target: "silent", Outcome: events.Accepted, Unconfirmed: true},
		{Target: "begun", Outcome: events.Accepted, Effect: decider.PostStarted, Unconfirmed: true},
		{Target: "asked", Outcome: events.Unknown, Cause: "timeout", Resolved: events.ResolvedLost},
		{Target: "queue", Outcome: events.Accepted},
	}, s.Targets)
	require.Equal(t, "lost, silent, begun", unconfirmed, "the view and its SQL agree")
	require.False(t, s.Over(), "two of them have been accepted, and nobody knows more")
	a.appends(events.RunStream(most), events.PostSyncCompleted{Target: "begun"}, events.PostSyncCompleted{Target: "silent"})
	s, _ = state(most)
	require.True(t, s.Over())

	exactly := a.ended(2, events.Policy{PostSync: events.ExactlyOnce, Targets: []string{"a", "b"}, MaxDeliveries: 2})
	a.sent(exactly, 1, events.PublishFirst, "nats")
	s, unconfirmed = state(exactly)
	require.Equal(t, "a, b", unconfirmed)
	require.False(t, s.Over())
	a.appends(events.RunStream(exactly), events.PostSyncCompleted{Target: "a"}, events.PostSyncFailed{Target: "b", MessageID: "1"})
	s, unconfirmed = state(exactly)
	require.Nil(t, unconfirmed)
	require.False(t, s.Over(), "it is sent again")
	require.Equal(t, decider.EffectsOpen, s.Effects)
	a.appends(events.RunStream(exactly), events.PostSyncFailed{Target: "b", MessageID: "2", Text: "again"})
	s, _ = state(exactly)
	require.True(t, s.Targets[1].Held)
	require.Equal(t, 2, s.Targets[1].Failures)
	require.Equal(t, "again", s.Targets[1].Text)
	require.True(t, s.Over())
	require.Equal(t, decider.EffectsHeld, s.Effects)
	a.appends(events.RunStream(exactly), events.PostSyncCompleted{Target: "b"})
	s, _ = state(exactly)
	require.Equal(t, decider.EffectsDone, s.Effects)
	require.False(t, s.Targets[1].Held)
	require.Equal(t, 2, s.Targets[1].Failures, "how often it failed stays on record")

	none := events.RunID{15: 3}
	a.appends(events.RunStream(none), events.RunPlanned{Job: events.JobID{15: 3}, Sync: "s", Policy: events.Policy{Targets: []string{"t"}}},
		events.RunFinalized{Status: events.RunFailed})
	s, _ = state(none)
	require.Empty(t, s.Targets)
	require.True(t, s.Over(), "a run that owes none is over")
}

// D-22, HP-4: in the readable view the posts of a run have their times as text, like every other column, and are else what
// the program knows. A run without any has none.
func TestThePostsOfTheReadableViewHaveTimesAsText(t *testing.T) {
	a := newAftermath(t)
	id, silent := a.ended(1, events.Policy{Targets: []string{"b", "a"}}), a.ended(2, events.Policy{})
	a.sent(id, 1, events.MarkFirst, "local")
	for _, target := range []string{"b", "a"} {
		a.appends(events.RunStream(id), events.PostSyncStarted{Target: target, MessageID: "m"})
	}
	a.appends(events.RunStream(id), events.PostSyncFailed{Target: "b", MessageID: "m", Category: events.HandlerFailed, Text: `no "b"`})
	a.view(func(v projections.View) {
		run, ok, err := v.Run(id)
		require.NoError(t, err)
		require.True(t, ok)
		var got []struct {
			decider.Post
			At string `json:"at"`
		}
		require.NoError(t, json.Unmarshal([]byte(a.plain(`SELECT posts FROM runs_view WHERE run_id = $1`, id.String())[0]["posts"].(string)), &got))
		require.Len(t, got, 2)
		for i, post := range run.PostSync.Posts {
			require.NotZero(t, post.At)
			require.Equal(t, post.At.String(), got[i].At)
			post.At = 0
			require.Equal(t, post, got[i].Post)
		}
	})
	require.Nil(t, a.plain(`SELECT posts FROM runs_view WHERE run_id = $1`, silent.String())[0]["posts"])
}
