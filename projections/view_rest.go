package projections

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// JobRun is the activity of one trigger. While it is open, Status is that of its run (J-1).
type JobRun struct {
	Job      events.JobID     `json:"job_id"`
	Result   JobResult        `json:"result"`
	Trigger  events.Trigger   `json:"trigger"`
	Sync     string           `json:"sync"`
	Actor    string           `json:"actor,omitzero"`
	Reason   string           `json:"reason,omitzero"`
	Key      string           `json:"idempotency_key,omitzero"`
	Status   events.RunStatus `json:"status"`
	OpenedAt time.Time        `json:"opened_at"`
	ClosedAt time.Time        `json:"closed_at,omitzero"`
}

// JobResult is the link that the original's administrators know: result.sync_run_id beside the counts.
type JobResult struct {
	Run events.RunID `json:"sync_run_id,omitzero"`
	events.Counts
}

// Jobs lists jobs, newest first, at most limit of them before a job; the zero id begins at the newest.
func (v View) Jobs(before events.JobID, limit int) ([]JobRun, error) {
	if before.IsZero() {
		for i := range before {
			before[i] = 0xff
		}
	}
	return v.jobs(`SELECT `+jobColumns+` FROM jobs j WHERE j.job_id < $1 ORDER BY j.job_id DESC LIMIT $2`, before[:], limit)
}

// Job is one job, and false if there is none of that id.
func (v View) Job(id events.JobID) (JobRun, bool, error) {
	jobs, err := v.of(jobRow(id)).jobs(`SELECT `+jobColumns+` FROM jobs j WHERE j.job_id = $1`, id[:])
	if err != nil || len(jobs) == 0 {
		return JobRun{}, false, err
	}
	return jobs[0], true, nil
}

const jobColumns = `j.job_id, j.run_id, j.trigger, j.sync, j.actor, j.reason, j.idempotency_key, j.status, j.succeeded_units,
	j.failed_units, j.cancelled_units, j.opened_at, j.closed_at`

func (v View) jobs(query string, args ...any) ([]JobRun, error) {
	var out []JobRun
	err := v.tx.Query(func(r store.Row) error {
		var j JobRun
		var id, run []byte
		var trigger string
		var actor, reason, key, status *string
		var succeeded, failed, cancelled, closed *int64
		var opened int64
		err := r.Scan(&id, &run, &trigger, &j.Sync, &actor, &reason, &key, &status, &succeeded, &failed, &cancelled, &opened, &closed)
		if err != nil {
			return err
		}
		copy(j.Job[:], id)
		copy(j.Result.Run[:], run)
		j.Trigger, j.Actor, j.Reason, j.Key = events.Trigger(trigger), deref(actor), deref(reason), deref(key)
		j.Status = events.RunStatus(deref(status))
		j.Result.Succeeded, j.Result.Failed, j.Result.Cancelled = int(derefInt(succeeded)), int(derefInt(failed)), int(derefInt(cancelled))
		j.OpenedAt, j.ClosedAt = events.Micros(opened).Time(), optionalTime(closed)
		out = append(out, j)
		return nil
	}, query, args...)
	if err != nil {
		return nil, fmt.Errorf("read jobs: %w", err)
	}
	for i := range out {
		if err := v.overlay(&out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// overlay shows the live status of the run on a job that is still open.
func (v View) overlay(j *JobRun) error {
	if j.Result.Run.IsZero() {
		return nil
	}
	run, ok, err := v.Run(j.Result.Run)
	if err != nil || !ok {
		return err
	}
	j.Result.Counts = events.Counts{Total: run.Total, Succeeded: run.Succeeded, Failed: run.Failed, Cancelled: run.Cancelled}
	if j.Status == "" {
		j.Status = run.Status
	}
	return nil
}

// KeyedJob is the newest job of a sync that was opened with an idempotency key at or after a time (P-11).
func (v View) KeyedJob(sync, key string, since events.Micros) (job events.JobID, run events.RunID, fingerprint string, found bool, err error) {
	err = v.tx.Query(func(r store.Row) error {
		var j, u []byte
		var f *string
		if err := r.Scan(&j, &u, &f); err != nil {
			return err
		}
		copy(job[:], j)
		copy(run[:], u)
		fingerprint, found = deref(f), true
		return nil
	}, `SELECT job_id, run_id, request_fingerprint FROM jobs WHERE sync = $1 AND idempotency_key = $2 AND opened_at >= $3
		ORDER BY opened_at DESC LIMIT 1`, sync, key, int64(since))
	return job, run, fingerprint, found, err
}

// Watermark says up to where a source and dataset has been read, and which unit set it.
type Watermark struct {
	Source  string        `json:"source"`
	Dataset string        `json:"dataset"`
	At      time.Time     `json:"at"`
	Unit    events.UnitID `json:"unit_id"`
}

// Watermarks lists every watermark, by source and dataset: one per configured pair, so it is as long as the catalogue.
func (v View) Watermarks() ([]Watermark, error) {
	var out []Watermark
	err := v.tx.Query(func(r store.Row) error {
		var w Watermark
		var at int64
		var unit []byte
		if err := r.Scan(&w.Source, &w.Dataset, &at, &unit); err != nil {
			return err
		}
		w.At = events.Micros(at).Time()
		copy(w.Unit[:], unit)
		out = append(out, w)
		return nil
	}, `SELECT source, dataset, at, unit_id FROM watermarks ORDER BY source, dataset`)
	return out, err
}

// Covered lists the calendar periods of a source and dataset that have succeeded, by start.
func (v View) Covered(source, dataset string) ([]decider.Period, error) {
	var out []decider.Period
	err := v.tx.Query(func(r store.Row) error {
		var from, to int64
		var fingerprint *string
		if err := r.Scan(&from, &to, &fingerprint); err != nil {
			return err
		}
		out = append(out, decider.Period{Window: windowOf(&from, to), Fingerprint: deref(fingerprint)})
		return nil
	}, `SELECT window_from, window_to, fingerprint FROM coverage
		WHERE source = $1 AND dataset = $2 AND succeeded_at IS NOT NULL ORDER BY window_from, window_to`,
		source, dataset)
	return out, err
}

// Gaps counts the calendar periods whose newest unit ended without a success, by source and dataset (W-8).
type Gaps struct {
	Source, Dataset string
	Count           int
}

// CountGaps counts the gaps of each source and dataset that has one. It reads those, whatever has succeeded.
func (v View) CountGaps() ([]Gaps, error) {
	var out []Gaps
	err := v.tx.Query(func(r store.Row) error {
		var g Gaps
		err := r.Scan(&g.Source, &g.Dataset, &g.Count)
		out = append(out, g)
		return err
	}, `SELECT source, dataset, count(*) FROM coverage WHERE missed_at IS NOT NULL GROUP BY source, dataset ORDER BY source, dataset`)
	return out, err
}

// LeftState is what the last success of a source and dataset left for the next; nil: nothing.
func (v View) LeftState(source, dataset string) (json.RawMessage, error) {
	var state json.RawMessage
	err := v.tx.Query(func(r store.Row) error {
		var s string
		if err := r.Scan(&s); err != nil {
			return err
		}
		state = json.RawMessage(s)
		return nil
	}, `SELECT state FROM left_state WHERE source = $1 AND dataset = $2`, source, dataset)
	return state, err
}

// Node is one incarnation.
type Node struct {
	Incarnation events.NodeID    `json:"incarnation"`
	Host        string           `json:"host,omitzero"`
	PID         int              `json:"pid,omitzero"`
	Version     string           `json:"version,omitzero"`
	StoreMode   events.StoreMode `json:"store_mode"`
	StartedAt   time.Time        `json:"started_at"`
	StoppedAt   time.Time        `json:"stopped_at,omitzero"`
	Gone        bool             `json:"gone"`
}

// Nodes lists incarnations, newest first, at most limit of them.
func (v View) Nodes(limit int) ([]Node, error) {
	return v.nodes(`SELECT incarnation, host, pid, version, store_mode, started_at, stopped_at, gone FROM nodes
		ORDER BY incarnation DESC LIMIT $1`, limit)
}

// Started is the start of an incarnation.
func (v View) Started(id events.NodeID) (events.Envelope, error) {
	at := int64(0)
	err := v.tx.Query(func(r store.Row) error { return r.Scan(&at) }, `SELECT position FROM nodes WHERE incarnation = $1`, id[:])
	if err != nil || at == 0 {
		return events.Envelope{}, err
	}
	page, err := v.tx.After(events.Position(at-1), 1)
	if err != nil || len(page) == 0 {
		return events.Envelope{}, err
	}
	return page[0], nil
}

// NewestNode is the incarnation that has started last, gone or not; false: none has.
func (v View) NewestNode() (id events.NodeID, known bool, err error) {
	err = v.tx.Query(func(r store.Row) error {
		known = true
		return scanID(r, &id)
	}, `SELECT incarnation FROM nodes ORDER BY position DESC LIMIT 1`)
	return id, known, err
}

// AliveNodes lists the incarnations that are not known to be gone (N-3).
func (v View) AliveNodes() ([]Node, error) {
	return v.nodes(`SELECT incarnation, host, pid, version, store_mode, started_at, stopped_at, gone FROM nodes
		WHERE gone = 0 ORDER BY incarnation`)
}

// FirstNode is the first incarnation in the log, by which a store is known (HU-5); false: there was none yet. It reads the
// row of every start.
func (v View) FirstNode() (id events.NodeID, found bool, err error) {
	err = v.tx.Query(func(r store.Row) error {
		found = true
		return scanID(r, &id)
	}, `SELECT incarnation FROM nodes ORDER BY position LIMIT 1`)
	if err != nil {
		return id, false, fmt.Errorf("read the first incarnation: %w", err)
	}
	return id, found, nil
}

func (v View) nodes(query string, args ...any) ([]Node, error) {
	var out []Node
	err := v.tx.Query(func(r store.Row) error {
		var n Node
		var id []byte
		var host, version *string
		var mode string
		var started int64
		var stopped *int64
		var gone int
		if err := r.Scan(&id, &host, &n.PID, &version, &mode, &started, &stopped, &gone); err != nil {
			return err
		}
		copy(n.Incarnation[:], id)
		n.Host, n.Version, n.StoreMode = deref(host), deref(version), events.StoreMode(mode)
		n.StartedAt, n.StoppedAt, n.Gone = events.Micros(started).Time(), optionalTime(stopped), gone == 1
		out = append(out, n)
		return nil
	}, query, args...)
	if err != nil {
		return nil, fmt.Errorf("read nodes: %w", err)
	}
	return out, nil
}
