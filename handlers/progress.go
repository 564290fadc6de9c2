package handlers

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
)

// UnitProgress says how far a running unit of this process is.
type UnitProgress struct {
	Unit        events.UnitID
	Alias       string
	Run         events.RunID
	Attempt     int
	Done, Total int64 // Total 0: not known
	Rows        int   // put so far
	Since       time.Time
	Heard       time.Time     // when its provider last put a row or reported progress; at first Since
	StallAfter  time.Duration // of its provider; zero: its silence says nothing
}

// Stalled reports that the provider has been silent for longer than it may be (WHY-1).
func (u UnitProgress) Stalled(now time.Time) bool {
	return u.StallAfter > 0 && now.Sub(u.Heard) >= u.StallAfter
}

// progress is what providers report. It is in memory only: it costs no write, and dies with the attempt it is about.
type progress struct {
	mu    sync.Mutex
	units map[events.UnitID]*UnitProgress
}

func (p *progress) begin(l *towline.Lease, stallAfter time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.units[l.Unit.Unit] = &UnitProgress{
		Unit: l.Unit.Unit, Alias: l.Unit.Alias, Run: l.Unit.Run, Attempt: l.Unit.Attempt, Since: now, Heard: now,
		StallAfter: max(stallAfter, 0),
	}
}

func (p *progress) end(unit events.UnitID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.units, unit)
}

func (p *progress) report(unit events.UnitID, change func(*UnitProgress)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if u, ok := p.units[unit]; ok {
		change(u)
		u.Heard = time.Now()
	}
}

// Progress lists the running units of this process, the longest running first.
func (h *Handlers) Progress() []UnitProgress { return h.attempts.Progress() }

// Progress lists the running units, the longest running first.
func (a *Attempts) Progress() []UnitProgress {
	a.progress.mu.Lock()
	defer a.progress.mu.Unlock()
	out := make([]UnitProgress, 0, len(a.progress.units))
	for _, u := range a.progress.units {
		out = append(out, *u)
	}
	slices.SortFunc(out, func(a, b UnitProgress) int {
		return cmp.Or(a.Since.Compare(b.Since), a.Unit.Compare(b.Unit))
	})
	return out
}
