package sqlite

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/feed"
	"github.com/towline-dev/towline/store"
)

// follower is one subscription: where it is in the log, and when it looks for more. Its subscriber uses it in one goroutine.
//
//	waiting for the group ──lock──► reading ◄──page──► waiting for an event
type follower struct {
	store   *Store
	group   string
	options feed.Options
	ctx     context.Context // of the subscription
	await   func()          // for its end
	names   *feedNames      // nil, or without a store: no incarnation was there until now

	lock     *lock           // nil: another consumer has the group
	place    events.Position // all up to it is acknowledged, or was passed by
	until    events.Position // the page that is being read ends there
	booked   events.Position // the place on disk
	bookedAt time.Time
	last     wsql.Row // that is delivered
	told     bool     // that another consumer has the group

	delivered atomic.Pointer[message.Message] // of last, the newest: what comes again is another one; nil: none yet
}

// follow has the group when it returns, if no other consumer has it: from then on nobody can remove it.
func (s *Store) follow(ctx context.Context, group string, o feed.Options) (*follower, error) {
	f := &follower{store: s, group: group, options: o, ctx: ctx}
	_, err := f.enter(ctx)
	return f, err
}

// ready returns when this consumer has the group and an event lies behind its place.
func (f *follower) ready(ctx context.Context) error {
	for {
		bell := f.bell()
		heard := bell.listen() // before the look: what comes between the two must be heard
		ok, err := f.look(ctx)
		if ok || err != nil {
			return err
		}
		if bell != f.bell() {
			continue // it has just got the group, and did not listen for events yet
		}
		again := time.NewTimer(f.options.Poll)
		select {
		case <-heard:
		case <-again.C:
		case <-ctx.Done():
		}
		again.Stop()
		if ctx.Err() != nil {
			return cause(ctx)
		}
	}
}

// bell is what this consumer waits for. One that waits for its group does not hear each commit.
func (f *follower) bell() *bell {
	if f.lock == nil {
		return &f.store.left
	}
	return &f.store.committed
}

func (f *follower) look(ctx context.Context) (bool, error) {
	if f.lock == nil {
		if ok, err := f.enter(ctx); !ok || err != nil {
			return false, err
		}
	}
	head, err := f.store.head(ctx)
	if err != nil {
		return false, err
	}
	if head <= f.place {
		return false, f.bookPassedBy(ctx)
	}
	if f.names == nil || f.names.store == "" {
		if f.names, err = f.store.feedNames(ctx); err != nil {
			return false, err
		}
	}
	look := events.Position(feedLook)
	if f.options.Types == nil { // positions are dense: all that one page can take lies there
		look = feedPage
	}
	f.until = min(head, f.place+look)
	return true, nil
}

// enter takes the group, if nobody has it. The row is read again behind the lock, for the group may have moved, or have
// been removed and made anew.
func (f *follower) enter(ctx context.Context) (bool, error) {
	g, err := f.store.makeGroup(ctx, f.group, f.options.FromEnd)
	if err != nil {
		return false, err
	}
	l, err := f.store.lockGroup(g)
	if errors.Is(err, feed.ErrGroupInUse) {
		if !f.told {
			f.told = true
			f.options.Logger.Info("the group has another consumer; this one waits for its end")
		}
		return false, nil
	}
	if err != nil {
		return false, err
	}
	now, err := f.store.readGroup(ctx, f.group)
	if err != nil || now.id == 0 || now.id != g.id {
		return false, errors.Join(err, l.release())
	}
	f.lock, f.place, f.booked, f.bookedAt = l, now.position, now.position, time.Now()
	return true, nil
}

// leave lets the next consumer have the group. The subscriber may have seen the end of the subscription before it saw an
// acknowledgement that came first; that counts all the same.
func (f *follower) leave() {
	if f.lock == nil {
		return
	}
	if m := f.delivered.Load(); m != nil {
		select {
		case <-m.Acked():
			f.place = max(f.place, events.Position(f.last.Offset))
		default:
		}
	}
	if f.owesBook(0) {
		if err := f.book(f.ctx, f.placeQuery()); err != nil {
			f.options.Logger.Error("what a consumer acknowledged last is not on disk, and comes again", "error", err)
		}
	}
	_ = f.lock.release() // the system takes it anyway
	f.lock = nil
	f.store.left.ring()
}

// pass notes each message on its way to the consumer. One whose context has ended is not wanted any more: its deadline is
// over, and it comes again, or the subscription is.
func (f *follower) pass(from <-chan *message.Message, to chan<- *message.Message) {
	for m := range from {
		f.delivered.Store(m)
		select {
		case to <- m:
		case <-m.Context().Done():
		}
	}
}

// passedBy moves over a stretch of the log that holds none of the chosen types.
func (f *follower) passedBy() { f.place = max(f.place, f.until) }

// bookPassedEvery is how old the place on disk may get that has only been passed by.
const bookPassedEvery = time.Minute

// bookPassedBy keeps a group that finds nothing from looking at the same events after each start.
func (f *follower) bookPassedBy(ctx context.Context) error {
	if !f.owesBook(bookPassedEvery) {
		return nil
	}
	return f.book(ctx, f.placeQuery())
}

// owesBook reports that the place on disk is behind, and is so old, or lies a whole look back.
func (f *follower) owesBook(age time.Duration) bool {
	return f.place > f.booked && (time.Since(f.bookedAt) >= age || f.place-f.booked >= feedLook)
}

// faultPause is between a fault of the store and the next try.
const faultPause = time.Second

// HandleError is the pause behind a query. A page without an event needs none: ready waits for the next.
func (f *follower) HandleError(_ watermill.LoggerAdapter, _ bool, err error) time.Duration {
	if err == nil || f.ctx.Err() != nil {
		return 0
	}
	f.options.Logger.Error("the log cannot be read for a group; it is tried again", "error", err)
	return faultPause
}

// head is the position of the newest event.
func (s *Store) head(ctx context.Context) (head events.Position, err error) {
	err = s.Read(ctx, func(r store.Reader) (err error) {
		head, _, err = r.Head()
		return err
	})
	return head, err
}
