package towline

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
)

// OldState is what an older outbox says of a message.
type OldState string

const (
	OldPending    OldState = "pending"     // to be published
	OldInProgress OldState = "in_progress" // claimed by a relay of the old outbox
	OldSpent      OldState = "spent"       // over its retry limit
	OldDone       OldState = "done"        // published; it is not taken over
)

// OldMessage is one row of an older outbox (M-7).
type OldMessage struct {
	ID          string // of the row, unique in its table and stable: the key by which an import is repeated
	Topic       string
	Payload     []byte
	Metadata    map[string]string
	State       OldState
	AvailableAt time.Time // of a pending one; zero: at once
	ClaimedAt   time.Time // of one in progress; zero: nobody knows, and then it counts as expired
	Attempts    int       // used up so far, for people
	LastError   string    // the same
	Err         error     // why the row cannot be read; the import names it and goes on
}

// Imported counts what became of the rows of an older outbox.
type Imported struct {
	Pending  int // due, or due at their time
	Released int // in progress, without a claim time
	Parked   int // over their retry limit: published when an operator redrives them
	Done     int // left where they are
	Known    int // taken over before
	Refused  int // that cannot be taken over; the error names them
}

// importBatch is how many rows share a transaction: a process that dies has lost no more of its work than these.
const importBatch = 100

// Import takes over the rows of an older outbox (M-7). name is that of the old outbox and part of every key, so an import
// that is repeated, or goes on after a crash, takes each row once. The old relay must have stopped: what it publishes now
// is published twice. by needs a name, which every event of the import carries.
//
// Rows that are in progress without a claim time are released at once, and they and those whose claim has run out come due
// spread over relay.backoff_cap; a claim that still runs is waited for. Rows over their limit are parked. Nothing is left
// in a state that no scan selects. A row that cannot be taken over is named by the error, and the others go on.
func (e *Engine) Import(ctx context.Context, name string, rows iter.Seq2[OldMessage, error], by Actor) (Imported, error) {
	const most = events.MaxMessageKeyBytes / 2
	if name == "" || len(name) > most {
		return Imported{}, invalid("name", fmt.Sprintf("%.20q is no name of an outbox", name), fmt.Sprintf("use 1 to %d bytes", most))
	}
	by, err := e.operator(by)
	if err != nil {
		return Imported{}, err
	}
	var all Imported
	var errs []error
	batch := make([]oldRow, 0, importBatch)
	flush := func() error {
		what := func(r oldRow) string { return "row " + r.old.ID }
		err := Apart(ctx, batch, what, func(some []oldRow) error {
			n, err := e.importBatch(ctx, by.Name, some)
			switch {
			case err == nil:
				all.add(n)
			case len(some) == 1 && !isAway(ctx, err):
				all.Refused++
			}
			return err
		})
		batch = batch[:0]
		return err
	}
	for old, err := range rows {
		if err != nil {
			errs = append(errs, err)
			break
		}
		row, err := newOldRow(name, old)
		if err != nil {
			all.Refused++
			errs = append(errs, fmt.Errorf("row %.64q: %w", old.ID, err))
			continue
		}
		if batch = append(batch, row); len(batch) < importBatch {
			continue
		}
		if err := flush(); err != nil {
			errs = append(errs, err)
			if isAway(ctx, err) {
				return all, errors.Join(errs...)
			}
		}
	}
	if len(batch) > 0 {
		errs = append(errs, flush())
	}
	return all, errors.Join(errs...)
}

func (x *Imported) add(y Imported) {
	x.Pending += y.Pending
	x.Released += y.Released
	x.Parked += y.Parked
	x.Done += y.Done
	x.Known += y.Known
}

// oldRow is a row that can be taken over.
type oldRow struct {
	old   OldMessage
	event events.MessageSubmitted
}

func newOldRow(name string, old OldMessage) (oldRow, error) {
	if old.Err != nil {
		return oldRow{}, old.Err
	}
	switch old.State {
	case OldPending, OldInProgress, OldSpent:
	case OldDone:
		return oldRow{old: old}, nil
	default:
		return oldRow{}, invalid("state", fmt.Sprintf("%.64q is no state", old.State), "use pending, in_progress, spent or done")
	}
	if old.ID == "" {
		return oldRow{}, invalid("id", "it is empty", "")
	}
	if at := events.MicrosOf(old.ClaimedAt); at > 0 && !at.Sayable() { // its claim would end when nobody waits any more
		return oldRow{}, invalid("claimed_at", "it is out of range", "give a time up to 9999")
	}
	m, err := events.NewMessage(events.MessageID{}, old.Topic, old.Payload, old.Metadata, name+"/"+old.ID, events.MicrosOf(old.AvailableAt))
	if bad, ok := errors.AsType[*events.MessageError](err); ok {
		return oldRow{}, &RequestError{Field: bad.Field, Problem: bad.Problem, Fix: bad.Fix, Kind: ErrInvalid}
	}
	return oldRow{old, m}, err
}

func (e *Engine) importBatch(ctx context.Context, actor string, rows []oldRow) (n Imported, err error) {
	err = e.Transact(ctx, actor, func(tx *Tx) error {
		n = Imported{}
		for _, r := range rows {
			if err := tx.importRow(r, &n); err != nil {
				return err
			}
		}
		return nil
	})
	return n, err
}

func (t *Tx) importRow(r oldRow, n *Imported) error {
	if r.old.State == OldDone {
		n.Done++
		return nil
	}
	if _, known, err := t.keyed(r.old.Topic, r.event); known || err != nil {
		if known {
			n.Known++
		}
		return err
	}
	m := r.event
	m.Message = t.e.mem.newULID(t.now)
	arm := decider.ImportWakeup{Owner: events.RunID(m.Message), At: t.now, Available: m.AvailableAt, State: decider.ImportPending}
	spread := t.now.Add(decider.Spread(m.Key, events.SpanOf(t.e.inForce.Load().BackoffCap)))
	switch {
	case r.old.State == OldSpent:
		arm.State, arm.Text = decider.ImportSpent, CleanText(r.old.spent(), t.e.inForce.Load().ErrorMaxBytes)
		n.Parked++
	case r.old.State == OldInProgress && r.old.ClaimedAt.IsZero():
		arm.State, arm.Available, arm.Token = decider.ImportInProgress, spread, t.NewToken()
		n.Released++
	case r.old.State == OldInProgress:
		if arm.Available = events.MicrosOf(r.old.ClaimedAt.Add(t.e.inForce.Load().ClaimTTL)); arm.Available <= t.now {
			arm.Available = spread
		}
		n.Pending++
	default:
		n.Pending++
	}
	_, err := t.Execute(decider.SubmitMessage{Topic: r.old.Topic, Message: m}, arm)
	return err
}

// spent is what people read of a parked one.
func (o OldMessage) spent() string {
	text := fmt.Sprintf("taken over with its attempts used up (%d)", o.Attempts)
	return strings.TrimSuffix(text+": "+o.LastError, ": ")
}
