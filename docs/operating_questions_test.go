package docs_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
	"github.com/towline-dev/towline/transport"
	"github.com/towline-dev/towline/transport/local"
)

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
			like("stuck", "mole", writes), failing, slow, like("nightly", "dune", writes),
		},
		Schedules: []towline.Schedule{{Sync: "nightly", Cron: "* * * * * *"}}, // this night is short
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
		until(t, store, `SELECT 1 FROM occurrences_view`)
		require.NoError(t, n.Engine().PauseSchedule(t.Context(), "nightly", towline.Actor{Name: "ada", Reason: "once is enough"}))
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
