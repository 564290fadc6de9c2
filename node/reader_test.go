package node_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
	"github.com/towline-dev/towline/store/sqlite"
)

// answers are what a reader and a node must say alike.
func answers(t *testing.T, e *towline.Engine, run events.RunID) string {
	t.Helper()
	var out struct {
		Run   projections.SyncRun
		Units []projections.SyncRunUnit
		Nodes []projections.Node
		Seq   events.Position
	}
	require.NoError(t, e.View(context.Background(), func(v projections.View) (err error) {
		if out.Run, _, err = v.Run(run); err != nil {
			return err
		}
		if out.Units, err = v.Units(run, 0, 1000); err != nil {
			return err
		}
		if out.Nodes, err = v.AliveNodes(); err != nil {
			return err
		}
		out.Seq, _, err = v.Head()
		return err
	}))
	why, err := e.Why(context.Background(), run.String())
	require.NoError(t, err)
	b, err := json.Marshal([]any{out, why})
	require.NoError(t, err)
	return string(b)
}

func openReader(t *testing.T, path string) *node.Reader {
	t.Helper()
	r, err := node.OpenReader(context.Background(), node.ReaderConfig{Store: path, Scratch: t.TempDir(), Logger: quiet()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

// stuck is a node with a run of two units, of which one is running until the test ends.
func stuck(t *testing.T) (r *running, path string, run events.RunID) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "towline.db")
	begun := make(chan struct{}, 2)
	s := works(func(ctx context.Context, _ provider.Unit, _ sink.Sink) (provider.Result, error) {
		begun <- struct{}{}
		<-ctx.Done()
		return provider.Result{}, ctx.Err()
	})
	r = start(t, open(t, node.Config{Store: path, Syncs: []node.Sync{s}, Workers: 1, Knobs: towline.Knobs{CapBucket: 1}}))
	p, err := r.Engine().Plan(context.Background(), spec(2))
	require.NoError(t, err)
	<-begun
	return r, path, p.Run
}

// DUR-8: whoever reads the store of a running node gets that node's answers, is refused every write by type, and leaves
// nothing in the log.
func TestAReaderAnswersAsTheNodeDoes(t *testing.T) {
	n, path, run := stuck(t)
	defer n.end()
	r := openReader(t, path)
	require.Equal(t, answers(t, n.Engine(), run), answers(t, r.Engine(), run))

	ctx, by := context.Background(), towline.Actor{Name: "somebody", Reason: "to see"}
	_, err := r.Engine().Plan(ctx, spec(1))
	require.ErrorIs(t, err, towline.ErrReadOnly)
	require.ErrorIs(t, r.Engine().CancelRun(ctx, run, by), towline.ErrReadOnly)
	require.ErrorIs(t, r.Engine().PauseEngine(ctx, by), towline.ErrReadOnly)
	require.ErrorIs(t, r.Engine().Transact(ctx, "", func(*towline.Tx) error { return nil }), towline.ErrReadOnly)

	head, err := n.Engine().Head(ctx)
	require.NoError(t, err)
	past, err := r.AsOf(ctx, 1)
	require.NoError(t, err)
	require.NoError(t, past.View(ctx, func(v projections.View) error {
		_, ok, err := v.Run(run)
		require.False(t, ok, "it was planned later")
		return err
	}))
	require.NoError(t, past.Close())
	after, err := n.Engine().Head(ctx)
	require.NoError(t, err)
	require.Equal(t, head, after)

	require.NoError(t, n.Engine().CancelRun(ctx, run, by))
	require.Equal(t, answers(t, n.Engine(), run), answers(t, r.Engine(), run), "it sees what has been committed since")
}

// A file whose pages do not fit together is told from one that is whole.
func TestAReaderLooksAtTheFile(t *testing.T) {
	n, path, _ := stuck(t)
	defer n.end()
	wrong, err := openReader(t, path).Integrity(context.Background())
	require.NoError(t, err)
	require.Empty(t, wrong)
	copied := filepath.Join(t.TempDir(), "copy.db")
	_, err = n.DB().Exec("VACUUM INTO '" + copied + "'")
	require.NoError(t, err)
	var page, size int64 // of a table that nothing here reads
	db, err := sql.Open("sqlite", "file:"+copied)
	require.NoError(t, err)
	require.NoError(t, db.QueryRow("SELECT rootpage, page_size FROM sqlite_schema, pragma_page_size WHERE name = 'feed_groups'").Scan(&page, &size))
	require.NoError(t, db.Close())
	f, err := os.OpenFile(copied, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte{0xAA, 0xAA, 0xAA, 0xAA}, (page-1)*size)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	wrong, err = openReader(t, copied).Integrity(context.Background())
	require.NoError(t, err)
	require.NotEmpty(t, wrong)
}

// I-26, B-1: whoever reads the store of a node at work proves its log and compares its views, leases and slots included, and
// says so if they differ. Views of another release are not compared.
func TestAReaderVerifies(t *testing.T) {
	n, path, _ := stuck(t)
	defer n.end()
	ctx := context.Background()
	var told events.Position
	v, err := openReader(t, path).Verify(ctx, func(at events.Position) { told = at })
	require.NoError(t, err)
	require.True(t, v.OK(), "%v %v", v.Violations, v.Differences)
	require.False(t, v.NoViews)
	require.Equal(t, v.Position, told)
	head, err := n.Engine().Head(ctx)
	require.NoError(t, err)
	require.Equal(t, head, v.Position)

	copied := filepath.Join(t.TempDir(), "copy.db")
	_, err = n.DB().Exec("VACUUM INTO '" + copied + "'")
	require.NoError(t, err)
	db, err := sql.Open("sqlite", "file:"+copied)
	require.NoError(t, err)
	_, err = db.Exec("UPDATE units SET lease_expires_at = 1 WHERE lease_expires_at IS NOT NULL")
	require.NoError(t, err)
	v, err = openReader(t, copied).Verify(ctx, nil)
	require.NoError(t, err)
	require.Empty(t, v.Violations)
	require.Contains(t, strings.Join(v.Differences, "\n"), "slots in use of the engine: memory counts 0, the checker's fold 1")

	_, err = db.Exec("UPDATE projection SET revision = revision + 1")
	require.NoError(t, err)
	require.NoError(t, db.Close())
	v, err = openReader(t, copied).Verify(ctx, nil)
	require.NoError(t, err)
	require.True(t, v.OK())
	require.True(t, v.NoViews)
}

// DUR-8: tables of another release are neither used nor made anew. The answers come from the log, and are the same.
func TestTablesOfAnotherReleaseAreLeftAlone(t *testing.T) {
	n, _, run := stuck(t)
	defer n.end()
	require.NoError(t, n.Engine().CancelRun(context.Background(), run, towline.Actor{Name: "somebody", Reason: "enough"}))
	want := answers(t, n.Engine(), run)
	copied := filepath.Join(t.TempDir(), "copy.db")
	_, err := n.DB().Exec("VACUUM INTO '" + copied + "'")
	require.NoError(t, err)
	for name, change := range map[string]string{
		"another revision": "UPDATE projection SET revision = revision + 1 WHERE name = 'units'; UPDATE units SET source = 'elsewhere'",
		"one that lags":    "UPDATE projection SET position = 1 WHERE name = 'runs'; DELETE FROM runs",
		"none":             "DROP TABLE projection",
		"one is missing":   "DROP VIEW outbox_view; DROP TABLE outbox",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "towline.db")
			b, err := os.ReadFile(copied)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, b, 0o600))
			db, err := sql.Open("sqlite", "file:"+path)
			require.NoError(t, err)
			_, err = db.Exec(change)
			require.NoError(t, err)
			require.NoError(t, db.Close())
			before, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, want, answers(t, openReader(t, path).Engine(), run))
			after, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, before, after)
		})
	}
}

// DUR-8, M-1: what an application has submitted, and no engine has looked at yet, makes the tables none of another release: nothing
// is folded, for which there is no folder here.
func TestSubmittedMessagesMakeNoTablesOld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "towline.db")
	n := open(t, node.Config{Store: path})
	tx, err := n.DB().Begin()
	require.NoError(t, err)
	require.NoError(t, sqlite.Outbox(tx).Publish("seats", message.NewMessage(watermill.NewULID(), []byte("12A"))))
	require.NoError(t, tx.Commit())
	head, err := n.Engine().Head(context.Background())
	require.NoError(t, err)
	r, err := node.OpenReader(context.Background(), node.ReaderConfig{Store: path, Scratch: "/nope", Logger: quiet()})
	require.NoError(t, err)
	got, err := r.Engine().Head(context.Background())
	require.NoError(t, err)
	require.Equal(t, head, got)
	require.NoError(t, r.Close())
	require.NoError(t, n.Close())
}
