package httpapi

import (
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

func windowOf(w events.Window) Window { return Window{Name: w.Name(), From: w.From, To: w.To} }

func unitOf(u projections.SyncRunUnit) Unit {
	out := Unit{
		ID: u.Unit, Alias: u.Alias, Run: u.Run, Ordinal: u.Ordinal, Source: u.Source, Provider: u.Provider, Dataset: u.Dataset,
		Members: notNil(u.Members), Tier: u.Tier, Cost: u.Cost, Mode: u.Mode, Window: windowOf(u.Window), Surfaces: notNil(u.Surfaces),
		Fingerprint: u.Fingerprint, State: u.Status, Reason: u.Reason, Attempt: u.Attempt, Dispatches: u.Dispatch, ClaimedSeq: u.Claimed,
		AvailableAt: u.AvailableAt, Retries: u.ExpiredLeaseRetries, Suspect: u.Suspect, Deferrals: u.RateLimitDeferrals,
		HandBacks: u.HandBacks, LateResults: u.LateResults, DurationMS: u.Duration.Milliseconds(), PlannedAt: u.PlannedAt,
		Dispatched: u.LastDispatchedAt, ClaimedAt: u.ClaimedAt, SettledAt: u.SettledAt,
	}
	if u.Status == events.UnitIsRunning {
		out.Lease = &UnitLease{Worker: u.Worker, Node: u.LeaseNode, ExpiresAt: u.LeaseExpiresAt, GraceUntil: u.GraceUntil}
	}
	if u.ErrorCategory != "" {
		out.Error = &UnitError{Category: u.ErrorCategory, Text: u.ErrorText}
	}
	if r := u.Result; r.Rows != 0 || r.Fingerprint != "" || len(r.State) > 0 || len(r.Detail) > 0 {
		out.Result = &Result{Rows: r.Rows, Fingerprint: r.Fingerprint, State: r.State, Detail: r.Detail}
	}
	return out
}

func notNil(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
