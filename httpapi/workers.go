package httpapi

import (
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/transport/pull"
)

// heard is when a worker was last heard of over the API, for people who wonder why nothing moves. It is in memory only.
type heard struct {
	at  atomic.Int64 // the last call, or the start, in microseconds since 1970
	now atomic.Int32 // calls that are being answered, such as one that waits for a unit
}

// hear counts a call of the worker protocol that is let in, until the function that it returns is called. One that is refused, as
// for its token, does no unit.
func (h *heard) hear(r *http.Request) (over func()) {
	if r.Method != http.MethodPost || !strings.HasPrefix(r.URL.Path, "/v1/leases/") && !strings.HasSuffix(r.URL.Path, "/claim") {
		return func() {}
	}
	h.now.Add(1)
	return func() {
		h.at.Store(time.Now().UnixMicro())
		h.now.Add(-1)
	}
}

// noWorkerSince is since when no worker has been heard of, where units wait for workers that ask; zero: one has, or they do not.
func (s *Server) noWorkerSince() time.Time {
	if s.c.Node.Transport(events.KindUnit) != pull.Name || s.workers.now.Load() > 0 {
		return time.Time{}
	}
	since := time.UnixMicro(s.workers.at.Load())
	if time.Since(since) < s.engine().Knobs().Lease/2 { // they wait for units, and while they work they renew every third
		return time.Time{}
	}
	return since
}

// waitsForWorker reports a reason that lasts for as long as no worker asks: also a cap, which units fill that nobody takes.
func waitsForWorker(why decider.WaitReason) bool {
	return why == decider.WaitForWorker || why == decider.WaitCapped
}
