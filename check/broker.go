package check

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/towline-dev/towline/events"
)

// Published is one message as a broker received it.
type Published struct {
	ID     string
	Kind   events.Kind
	Run    events.RunID    // the owner; of kind message, the message
	N      int             // wakeup number
	Target string          // of post_sync
	After  events.Position // head of the log when it was published
}

// Called is one call of a provider for an attempt of a unit.
type Called struct {
	Unit    events.UnitID
	Attempt int
}

// Written is one commit of a sink for an attempt of a unit.
type Written struct {
	Unit    events.UnitID
	Attempt int
}

// ledger holds what a broker's record is checked against: when each message id could first be published, and which
// ids each mark stands for. It grows with the log, so it is kept on demand only (Options.Broker).
type ledger struct {
	claimed map[string]events.Position
	marked  map[string]events.Position // at-most-once post_sync
	marks   []markedIDs                // publish_first
	claims  map[events.StreamID][]string
}

type markedIDs struct {
	position events.Position
	stream   events.StreamID
	ids      []string
}

func newLedger() *ledger {
	return &ledger{
		claimed: map[string]events.Position{}, marked: map[string]events.Position{}, claims: map[events.StreamID][]string{},
	}
}

// messageIDs are those of wakeup n as it would be published now (K-1, K-3, K-8).
func (c *Checker) messageIDs(r *register, n int) []string {
	id := events.RunID(r.Owner).String() + "." + string(r.Kind) + "." + strconv.Itoa(n)
	suffix := ""
	if c.epoch > 1 {
		suffix = ".e" + strconv.Itoa(c.epoch)
	}
	var ids []string
	switch r.Kind {
	case events.KindUnit:
		for _, u := range r.run.busy {
			if u.Status == events.UnitIsDispatching && u.Wakeup > r.Closed && u.Wakeup <= n {
				ids = append(ids, fmt.Sprintf("%s.%s.%d%s", id, u.ID, u.Attempt+1, suffix))
			}
		}
		slices.Sort(ids)
	case events.KindPostSync:
		for _, t := range r.run.outstanding() {
			ids = append(ids, id+"."+t+suffix)
		}
	default:
		ids = append(ids, id+suffix)
	}
	return ids
}

func (c *Checker) noteClaim(e events.Envelope, r *register, n int) {
	if c.ledger == nil {
		return
	}
	ids := c.messageIDs(r, n)
	for _, id := range ids {
		if _, known := c.ledger.claimed[id]; !known {
			c.ledger.claimed[id] = e.Position
		}
	}
	c.ledger.claims[e.Stream] = ids
}

func (c *Checker) noteMark(e events.Envelope, r *register) {
	if c.ledger == nil {
		return
	}
	ids := c.ledger.claims[e.Stream] // the expansion is that of the claim; a worker may have started a unit since
	delete(c.ledger.claims, e.Stream)
	if r.order() == events.PublishFirst {
		c.ledger.marks = append(c.ledger.marks, markedIDs{e.Position, e.Stream, ids})
		return
	}
	for _, id := range ids {
		c.ledger.marked[id] = e.Position
	}
}

// Broker compares the log with everything that a broker received, in the order of receipt, and returns the breaches of
// I-14, I-15 and I-16; they count as violations of the checker too. The position of a breach that a message shows is
// the head of the log when it was published. Call it once, at the end of the log. It panics without Options.Broker.
func (c *Checker) Broker(record []Published) []Violation {
	if c.ledger == nil {
		panic("check: Broker without Options.Broker")
	}
	return c.collect(func() { c.broker(record) })
}

func (c *Checker) broker(record []Published) {
	received := make(map[string]bool, len(record))
	type key struct {
		run    events.RunID
		target string
	}
	posts := map[key]int{}
	for _, p := range record {
		received[p.ID] = true
		stream := events.StreamID{}
		if slices.Contains(events.Kinds[:], p.Kind) {
			stream = events.RegisterStream(p.Run, p.Kind)
		}
		switch at, known := c.ledger.claimed[p.ID]; {
		case !known:
			c.report("I-16", p.After, stream, "the broker received %s, and no wakeup in the log was claimed for it", p.ID)
		case at > p.After:
			c.report("I-16", p.After, stream, "the broker received %s after position %d, and its wakeup was claimed at position %d", p.ID, p.After, at)
		}
		if r := c.runs[p.Run]; p.Kind != events.KindPostSync || r == nil || r.mode() != events.AtMostOnce {
			continue
		}
		k := key{p.Run, p.Target}
		if posts[k]++; posts[k] > 1 {
			c.report("I-14", p.After, stream, "the broker received post_sync for target %q %d times: %s", p.Target, posts[k], p.ID)
		}
		switch at, marked := c.ledger.marked[p.ID]; {
		case !marked:
			c.report("I-14", p.After, stream, "the broker received %s, and it was never marked", p.ID)
		case at > p.After:
			c.report("I-14", p.After, stream, "the broker received %s after position %d, before its mark at position %d", p.ID, p.After, at)
		}
	}
	for _, m := range c.ledger.marks {
		for _, id := range m.ids {
			if !received[id] {
				c.report("I-15", m.position, m.stream, "the wakeup is marked as published, and the broker never received %s", id)
			}
		}
	}
}

// Providers compares the log with the calls of providers and the commits of sinks, in their order, and returns the
// breaches of I-29; they count as violations of the checker too. Call it once, at the end of the log.
func (c *Checker) Providers(calls []Called, writes []Written) []Violation {
	return c.collect(func() { c.providers(calls, writes) })
}

func (c *Checker) providers(calls []Called, writes []Written) {
	called := map[events.UnitID]int{}
	for _, call := range calls {
		called[call.Unit]++
		if n, claims := called[call.Unit], c.attempts(call.Unit); n > claims {
			c.report("I-29", c.position, events.UnitStream(call.Unit), "the provider is called %d times, now for attempt %d, and the unit was claimed %d times", n, call.Attempt, claims)
		}
	}
	highest := map[events.UnitID]int{}
	for _, w := range writes {
		if top := highest[w.Unit]; w.Attempt < top {
			c.report("I-29", c.position, events.UnitStream(w.Unit), "attempt %d writes to its sink after attempt %d has written", w.Attempt, top)
		}
		highest[w.Unit] = max(highest[w.Unit], w.Attempt)
	}
}

func (c *Checker) attempts(id events.UnitID) int {
	if u := c.units[id]; u != nil {
		return u.Attempt
	}
	return c.ended[id].attempt
}
