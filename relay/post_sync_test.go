package relay_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/transport"
)

// O-12, 8.1, I-14, SC-050, SC-057, C-20: a post_sync is marked, committed, and then published once; its outcome comes
// last. Ten more passes, on two relays, send nothing.
func TestAPostSyncIsMarkedBeforeItIsPublished(t *testing.T) {
	x := openOffice(t, options{targets: []string{"mail", "index"}})
	run := x.ended()
	before := x.head()
	x.broker.script = func(sent) transport.Receipt {
		require.Equal(t, []string{"OutboxClaimed", "OutboxDispatched"}, enginetest.Types(x.since(before)),
			"the mark is committed before the first publish")
		return transport.Accepted("")
	}
	r := x.step()
	require.Equal(t, 1, r.Dispatched)
	log := x.since(before)
	require.Equal(t, []string{"OutboxClaimed", "OutboxDispatched", "OutboxOutcome", "OutboxOutcome"}, enginetest.Types(log))
	require.Equal(t, events.MarkFirst, log[1].Event.(events.OutboxDispatched).Order)
	require.Equal(t, []string{run.String() + ".post_sync.1.mail", run.String() + ".post_sync.1.index"},
		idsOf(x.broker.take()), "K-8: in declared order")
	x.requireStatus(decider.RegisterIdle, run, events.KindPostSync)
	other := x.newRelay(x.broker)
	x.unchanged(func() {
		for range 10 {
			x.clock.Step(time.Hour)
			x.pass()
			require.NoError(t, other.Pass(context.Background()).Err())
		}
	})
	require.Empty(t, x.broker.take())
}

// O-12, K-8, C-22, SC-051, SC-053: whatever becomes of the publish, it is on record per target and never sent again.
func TestAPostSyncIsNeverSentAgain(t *testing.T) {
	for _, c := range []struct {
		name    string
		receipt transport.Receipt
		status  decider.RegisterStatus
		outcome events.Outcome
		cause   string
	}{
		{"refused", transport.Refused(errBroker), decider.RegisterIdle, events.Refused, "the broker says no: password=***"},
		{"permanent", transport.Receipt{Outcome: events.Refused, Permanent: true, Err: errBroker}, decider.RegisterIdle,
			events.Refused, "the broker says no: password=***"},
		{"full", transport.NotBegun(errors.New("full")), decider.RegisterIdle, events.Refused, "full"},
		{"unknown", transport.Unknown(context.DeadlineExceeded), decider.RegisterUnresolved, events.Unknown,
			"context deadline exceeded"},
		{"no receipt", transport.Receipt{}, decider.RegisterUnresolved, events.Unknown, "the publisher gave no receipt"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := openOffice(t, options{targets: []string{"good", "bad"}})
			run := x.ended()
			x.broker.script = func(s sent) transport.Receipt {
				if s.notice.Target == "bad" {
					return c.receipt
				}
				return transport.Accepted("")
			}
			report := x.step()
			said := map[events.Outcome]string{
				events.Refused: "; it is lost, and is not sent again",
				events.Unknown: "; it may be lost, and is not sent again: look whether it arrived, and say so with Resolve",
			}
			require.ErrorContains(t, report.Refusal, c.cause+said[c.outcome], "what the log says (O-12, O-17)")
			reg := x.requireStatus(c.status, run, events.KindPostSync)
			require.Equal(t, []decider.TargetOutcome{{Target: "good", Outcome: events.Accepted}, {Target: "bad",
				Outcome: c.outcome, Cause: c.cause}}, reg.Outcomes)
			x.broker.take()
			x.broker.script = nil
			held := 0
			x.unchanged(func() {
				for range 10 {
					x.clock.Step(time.Hour)
					held = x.pass().Held
				}
			})
			require.Empty(t, x.broker.take())
			require.Equal(t, c.status == decider.RegisterUnresolved, held == 1)
		})
	}
}

// O-12, O-20: past half of the claim no publish of a marked wakeup begins: what is left is refused as not sent, and
// what was sent keeps its outcome.
func TestAMarkedPublishThatIsTooLateIsNotSent(t *testing.T) {
	x := openOffice(t, options{targets: []string{"first", "second", "third"}})
	run := x.ended()
	x.broker.script = func(sent) transport.Receipt {
		x.clock.Step(30 * time.Second)
		return transport.Accepted("")
	}
	x.step()
	require.Len(t, x.broker.take(), 1)
	reg := x.requireStatus(decider.RegisterIdle, run, events.KindPostSync)
	require.Equal(t, []decider.TargetOutcome{
		{Target: "first", Outcome: events.Accepted}, {Target: "second", Outcome: events.Refused,
			Cause: events.OutcomeNotSent},
		{Target: "third", Outcome: events.Refused, Cause: events.OutcomeNotSent},
	}, reg.Outcomes)
}

// O-12, REC-13, REC-17, C-23: a relay that comes back after its mark was given up finds the outcome on record as
// unknown; its own word is counted, and changes nothing.
func TestALateOutcomeIsCounted(t *testing.T) {
	x := newOffice(t)
	run := x.ended()
	other := x.newRelay(x.broker)
	x.broker.script = func(sent) transport.Receipt {
		x.clock.Step(time.Minute)
		r := other.Step(context.Background())
		require.NoError(t, r.Err())
		require.Equal(t, 1, r.Unknown)
		require.Zero(t, r.Released)
		return transport.Accepted("")
	}
	x.step()
	reg := x.requireStatus(decider.RegisterUnresolved, run, events.KindPostSync)
	require.Equal(t, []decider.TargetOutcome{{Target: "index", Outcome: events.Unknown,
		Cause: events.OutcomeRelayDied}}, reg.Outcomes)
	require.EqualValues(t, 1, x.e.Tally().LateOutcomes)
	require.Len(t, x.broker.take(), 1)
}

// C-21, O-12, SC-056: a post_sync that was claimed and not marked was surely not published: it is claimed again and
// sent once, beyond any number of attempts.
func TestAnUnmarkedPostSyncIsClaimedAgain(t *testing.T) {
	x := openOffice(t, options{knobs: towline.Knobs{MaxAttempts: 1}})
	run := x.ended()
	for range 3 {
		require.NoError(t, x.e.Transact(context.Background(), "", func(tx *towline.Tx) error {
			results, err := tx.Execute(decider.ClaimWakeup{
				Owner: run, Kind: events.KindPostSync, Mode: events.AtMostOnce, At: tx.Now(), Token: tx.NewToken(),
				ExpiresAt: tx.Now().Add(events.SpanOf(time.Minute)), Messages: 1, MaxAttempts: 1,
			})
			require.Len(t, results[0].Events, 1)
			return err
		}))
		x.crash()
	}
	x.step()
	require.Len(t, x.broker.take(), 1)
	x.requireStatus(decider.RegisterIdle, run, events.KindPostSync)
	require.Equal(t, 4, enginetest.Only[events.OutboxClaimed](x.since(0))[len(enginetest.Only[events.OutboxClaimed](x.since(0)))-1].Attempt)
}
