package events

// Numbers of the job family. A number is never reused.
const (
	TypeJobOpened Type = iota + 60
	TypeJobLinked
	TypeJobClosed
)

type (
	// JobOpened is the activity that a person sees for one trigger. It comes before its run is planned.
	JobOpened struct {
		Trigger            Trigger `json:"trigger"`
		Actor              string  `json:"actor,omitzero"`
		Reason             string  `json:"reason,omitzero"`
		Sync               string  `json:"sync"` // scope of the key (P-11)
		IdempotencyKey     string  `json:"idempotency_key,omitzero"`
		RequestFingerprint string  `json:"request_fingerprint,omitzero"`
	}

	// JobLinked names the run of a job, in the transaction that plans it.
	JobLinked struct {
		Run RunID `json:"run_id"`
	}

	// JobClosed ends a job in the transaction that ends its run (J-1).
	JobClosed struct {
		Status RunStatus `json:"status"`
		Counts
	}
)

func (JobOpened) EventType() Type { return TypeJobOpened }
func (JobLinked) EventType() Type { return TypeJobLinked }
func (JobClosed) EventType() Type { return TypeJobClosed }

func (JobOpened) event() {}
func (JobLinked) event() {}
func (JobClosed) event() {}
