package wire

import "github.com/towline-dev/towline/projections"

// PauseRequest is the body of POST /v1/pause.
type PauseRequest struct {
	Source string `json:"source,omitzero" doc:"not given: the engine"`
	Reason string `json:"reason" minLength:"1" doc:"for the record"`
}

// ResumeRequest is the body of POST /v1/resume.
type ResumeRequest struct {
	Source       string `json:"source,omitzero" doc:"not given: the engine"`
	AfterRestore bool   `json:"after_restore,omitzero" doc:"ends the hold of a restored store, and no pause; goes with no source"`
	ClockOK      bool   `json:"clock_ok,omitzero" doc:"the wall clock is right although it lies before the newest event (CLK-7); ends no pause, and goes with no source"`
	Reason       string `json:"reason" minLength:"1" doc:"for the record"`
}

// Paused is what is paused now.
type Paused struct {
	Items []projections.Pause `json:"items" nullable:"false" doc:"the engine first, then by source"`
	// Ended is of after_restore and clock_ok; nil: neither was asked for.
	Ended *bool `json:"ended,omitempty" doc:"of after_restore and clock_ok: false, there was nothing to end, and nothing was written"`
}
