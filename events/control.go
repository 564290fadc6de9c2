package events

// Numbers of the control family. A number is never reused.
const (
	TypeEnginePaused Type = iota + 90
	TypeEngineResumed
	TypeRestoreHoldReleased
	TypeSourcePaused
	TypeSourceResumed
)

type (
	// EnginePaused, EngineResumed, SourcePaused and SourceResumed hold and free dispatch.
	EnginePaused struct {
		Actor  string `json:"actor"`
		Reason string `json:"reason,omitzero"`
	}
	EngineResumed struct {
		Actor  string `json:"actor"`
		Reason string `json:"reason,omitzero"`
	}
	SourcePaused struct {
		Actor  string `json:"actor"`
		Reason string `json:"reason,omitzero"`
	}
	SourceResumed struct {
		Actor  string `json:"actor"`
		Reason string `json:"reason,omitzero"`
	}

	// RestoreHoldReleased ends a restored hold (DUR-5).
	RestoreHoldReleased struct {
		Actor  string `json:"actor"`
		Reason string `json:"reason"`
	}
)

func (EnginePaused) EventType() Type        { return TypeEnginePaused }
func (EngineResumed) EventType() Type       { return TypeEngineResumed }
func (RestoreHoldReleased) EventType() Type { return TypeRestoreHoldReleased }
func (SourcePaused) EventType() Type        { return TypeSourcePaused }
func (SourceResumed) EventType() Type       { return TypeSourceResumed }

func (EnginePaused) event()        {}
func (EngineResumed) event()       {}
func (RestoreHoldReleased) event() {}
func (SourcePaused) event()        {}
func (SourceResumed) event()       {}
