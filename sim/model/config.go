package model

// Config is what a world is made of, and how much may go wrong in it.
type Config struct {
	Name string

	Runs  int
	Units []Unit
	Cap   uint8 // of the one bucket that all units share (B-2)

	Relays    int
	Exclusive bool // one process, which dies as a whole (N-2); else relays, workers and consumers die one by one
	InProcess bool // the transport is the memory of the process (N-3); Exclusive only
	Permanent bool // the broker may refuse a message for ever (O-15)

	Mode    Mode
	Targets int // of the post_sync fan-out (K-8); 0: nothing follows a run

	MaxAttempts  uint8 // of a wakeup (O-15)
	MaxRetries   uint8 // after a lost lease (U-11)
	MaxReturns   uint8 // rate limits and hand-backs of a unit: a bound of the exploration
	MaxFailures  uint8 // of an exactly_once target, before it is held (REC-10)
	NeverStarted bool  // U-14 is explored, and the dispatches of an attempt are counted (HD-3)

	Faults  uint8 // of the world, in one execution
	Acts    Acts  // that operators know
	MaxActs uint8 // that they take

	// Reduced leaves out what makes no difference: times that nobody looks at, and what is left of things that have ended.
	Reduced bool
}

// Unit is what is planned of a unit.
type Unit struct {
	Run       uint8
	Source    uint8
	Reference bool
}

// Mode is that of post_sync (spec 7).
type Mode uint8

// The modes.
const (
	AtMostOnce Mode = iota
	ExactlyOnce
)
