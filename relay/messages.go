package relay

import (
	"context"
	"errors"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/transport"
)

// application is a message of an application on its way.
type application struct {
	towline.Outgoing
	to transport.Publisher
}

func (a *application) message(id string) (*message.Message, error) {
	if a.Err != nil {
		return nil, a.Err
	}
	m := message.NewMessage(id, a.Payload)
	m.Metadata = a.Metadata
	return m, nil
}

func (r *Relay) expandMessage(tx *towline.Tx, key projections.Key, n int) ([]outgoing, error) {
	out, err := tx.Outgoing(events.MessageID(key.Owner))
	if err != nil {
		return nil, err
	}
	return []outgoing{{id: tx.InEpoch(decider.MessageID(key.Owner, key.Kind, n)), app: &application{out, r.routes(key.Kind)}}}, nil
}

// dueScan is how far a round has looked through what is due: the two halves of a batch have a place each (M-15), and so have
// crash suspects (M-16).
type dueScan struct {
	engine, messages, suspects projections.DueCursor
	suspect                    projections.Key // in the newest batch; zero: none
}

// pass moves on behind a batch.
func (s *dueScan) pass(batch []projections.DueCursor) {
	for _, d := range batch { // in the order of each half
		switch {
		case d.Key.Kind != events.KindMessage:
			s.engine = d
		case d.Key == s.suspect:
			s.suspects = d
		default:
			s.messages = d
		}
	}
}

// due is the next batch of a lane. Where it has messages and kinds of runs, half of the room is for each, and what the one
// does not use is the other's (M-15).
func (r *Relay) due(ctx context.Context, l *lane, scan *dueScan, room int) (batch []projections.DueCursor, err error) {
	engine, messages := l.halves()
	var ofRuns, ofApps []projections.DueCursor
	err = r.e.View(ctx, func(v projections.View) (err error) {
		ofRuns, ofApps = nil, nil
		now := r.e.Now()
		if len(engine.Kinds) > 0 {
			if ofRuns, err = v.DueOf(engine, now, scan.engine, room); err != nil {
				return err
			}
		}
		if len(messages.Kinds) == 0 {
			return nil
		}
		scan.suspect = projections.Key{}
		if ofApps, err = v.DueOf(messages, now, scan.messages, room); err != nil || len(ofApps) > 0 {
			return err
		}
		if ofApps, err = r.oneSuspect(v, l, scan.suspects); len(ofApps) > 0 {
			scan.suspect = ofApps[0].Key
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	l.odd = !l.odd
	forRuns, forApps := share(room, len(ofRuns), len(ofApps), l.odd)
	return append(ofRuns[:forRuns:forRuns], ofApps[:forApps]...), nil
}

// oneSuspect is the message that is handed out by itself: nothing else is due, and nothing is in memory that would be lost
// with it (M-16). One that is lost again comes due behind the others.
func (r *Relay) oneSuspect(v projections.View, l *lane, after projections.DueCursor) ([]projections.DueCursor, error) {
	w, err := l.ready(v)
	if err != nil || w.Suspects == projections.NoSuspects {
		return nil, err
	}
	w.Kinds, w.Suspects = []events.Kind{events.KindMessage}, projections.OnlySuspects
	return v.DueOf(w, r.e.Now(), after, 1)
}

// halves are the wakeups of a lane, messages apart.
func (l *lane) halves() (engine, messages projections.Wakeups) {
	for _, k := range l.kinds {
		if k == events.KindMessage {
			messages.Kinds = append(messages.Kinds, k)
		} else {
			engine.Kinds = append(engine.Kinds, k)
		}
	}
	return engine, messages
}

// share divides a batch. odd says whose the place is that cannot be halved, so that a batch of one serves both.
func share(most, engine, messages int, odd bool) (forEngine, forMessages int) {
	half := most / 2
	if odd {
		half = most - half
	}
	forEngine = min(engine, max(half, most-messages))
	return forEngine, min(messages, most-forEngine)
}

// materializeMessages arms messages again that died in the memory of a process (REC-11). One that was never armed is no
// matter of this scan: every transaction arms it first (M-1).
func (r *Relay) materializeMessages(ctx context.Context, report *Report) error {
	k := r.e.Knobs()
	var errs []error
	name := func(id events.MessageID) string { return "message " + id.String() }
	for left := k.RepairLimit; ; {
		var page []events.MessageID
		err := r.e.View(ctx, func(v projections.View) (err error) {
			silent := r.e.Now().Add(-events.SpanOf(k.Stale))
			page, err = v.LostMessages(silent, r.cursors.messages, min(left, armsPerTransaction))
			return err
		})
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		if len(page) == 0 {
			r.cursors.messages = events.MessageID{} // the next pass begins anew
			return errors.Join(errs...)
		}
		err = towline.Apart(ctx, page, name, func(some []events.MessageID) error {
			n, err := r.e.ArmLost(ctx, some)
			report.Materialized[events.KindMessage] += n
			return err
		})
		if errors.Is(err, towline.ErrUnavailable) || ctx.Err() != nil {
			return errors.Join(append(errs, err)...) // the cursor stays: the next pass finds what is left of the page
		}
		errs = append(errs, err)
		r.cursors.messages = page[len(page)-1]
		if left -= len(page); left <= 0 {
			report.ScanTruncated = true
			return errors.Join(errs...)
		}
	}
}
