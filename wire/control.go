package wire

import "github.com/towline-dev/towline/projections"

// PauseRequest is the body of POST /v1/pause and /v1/resume.
type PauseRequest struct {
	Source string `json:"source,omitzero" doc:"not given: the engine"`
	// ClockOK confirms the wall clock (CLK-7); it ends no pause.
	ClockOK bool   `json:"clock_ok,omitzero" doc:"of resume: the wall clock is right although it lies before the newest event"`
	Reason  string `json:"reason" minLength:"1" doc:"for the record"`
}

// Paused is what is paused now.
type Paused struct {
	Items []projections.Pause `json:"items" nullable:"false" doc:"the engine first, then by source"`
}
