package httpapi

import "github.com/towline-dev/towline/wire"

// The forms of requests and answers are those of package wire, which a client can use without this package.
type (
	Coverage     = wire.Coverage     // Coverage is that of package wire
	Covered      = wire.Covered      // Covered is that of package wire
	Dispatch     = wire.Dispatch     // Dispatch is that of package wire
	Entry        = wire.Entry        // Entry is that of package wire
	Event        = wire.Event        // Event is that of package wire
	Events       = wire.Events       // Events is that of package wire
	Evidence     = wire.Evidence     // Evidence is that of package wire
	Explanation  = wire.Explanation  // Explanation is that of package wire
	Job          = wire.Job          // Job is that of package wire
	JobLinks     = wire.JobLinks     // JobLinks is that of package wire
	LeftOut      = wire.LeftOut      // LeftOut is that of package wire
	Links        = wire.Links        // Links is that of package wire
	List[T any]  = wire.List[T]      // List is that of package wire
	Next         = wire.Next         // Next is that of package wire
	PauseRequest = wire.PauseRequest // PauseRequest is that of package wire
	Paused       = wire.Paused       // Paused is that of package wire
	Resolve      = wire.Resolve      // Resolve is that of package wire
	Result       = wire.Result       // Result is that of package wire
	RetryRun     = wire.RetryRun     // RetryRun is that of package wire
	Run          = wire.Run          // Run is that of package wire
	Selection    = wire.Selection    // Selection is that of package wire
	StartRun     = wire.StartRun     // StartRun is that of package wire
	State        = wire.State        // State is that of package wire
	Target       = wire.Target       // Target is that of package wire
	Unit         = wire.Unit         // Unit is that of package wire
	UnitError    = wire.UnitError    // UnitError is that of package wire
	UnitLease    = wire.UnitLease    // UnitLease is that of package wire
	Why          = wire.Why          // Why is that of package wire
	Window       = wire.Window       // Window is that of package wire
)
