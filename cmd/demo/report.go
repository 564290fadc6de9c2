package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

// report is what -json prints. Its field names are stable; new fields may be added.
type report struct {
	OK         bool             `json:"ok"`
	Problems   []string         `json:"problems"` // why not, in sentences
	Repository repositoryReport `json:"repository"`
	Seed       uint64           `json:"seed"`
	Dir        string           `json:"dir,omitempty"` // with -keep
	TookMS     int64            `json:"took_ms"`
	Cases      []caseReport     `json:"cases"`
	Runs       []runReport      `json:"runs"`
	Oracle     oracle           `json:"oracle"`
	Verify     string           `json:"verify"`     // ok, or failed
	Events     int              `json:"events"`     // of the log, when it was verified
	Stranded   int              `json:"stranded"`   // open runs, and wakeups that are overdue, claimed or parked
	Unresolved []string         `json:"unresolved"` // wakeups that wait for a person's word
}

type repositoryReport struct {
	Path    string `json:"path"`
	Created bool   `json:"created"`
	Commits int    `json:"commits"`
	Window  string `json:"window"`
	Windows int    `json:"windows"`
}

type caseReport struct {
	Name        string   `json:"name"`
	Row         string   `json:"row"`    // of the crash table
	Window      string   `json:"window"` // W0 to W8
	Title       string   `json:"title"`
	Killed      bool     `json:"killed"` // the process died by SIGKILL, and by nothing else
	PID         int      `json:"pid"`
	Unit        string   `json:"unit,omitempty"`
	RecoveredMS int64    `json:"recovered_ms"` // from the start of the next process until the log showed it
	Outcome     outcome  `json:"outcome"`
	Left        []string `json:"left"`     // in the log, by the dead process
	Recovery    []string `json:"recovery"` // in the log, by the next
	Found       []string `json:"found"`    // beside the log
	left, after trail    // as they are
	autopsy     string   // between death and recovery
	proof       string   // after it
}

type runReport struct {
	Run       string `json:"run"`
	Mode      string `json:"mode"`
	Status    string `json:"status"`
	Units     int    `json:"units"`
	Succeeded int    `json:"succeeded"`
	Failed    int    `json:"failed"`
	PostSync  string `json:"post_sync"` // what is known of its publish: accepted, refused, unknown; empty: not sent yet
	Cause     string `json:"post_sync_cause,omitempty"`
	Applied   int    `json:"applied"` // how often its action ran, by the rows that it has left
}

func newReport(repo repository, o options, dir string) *report {
	r := &report{Seed: o.seed, Repository: repositoryReport{
		Path: repo.path, Created: repo.created, Commits: repo.commits, Window: string(repo.layout.Calendar), Windows: len(repo.periods),
	}}
	if o.keep != "" {
		r.Dir = dir
	}
	return r
}

// add opens the report of a crash. Until it is recovered its outcome is empty.
func (r *report) add(c *crash) *caseReport {
	r.Cases = append(r.Cases, caseReport{Name: c.row + " " + c.title, Row: c.row, Window: c.window, Title: c.title})
	return &r.Cases[len(r.Cases)-1]
}

func (r *report) problem(format string, args ...any) {
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
}

// judge draws the conclusion.
func (r *report) judge() {
	for i, c := range r.Cases {
		if c.Outcome != crashes[i].want {
			r.problem("%s: not recovered", c.Name)
		}
	}
	if len(r.Cases) < len(crashes) {
		r.problem("only %d of %d crashes were made", len(r.Cases), len(crashes))
	}
	if o := r.Oracle; !o.holds() {
		r.problem("git has %d commits, the table %d rows: %d lost, %d doubled, %d unexpected", o.Git, o.Rows, o.Lost, o.Doubled, o.Unexpected)
	}
	if r.Verify != "ok" {
		r.Verify = "failed"
	}
	for i, run := range r.Runs {
		if run.Status != string(events.RunSucceeded) {
			r.problem("run %s ended %s, %d of %d units failed", run.Run, run.Status, run.Failed, run.Units)
		}
		want := 1
		if i == 0 {
			want = 0 // it was killed before its post_sync was sent
		}
		if run.Applied != want {
			r.problem("the post_sync action of run %s ran %d times, not %d", run.Run, run.Applied, want)
		}
	}
	r.OK = len(r.Problems) == 0
}

// strands reports a wakeup that is not where it should be when everything is done. One that lies ahead is on its way, and
// one to which its run owes nothing any more, because it has ended, is dropped when its time comes (O-8).
func strands(g projections.Register, run events.RunStatus, now time.Time) bool {
	switch g.Status {
	case decider.RegisterPending:
		owed := g.Kind == events.KindPostSync || !run.Terminal()
		return owed && !g.AvailableAt.After(now)
	case decider.RegisterClaimed, decider.RegisterMarked, decider.RegisterParked:
		return true
	case decider.RegisterIdle, decider.RegisterUnresolved:
	}
	return false
}

// print writes the document.
func (r *report) print(w io.Writer) error {
	for i := range r.Cases {
		c := &r.Cases[i]
		c.Left, c.Recovery, c.Found = c.left.lines(), c.after.lines(), []string{}
		for _, found := range []string{c.autopsy, c.proof} {
			if found != "" {
				c.Found = append(c.Found, found)
			}
		}
	}
	r.Problems, r.Unresolved = orEmpty(r.Problems), orEmpty(r.Unresolved)
	r.Cases, r.Runs = orEmpty(r.Cases), orEmpty(r.Runs)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// orEmpty keeps null out of the document.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// lines are the events, one line each, with whole ids: a program may look for them.
func (t trail) lines() []string {
	out := []string{}
	for _, env := range t {
		out = append(out, fmt.Sprintf("%d %s %s", env.Position, env.Stream, events.Describe(env.Event)))
	}
	return out
}
