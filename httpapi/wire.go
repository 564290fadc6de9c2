package httpapi

import "github.com/towline-dev/towline/wire"

type (
	// The forms of requests and answers are in a package of their own, which a client can use without this one.

	// Coverage is that of package wire.
	Coverage = wire.Coverage
	// Covered is that of package wire.
	Covered = wire.Covered
	// Dispatch is that of package wire.
	Dispatch = wire.Dispatch
	// DryRun is that of package wire.
	DryRun = wire.DryRun
	// PlannedUnit is that of package wire.
	PlannedUnit = wire.PlannedUnit
	// Entry is that of package wire.
	Entry = wire.Entry
	// Event is that of package wire.
	Event = wire.Event
	// Events is that of package wire.
	Events = wire.Events
	// Evidence is that of package wire.
	Evidence = wire.Evidence
	// Explanation is that of package wire.
	Explanation = wire.Explanation
	// Job is that of package wire.
	Job = wire.Job
	// JobLinks is that of package wire.
	JobLinks = wire.JobLinks
	// LeftOut is that of package wire.
	LeftOut = wire.LeftOut
	// Links is that of package wire.
	Links = wire.Links
	// List is that of package wire.
	List[T any] = wire.List[T]
	// Next is that of package wire.
	Next = wire.Next
	// PauseRequest is that of package wire.
	PauseRequest = wire.PauseRequest
	// Paused is that of package wire.
	Paused = wire.Paused
	// Resolve is that of package wire.
	Resolve = wire.Resolve
	// Result is that of package wire.
	Result = wire.Result
	// ResumeRequest is that of package wire.
	ResumeRequest = wire.ResumeRequest
	// RetryRun is that of package wire.
	RetryRun = wire.RetryRun
	// Run is that of package wire.
	Run = wire.Run
	// Selection is that of package wire.
	Selection = wire.Selection
	// StartRun is that of package wire.
	StartRun = wire.StartRun
	// State is that of package wire.
	State = wire.State
	// Target is that of package wire.
	Target = wire.Target
	// Unit is that of package wire.
	Unit = wire.Unit
	// UnitError is that of package wire.
	UnitError = wire.UnitError
	// UnitLease is that of package wire.
	UnitLease = wire.UnitLease
	// Why is that of package wire.
	Why = wire.Why
	// Window is that of package wire.
	Window = wire.Window
	// Schedule is that of package wire.
	Schedule = wire.Schedule
	// ScheduleWait is that of package wire.
	ScheduleWait = wire.ScheduleWait
	// Fire is that of package wire.
	Fire = wire.Fire
	// Occurrence is that of package wire.
	Occurrence = wire.Occurrence
	// MissedTimes is that of package wire.
	MissedTimes = wire.MissedTimes
	// Lease is that of package wire.
	Lease = wire.Lease
	// Leases is that of package wire.
	Leases = wire.Leases
	// Known is that of package wire.
	Known = wire.Known
	// Claim is that of package wire.
	Claim = wire.Claim
	// ClaimAny is that of package wire.
	ClaimAny = wire.ClaimAny
	// Progress is that of package wire.
	Progress = wire.Progress
	// Renew is that of package wire.
	Renew = wire.Renew
	// Renewed is that of package wire.
	Renewed = wire.Renewed
	// Complete is that of package wire.
	Complete = wire.Complete
	// Fail is that of package wire.
	Fail = wire.Fail
	// Release is that of package wire.
	Release = wire.Release
	// Settled is that of package wire.
	Settled = wire.Settled
	// RunNow is that of package wire.
	RunNow = wire.RunNow
)
