package crash

import (
	"context"
	"database/sql"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/towline-dev/towline/check"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/handlers"
	"github.com/towline-dev/towline/sim"
)

// reply is what the consumer of a message has come to. That it failed at single deliveries is not on the log: only that it
// failed at all of a wakeup.
type reply struct {
	Wakeup int             `json:"wakeup,omitzero"` // that it failed at; zero: the log says an end of the message, behind any
	Says   events.Category `json:"says,omitzero"`   // handler_failed or invalid_payload; empty: it is handled
}

// replies are those to each message, in their order.
type replies map[events.MessageID][]reply

func recordReplies(log []events.Envelope) replies {
	r := replies{}
	for _, env := range log {
		switch e := env.Event.(type) {
		case events.OutboxParked:
			if owner, kind, ok := env.Stream.Register(); ok && kind == events.KindMessage && e.Cause == events.ParkHandlerFailed {
				id := events.MessageID(owner)
				r[id] = append(r[id], reply{Wakeup: e.N, Says: events.HandlerFailed})
			}
		case events.MessageHandled:
			r[e.Message] = append(r[e.Message], reply{})
		case events.MessageRejected:
			r[e.Message] = append(r[e.Message], reply{Says: e.Category})
		}
	}
	return r
}

// open keeps those of messages that are open, and of which something else is to be said than that they are handled.
func (r replies) open(messages []check.Message) replies {
	out := replies{}
	for _, m := range messages {
		if m.Status == check.MessageOpen && slices.ContainsFunc(r[m.ID], func(s reply) bool { return s.Says != "" }) {
			out[m.ID] = r[m.ID]
		}
	}
	return out
}

// to is what the consumer says to a wakeup: what it has said to this one, and to any other what it has said at last.
func (r replies) to(id events.MessageID, wakeup int) events.Category {
	said := r[id]
	if len(said) == 0 {
		return ""
	}
	if i := slices.IndexFunc(said, func(s reply) bool { return s.Wakeup == wakeup }); i >= 0 && wakeup > 0 {
		return said[i].Says
	}
	return said[len(said)-1].Says
}

// fails: it is given up, and nothing on the log says that a redrive would help.
func (r replies) fails(id events.MessageID) bool { return r.to(id, 0) == events.HandlerFailed }

// waits are what the deliveries of a message take that fail.
func (r replies) waits(id events.MessageID, deliveries int) (sum events.Span) {
	for _, s := range r[id] {
		if s.Says == events.HandlerFailed {
			sum += events.SpanOf(time.Duration(deliveries) * time.Second)
		}
	}
	return sum
}

// consume is the consumer that says again what was said.
func (r replies) consume(_ context.Context, m *message.Message) error {
	id, err := events.ParseMessageID(m.Metadata.Get(events.MetadataMessageID))
	if err != nil {
		return err
	}
	switch r.to(id, wakeupOf(m.UUID)) {
	case "":
		return nil
	case events.InvalidPayload:
		return handlers.Invalid(errRecorded)
	}
	return errRecorded
}

// wakeupOf reads the number of a wakeup out of the id of a message (K-3): <owner>.<kind>.<n>.
func wakeupOf(id string) int {
	parts := strings.Split(id, ".")
	if len(parts) < 3 {
		return 0
	}
	n, _ := strconv.Atoi(parts[2]) // another id has no number
	return n
}

// failure is an effect that happens at most once, and has failed.
type failure struct {
	Run    events.RunID `json:"run"`
	Target string       `json:"target"`
}

func recordFailures(log []events.Envelope) (out []failure) {
	once := map[events.RunID]bool{}
	for _, env := range log {
		run, _ := env.Stream.Run()
		switch e := env.Event.(type) {
		case events.RunPlanned:
			once[run] = e.Policy.PostSync == events.ExactlyOnce
		case events.PostSyncFailed:
			if !once[run] {
				out = append(out, failure{run, e.Target})
			}
		}
	}
	return out
}

// failing is the destination of a world in which effects fail that have failed. What failed is a script there, whatever it was
// in the log, so its category is that of a script. The others it takes note of.
type failing struct {
	*sim.Destination
	failures []failure
}

func (d *failing) Script(ctx context.Context, text string, args ...any) error {
	for _, f := range d.failures {
		if text == script(f.Target) && slices.ContainsFunc(args, func(a any) bool { return a == sql.Named("run", f.Run.String()) }) {
			return errRecorded
		}
	}
	return d.Destination.Script(ctx, text, args...)
}
