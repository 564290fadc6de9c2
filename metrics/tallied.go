package metrics

import (
	"fmt"
	"io"
	"strconv"

	vm "github.com/VictoriaMetrics/metrics"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store/sqlite"
)

// tallied writes what the node counts itself, since the log does not say it.
func (h *Handler) tallied(w io.Writer) {
	set := vm.NewSet()
	for _, k := range events.Kinds {
		absorbed := max(h.c.Node.Engine().AbsorbedOf(k), 0)
		set.GetOrCreateCounter(fmt.Sprintf("towline_duplicates_absorbed_total{kind=%q}", k)).Set(uint64(absorbed))
	}
	set.GetOrCreateCounter("towline_verify_failures_total").Set(uint64(max(h.c.Node.VerifyState().Failures, 0)))
	set.WritePrometheus(w)
	stats := h.c.Node.StoreStats()
	histogram(w, "towline_commit_seconds", stats.Seconds)
	histogram(w, "towline_group_commit_size", stats.Group)
}

// histogram writes one that somebody else has counted.
func histogram(w io.Writer, name string, d sqlite.Distribution) {
	fmt.Fprintf(w, "# HELP %s\n# TYPE %s histogram\n", name, name)
	total := int64(0)
	for i, n := range d.Counts {
		total += n
		bound := "+Inf"
		if i < len(d.Bounds) {
			bound = number(d.Bounds[i])
		}
		fmt.Fprintf(w, "%s_bucket{le=%q} %d\n", name, bound, total)
	}
	fmt.Fprintf(w, "%s_sum %s\n%s_count %d\n", name, number(d.Sum), name, total)
}

func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
