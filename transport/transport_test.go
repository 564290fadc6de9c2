package transport_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/transport"
	"github.com/towline-dev/towline/transport/transporttest"
)

// publisher is a Watermill publisher that does as it is told, and keeps what it takes.
type publisher struct {
	mu    sync.Mutex
	does  func(context.Context) error // nil: it takes everything
	takes bool                        // also what it does not confirm
	kept  map[string][]*message.Message
}

func (p *publisher) Publish(topic string, messages ...*message.Message) error {
	for _, m := range messages {
		var err error
		if p.does != nil {
			err = p.does(m.Context())
		}
		if err == nil || p.takes {
			p.mu.Lock()
			if p.kept == nil {
				p.kept = map[string][]*message.Message{}
			}
			p.kept[topic] = append(p.kept[topic], m.Copy())
			p.mu.Unlock()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (*publisher) Close() error { return nil }

func (p *publisher) stored(topic string) []*message.Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.kept[topic]
}

var errBroker = errors.New("the broker says no")

// O-10, SC-028: any Watermill publisher becomes one of three outcomes, whatever can be relied on of it.
func TestWatermillPublishersKeepTheLaws(t *testing.T) {
	for name, traits := range map[string]transport.Traits{
		"nothing is known of it":         {},
		"it confirms":                    {NilMeansStored: true},
		"it honours its context":         {HonoursContext: true},
		"everything can be relied on":    {NilMeansStored: true, HonoursContext: true, ErrorMeansLost: true},
		"an error means lost, no more":   {ErrorMeansLost: true},
		"it confirms and takes only 1 k": {NilMeansStored: true, MaxBytes: 1000},
	} {
		t.Run(name, func(t *testing.T) {
			transporttest.Run(t, func(t *testing.T) transporttest.Bench {
				p := &publisher{}
				b := transporttest.Bench{Publisher: transport.FromWatermill("test", p, traits), Stored: p.stored}
				if traits.ErrorMeansLost {
					b.Refuse = func() { p.does = func(context.Context) error { return errBroker } }
				} else {
					b.Lose = func() { p.takes, p.does = true, func(context.Context) error { return errBroker } }
				}
				b.Stall = func() {
					stalled := make(chan struct{})
					t.Cleanup(func() { close(stalled) })
					p.does = func(ctx context.Context) error {
						if traits.HonoursContext {
							<-ctx.Done()
							return ctx.Err()
						}
						<-stalled
						return errBroker
					}
				}
				return b
			})
		})
	}
}

// O-10, SC-027, SC-028: what each trait makes of a nil error, of an error, of a panic and of a deadline. Unknown is
// never folded into another outcome.
func TestTraitsDecideTheOutcome(t *testing.T) {
	for _, c := range []struct {
		name   string
		traits transport.Traits
		does   func(context.Context) error
		want   events.Outcome
	}{
		{"nil proves nothing", transport.Traits{}, nil, events.Unknown},
		{"nil proves it", transport.Traits{NilMeansStored: true}, nil, events.Accepted},
		{"nil proves nothing in time either", transport.Traits{HonoursContext: true, ErrorMeansLost: true}, nil,
			events.Unknown},
		{"an error proves nothing", transport.Traits{NilMeansStored: true},
			func(context.Context) error { return errBroker }, events.Unknown},
		{"an error proves it", transport.Traits{ErrorMeansLost: true}, func(context.Context) error { return errBroker },
			events.Refused},
		{"a panic proves nothing", transport.Traits{NilMeansStored: true, ErrorMeansLost: true},
			func(context.Context) error { panic("out of order") }, events.Unknown},
		{"nor does one in the same goroutine", transport.Traits{HonoursContext: true, ErrorMeansLost: true},
			func(context.Context) error { panic("out of order") }, events.Unknown},
		{"an exit proves nothing", transport.Traits{NilMeansStored: true},
			func(context.Context) error { runtime.Goexit(); return nil }, events.Unknown},
		{"nor does one in the same goroutine", transport.Traits{HonoursContext: true, NilMeansStored: true},
			func(context.Context) error { runtime.Goexit(); return nil }, events.Unknown},
		{"a deadline proves nothing", transport.Traits{NilMeansStored: true, ErrorMeansLost: true},
			func(ctx context.Context) error { <-ctx.Done(); <-time.After(time.Hour); return nil }, events.Unknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				begun := time.Now()
				r := transport.FromWatermill("test", &publisher{does: c.does}, c.traits).Send(ctx, "topic",
					message.NewMessage("id", nil))
				require.Equal(t, c.want, r.Outcome)
				require.Equal(t, c.want == events.Accepted, r.Err == nil)
				require.LessOrEqual(t, time.Since(begun), 5*time.Second)
				require.False(t, r.Permanent || r.Uncounted)
				<-time.After(2 * time.Hour) // of the bubble: what was left behind comes to its end
			})
		})
	}
}

// O-10, O-12: an outcome that is there counts more than a deadline that has passed at the same moment. A post_sync whose
// accepted publish was called unknown would stay unresolved for ever.
func TestAnOutcomeAtTheDeadlineCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 50 { // of several cases that are ready, select takes any
			ctx := &lateContext{Context: t.Context()}
			f := transport.FromWatermill("test", &publisher{}, transport.Traits{NilMeansStored: true})
			require.Equal(t, events.Accepted, f.Send(ctx, "topic", message.NewMessage("id", nil)).Outcome)
			require.Error(t, ctx.Err())
		}
	})
}

// lateContext ends when somebody begins to wait for it, and not before every other goroutine of the bubble has come to
// rest: a publish has ended then.
type lateContext struct {
	context.Context
	ended chan struct{}
}

func (c *lateContext) Done() <-chan struct{} {
	synctest.Wait()
	if c.ended == nil {
		c.ended = make(chan struct{})
		close(c.ended)
	}
	return c.ended
}

func (c *lateContext) Err() error {
	if c.ended == nil {
		return nil
	}
	return context.DeadlineExceeded
}

// O-15, SC-030: a payload that is too large is refused for ever, before the broker sees it; one at the limit is not.
func TestATooLargePayloadIsRefusedForEver(t *testing.T) {
	p := &publisher{}
	f := transport.FromWatermill("test", p, transport.Traits{NilMeansStored: true, MaxBytes: 10})
	require.Equal(t, events.Accepted, f.Send(t.Context(), "topic", message.NewMessage("a", make([]byte, 10))).Outcome)
	r := f.Send(t.Context(), "topic", message.NewMessage("b", make([]byte, 11)))
	require.Equal(t, events.Refused, r.Outcome)
	require.True(t, r.Permanent)
	var tooLarge *transport.TooLargeError
	require.ErrorAs(t, r.Err, &tooLarge)
	require.Equal(t, transport.TooLargeError{Bytes: 11, Limit: 10}, *tooLarge)
	require.Contains(t, r.Err.Error(), "11 bytes")
	require.Len(t, p.stored("topic"), 1)
}

// O-10: whether a publisher can confirm at all is known before the first publish.
func TestWhoConfirms(t *testing.T) {
	require.True(t, transport.Confirms(transport.FromWatermill("test", &publisher{},
		transport.Traits{NilMeansStored: true})))
	require.False(t, transport.Confirms(transport.FromWatermill("test", &publisher{}, transport.Traits{})))
	require.True(t, transport.Confirms(scripted{}), "who says nothing confirms")
}

// scripted is a publisher of ours.
type scripted struct {
	receipt transport.Receipt
	panics  bool
}

func (scripted) Name() string { return "scripted" }
func (s scripted) Send(context.Context, string, *message.Message) transport.Receipt {
	if s.panics {
		panic("out of order")
	}
	return s.receipt
}

// O-10, WMILL-1: on the way through Watermill's forwarder the receipt travels in the context of the message, and every
// outcome but accepted is an error.
func TestTheReceiptTravelsInTheContext(t *testing.T) {
	for _, s := range []scripted{
		{receipt: transport.Accepted("stored at 7")},
		{receipt: transport.Refused(errBroker)},
		{receipt: transport.Unknown(errBroker)},
		{receipt: transport.NotBegun(errBroker)},
		{receipt: transport.Receipt{Outcome: events.Refused, Permanent: true, Err: errBroker}},
		{receipt: transport.Receipt{Outcome: events.Unknown}},
	} {
		var got transport.Receipt
		m := message.NewMessage("id", nil)
		m.SetContext(transport.WithReceipt(t.Context(), &got))
		err := transport.ToWatermill(s).Publish("topic", m)
		require.Equal(t, s.receipt, got)
		if s.receipt.Outcome == events.Accepted {
			require.NoError(t, err)
			continue
		}
		var outcome *transport.OutcomeError
		require.ErrorAs(t, err, &outcome)
		require.Equal(t, s.receipt, outcome.Receipt)
		require.Contains(t, err.Error(), "publish "+string(s.receipt.Outcome))
		if s.receipt.Err != nil {
			require.ErrorIs(t, err, errBroker)
		}
	}
	require.NoError(t, transport.ToWatermill(scripted{receipt: transport.Accepted("")}).Publish("topic",
		message.NewMessage("id", nil)), "without a slot it goes too")
	require.NoError(t, transport.ToWatermill(scripted{}).Close())
}

// O-10, O-19: a publisher that panics has an unknown outcome, and takes nobody with it.
func TestAPanicOfAPublisherIsUnknown(t *testing.T) {
	var got transport.Receipt
	m := message.NewMessage("id", nil)
	m.SetContext(transport.WithReceipt(t.Context(), &got))
	require.Error(t, transport.ToWatermill(scripted{panics: true}).Publish("topic", m))
	require.Equal(t, events.Unknown, got.Outcome)
	require.ErrorContains(t, got.Err, "out of order")
}

// O-10: so has one that says nothing.
func TestAPublisherThatSaysNothingIsUnknown(t *testing.T) {
	var got transport.Receipt
	m := message.NewMessage("id", nil)
	m.SetContext(transport.WithReceipt(t.Context(), &got))
	require.Error(t, transport.ToWatermill(scripted{}).Publish("topic", m))
	require.Equal(t, events.Unknown, got.Outcome)
	require.Error(t, got.Err)
}
