// Package metrics shows what a node does to Prometheus, in its text format. Little is counted in the engine for it: most counters
// and histograms are read from the log, each event once, at the scrape behind it; gauges are read from the views by index, so a
// scrape costs as much as what is open and what has happened since the last one, and never as much as history.
//
// A counter begins at the start of the process. The values of each label come from a closed set: words of this program, and
// names of the configuration. docs/METRICS.md says what there is.
package metrics

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	vm "github.com/VictoriaMetrics/metrics"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/projections"
)

// Config of a Handler. The node is required.
type Config struct {
	Node    *node.Node
	Store   string       // path of the store's file; empty: its size is not shown
	Version string       // of the program
	Logger  *slog.Logger // nil: slog.Default()
}

// Handler answers scrapes. It is safe for concurrent use; one scrape waits for the other.
type Handler struct {
	c      Config
	logger *slog.Logger

	mu      sync.Mutex
	follow  follower
	buckets map[events.Bucket]bool // that were shown once: a gauge that ends goes to 0
}

// New makes the handler of a node, whose counters begin with the start of it. Errors: a store that cannot be read.
func New(ctx context.Context, c Config) (*Handler, error) {
	if c.Node == nil {
		return nil, errors.New("metrics: node is missing")
	}
	h := &Handler{c: c, logger: c.Logger, buckets: map[events.Bucket]bool{}}
	if h.logger == nil {
		h.logger = slog.Default()
	}
	vm.ExposeMetadata(true)
	h.follow = newFollower()
	err := c.Node.Engine().View(ctx, func(v projections.View) error {
		started, err := v.Started(c.Node.Engine().Node())
		h.follow.after = max(started.Position-1, 0)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return h, nil
}

// scrapeTime bounds what a scrape reads. What is left of the log is read by the next.
const scrapeTime = 5 * time.Second

// ServeHTTP answers a scrape. A store that cannot be read leaves out what is read from it, and keeps the rest: towline_seq is
// then missing.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ctx, cancel := context.WithTimeout(r.Context(), scrapeTime)
	defer cancel()
	gauges := gauges{vm.NewSet()}
	h.process(gauges)
	h.files(gauges)
	if err := h.read(ctx, gauges); err != nil && r.Context().Err() == nil {
		h.logger.Warn("a scrape could not read the store", "error", err)
	}
	var text bytes.Buffer
	gauges.set.WritePrometheus(&text)
	h.follow.set.WritePrometheus(&text)
	h.tallied(&text)
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(withHelp(text.Bytes())) // a scraper that has gone away does not see it
}

// read brings the counters up to the log, then reads the gauges of one state.
func (h *Handler) read(ctx context.Context, g gauges) error {
	e := h.c.Node.Engine()
	for more := true; more; {
		err := e.View(ctx, func(v projections.View) error {
			page, err := v.After(h.follow.after, followPage)
			for _, x := range page {
				h.follow.take(x)
			}
			more = len(page) == followPage
			return err
		})
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			break
		}
	}
	g.put("towline_clock_step_seconds", h.follow.step(e.Now()))
	if err := h.budget(ctx, g); err != nil {
		return err
	}
	return e.View(ctx, func(v projections.View) error { return h.views(v, g) })
}

// followPage is how many events are read at once.
const followPage = 1000
