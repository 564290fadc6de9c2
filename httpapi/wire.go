package httpapi

import "github.com/towline-dev/towline/wire"

// The forms of requests and answers are those of package wire, which a client can use without this package.
type (
	Coverage     = wire.Coverage
	Covered      = wire.Covered
	Dispatch     = wire.Dispatch
	Entry        = wire.Entry
	Event        = wire.Event
	Events       = wire.Events
	Evidence     = wire.Evidence
	Explanation  = wire.Explanation
	Job          = wire.Job
	JobLinks     = wire.JobLinks
	LeftOut      = wire.LeftOut
	Links        = wire.Links
	List[T any]  = wire.List[T]
	Next         = wire.Next
	PauseRequest = wire.PauseRequest
	Paused       = wire.Paused
	Resolve      = wire.Resolve
	Result       = wire.Result
	RetryRun     = wire.RetryRun
	Run          = wire.Run
	Selection    = wire.Selection
	StartRun     = wire.StartRun
	State        = wire.State
	Target       = wire.Target
	Unit         = wire.Unit
	UnitError    = wire.UnitError
	UnitLease    = wire.UnitLease
	Why          = wire.Why
	Window       = wire.Window
)
