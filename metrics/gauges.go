package metrics

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"

	vm "github.com/VictoriaMetrics/metrics"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

// gauges are those of one scrape.
type gauges struct{ set *vm.Set }

// put sets a gauge. labels are names and values in turn.
func (g gauges) put(name string, value float64, labels ...string) {
	if len(labels) > 0 {
		var pairs []string
		for i := 0; i < len(labels); i += 2 {
			pairs = append(pairs, fmt.Sprintf("%s=%q", labels[i], labels[i+1]))
		}
		name += "{" + strings.Join(pairs, ",") + "}"
	}
	g.set.GetOrCreateGauge(name, nil).Set(value)
}

// process is what the process knows of itself, also while its store cannot be read.
func (h *Handler) process(g gauges) {
	e := h.c.Node.Engine()
	h.proofs(g)
	g.put("towline_schedules_waiting", float64(len(e.ScheduleWaits())))
	g.put("towline_info", 1, "version", cmp.Or(h.c.Version, "dev"), "incarnation", e.Node().String())
	now := e.Now().Time()
	for _, l := range h.c.Node.Loops() {
		age := 0.0
		// The loop that reconciles owes a round in each interval. The others have one when there is something to do, so only one
		// that fails is late.
		if !l.LastSuccess.IsZero() && (l.Name == "reconcile" || !l.FailingSince.IsZero()) {
			age = now.Sub(l.LastSuccess).Seconds()
		}
		if l.LastSuccess.IsZero() && !l.FailingSince.IsZero() {
			age = now.Sub(l.FailingSince).Seconds()
		}
		g.put("towline_loop_last_success_age_seconds", max(age, 0), "loop", l.Name)
	}
}

// proofs say whether the copies and the checks that a node makes by itself are made.
func (h *Handler) proofs(g gauges) {
	verified := h.c.Node.VerifyState()
	at := 0.0 // Unix time: there was none yet
	if !verified.LastOK.IsZero() {
		at = float64(verified.LastOK.UnixMilli()) / 1000
	}
	g.put("towline_verify_last_ok_timestamp", at)
	if b := h.c.Node.BackupState(); b.Every > 0 {
		g.put("towline_backup_age_seconds", h.c.Node.BackupAge().Seconds())
		g.put("towline_backup_every_seconds", b.Every.Seconds())
	}
}

// files are the sizes of the store on its disk; a file that is not there has none.
func (h *Handler) files(g gauges) {
	if h.c.Store == "" {
		return
	}
	for name, path := range map[string]string{"towline_store_bytes": h.c.Store, "towline_wal_bytes": h.c.Store + "-wal"} {
		size := int64(0)
		if info, err := os.Stat(path); err == nil {
			size = info.Size()
		}
		g.put(name, float64(size))
	}
}

// views are the gauges of one state of the log.
func (h *Handler) views(v projections.View, g gauges) error {
	for _, read := range []func(projections.View, gauges) error{h.outbox, h.held, h.breakers, h.runs, h.units, h.gaps} {
		if err := read(v, g); err != nil {
			return err
		}
	}
	seq, _, err := v.Head()
	if err == nil {
		g.put("towline_seq", float64(seq))
	}
	return err
}

// transportOf is the label of a kind; none: another process of the store publishes it.
func (h *Handler) transportOf(k events.Kind) string { return cmp.Or(h.c.Node.Transport(k), "none") }

// forEver is behind every due time: what is not due yet is pending, too.
const forEver = events.Micros(1<<63 - 1)

func (h *Handler) outbox(v projections.View, g gauges) error {
	now := h.c.Node.Engine().Now()
	for _, k := range events.Kinds {
		all := projections.Wakeups{Kinds: []events.Kind{k}, Suspects: projections.AlsoSuspects}
		pending, err := v.CountDue(all, forEver)
		if err != nil {
			return err
		}
		due, err := v.NextDueOf(all)
		if err != nil {
			return err
		}
		late := 0.0
		if due != 0 && due < now {
			late = seconds(now.Sub(due))
		}
		labels := []string{"kind", string(k), "transport", h.transportOf(k)}
		g.put("towline_outbox_pending", float64(pending), labels...)
		g.put("towline_outbox_oldest_due_seconds", late, labels...)
	}
	return nil
}

// maxHeld is how many entries are counted that wait for a person.
const maxHeld = 1000

func (h *Handler) held(v projections.View, g gauges) error {
	rows, err := v.HeldRegisters(maxHeld)
	if err != nil {
		return err
	}
	count := map[string]map[events.Kind]int{"parked": {}, "unresolved": {}}
	for _, r := range rows {
		if of := count[string(r.Status)]; of != nil {
			of[r.Kind]++
		}
	}
	for _, k := range events.Kinds {
		g.put("towline_outbox_parked", float64(count["parked"][k]), "kind", string(k))
		g.put("towline_outbox_unknown", float64(count["unresolved"][k]), "kind", string(k))
	}
	return nil
}

// breakers: 0 closed, 1 open. Those of all transports of this node are shown, and those that another process has opened.
func (h *Handler) breakers(v projections.View, g gauges) error {
	open, err := v.OpenBreakers()
	for _, k := range events.Kinds {
		if name := h.c.Node.Transport(k); name != "" {
			g.put("towline_breaker_state", 0, "transport", name)
		}
	}
	for _, b := range open {
		g.put("towline_breaker_state", 1, "transport", b.Transport)
	}
	return err
}

// openRuns are the states of a run that has not ended.
var openRuns = []events.RunStatus{events.RunIsPlanned, events.RunIsDispatching, events.RunIsRunning}

func (h *Handler) runs(v projections.View, g gauges) error {
	const page = 500
	count := map[events.RunStatus]int{}
	for after := (events.RunID{}); ; {
		rows, err := v.OpenRuns(after, page)
		if err != nil {
			return err
		}
		for _, r := range rows {
			count[r.Status]++
			after = r.Run
		}
		if len(rows) < page {
			break
		}
	}
	for _, s := range openRuns {
		g.put("towline_runs", float64(count[s]), "state", string(s))
	}
	return nil
}

// openUnits are the states of a unit that has not ended.
var openUnits = []events.UnitStatus{events.UnitIsPlanned, events.UnitIsDispatching, events.UnitIsRunning, events.UnitIsRetrying}

func (h *Handler) units(v projections.View, g gauges) error {
	e := h.c.Node.Engine()
	rows, err := v.CountUnits(e.Now().Add(-events.SpanOf(e.Knobs().Stale)))
	if err != nil {
		return err
	}
	h.knowBuckets()
	states, leases, slots := map[events.UnitStatus]int{}, map[events.Bucket]int{}, map[events.Bucket]int{}
	for _, u := range rows {
		states[u.Status] += u.Count
		slots[u.Bucket] += u.Fresh
		if u.Status == events.UnitIsRunning {
			leases[u.Bucket] += u.Count
		}
		if u.Fresh > 0 {
			h.buckets[u.Bucket] = true
		}
	}
	for _, s := range openUnits {
		g.put("towline_units", float64(states[s]), "state", string(s))
	}
	for b := range h.buckets { // the set sorts them
		g.put("towline_leases_live", float64(leases[b]), "bucket", string(b))
		g.put("towline_slots_in_use", float64(slots[b]), "bucket", string(b))
	}
	return nil
}

// gaps are shown of each dataset of the configuration that goes by a calendar. What else it has failed to read is read again with
// the next window, since its watermark stands still.
func (h *Handler) gaps(v projections.View, g gauges) error {
	rows, err := v.CountGaps()
	if err != nil {
		return err
	}
	type place struct{ source, dataset string }
	count := map[place]int{}
	for _, r := range rows {
		count[place{r.Source, r.Dataset}] = r.Count
	}
	for _, s := range h.c.Node.Engine().Syncs() {
		for _, d := range s.Datasets {
			if d.Window == "" {
				continue
			}
			n := 0
			for _, source := range s.Sources {
				n += count[place{source, d.Name}]
			}
			g.put("towline_window_gaps", float64(n), "sync", s.Name, "dataset", d.Name)
		}
	}
	return nil
}

// budget is shown if the store has one.
func (h *Handler) budget(ctx context.Context, g gauges) error {
	b, err := h.c.Node.Engine().Budget(ctx)
	if err == nil && b.Max > 0 {
		g.put("towline_store_budget_ratio", b.Ratio())
	}
	return err
}

// knowBuckets enters those of the configuration, which are shown also while they are empty.
func (h *Handler) knowBuckets() {
	for _, s := range h.c.Node.Engine().Syncs() {
		for _, d := range s.Datasets {
			h.buckets[events.NewBucket(s.Provider, d.Cost)] = true
		}
	}
}
