package check

import "github.com/towline-dev/towline/events"

// transaction is what must be remembered of the current transaction until its end, when the statements about whole
// transactions are checked. Its slices are used again by the next one.
type transaction struct {
	position events.Position
	at       events.Micros
	node     events.NodeID
	open     bool
	torn     bool // part of it lies in a purged segment
	boots    bool // it begins with a NodeStarted
	engine   bool // it is more than an application's own
	decides  bool // it does more than to start and to arm messages (I-25)

	// For U-5: a claim stands alone, but for the settle by which the same worker ended its previous unit.
	claim, secondClaim, foreign, consequence mention
	claimWorker                              worker
	settled                                  bool
	settlers                                 []settler

	jobs       []*job
	plans      []*run
	twins      map[twin]struct{}
	dispatched []dispatched
	started    []*run // with RunDispatchStarted
	retried    []retried
	expired    []*unit
	fallen     []fallen // reference units that failed or were cancelled
	drained    []drained
	ends       []*run
	cancelled  []*unit // for the sake of their run
	announced  []announced
	claimed    []*register
	beyond     []beyond
	released   []*register
	dropped    []*register // of kind dispatch, for nothing owed
	triggered  []triggered
	occasioned []*run // planned for an occurrence
	emptied    []emptied
	failing    []failing
}

// beyond is a claim for which no attempt is left. It is lawful as that of a drop, behind which nothing is published (O-15).
type beyond struct {
	env      events.Envelope
	register *register
	claim    events.OutboxClaimed
	limit    int
}

// mention is one event of the transaction.
type mention struct {
	position events.Position
	stream   events.StreamID
	what     events.Type
}

type worker struct {
	name string
	node events.NodeID
}

type settler struct {
	mention
	worker
}

func (c *Checker) beginTx(e events.Envelope) {
	if c.tx.open {
		c.endTx()
	}
	c.tx.position, c.tx.at, c.tx.node, c.tx.open = e.Tx, e.At, e.Node, true
	c.tx.torn = e.Tx != e.Position
}

func (c *Checker) endTx() {
	c.endOfClaimTx()
	c.endOfPlans()
	c.endOfDispatches()
	c.endOfExpiries()
	c.endOfCascades()
	c.endOfDrained()
	c.endOfRetries()
	c.endOfAnnounced()
	c.endOfWakeups()
	c.endOfProbes()
	c.endOfRuns()
	c.endOfOccurrences()
	c.endOfMessages()
	c.shrink()
	c.tx.reset()
}

func (t *transaction) reset() {
	twins := t.twins
	clear(twins)
	*t = transaction{
		twins: twins, settlers: t.settlers[:0],
		jobs: t.jobs[:0], plans: t.plans[:0], dispatched: t.dispatched[:0], started: t.started[:0],
		retried: t.retried[:0], expired: t.expired[:0], fallen: t.fallen[:0], drained: t.drained[:0], ends: t.ends[:0],
		cancelled: t.cancelled[:0], announced: t.announced[:0], claimed: t.claimed[:0], released: t.released[:0], dropped: t.dropped[:0],
		triggered: t.triggered[:0], occasioned: t.occasioned[:0], emptied: t.emptied[:0], failing: t.failing[:0],
	}
}

// note sorts e by what it may be in a transaction that claims a unit (U-5).
func (t *transaction) note(e events.Envelope) {
	m := mention{position: e.Position, stream: e.Stream}
	if e.Event != nil {
		m.what = e.Event.EventType()
	}
	put := func(at *mention) {
		if at.position == 0 {
			*at = m
		}
	}
	switch ev := e.Event.(type) {
	case events.MessageSubmitted:
		return
	case events.MessageHandled:
		if e.Node.IsZero() { // it stands beside the effect
			return
		}
		put(&t.foreign)
	case events.UnitClaimed:
		if t.claim.position == 0 {
			t.claim, t.claimWorker = m, worker{ev.Worker, e.Node}
			if ev.Remote {
				t.claimWorker.node = events.NodeID{}
			}
		} else {
			put(&t.secondClaim)
		}
	case events.ClockStepped: // comes first in whatever transaction is next (CLK-3)
	case events.UnitSucceeded, events.UnitLateResult:
		t.settled = true
	case events.UnitRetryScheduled:
		if ev.Token == "" {
			put(&t.foreign)
		}
		t.settled = t.settled || ev.Token != ""
	case events.UnitFailed:
		switch ev.By {
		case events.ByWorker:
			t.settled = true
		case events.ByReference, events.ByDispatch:
			put(&t.consequence)
		default:
			put(&t.foreign)
		}
	case events.UnitDispatched, events.RunDispatchStarted:
		put(&t.consequence)
	case events.OutboxArmed:
		if _, kind, _ := e.Stream.Register(); kind != events.KindMessage { // the arms of M-1 come first in any transaction
			put(&t.consequence)
		}
	default:
		put(&t.foreign)
	}
	t.engine = true
	t.decides = t.decides || !arms(e)
}

// arms reports what may come before the arms of messages, and these (M-1, N-1).
func arms(e events.Envelope) bool {
	switch e.Event.(type) {
	case events.NodeStarted, events.StoreRestored, events.ClockStepped:
		return true
	case events.OutboxArmed:
		_, kind, _ := e.Stream.Register()
		return kind == events.KindMessage
	}
	return false
}

// endOfClaimTx is the last sentence but one of U-5.
func (c *Checker) endOfClaimTx() {
	t := &c.tx
	if t.claim.position == 0 || t.torn {
		return
	}
	say := func(m mention, why string) {
		if m.position != 0 {
			c.report("I-2", m.position, m.stream, "%s shares the transaction of the claim at position %d: %s (U-5)", m.what, t.claim.position, why)
		}
	}
	say(t.secondClaim, "a transaction claims one unit")
	say(t.foreign, "beside a claim stands only the settle of the same worker's previous unit, and what follows from it")
	if !t.settled {
		say(t.consequence, "nothing was settled in it")
	}
	for _, s := range t.settlers {
		if s.worker != t.claimWorker {
			say(s.mention, "it was the unit of another worker")
		}
	}
}
