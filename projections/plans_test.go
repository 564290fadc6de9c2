package projections_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/store"
)

var rewrite = flag.Bool("rewrite", false,
	"write the plans of this SQLite to testfixtures/plans instead of comparing with them")

// recorder remembers the queries that go through it.
type recorder struct {
	store.ReadTx
	queries []recorded
}

type recorded struct {
	query string
	args  []any
}

func (r *recorder) Query(scan func(store.Row) error, query string, args ...any) error {
	r.queries = append(r.queries, recorded{query, args})
	return r.ReadTx.Query(scan, query, args...)
}

// hot are the queries that run all the time: in a decision, in every pass, or on a page that somebody keeps open.
var hot = []struct {
	name string
	ask  func(*recorder) error
}{
	{"unarmed_messages", func(r *recorder) error { return second(projections.NewView(r).UnarmedMessages(100)) }},
	{"runs_ending", func(r *recorder) error { return second(projections.NewView(r).RunsEnding("7Q4ZKD")) }},
	{"in_memory", func(r *recorder) error { return second(projections.NewView(r).InMemory()) }},
	{"due_suspects", func(r *recorder) error {
		suspects := projections.Wakeups{Kinds: []events.Kind{events.KindMessage}, Suspects: projections.OnlySuspects}
		return second(projections.NewView(r).DueOf(suspects, now, projections.DueCursor{}, 1))
	}},
	{"lost_messages", func(r *recorder) error {
		return second(projections.NewView(r).LostMessages(now, events.MessageID{}, 100))
	}},
	{"message", func(r *recorder) error {
		_, _, err := projections.NewView(r).Message(events.MessageID{})
		return err
	}},
	{"message_row", func(r *recorder) error {
		_, _, err := projections.NewView(r).MessageRow(events.MessageID{})
		return err
	}},
	{"keyed_message", func(r *recorder) error {
		_, _, err := projections.NewView(r).KeyedMessage("t", "k")
		return err
	}},
	{"messages", func(r *recorder) error { return second(projections.NewView(r).Messages(events.MessageID{}, 10)) }},
	{"rejected_messages", func(r *recorder) error {
		return second(projections.NewView(r).RejectedMessages(events.MessageID{}, 10))
	}},
	{"dead_claims", func(r *recorder) error {
		return second(projections.NewView(r).DeadClaims(now, projections.Key{},
			100))
	}},
	{"expired_leases", func(r *recorder) error {
		return second(projections.NewView(r).ExpiredLeases(now, projections.LeaseCursor{}, 100))
	}},
	{"orphaned_leases", func(r *recorder) error {
		return second(projections.NewView(r).OrphanedLeases(projections.LeaseCursor{}, 100))
	}},
	{"unwoken_dispatch", func(r *recorder) error {
		return second(projections.NewView(r).Unwoken(events.KindDispatch, now, decider.Redrive{}, events.RunID{}, 100))
	}},
	{"unwoken_finalize", func(r *recorder) error {
		return second(projections.NewView(r).Unwoken(events.KindFinalize, now, decider.Redrive{}, events.RunID{}, 100))
	}},
	{"unwoken_posts", func(r *recorder) error {
		return second(projections.NewView(r).UnwokenPosts(decider.Redrive{}, events.RunID{}, 100))
	}},
	{"held_effects", func(r *recorder) error { return second(projections.NewView(r).HeldEffects(events.RunID{}, 10)) }},
	{"unannounced", func(r *recorder) error { return second(projections.NewView(r).Unannounced(events.RunID{}, 1)) }},
	{"held", func(r *recorder) error { return second(projections.NewView(r).Held()) }},
	{"owing", func(r *recorder) error {
		_, _, err := projections.NewView(r).Owing(events.RunID{}, now, 1, projections.Holds{})
		return err
	}},
	{"holds", func(r *recorder) error { return second(projections.NewView(r).Holds(now, nil)) }},
	{"last_configured", func(r *recorder) error {
		_, _, err := projections.NewView(r).LastConfigured(events.NodeID{1})
		return err
	}},
	{"clock", func(r *recorder) error { return second(projections.NewView(r).ClockBehind()) }},
	{"next_expiry", func(r *recorder) error { return second(projections.NewView(r).NextExpiry()) }},
	{"due_of", func(r *recorder) error {
		return second(projections.NewView(r).DueOf(projections.Wakeups{Kinds: events.Kinds[:]}, now, projections.DueCursor{}, 50))
	}},
	{"due_repeatable", func(r *recorder) error {
		return second(projections.NewView(r).DueOf(repeatable, now, projections.DueCursor{}, 50))
	}},
	{"next_due_of", func(r *recorder) error { return second(projections.NewView(r).NextDueOf(repeatable)) }},
	{"count_units", func(r *recorder) error { return second(projections.NewView(r).CountUnits(now)) }},
	{"count_open", func(r *recorder) error { _, _, err := projections.NewView(r).CountOpen(); return err }},
	{"count_due", func(r *recorder) error { return second(projections.NewView(r).CountDue(repeatable, now)) }},
	{"open_breakers", func(r *recorder) error { return second(projections.NewView(r).OpenBreakers()) }},
	{"checkpoint", func(r *recorder) error { return second(projections.Position(r)) }},
	{"keyed_job", func(r *recorder) error {
		_, _, _, _, err := projections.NewView(r).KeyedJob("s", "k", now)
		return err
	}},
	{"open_run_of", func(r *recorder) error {
		_, _, err := projections.NewView(r).OpenRunOf("s")
		return err
	}},
	{"covered", func(r *recorder) error { return second(projections.NewView(r).Covered("s", "d")) }},
	{"count_gaps", func(r *recorder) error { return second(projections.NewView(r).CountGaps()) }},
	{"left_state", func(r *recorder) error { return second(projections.NewView(r).LeftState("s", "d")) }},
	{"brought", func(r *recorder) error { return second(projections.NewView(r).Brought(events.RunID{})) }},
	{"run", func(r *recorder) error {
		_, _, err := projections.NewView(r).Run(aRun(r))
		return err
	}},
	{"unit", func(r *recorder) error {
		_, _, err := projections.NewView(r).Unit(events.UnitID{})
		return err
	}},
	{"runs", func(r *recorder) error { return second(projections.NewView(r).Runs(events.RunID{}, 1)) }},
	{"open_runs", func(r *recorder) error { return second(projections.NewView(r).OpenRuns(events.RunID{}, 1)) }},
	{"units", func(r *recorder) error { return second(projections.NewView(r).Units(events.RunID{}, 0, 10)) }},
	{"jobs", func(r *recorder) error { return second(projections.NewView(r).Jobs(events.JobID{}, 1)) }},
	{"unsucceeded", func(r *recorder) error { return second(projections.NewView(r).Unsucceeded(events.RunID{})) }},
	{"retries_of", func(r *recorder) error { return second(projections.NewView(r).RetriesOf(events.RunID{}, 10)) }},
	{"registers_of", func(r *recorder) error { return second(projections.NewView(r).RegistersOf(events.RunID{})) }},
	{"lost_effects", func(r *recorder) error {
		return second(projections.NewView(r).LostEffects(projections.Begun{}, 100))
	}},
	{"held_registers", func(r *recorder) error { return second(projections.NewView(r).HeldRegisters(100)) }},
	{"open_registers", func(r *recorder) error { return second(projections.NewView(r).OpenRegisters(100)) }},
	{"alive_nodes", func(r *recorder) error { return second(projections.NewView(r).AliveNodes()) }},
	{"nodes", func(r *recorder) error { return second(projections.NewView(r).Nodes(10)) }},
	{"schedules", func(r *recorder) error { return second(projections.NewView(r).Schedules()) }},
	{"schedule", func(r *recorder) error {
		_, _, err := projections.NewView(r).Schedule("s")
		return err
	}},
	{"occurrences", func(r *recorder) error {
		return second(projections.NewView(r).Occurrences("s", projections.OccurrenceCursor{}, 10))
	}},
	{"queued_occurrences", func(r *recorder) error { return second(projections.NewView(r).QueuedOccurrences("s", 10)) }},
	{"decided", func(r *recorder) error { return second(projections.NewView(r).Decided("s", now)) }},
	{"missed", func(r *recorder) error { return second(projections.NewView(r).Missed("s", 0, 10)) }},
	{"load_hot", func(r *recorder) error { return second(projections.LoadHot(r, hotKnobs())) }},
}

const now = events.Micros(1)

var repeatable = projections.Wakeups{Kinds: []events.Kind{events.KindDispatch, events.KindPostSync}, Repeatable: true}

func second[T any](_ T, err error) error { return err }

// aRun is an open run, so that its units are counted too.
func aRun(r *recorder) (id events.RunID) {
	runs, err := projections.NewView(r.ReadTx).OpenRuns(events.RunID{}, 1)
	if err != nil || len(runs) == 0 {
		panic(fmt.Sprint("the history has no open run: ", err))
	}
	return runs[0].Run
}

// bounded are the indexes that hold open things only, so that walking one does not grow with history; the tables are as
// long as the catalogue.
var bounded = []string{
	"USING COVERING INDEX runs_open", "USING INDEX runs_open", "USING INDEX runs_post",
	"USING COVERING INDEX runs_post", "USING INDEX runs_effects", "USING COVERING INDEX runs_effects", "USING INDEX units_lease",
	"USING INDEX outbox_claims",
	"USING COVERING INDEX messages_parked", "USING COVERING INDEX messages_unarmed", "USING INDEX messages_unarmed", "USING INDEX messages_in_process",
	"USING COVERING INDEX messages_in_process",
	"USING INDEX nodes_alive", "USING COVERING INDEX nodes_alive", "SCAN watermarks", "SCAN left_state",
	"USING INDEX controls_paused", "SCAN controls", "SCAN c", "SCAN cooldowns", "SCAN cooldown_sources", "SCAN schedules",
	"SCAN projection", "SCAN clock", "SCAN restored", "SCAN x VIRTUAL TABLE", "SCAN x EXISTS VIRTUAL TABLE", // x: the targets of one register
	"SCAN CONSTANT ROW",
}

// ordered are pages that walk a primary key from a place to a LIMIT: a walk without an end of its own, that stops by
// itself.
var ordered = regexp.MustCompile(`(?s)ORDER BY \S+ DESC LIMIT \$\d$`)

// REC-4, SC-250, HC-55: the plan of every hot query is on record, and none walks a table that grows with history.
func TestPlansOfHotQueries(t *testing.T) {
	h := toldUntil(t, 21, func(h *history) bool { return len(h.plain(`SELECT 1 FROM runs WHERE completed_at IS NULL`)) > 0 })
	for _, q := range hot {
		t.Run(q.name, func(t *testing.T) {
			var got strings.Builder
			h.read(func(r store.Reader) {
				rec := &recorder{ReadTx: r}
				require.NoError(t, q.ask(rec))
				require.NotEmpty(t, rec.queries)
				seen := map[string]bool{}
				for _, x := range rec.queries {
					if seen[x.query] {
						continue
					}
					seen[x.query] = true
					plan := h.plan(x)
					fmt.Fprintf(&got, "%s\n----\n%s\n", tidy(x.query), plan)
					for _, line := range strings.Split(plan, "\n") {
						if strings.Contains(line, "SCAN") && !ordered.MatchString(strings.TrimSpace(x.query)) {
							require.True(t, containsAny(line, bounded), "%s: %s\n%s", q.name, line, x.query)
						}
						if strings.Contains(x.query, "LIMIT") {
							require.NotContains(t, line, "USE TEMP B-TREE FOR ORDER BY", "%s\n%s", q.name, x.query)
						}
						require.NotContains(t, line, "AUTOMATIC", "%s\n%s", q.name, x.query)
					}
				}
			})
			golden(t, filepath.Join("..", "testfixtures", "plans", q.name+".txt"), got.String())
		})
	}
}

// plan is what SQLite does for a query, as an indented text.
func (h *history) plan(q recorded) string {
	var lines []string
	depth := map[int64]int{}
	for _, row := range h.plain(`EXPLAIN QUERY PLAN `+q.query, q.args...) {
		id, parent := row["id"].(int64), row["parent"].(int64)
		depth[id] = depth[parent] + 1
		lines = append(lines, strings.Repeat("  ", depth[id]-1)+row["detail"].(string))
	}
	return strings.Join(lines, "\n")
}

// tidy is a query without the indentation of its source.
func tidy(query string) string {
	var lines []string
	for _, l := range strings.Split(query, "\n") {
		if l = strings.TrimSpace(l); l != "" {
			lines = append(lines, l)
		}
	}
	return strings.Join(lines, "\n")
}

func containsAny(s string, list []string) bool {
	for _, x := range list {
		if strings.Contains(s, x) {
			return true
		}
	}
	return false
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *rewrite {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "run the test with -rewrite")
	require.Equal(t, string(want), got, "read the difference, and run the test with -rewrite if it is meant")
}
