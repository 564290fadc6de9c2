package decider

import "github.com/towline-dev/towline/events"

// Control is the fold of a control stream: whether the engine, or a source, is paused.
//
//	open ──EnginePaused, SourcePaused──► paused ──EngineResumed, SourceResumed──► open
//
// It is a hold on dispatch and on nothing else: what is dispatched may be claimed, what runs settles.
type Control struct {
	Source string // empty: the engine
	Paused bool
	By     string // who made it so, and why
	Reason string
	Since  events.Micros

	Releases int // of restored holds (DUR-5), which have nothing to do with the pause
}

func (c Control) evolve(env events.Envelope) Control {
	c.Source, _ = env.Stream.Control()
	switch e := env.Event.(type) {
	case events.EnginePaused:
		return c.made(true, e.Actor, e.Reason, env.At)
	case events.SourcePaused:
		return c.made(true, e.Actor, e.Reason, env.At)
	case events.EngineResumed:
		return c.made(false, e.Actor, e.Reason, env.At)
	case events.SourceResumed:
		return c.made(false, e.Actor, e.Reason, env.At)
	case events.RestoreHoldReleased:
		c.Releases++
	}
	return c
}

func (c Control) made(paused bool, by, reason string, at events.Micros) Control {
	c.Paused, c.By, c.Reason, c.Since = paused, by, reason, at
	return c
}

// PauseEngine stops the dispatch of all units. What is paused stays paused: the first who did it stays on record.
type PauseEngine struct{ Actor, Reason string }

func (PauseEngine) Name() string            { return "pause_engine" }
func (PauseEngine) Stream() events.StreamID { return events.EngineControlStream() }
func (PauseEngine) Fresh() bool             { return false }

func (c PauseEngine) decide(s State) ([]events.Event, *Rejection) {
	if s.(Control).Paused {
		return nil, nil
	}
	return []events.Event{events.EnginePaused{Actor: c.Actor, Reason: c.Reason}}, nil
}

// ResumeEngine ends a pause of the engine. Who executes it wakes the runs that waited.
type ResumeEngine struct{ Actor, Reason string }

func (ResumeEngine) Name() string            { return "resume_engine" }
func (ResumeEngine) Stream() events.StreamID { return events.EngineControlStream() }
func (ResumeEngine) Fresh() bool             { return false }

func (c ResumeEngine) decide(s State) ([]events.Event, *Rejection) {
	if !s.(Control).Paused {
		return nil, nil
	}
	return []events.Event{events.EngineResumed{Actor: c.Actor, Reason: c.Reason}}, nil
}

// PauseSource stops the dispatch of the units of one source, in every run.
type PauseSource struct{ Source, Actor, Reason string }

func (PauseSource) Name() string              { return "pause_source" }
func (c PauseSource) Stream() events.StreamID { return events.SourceControlStream(c.Source) }
func (PauseSource) Fresh() bool               { return false }

func (c PauseSource) decide(s State) ([]events.Event, *Rejection) {
	if s.(Control).Paused {
		return nil, nil
	}
	return []events.Event{events.SourcePaused{Actor: c.Actor, Reason: c.Reason}}, nil
}

// ResumeSource ends a pause of a source. Who executes it wakes the runs that waited.
type ResumeSource struct{ Source, Actor, Reason string }

func (ResumeSource) Name() string              { return "resume_source" }
func (c ResumeSource) Stream() events.StreamID { return events.SourceControlStream(c.Source) }
func (ResumeSource) Fresh() bool               { return false }

func (c ResumeSource) decide(s State) ([]events.Event, *Rejection) {
	if !s.(Control).Paused {
		return nil, nil
	}
	return []events.Event{events.SourceResumed{Actor: c.Actor, Reason: c.Reason}}, nil
}
