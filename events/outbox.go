package events

// Numbers of the outbox family. A number is never reused.
const (
	TypeOutboxArmed Type = iota + 40
	TypeOutboxClaimed
	TypeOutboxDispatched
	TypeOutboxReleased
	TypeOutboxDropped
	TypeOutboxParked
	TypeOutboxOutcome
	TypeOutboxResolved
)

type (
	// OutboxArmed says that somebody must be woken: wakeup N is due at AvailableAt (O-3).
	OutboxArmed struct {
		N           int      `json:"n"`
		AvailableAt Micros   `json:"available_at"`
		Cause       ArmCause `json:"cause"`
		Reason      string   `json:"reason,omitzero"` // of a redrive
		Died        bool     `json:"died,omitzero"`   // of a message: the process that had it ended without a stop (M-16)
	}

	// OutboxClaimed says that a relay takes wakeup N (O-7).
	OutboxClaimed struct {
		N              int    `json:"n"`
		Token          Token  `json:"token"`
		ClaimExpiresAt Micros `json:"claim_expires_at"`
		Attempt        int    `json:"attempt"`
		MessageCount   int    `json:"message_count,omitzero"`
	}

	// OutboxDispatched says that wakeup N was published (publish_first), or is about to be (mark_first).
	OutboxDispatched struct {
		N            int    `json:"n"`
		Token        Token  `json:"token"`
		Order        Order  `json:"order"`
		Transport    string `json:"transport"`
		MessageCount int    `json:"message_count,omitzero"`
	}

	// OutboxReleased ends a claim without a mark.
	OutboxReleased struct {
		N              int          `json:"n"`
		Token          Token        `json:"token"`
		Cause          ReleaseCause `json:"cause"`
		AvailableAt    Micros       `json:"available_at"`
		Counted        bool         `json:"counted,omitzero"`         // the attempt stays spent (O-5)
		MaybePublished bool         `json:"maybe_published,omitzero"` // a broker may know the id (O-6)
		Transport      string       `json:"transport,omitzero"`       // through which its publish failed (O-16)
		Text           string       `json:"text,omitzero"`
	}

	// OutboxDropped closes wakeup N without a publish: nothing is owed any more (O-8).
	OutboxDropped struct {
		N      int        `json:"n"`
		Token  Token      `json:"token"`
		Reason DropReason `json:"reason"`
	}

	// OutboxParked says that wakeup N is published no more until somebody acts (O-15).
	OutboxParked struct {
		N        int       `json:"n"`
		Cause    ParkCause `json:"cause"`
		Attempts int       `json:"attempts"`
		Text     string    `json:"text,omitzero"`
	}

	// OutboxOutcome is what is known of the publish of a mark_first wakeup, per target (O-12, K-8).
	OutboxOutcome struct {
		N       int     `json:"n"`
		Target  string  `json:"target,omitzero"`
		Outcome Outcome `json:"outcome"`
		Cause   string  `json:"cause,omitzero"`
	}

	// OutboxResolved is an operator's word on an unknown publish (O-17).
	OutboxResolved struct {
		N       int        `json:"n"`
		Target  string     `json:"target,omitzero"`
		Outcome Resolution `json:"outcome"`
		Actor   string     `json:"actor"`
		Reason  string     `json:"reason"`
	}
)

func (OutboxArmed) EventType() Type      { return TypeOutboxArmed }
func (OutboxClaimed) EventType() Type    { return TypeOutboxClaimed }
func (OutboxDispatched) EventType() Type { return TypeOutboxDispatched }
func (OutboxReleased) EventType() Type   { return TypeOutboxReleased }
func (OutboxDropped) EventType() Type    { return TypeOutboxDropped }
func (OutboxParked) EventType() Type     { return TypeOutboxParked }
func (OutboxOutcome) EventType() Type    { return TypeOutboxOutcome }
func (OutboxResolved) EventType() Type   { return TypeOutboxResolved }

func (OutboxArmed) event()      {}
func (OutboxClaimed) event()    {}
func (OutboxDispatched) event() {}
func (OutboxReleased) event()   {}
func (OutboxDropped) event()    {}
func (OutboxParked) event()     {}
func (OutboxOutcome) event()    {}
func (OutboxResolved) event()   {}
