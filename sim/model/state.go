package model

// The bounds of a configuration. Arrays of fixed size make a state a value without pointers, which can be compared and
// hashed as bytes.
const (
	maxRuns    = 2
	maxUnits   = 4
	maxRelays  = 2
	maxTargets = 2

	maxCopies   = 2 // of one message with the broker: a third teaches nothing
	maxAttempts = 7 // of a unit: one bit each for its workers
)

// state is everything that the rules and the world know. All fields are single bytes, so there is no padding.
type state struct {
	units  [maxUnits]unit
	runs   [maxRuns]run
	relays [maxRelays]relay

	faults uint8 // that may still happen
	acts   uint8 // that operators may still take

	paused       bool // the engine
	sourcePaused bool // source 0
	breakerOpen  bool // (O-16)
	booting      bool // an incarnation has started and not recovered yet (N-4)
	impatient    bool // never_started_after has passed for all that waits (U-14)
}

// unitStatus is drawn in decider.Unit (spec 6.1).
type unitStatus uint8

const (
	planned unitStatus = iota
	dispatching
	running
	retrying
	succeeded
	failed
	cancelled
)

func (u unitStatus) terminal() bool { return u >= succeeded }

func (u unitStatus) String() string {
	return [...]string{"planned", "dispatching", "running", "retrying", "succeeded", "failed", "cancelled"}[u]
}

// unit is one piece of a run.
type unit struct {
	status   unitStatus
	attempts uint8 // times claimed
	tries    uint8 // times dispatched in this attempt, up to fourTries; counted only if Config.NeverStarted
	expiries uint8 // retries after a lost lease (U-11)
	returns  uint8 // rate limits and hand-backs so far: a bound of the exploration

	stale   bool // dispatching, and its message is taken for lost
	lost    bool // it surely is: it was in the memory of a gone process (N-3)
	due     bool // retrying, and its time has come
	suspect bool // (RW-8)
	lease   hold // while running

	announced number // of the wakeup that announces it (K-1), while dispatching

	messages uint8 // with the broker
	known    bool  // the broker knows the id of its message under the current number: it may suppress it
	expanded uint8 // relays that have its message still to publish, one bit each
	workers  uint8 // attempts that somebody works on, one bit each
}

// fourTries is where counting ends: more than three reclaims change nothing (HD-3).
const fourTries = 4

// number says where a wakeup number lies in its register. Only the order matters, so the model has no absolute ones.
type number uint8

const (
	numberClosed  number = iota
	numberCurrent        // or parked below it: closed with the next that closes (K-1)
	numberWaiting
)

// hold is a right that ends by time, or with the incarnation that has it (N-3): a lease, or a claim.
type hold uint8

const (
	holdNone hold = iota
	holdLive
	holdEnded
	holdOrphaned
)

func (h hold) String() string { return [...]string{"none", "live", "ended", "orphaned"}[h] }

// runStatus is that of spec 6.2, as far as rules ask for it.
type runStatus uint8

const (
	runOpen runStatus = iota
	runSucceeded
	runPartialFailed
	runFailed
	runCancelled
)

func (r runStatus) terminal() bool { return r != runOpen }

func (r runStatus) String() string {
	return [...]string{"open", "succeeded", "partial_failed", "failed", "cancelled"}[r]
}

type run struct {
	status    runStatus
	started   bool
	registers [kinds]register
	posts     [maxTargets]post
}

// kind is one row of the delivery table (spec 7).
type kind uint8

const (
	kindDispatch kind = iota
	kindUnit
	kindFinalize
	kindPost

	kinds = 4
)

func (k kind) String() string {
	return [...]string{"dispatch_sync_run", "run_sync_unit", "finalize_sync_run", "post_sync"}[k]
}

// when is a time as far as rules compare it: due, within the countdown or a backoff, or behind that.
type when uint8

const (
	now when = iota
	soon
	far
)

func (w when) String() string { return [...]string{"now", "soon", "far"}[w] }

type registerStatus uint8

const (
	idle registerStatus = iota
	pending
	claimed
	marked
	parked
	unresolved
)

func (r registerStatus) String() string {
	return [...]string{"idle", "pending", "claimed", "marked", "parked", "unresolved"}[r]
}

// register is the outbox entry of a run and kind, as drawn in decider.Register (spec 6.3).
type register struct {
	status   registerStatus
	newest   uint8 // highest number armed; 0: never. The explorer forgets how high it is
	attempts uint8 // of the current number, if it is published first
	at       when  // while pending
	floor    bool  // the time is a backoff (O-4)
	maybe    bool  // a broker may know the current number (O-6)
	claim    hold  // while claimed or marked
	taken    bool  // of post_sync: the current number was claimed before

	waits  bool // a number waits behind the current one
	waitAt when

	closed age  // how long ago a number closed
	local  bool // the newest publish was to the memory of the process that closed last
	gone   bool // that process is gone

	messages uint8 // with the broker: of dispatch and finalize
	known    bool  // the broker knows the id of the current number
}

// age of the newest close, measured by relay.redrive_after.
type age uint8

const (
	never age = iota
	recent
	old
)

func (a age) String() string { return [...]string{"never", "recent", "old"}[a] }

// post is the post_sync of one target (K-8).
type post struct {
	outcome  outcome // on record (O-12)
	resolved bool    // by an operator (O-17)
	effect   effect
	busy     bool  // some process is at it
	orphan   bool  // that process is gone, and known to be (HP-5)
	failures uint8 // wakeups that came to nothing (HP-3), up to the bound
	failing  bool  // one of them is the newest that was claimed

	receipt  outcome // what its relay knows, and has not recorded
	expanded uint8   // relays that have its message still to publish, one bit each
	messages uint8   // with the broker
	known    bool    // the broker knows the id of its message under the current number

	published uint8 // times, as the broker counts them
	ledger    bool  // the once-ledger has its key (K-6)
	done      uint8 // times that the effect was committed, as the world counts them
}

type outcome uint8

const (
	noOutcome outcome = iota
	accepted
	refused
	unknown
)

func (o outcome) String() string { return [...]string{"none", "accepted", "refused", "unknown"}[o] }

type effect uint8

const (
	noEffect effect = iota
	effectStarted
	effectCompleted
	effectFailed
)

func (e effect) String() string {
	return [...]string{"none", "started", "completed", "failed"}[e]
}

// relay is one process that publishes, between two of its transactions.
type relay struct {
	phase phase
	run   uint8
	kind  kind
	holds bool  // its token is that of the claim
	same  bool  // the number that it publishes is still the current one
	met   meets // what its publishes came to
}

type phase uint8

const (
	phaseIdle    phase = iota
	phaseClaimed       // committed, and nothing published
	phaseSending       // some of its messages are out
	phaseSent          // all are; the record is owed
	phaseMarked        // mark_first: marked, and not all published
)

// meets is a set of outcomes.
type meets uint8

const (
	metAccepted meets = 1 << iota
	metRefused
	metUnknown
	metForEver // refused, and it always will be
)

func (m meets) has(x meets) bool { return m&x != 0 }

func bit(n int) uint8 { return 1 << n }

// add puts a copy of a message to those that the broker has.
func add(copies *uint8) { *copies = min(*copies+1, maxCopies) }
