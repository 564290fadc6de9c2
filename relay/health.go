package relay

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Loop is how one of the loops of a process fares.
type Loop struct {
	Name        string    `json:"name"`                  // reconcile, watch, or relay/TRANSPORT; of a node also prune
	LastSuccess time.Time `json:"last_success,omitzero"` // of a round; zero: there was none yet
	// FailingSince is when the rounds began to fail, one behind the other; zero: the last one has not.
	FailingSince time.Time `json:"failing_since,omitzero"`
	Error        string    `json:"error,omitzero"` // of the last round that failed, while FailingSince is set
}

// loopHealth is what each loop says of its rounds.
type loopHealth struct {
	mu    sync.Mutex
	loops map[string]Loop
}

func (h *loopHealth) note(name string, now time.Time, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.loops == nil {
		h.loops = map[string]Loop{}
	}
	l := h.loops[name]
	l.Name = name
	switch {
	case err == nil:
		l.LastSuccess, l.FailingSince, l.Error = now, time.Time{}, ""
	case l.FailingSince.IsZero():
		l.FailingSince, l.Error = now, err.Error()
	default:
		l.Error = err.Error()
	}
	h.loops[name] = l
}

// Loops lists the loops that have run, by name. The one named reconcile has a round in every reconcile.interval; the others
// when there is something to do.
func (r *Runner) Loops() []Loop {
	r.health.mu.Lock()
	defer r.health.mu.Unlock()
	out := make([]Loop, 0, len(r.health.loops))
	for _, l := range r.health.loops { // sorted below
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b Loop) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
