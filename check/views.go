package check

import (
	"cmp"
	"slices"

	"github.com/towline-dev/towline/events"
)

// The methods below are the checker's fold, for a comparison with the projections (I-26) and with the engine's caches.
// They copy, and their order depends on the log only. Call them at the end of a transaction.

// Runs are all runs, in the order of their plans.
func (c *Checker) Runs() []Run {
	out := make([]Run, len(c.runOrder))
	for i, r := range c.runOrder {
		out[i] = r.Run
		out[i].Posts = slices.Clone(r.Posts)
	}
	return out
}

// Units are those of a run, in the order of its plan, which is that of their ordinals. Without Options.Keep a run that has ended has none.
func (c *Checker) Units(id events.RunID) []Unit {
	r := c.runs[id]
	if r == nil {
		return nil
	}
	out := make([]Unit, len(r.units))
	for i, u := range r.units {
		out[i] = u.Unit
		out[i].Late = slices.Clone(u.Late)
		out[i].CategoryRetries = slices.Clone(u.CategoryRetries)
	}
	return out
}

// Registers are all registers, in the order of their first arms.
func (c *Checker) Registers() []Register {
	out := make([]Register, len(c.registers))
	for i, r := range c.registers {
		out[i] = r.Register
		out[i].Outcomes = slices.Clone(r.Outcomes)
	}
	return out
}

// Jobs are all jobs, in the order in which they were opened.
func (c *Checker) Jobs() []Job {
	out := make([]Job, len(c.jobOrder))
	for i, j := range c.jobOrder {
		out[i] = j.Job
	}
	return out
}

// Schedules are all schedules, in the order in which they were first heard of.
func (c *Checker) Schedules() []Schedule {
	out := make([]Schedule, len(c.scheduleOrder))
	for i, s := range c.scheduleOrder {
		out[i] = s.Schedule
	}
	return out
}

// Occurrences are all due times about which something was decided, in the order in which that began.
func (c *Checker) Occurrences() []Occurrence {
	out := make([]Occurrence, len(c.occurrenceOrder))
	for i, o := range c.occurrenceOrder {
		out[i] = o.Occurrence
	}
	return out
}

// Messages are all application messages, in the order in which they were submitted.
func (c *Checker) Messages() []Message {
	out := make([]Message, len(c.messageOrder))
	for i, m := range c.messageOrder {
		out[i] = m.Message
	}
	return out
}

// Watermarks are all of them, by source and dataset.
func (c *Checker) Watermarks() []Watermark {
	out := make([]Watermark, 0, len(c.marks))
	for _, m := range c.marks {
		out = append(out, *m)
	}
	slices.SortFunc(out, func(a, b Watermark) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Dataset, b.Dataset))
	})
	return out
}

// SlotCount is the slots in use at a moment (B-1).
type SlotCount struct {
	Engine  int
	Buckets []BucketSlots // those in use, by name
	Runs    []RunSlots    // those in use, in the order of their plans
}

// Slots in use by one of them.
type (
	// BucketSlots counts those of a bucket.
	BucketSlots struct {
		Bucket events.Bucket
		Used   int
	}
	// RunSlots counts those of a run.
	RunSlots struct {
		Run  events.RunID
		Used int
	}
)

// Slots counts the slots in use at now, which is not before the newest event. stale is the dispatch.stale of whoever asks,
// for nodes of a shared store may differ; 0: every dispatching unit counts.
func (c *Checker) Slots(now events.Micros, stale events.Span) SlotCount {
	var n SlotCount
	buckets, runs := map[events.Bucket]int{}, map[*run]int{}
	for _, u := range c.slots.flight {
		if c.slotUntil(u, stale) > now {
			n.Engine++
			buckets[u.bucket.name]++
			runs[u.run]++
		}
	}
	for name, used := range buckets {
		n.Buckets = append(n.Buckets, BucketSlots{name, used})
	}
	slices.SortFunc(n.Buckets, func(a, b BucketSlots) int { return cmp.Compare(a.Bucket, b.Bucket) })
	for _, r := range c.runOrder {
		if used := runs[r]; used > 0 {
			n.Runs = append(n.Runs, RunSlots{r.ID, used})
		}
	}
	return n
}

// Epoch is the epoch of the store: 1, and one more with each restore (DUR-5).
func (c *Checker) Epoch() int { return c.epoch }

// Gone reports an incarnation whose leases, claims and in-process messages are dead (N-3).
func (c *Checker) Gone(id events.NodeID) bool { return c.gone(id) }
