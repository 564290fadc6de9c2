package node_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/projections"
)

// L-10, K-9, M-12: a method of the engine that needs the writer is refused at once inside a transaction of the store, for it
// would wait for that very transaction, and everything else with it. Reads go on, and so does a function with a database of
// its own.
func TestTheEngineIsNotAskedInsideATransactionOfTheStore(t *testing.T) {
	t.Run("a function", func(t *testing.T) {
		n := effectThatPlans(t, nil)
		got := n.followed(t)
		require.Equal(t, decider.PostFailed, got.Effect)
		require.Equal(t, events.HandlerFailed, got.Category)
		require.Contains(t, got.Text, "do it after the commit, or give the target a DB of its own")
		require.Len(t, n.refused, 4)
		for _, err := range n.refused {
			require.ErrorIs(t, err, towline.ErrInTransaction)
			require.NotErrorIs(t, err, towline.ErrUnavailable)
		}
	})
	t.Run("a function with a database of its own", func(t *testing.T) {
		other, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "other.db"))
		require.NoError(t, err)
		defer other.Close()
		n := effectThatPlans(t, other)
		got := n.followed(t)
		require.Equal(t, decider.PostCompleted, got.Effect, got.Text)
		require.Empty(t, n.refused)
	})
	t.Run("a consumer", func(t *testing.T) {
		var refused error
		var n *running
		store := filepath.Join(t.TempDir(), "towline.db")
		n = start(t, open(t, node.Config{Store: store, Syncs: []node.Sync{works(nothingToDo)}, Messages: map[string]node.Consumer{"t": {
			Handle: func(ctx context.Context, _ *sql.Tx, _ *message.Message) error {
				_, refused = n.Engine().Plan(ctx, spec(1))
				return nil
			},
		}}}))
		m, err := n.Engine().Submit(t.Context(), towline.Message{Topic: "t", Payload: []byte("1")})
		require.NoError(t, err)
		inState(t, n.Node, m.Message, projections.MessageHandled)
		require.ErrorIs(t, refused, towline.ErrInTransaction)
		n.end()
	})
	t.Run("a transaction of one's own", func(t *testing.T) {
		n := open(t, node.Config{Syncs: []node.Sync{works(nothingToDo)}})
		tx, err := n.DB().BeginTx(t.Context(), nil)
		require.NoError(t, err)
		_, err = n.Engine().Plan(towline.InTransaction(t.Context(), n.DB()), spec(1))
		require.ErrorIs(t, err, towline.ErrInTransaction)
		require.NoError(t, tx.Rollback())
		plan(t, n, 1)
		require.NoError(t, n.Close())
	})
}

// planner is a node whose post_sync function asks the engine for things.
type planner struct {
	*running
	refused []error
}

func effectThatPlans(t *testing.T, db *sql.DB) *planner {
	t.Helper()
	p := &planner{}
	s := works(nothingToDo)
	s.PostSync = towline.PostSync{Targets: []towline.Target{{Name: "next", DB: db, Func: func(ctx context.Context, _ *sql.Tx, post towline.Post) error {
		e, ada := p.Engine(), towline.Actor{Name: "ada", Reason: "to see"}
		if err := e.View(ctx, func(v projections.View) error {
			_, _, err := v.Run(post.Run)
			return err
		}); err != nil {
			return err
		}
		begun := time.Now()
		next := spec(1)
		next.Sync, next.Key = "other", post.Key()
		_, first := e.Plan(ctx, next)
		_, why := e.Why(ctx, post.Run.String())
		for _, err := range []error{first, why, e.PauseEngine(ctx, ada), e.ResumeEngine(ctx, ada)} {
			if err != nil {
				p.refused = append(p.refused, err)
			}
		}
		require.Less(t, time.Since(begun), 4*time.Second)
		return first
	}}}}
	other := works(nothingToDo)
	other.Name, other.Sources, other.PostSync = "other", []string{"south"}, towline.PostSync{}
	p.running = start(t, open(t, node.Config{Syncs: []node.Sync{s, other}}))
	return p
}

func (p *planner) followed(t *testing.T) projections.PostTarget {
	t.Helper()
	run, err := p.Engine().WaitPostSync(t.Context(), plan(t, p.Node, 1).Run)
	require.NoError(t, err)
	requireGood(t, p.Node)
	p.end()
	return run.PostSync.Targets[0]
}
