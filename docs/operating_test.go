//go:build unix

package docs_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
	"github.com/towline-dev/towline/sink/sqlite"
	"github.com/towline-dev/towline/transport"
	"github.com/towline-dev/towline/transport/local"
)

// The tests of this file hold OPERATING.md to what the program does.

// readings is a sync of days that writes a row for each of them.
func readings(dest sink.Opener, does provider.Func) node.Sync {
	return node.Sync{
		Name: "readings", Sources: []string{"harbour"}, Provider: does, Sink: dest,
		Datasets: []towline.Dataset{{Name: "readings", Window: towline.Day, Depth: 2 * days}},
	}
}

// writes puts one row for its window.
func writes(ctx context.Context, u provider.Unit, s sink.Sink) (provider.Result, error) {
	return provider.Result{}, s.Put(ctx, u.Dataset, u.Window.Name(), map[string]string{"run": u.Run.String()})
}

func destination(t *testing.T, path string, opts ...sqlite.Option) *sqlite.Destination {
	t.Helper()
	d := sqlite.File(path, opts...)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// open opens a node that says nothing, on a store of its own or on the one that c names.
func open(t *testing.T, c node.Config) *node.Node {
	t.Helper()
	if c.Store == "" {
		c.Store = filepath.Join(t.TempDir(), "towline.db")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Unsynced = true // tests lose no power
	c.Knobs.ShutdownGrace = -1
	n, err := node.Open(t.Context(), c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	return n
}

func plan(t *testing.T, n *node.Node, spec towline.RunSpec) towline.Planned {
	t.Helper()
	p, err := n.Engine().Plan(t.Context(), spec)
	require.NoError(t, err)
	return p
}

// ended plans a run and waits for its end.
func ended(t *testing.T, n *node.Node, spec towline.RunSpec) projections.SyncRun {
	t.Helper()
	run, err := n.Engine().Wait(t.Context(), plan(t, n, spec).Run)
	require.NoError(t, err)
	return run
}

// while runs a node as long as a test needs it.
func while(t *testing.T, n *node.Node, work func()) {
	t.Helper()
	require.NoError(t, n.RunWhile(t.Context(), func(context.Context) error {
		work()
		return nil
	}))
}

// until waits until a store has an answer.
func until(t *testing.T, store, question string) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for len(query(t, store, question)) == 0 {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("it did not come to be: %s", question)
		}
	}
}

// execute changes a file behind the back of whoever has it open.
func execute(t *testing.T, file, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+file)
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), statement)
	require.NoError(t, errors.Join(err, db.Close()))
}

// sqliteShell is the program with which people look into a store.
func sqliteShell(t *testing.T) string {
	t.Helper()
	shell, err := exec.LookPath("sqlite3")
	if err != nil && os.Getenv("TOWLINE_TEST_SERVICES") != "require" {
		t.Skip("sqlite3 is not installed")
	}
	require.NoError(t, err)
	return shell
}

// moody is the in-process bus in a bad mood: some messages do not get through.
type moody struct {
	*local.Bus
	name string
	says func(transport.Notice) transport.Receipt // the zero receipt: pass it on
}

func (m moody) Name() string { return m.name }

func (m moody) Send(ctx context.Context, topic string, msg *message.Message) transport.Receipt {
	n, err := transport.ParseNotice(msg)
	if err != nil {
		return transport.Refused(err)
	}
	if r := m.says(n); r.Outcome != "" {
		return r
	}
	return m.Bus.Send(ctx, topic, msg)
}

var errMood = errors.New("not today")

// troubled is a store in which everything is to be seen that an operator asks for, while its node runs.
func troubled(t *testing.T, look func(store string)) {
	store := filepath.Join(t.TempDir(), "towline.db")
	dest := destination(t, filepath.Join(t.TempDir(), "readings.db"))
	index := towline.PostSync{Targets: []towline.Target{{Name: "index", SQL: "SELECT 1"}}}
	like := func(name, source string, does provider.Func) node.Sync {
		s := readings(dest, does)
		s.Name, s.Sources = name, []string{source}
		return s
	}
	fails := func(c provider.Category) provider.Func {
		return func(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
			return provider.Result{}, provider.Fail(c, errMood)
		}
	}

	good := like("good", "harbour", writes)
	good.PostSync = index
	good.Datasets = append(good.Datasets, towline.Dataset{Name: "tides"}) // has a watermark
	retried := like("retried", "quay", fails(provider.Timeout))
	retried.Datasets[0].Retry = towline.Retry{Max: 1, Backoff: time.Hour, On: []provider.Category{provider.Timeout}}
	outcomes := like("outcomes", "buoy", writes)
	for _, name := range []string{"unsure", "lost", "unheard"} {
		outcomes.PostSync.Targets = append(outcomes.PostSync.Targets, towline.Target{Name: name, SQL: "SELECT 1"})
	}
	failing := like("failing", "weir", writes)
	failing.PostSync = towline.PostSync{Mode: towline.ExactlyOnce, Targets: []towline.Target{{Name: "index", SQL: "SELECT * FROM missing"}}}
	began := make(chan struct{}, 10)
	slow := like("slow", "lock", func(ctx context.Context, _ provider.Unit, _ sink.Sink) (provider.Result, error) {
		began <- struct{}{}
		<-ctx.Done()
		return provider.Result{}, provider.ErrStopped
	})
	slow.Datasets[0].Depth = 5 * days

	syncOf := map[events.RunID]string{} // complete before anything is published
	bus := local.New(local.Options{})
	var away atomic.Bool // what the dispatches go through
	says := func(n transport.Notice) transport.Receipt {
		switch {
		case n.Kind == events.KindDispatch && away.Load():
			return transport.Refused(errMood)
		case n.Kind == events.KindDispatch && syncOf[n.Run] == "late":
			return transport.Refused(errMood)
		case n.Kind == events.KindFinalize && syncOf[n.Run] == "stuck":
			return transport.Receipt{Outcome: events.Refused, Permanent: true, Err: errMood}
		case n.Target == "unsure":
			return transport.Unknown(errMood)
		case n.Target == "lost":
			return transport.Refused(errMood)
		case n.Target == "unheard":
			return transport.Accepted("and nobody ever heard of it")
		}
		return transport.Receipt{}
	}
	mood := moody{bus, "moody", says}
	n := open(t, node.Config{
		Store: store, Bus: bus, Workers: 2, Knobs: towline.Knobs{CapBucket: 3, BreakerFailures: 1},
		Routes: map[events.Kind]transport.Publisher{
			events.KindDispatch: moody{bus, "away", says}, events.KindFinalize: mood, events.KindPostSync: mood,
		},
		Syncs: []node.Sync{
			good, like("bad", "ridge", fails(provider.Network)), retried, outcomes, like("late", "pier", writes),
			like("stuck", "mole", writes), failing, slow,
		},
		Messages: map[string]node.Consumer{"booking.made": {
			Validate: func(*message.Message) error { return errMood },
			Handle:   func(context.Context, *sql.Tx, *message.Message) error { return nil },
		}},
	})
	_, err := n.Engine().Submit(t.Context(), towline.Message{Topic: "booking.made", Payload: []byte(`{"seat":"12A"}`)})
	require.NoError(t, err)
	for _, name := range []string{"good", "bad", "retried", "outcomes", "late", "stuck", "failing"} {
		syncOf[plan(t, n, towline.RunSpec{Sync: name}).Run] = name
	}
	while(t, n, func() {
		for id, name := range syncOf {
			if name == "good" || name == "bad" || name == "outcomes" {
				_, err := n.Engine().Wait(t.Context(), id)
				require.NoError(t, err)
			}
		}
		for _, seen := range []string{
			`SELECT 1 FROM units_view WHERE status = 'retrying'`,
			`SELECT 1 FROM outbox_view WHERE status = 'pending' AND last_cause = 'refused'`,
			`SELECT 1 FROM outbox_view WHERE status = 'parked'`,
			`SELECT 1 FROM outbox_view WHERE status = 'unresolved'`,
			`SELECT 1 FROM runs_view WHERE posts LIKE '%completed%'`,
			`SELECT 1 FROM runs_view WHERE effects = 'open' AND posts LIKE '%no such table%'`,
			`SELECT 1 FROM outbox_view WHERE kind = 'post_sync' AND status = 'idle'`,
			`SELECT 1 FROM messages_view WHERE state = 'rejected'`,
		} {
			until(t, store, seen)
		}
		followed, enough := context.WithCancel(t.Context())
		require.NoError(t, followLog(followed, n, func(stream string, r events.RunFinalized) error {
			defer enough()
			require.Contains(t, stream, "run/")
			require.NotEmpty(t, r.Status)
			return nil
		}))
		plan(t, n, towline.RunSpec{Sync: "slow", By: towline.Actor{Name: "ada", Reason: "to see it run"}})
		<-began
		<-began
		until(t, store, `SELECT 1 FROM units_view WHERE status = 'dispatching'`)
		until(t, store, `SELECT 1 FROM units_view WHERE status = 'planned'`)
		require.NoError(t, n.Engine().PauseSource(t.Context(), "mole", towline.Actor{Name: "ada", Reason: "it moves"}))
		away.Store(true)
		plan(t, n, towline.RunSpec{Sync: "late"})
		until(t, store, `SELECT 1 FROM breakers_view WHERE closed_at IS NULL`)
		look(store)
	})
}

// L-12, C-46, O-12: every question of an operator has an answer, in any SQLite, while the program runs; and the columns of
// the views are what the document says.
func TestTheQuestionsOfAnOperatorHaveAnswers(t *testing.T) {
	troubled(t, func(store string) {
		requireAnswers(t, operating, store)
		for _, q := range blocks(t, operating, "sql") {
			if strings.Contains(q, "taken.effect") {
				var got []string
				for _, row := range query(t, store, q) {
					got = append(got, fmt.Sprintf("%s %s %s", row[1], row[2], row[3]))
				}
				require.ElementsMatch(t, []string{"index accepted completed", "unsure unknown ", "lost refused ", "unheard accepted "}, got)
			}
		}
		requireKinds(t, store)
		shell := sqliteShell(t)
		for _, q := range blocks(t, operating, "sql") {
			out, err := exec.CommandContext(t.Context(), shell, "-readonly", store, q).CombinedOutput()
			require.NoError(t, err, "%s\n%s", out, q)
			require.NotEmpty(t, out, q)
		}
	})
}

// the pauses of the document are on record, and end.
func TestPausesOfTheDocument(t *testing.T) {
	n := open(t, node.Config{Store: filepath.Join(t.TempDir(), "towline.db"), Syncs: []node.Sync{{
		Name: "pages", Sources: []string{"wiki"}, Datasets: []towline.Dataset{{Name: "pages"}}, Provider: provider.Func(writes),
	}}})
	require.NoError(t, pauses(t.Context(), n.Engine()))
	_, err := n.Engine().Plan(t.Context(), towline.RunSpec{Sync: "pages"})
	require.ErrorIs(t, err, towline.ErrSourcePaused)
	by := towline.Actor{Name: "ada", Reason: "it has moved"}
	require.NoError(t, n.Engine().ResumeSource(t.Context(), "wiki", by))
	require.NoError(t, n.Engine().ResumeEngine(t.Context(), by))
	id := plan(t, n, towline.RunSpec{Sync: "pages"}).Run
	while(t, n, func() {
		_, err := n.Engine().Wait(t.Context(), id)
		require.NoError(t, err)
	})
}

// requireKinds looks at every value of the views: it is of the type that the document gives its column.
func requireKinds(t *testing.T, store string) {
	t.Helper()
	kinds := map[string]*regexp.Regexp{
		"id":     regexp.MustCompile(`^[0-9A-HJKMNP-TV-Z]{26}$`),
		"time":   regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$`),
		"number": regexp.MustCompile(`^-?\d+$`),
		"text":   regexp.MustCompile(`^`),
	}
	views := map[string][]column{}
	for _, c := range viewColumns(t) {
		views[c.view] = append(views[c.view], c)
	}
	for view, columns := range views {
		terms := make([]string, len(columns))
		for i, c := range columns {
			terms[i] = fmt.Sprintf(`typeof("%[1]s"), "%[1]s"`, c.name)
		}
		for _, row := range query(t, store, `SELECT `+strings.Join(terms, ", ")+` FROM `+view) {
			for i, c := range columns {
				is, value := row[2*i], row[2*i+1]
				if is == "null" {
					continue
				}
				require.Regexp(t, kinds[c.kind], value, "%s.%s is no %s", view, c.name, c.kind)
				require.Equal(t, c.kind == "number", is == "integer", "%s.%s is %s", view, c.name, is)
			}
		}
	}
}

// Section 6: the document explains every status of a unit and of a register, and no other.
func TestEveryStatusIsExplained(t *testing.T) {
	text, err := os.ReadFile(operating)
	require.NoError(t, err)
	row := regexp.MustCompile("(?m)^\\| `([a-z]+)` \\|")
	explained := func(head string) (out []string) {
		_, rest, ok := strings.Cut(string(text), head)
		require.True(t, ok, head)
		rest, _, _ = strings.Cut(rest, "\n\n")
		for _, m := range row.FindAllStringSubmatch(rest, -1) {
			out = append(out, m[1])
		}
		return out
	}
	terminal := []string{"succeeded", "failed", "cancelled"}
	require.Contains(t, string(text), "`succeeded`, `failed` and `cancelled` are the end.")
	require.ElementsMatch(t, constants(t, "../events/vocabulary.go", "UnitStatus"), append(explained("| unit | why"), terminal...))
	require.ElementsMatch(t, constants(t, "../decider/register.go", "RegisterStatus"), explained("| register | meaning"))
}

// L-12: the commands of the document work, in their order, in a clone.
func TestTheCommandsOfAnOperatorWork(t *testing.T) {
	sqliteShell(t)
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	clone := t.TempDir()
	example := filepath.Join(clone, "examples", "embed")
	require.NoError(t, os.CopyFS(example, os.DirFS("../examples/embed")))
	mod, err := os.ReadFile(filepath.Join(example, "go.mod"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(example, "go.mod"), []byte(strings.Replace(string(mod), "=> ../..", "=> "+root, 1)), 0o644))

	today := time.Now().UTC().Format(time.DateOnly)
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", strings.Join(blocks(t, operating, "sh"), ""))
	cmd.Dir = clone
	said, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", said)
	out := strings.Split(string(said), "\n")
	if time.Now().UTC().Format(time.DateOnly) != today {
		t.Skip("midnight has passed: the day that was written is not the last one that was read")
	}
	require.Contains(t, out, "succeeded: 62 of 62 days")
	require.Contains(t, out, "readings|succeeded|62")
	require.Contains(t, out, `harbour|`+today+` 08:00|{"value":"12.5"}`)
	read := 0
	for _, line := range out {
		if strings.HasPrefix(line, "read ") {
			read++
		}
	}
	require.Equal(t, 62, read)
	for _, copied := range []string{"station-backup.db", "readings-backup.db"} {
		require.Equal(t, [][]string{{"ok"}}, query(t, filepath.Join(example, copied), `PRAGMA integrity_check`))
	}
}

// R-1a, P-5, P-11, W-3, W-8: what a second plan takes.
func TestRunSomethingAgain(t *testing.T) {
	start := time.Now()
	now := func() time.Time { // the third of March, about noon
		return time.Date(2026, time.March, 3, 12, 0, 0, 0, time.UTC).Add(time.Since(start))
	}
	at := func(day, hour int) time.Time { return time.Date(2026, time.March, day, hour, 0, 0, 0, time.UTC) }
	var broken atomic.Value
	broken.Store("2026-03-02")
	var mu sync.Mutex
	var read []string
	does := func(ctx context.Context, u provider.Unit, s sink.Sink) (provider.Result, error) {
		mu.Lock()
		read = append(read, u.Source+" "+u.Window.Name())
		mu.Unlock()
		if u.Window.Name() == broken.Load() {
			return provider.Result{}, provider.Fail(provider.Network, errMood)
		}
		return writes(ctx, u, s)
	}
	s := readings(destination(t, filepath.Join(t.TempDir(), "readings.db")), does)
	s.Sources = []string{"harbour", "ridge"}
	moving := readings(sink.Discard, does)
	moving.Name, moving.Datasets = "moving", []towline.Dataset{{Name: "tides"}}
	n := open(t, node.Config{Now: now, Syncs: []node.Sync{s, moving}})

	again := func(spec towline.RunSpec) (took []string, run projections.SyncRun) {
		run = ended(t, n, spec)
		mu.Lock()
		defer mu.Unlock()
		took, read = read, nil
		return took, run
	}
	both := func(windows ...string) (out []string) {
		for _, w := range windows {
			out = append(out, "harbour "+w, "ridge "+w)
		}
		return out
	}
	while(t, n, func() {
		took, first := again(towline.RunSpec{Sync: "readings", Key: "march"})
		require.ElementsMatch(t, both("2026-03-01", "2026-03-02", "2026-03-03"), took, "two days back, and the open one")
		require.Equal(t, events.RunPartialFailed, first.Status)
		took, same := again(towline.RunSpec{Sync: "readings", Key: "march"})
		require.Empty(t, took, "a known key starts nothing")
		require.Equal(t, first.Run, same.Run)

		specs := requests("april", at(1, 12), at(2, 12))
		took, _ = again(specs[0])
		require.ElementsMatch(t, both("2026-03-02", "2026-03-03"), took, "what has failed, and the open day")
		broken.Store("")
		took, _ = again(towline.RunSpec{Sync: "readings"})
		require.ElementsMatch(t, both("2026-03-02", "2026-03-03"), took)
		took, _ = again(towline.RunSpec{Sync: "readings"})
		require.ElementsMatch(t, both("2026-03-03"), took, "without a key each is a run of its own")
		took, _ = again(specs[1])
		require.ElementsMatch(t, both("2026-03-01", "2026-03-02", "2026-03-03"), took)
		took, _ = again(specs[2])
		require.ElementsMatch(t, both("2026-03-01", "2026-03-02"), took, "rounded outward")
		took, _ = again(specs[3])
		require.ElementsMatch(t, []string{"ridge 2026-03-01", "ridge 2026-03-02", "ridge 2026-03-03"}, took)

		broken.Store("2026-02-01")
		_, failed := again(towline.RunSpec{Sync: "readings", Mode: towline.Backfill, Since: at(-27, 0), Before: at(-26, 0)})
		require.Equal(t, events.RunFailed, failed.Status)
		took, _ = again(towline.RunSpec{Sync: "readings"})
		require.ElementsMatch(t, both("2026-03-03"), took, "a backfill that failed lies beyond the depth")

		nothing := plan(t, n, towline.RunSpec{Sync: "readings", Sources: []string{}})
		require.Zero(t, nothing.Units)
		run, err := n.Engine().Wait(t.Context(), nothing.Run)
		require.NoError(t, err)
		require.Equal(t, events.RunFailed, run.Status)
		require.Equal(t, events.ReasonNoUnits, run.Reason)

		windowOf := func(run projections.SyncRun) (from, to time.Time) {
			require.Equal(t, 1, run.Total)
			require.NoError(t, n.Engine().View(t.Context(), func(v projections.View) error {
				units, err := v.Units(run.Run, 0, 1)
				from, to = units[0].Window.From, units[0].Window.To
				return err
			}))
			return from, to
		}
		_, run = again(towline.RunSpec{Sync: "moving", Mode: towline.Backfill, Since: at(1, 12), Before: at(2, 12)})
		from, to := windowOf(run)
		require.Equal(t, []time.Time{at(1, 12), at(2, 12)}, []time.Time{from, to}, "without a calendar nothing is rounded")
		_, run = again(towline.RunSpec{Sync: "moving"})
		from, firstEnd := windowOf(run)
		require.Equal(t, at(3, 12).AddDate(0, 0, -30), from.Truncate(time.Hour))
		_, run = again(towline.RunSpec{Sync: "moving"})
		from, _ = windowOf(run)
		require.Equal(t, firstEnd, from, "from the watermark, which no backfill has moved")
	})
}

// B-2: the workers are the first limit, the cap of the bucket is the second.
func TestTheWorkersAreTheFirstLimit(t *testing.T) {
	for workers, together := range map[int]int{0: 4, 20: 8} {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			store := filepath.Join(t.TempDir(), "towline.db")
			began, goOn := make(chan struct{}, 20), make(chan struct{})
			s := readings(nil, func(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
				began <- struct{}{}
				<-goOn
				return provider.Result{}, nil
			})
			s.Datasets[0].Depth = 11 * days
			n := open(t, node.Config{Store: store, Workers: workers, Syncs: []node.Sync{s}})
			p := plan(t, n, towline.RunSpec{Sync: "readings"})
			while(t, n, func() {
				for range together {
					<-began
				}
				require.Equal(t, [][]string{{fmt.Sprint(together), "8"}}, query(t, store, `
					SELECT sum(status = 'running'), sum(status IN ('running', 'dispatching'))
					FROM units_view`))
				close(goOn)
				_, err := n.Engine().Wait(t.Context(), p.Run)
				require.NoError(t, err)
			})
		})
	}
}

// O-10, K-4, K-5: a post_sync goes to a broker, and a consumer learns what the run has brought; a publisher that
// cannot confirm refuses the start.
func TestAPostSyncByABroker(t *testing.T) {
	broker := gochannel.NewGoChannel(gochannel.Config{OutputChannelBuffer: 10}, watermill.NopLogger{})
	messages, err := broker.Subscribe(t.Context(), string(events.KindPostSync))
	require.NoError(t, err)
	type call struct {
		generation, target string
		post               transport.PostNotice
	}
	calls := make(chan call, 10)
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		refusals := 1
		follow(messages, func(generation, target string, n transport.Notice) error {
			calls <- call{generation, target, *n.Post}
			refusals--
			if refusals >= 0 {
				return errMood
			}
			return nil
		})
	}()
	store := filepath.Join(t.TempDir(), "towline.db")
	s := readings(nil, func(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
		return provider.Result{}, nil
	})
	s.PostSync.Targets = []towline.Target{{Name: "index"}}
	n := open(t, node.Config{Store: store, Syncs: []node.Sync{s}, Routes: routes(broker)})
	require.NoError(t, broker.Publish(string(events.KindPostSync), message.NewMessage("x", []byte("what nobody can read"))))
	while(t, n, func() {
		run := ended(t, n, towline.RunSpec{Sync: "readings"})
		for range 2 { // it was refused once
			got := <-calls
			require.Equal(t, run.Run.String()+".1", got.generation)
			require.Equal(t, "index", got.target)
			require.Equal(t, []string{"harbour"}, got.post.Sources)
		}
		until(t, store, `SELECT 1 FROM outbox_view WHERE kind = 'post_sync' AND status = 'idle' AND outcomes ->> '$[0].outcome' = 'accepted'`)
	})
	require.Empty(t, query(t, store, `SELECT 1 FROM runs_view WHERE posts IS NOT NULL`))
	require.NoError(t, broker.Close())
	<-followed

	blind := transport.FromWatermill("blind", broker, transport.Traits{})
	_, err = node.Open(t.Context(), node.Config{
		Store: filepath.Join(t.TempDir(), "towline.db"), Syncs: []node.Sync{s},
		Routes: map[events.Kind]transport.Publisher{events.KindPostSync: blind},
	})
	require.ErrorContains(t, err, "cannot confirm")
}

// O-13, O-15: how long a broker may be away before a wakeup is parked.
func TestABrokerMayBeAwayForAnHour(t *testing.T) {
	k := defaults(t)
	var away time.Duration
	for attempt := 1; attempt < k.MaxAttempts; attempt++ {
		away += min(k.BackoffBase<<min(attempt-1, 20), k.BackoffCap)
	}
	require.Equal(t, 70*time.Minute, away.Truncate(time.Minute))
}

// HU-5, I-26: a copy of an open store is a store. Beside a sink that has gone on without it its attempts are refused
// and go on behind it, until its log has caught up or they are given up; what was open in it goes on, and its post_sync
// comes a second time.
func TestAnOldCopyOfTheStore(t *testing.T) {
	dir := t.TempDir()
	dest := destination(t, filepath.Join(dir, "readings.db"))
	s := readings(dest, writes)
	s.PostSync.Targets = []towline.Target{{Name: "ledger", SQL: `
		CREATE TABLE IF NOT EXISTS ledger (generation TEXT);
		INSERT INTO ledger VALUES (:generation)`}}
	original, old := filepath.Join(dir, "towline.db"), filepath.Join(dir, "old.db")

	bus := local.New(local.Options{})
	mute := moody{bus, "mute", func(transport.Notice) transport.Receipt { return transport.Refused(errMood) }}
	soon := towline.Knobs{BackoffBase: time.Millisecond, BackoffCap: time.Millisecond, MaxAttempts: 1_000_000}
	n := open(t, node.Config{
		Store: original, Syncs: []node.Sync{s}, Knobs: soon, Bus: bus,
		Routes: map[events.Kind]transport.Publisher{events.KindFinalize: mute},
	})
	p := plan(t, n, towline.RunSpec{Sync: "readings"})
	while(t, n, func() {
		until(t, original, `SELECT 1 FROM outbox_view WHERE kind = 'finalize_sync_run' AND last_cause = 'refused'`)
		execute(t, original, "VACUUM INTO '"+old+"'")
	})
	n = open(t, node.Config{Store: original, Syncs: []node.Sync{s}, Knobs: soon})
	while(t, n, func() {
		_, err := n.Engine().Wait(t.Context(), p.Run)
		require.NoError(t, err)
		for range 15 {
			require.Equal(t, events.RunSucceeded, ended(t, n, towline.RunSpec{Sync: "readings", Mode: towline.FullResync}).Status)
		}
	})

	n = open(t, node.Config{Store: old, Syncs: []node.Sync{s}, Knobs: soon})
	while(t, n, func() {
		require.NoError(t, prove(t.Context(), n))
		_, err := n.Engine().Wait(t.Context(), p.Run)
		require.NoError(t, err)
		require.Equal(t, events.RunFailed, ended(t, n, towline.RunSpec{Sync: "readings", Mode: towline.FullResync}).Status)
	})
	for _, row := range query(t, old, `SELECT attempt, error_category, error_text FROM units_view WHERE status = 'failed'`) {
		require.Equal(t, []string{"10", "provider_error"}, row[:2])
		require.Contains(t, row[2], "handed back 10 times in a row")
	}
	require.Equal(t, [][]string{{"2"}}, query(t, dest.Path(), `SELECT count(*) FROM ledger WHERE generation = '`+p.Run.String()+`.1'`))
}

// HU-5: a new store beside a sink that another one has written is refused, until it is told to take over; then the other
// one is.
func TestANewStoreTakesOver(t *testing.T) {
	dir := t.TempDir()
	sunk := filepath.Join(dir, "readings.db")
	run := func(store string, opts ...sqlite.Option) events.RunStatus {
		n := open(t, node.Config{
			Store: filepath.Join(dir, store), Syncs: []node.Sync{readings(destination(t, sunk, opts...), writes)},
		})
		var status events.RunStatus
		while(t, n, func() {
			status = ended(t, n, towline.RunSpec{Sync: "readings", Mode: towline.FullResync}).Status
		})
		return status
	}
	require.Equal(t, events.RunSucceeded, run("old.db"))
	require.Equal(t, events.RunFailed, run("new.db"))
	for _, row := range query(t, filepath.Join(dir, "new.db"), `SELECT error_category, error_text FROM units_view`) {
		require.Equal(t, "configuration", row[0])
		require.Contains(t, row[1], "another Towline store has written")
		require.Contains(t, row[1], "sqlite.TakeOver()")
	}
	require.Equal(t, events.RunSucceeded, run("new.db", sqlite.TakeOver()))
	require.Equal(t, events.RunSucceeded, run("new.db", sqlite.TakeOver()), "it may stay set")
	require.Equal(t, events.RunSucceeded, run("new.db"))
	require.Equal(t, events.RunFailed, run("old.db"))
}

// DUR-7: a store of a higher level is refused, in the words of the document.
func TestANewerStoreIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "towline.db")
	n := open(t, node.Config{Store: path})
	require.NoError(t, n.Close())
	execute(t, path, "PRAGMA user_version = 2")
	_, err := node.Open(t.Context(), node.Config{Store: path})
	require.Error(t, err)
	text, readErr := os.ReadFile(operating)
	require.NoError(t, readErr)
	_, words, _ := strings.Cut(err.Error(), path+" ")
	require.Contains(t, string(text), "`"+words+"`")
}

// HC-24, DUR-4: how the files grow. Run it with -v for the figures.
func TestHowMuchRoomItNeeds(t *testing.T) {
	dir := t.TempDir()
	store := filepath.Join(dir, "towline.db")
	s := readings(destination(t, filepath.Join(dir, "readings.db")), writes)
	s.PostSync.Targets = []towline.Target{{Name: "after", SQL: "SELECT 1"}}
	n := open(t, node.Config{Store: store, Syncs: []node.Sync{s}})
	size := func() (bytes float64) {
		require.NoError(t, n.DB().QueryRow(`SELECT page_count * page_size FROM pragma_page_count, pragma_page_size`).Scan(&bytes))
		return bytes
	}
	units := 0
	january := towline.RunSpec{
		Sync: "readings", Mode: towline.Backfill, Since: time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC), Before: time.Date(2025, 2, 1, 0, 0, 0, 0, time.UTC),
	}
	while(t, n, func() {
		before := size()
		for range 6 {
			units += ended(t, n, january).Total
		}
		perUnit := (size() - before) / float64(units) / 1024
		t.Logf("%d units, %.2f KiB each", units, perUnit)
		require.InDelta(t, 1.5, perUnit, 0.35)

		began := time.Now()
		require.NoError(t, prove(t.Context(), n))
		t.Logf("verify took %s", time.Since(began))
	})

	var pages int
	n = open(t, node.Config{Store: store})
	require.NoError(t, n.DB().QueryRow(`PRAGMA wal_autocheckpoint`).Scan(&pages))
	require.Equal(t, 32, pages*4096/1_000_000, "MB of the store's WAL")
	source, err := os.ReadFile("../sink/sqlite/destination.go")
	require.NoError(t, err)
	m := regexp.MustCompile(`wal_autocheckpoint\((\d+)\)`).FindSubmatch(source)
	require.Len(t, m, 2)
	_, err = fmt.Sscan(string(m[1]), &pages)
	require.NoError(t, err)
	require.Equal(t, 16, pages*4096/1_000_000, "MB of the sink's")
}

// P-11, WMILL-2: a run starts behind another, once, also when the event of the first comes twice: to a group that begins at
// the first event again, as it does behind a kill.
func TestARunStartsBehindAnother(t *testing.T) {
	store := filepath.Join(t.TempDir(), "towline.db")
	dest := destination(t, filepath.Join(t.TempDir(), "dest.db"))
	mart := readings(dest, writes)
	mart.Name, mart.Sources = "mart", []string{"south"}
	n := open(t, node.Config{Store: store, Syncs: []node.Sync{readings(dest, writes), mart}})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ran := make(chan error, 1)
	go func() { ran <- n.Run(ctx) }()
	followed, enough := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- startBehind(followed, n, "readings", "mart") }()
	first := ended(t, n, towline.RunSpec{Sync: "readings"})
	until(t, store, `SELECT 1 FROM runs_view WHERE sync = 'mart' AND status = 'succeeded'`)
	enough()
	require.NoError(t, <-done)
	require.NoError(t, planBehind(t.Context(), n.Engine(), "run/"+first.Run.String(), "readings", "mart"))
	require.Len(t, query(t, store, `SELECT 1 FROM runs_view WHERE sync = 'mart'`), 1)
	stop()
	require.NoError(t, <-ran)
}
