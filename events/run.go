package events

// Numbers of the run family. A number is never reused.
const (
	TypeRunPlanned Type = iota + 1
	TypeRunDispatchStarted
	TypeRunFinalized
	TypeRunCancelled
	TypePostSyncStarted
	TypePostSyncCompleted
	TypePostSyncFailed
)

type (
	// RunPlanned opens a run: its job was opened in the same transaction.
	RunPlanned struct {
		Job         JobID     `json:"job_id"`
		Sync        string    `json:"sync"`
		TriggeredBy Trigger   `json:"triggered_by"`
		Occurrence  string    `json:"occurrence,omitzero"`
		RetryOf     RunID     `json:"retry_of,omitzero"`
		Mode        Mode      `json:"mode"`
		Selection   Selection `json:"selection,omitzero"`
		LeftOut     []LeftOut `json:"left_out,omitempty"`
		TotalUnits  int       `json:"total_units,omitzero"`
		Policy      Policy    `json:"policy"`
	}

	// RunDispatchStarted says that the first unit of the run got a slot.
	RunDispatchStarted struct{}

	// RunFinalized ends a run; the run stream is the once-only ledger of it (R-3, R-1a).
	RunFinalized struct {
		Status RunStatus `json:"status"`
		Reason string    `json:"reason,omitzero"`
		Counts
		PostSyncOwed bool `json:"post_sync_owed,omitzero"`
	}

	// RunCancelled ends a run by an operator.
	RunCancelled struct {
		Actor  string `json:"actor"`
		Reason string `json:"reason,omitzero"`
		Counts
		PostSyncOwed bool `json:"post_sync_owed,omitzero"`
	}

	// PostSyncStarted is written before the effect, once per generation and target (HP-2).
	PostSyncStarted struct {
		Generation string `json:"generation"`
		Target     string `json:"target"`
		MessageID  string `json:"message_id"`
	}

	// PostSyncCompleted says that the effect of a target is done.
	PostSyncCompleted struct {
		Generation string `json:"generation"`
		Target     string `json:"target"`
		MessageID  string `json:"message_id"`
		Result     string `json:"result,omitzero"`
	}

	// PostSyncFailed says that the effect of a target failed. In at_most_once mode it is not tried again.
	PostSyncFailed struct {
		Generation string   `json:"generation"`
		Target     string   `json:"target"`
		MessageID  string   `json:"message_id"`
		Category   Category `json:"category"`
		Text       string   `json:"text,omitzero"`
	}
)

func (RunPlanned) EventType() Type         { return TypeRunPlanned }
func (RunDispatchStarted) EventType() Type { return TypeRunDispatchStarted }
func (RunFinalized) EventType() Type       { return TypeRunFinalized }
func (RunCancelled) EventType() Type       { return TypeRunCancelled }
func (PostSyncStarted) EventType() Type    { return TypePostSyncStarted }
func (PostSyncCompleted) EventType() Type  { return TypePostSyncCompleted }
func (PostSyncFailed) EventType() Type     { return TypePostSyncFailed }

func (RunPlanned) event()         {}
func (RunDispatchStarted) event() {}
func (RunFinalized) event()       {}
func (RunCancelled) event()       {}
func (PostSyncStarted) event()    {}
func (PostSyncCompleted) event()  {}
func (PostSyncFailed) event()     {}
