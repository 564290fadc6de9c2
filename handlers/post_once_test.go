package handlers_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/provider"

	_ "modernc.org/sqlite"
)

// place is where an effect in exactly_once mode commits with its row of the ledger.
type place struct {
	s    *shop
	db   *sql.DB                     // of a function; nil: the script of the sink
	does func(context.Context) error // in the transaction; nil: it succeeds
	lost func()                      // behind the commit, before anybody hears of it
}

// places are the sink, the store, and a database of the caller.
func places(t *testing.T, test func(t *testing.T, s *shop, p *place)) {
	t.Helper()
	for _, name := range []string{"sink", "store", "own"} {
		t.Run(name, func(t *testing.T) {
			p := &place{}
			dir := t.TempDir()
			run(t, options{syncs: func(s []towline.Sync) { p.configure(name, dir, &s[0].PostSync) }}, func(t *testing.T, s *shop) {
				p.s = s
				p.open()
				test(t, s, p)
				if name == "own" {
					require.NoError(t, p.db.Close())
				}
			})
		})
	}
}

func (p *place) configure(name, dir string, post *towline.PostSync) {
	post.Mode = towline.ExactlyOnce
	target := &post.Targets[0]
	if name == "sink" {
		return
	}
	target.SQL, target.Func = "", func(ctx context.Context, tx *sql.Tx, post towline.Post) error {
		if _, err := tx.ExecContext(ctx, `INSERT INTO effects VALUES ($1)`, post.Generation); err != nil {
			return err
		}
		if p.does != nil {
			return p.does(ctx)
		}
		return nil
	}
	if name == "own" {
		if p.db == nil {
			p.db, _ = sql.Open("sqlite", "file:"+filepath.Join(dir, "own.db")) // it cannot fail: it opens nothing
		}
		target.DB = p.db
	}
}

func (p *place) open() {
	if db := p.database(); db != nil {
		_, err := db.Exec(`CREATE TABLE IF NOT EXISTS effects (generation TEXT)`)
		require.NoError(p.s.t, err)
		return
	}
	p.s.sink.breakAt("script", func(ctx context.Context) error {
		if p.does != nil {
			return p.does(ctx)
		}
		return nil
	})
	p.s.sink.breakAt("scripted", func(context.Context) error {
		if p.lost != nil {
			p.lost()
		}
		return nil
	})
}

// database is that of a function; the store's is another one after a restart.
func (p *place) database() *sql.DB {
	target := p.s.e.Target("days", "index")
	switch {
	case target.SQL != "":
		return nil
	case target.DB == nil:
		return p.s.file.DB()
	}
	return target.DB
}

// happened counts the effects that are there.
func (p *place) happened() (n int) {
	db := p.database()
	if db == nil {
		return len(p.s.sink.ran())
	}
	require.NoError(p.s.t, db.QueryRow(`SELECT count(*) FROM effects`).Scan(&n))
	return n
}

// claimed ends a run well, and claims its post_sync; with mark it is marked, too.
func (s *shop) claimed(mark bool) events.RunID {
	s.t.Helper()
	id := s.ended()
	require.NoError(s.t, s.e.Transact(context.Background(), "", func(tx *towline.Tx) error {
		token := tx.NewToken()
		cmds := []decider.Command{decider.ClaimWakeup{
			Owner: id, Kind: events.KindPostSync, Mode: events.ExactlyOnce, At: tx.Now(), Token: token,
			ExpiresAt: tx.Now().Add(events.SpanOf(time.Minute)), Messages: 1, MaxAttempts: 20,
		}}
		if mark {
			cmds = append(cmds, decider.MarkWakeup{
				Owner: id, Kind: events.KindPostSync, Mode: events.ExactlyOnce, At: tx.Now(), N: 1, Token: token, Transport: "test", Messages: 1,
			})
		}
		_, err := tx.Execute(cmds...)
		return err
	}))
	return id
}

// K-6, K-4, HP-3, SC-066: two deliveries, one effect, in the sink, in the store and in a database of the caller; nothing is
// taken, and it is completed once. A message that is faster than its mark is as good.
func TestAnEffectHappensOnce(t *testing.T) {
	for _, mark := range []bool{true, false} {
		t.Run(fmt.Sprintf("marked=%v", mark), func(t *testing.T) {
			places(t, func(t *testing.T, s *shop, p *place) {
				id := s.claimed(mark)
				before := s.head()
				for range 3 {
					require.NoError(t, s.post(id))
				}
				require.Equal(t, 1, p.happened())
				require.Equal(t, []string{"PostSyncCompleted"}, enginetest.Types(s.events(before)))
				require.Equal(t, decider.EffectsDone, s.run(id).PostSync.Effects)
			})
		})
	}
}

// C-25, C-26, SC-067, SC-069: a process that dies at any step of the handler leaves an effect that the next delivery
// completes: the effect and its ledger row are there together, once, whatever the step was.
func TestACrashAtEveryStepOfAnEffect(t *testing.T) {
	for name, c := range map[string]struct {
		dies     func(s *shop, p *place) // what goes wrong at the step; the process ends behind it
		happened int                     // effects that are there when it has died
	}{
		"before it is asked for": {func(s *shop, _ *place) { s.store.gone.Store(true) }, 0},
		"in its transaction": {func(s *shop, p *place) {
			p.does = func(context.Context) error {
				s.store.gone.Store(true) // a dead process records nothing
				return errPlanted
			}
		}, 0},
		"behind its commit": {func(s *shop, p *place) {
			if p.database() == nil {
				p.lost = func() { s.store.gone.Store(true) }
				return
			}
			p.does = func(context.Context) error { // the engine's store is away, that of the effect is not
				s.store.gone.Store(true)
				return nil
			}
		}, 1},
		"behind its record": {func(*shop, *place) {}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			places(t, func(t *testing.T, s *shop, p *place) {
				id := s.claimed(true)
				c.dies(s, p)
				err := s.post(id)
				require.Equal(t, name != "behind its record", err != nil, "what is not on record is not acknowledged")
				require.Equal(t, c.happened, p.happened())
				p.does, p.lost = nil, nil
				s.store.gone.Store(false)
				s.restart()
				p.open()
				for range 2 {
					require.NoError(t, s.post(id))
				}
				require.Equal(t, 1, p.happened())
				require.Equal(t, decider.EffectsDone, s.run(id).PostSync.Effects)
				require.Len(t, enginetest.Only[events.PostSyncCompleted](s.events(0)), 1)
				require.Empty(t, enginetest.Only[events.PostSyncFailed](s.events(0)))
			})
		})
	}
}

// HP-3, SC-067, E-3: an effect that fails, or panics, leaves neither effect nor ledger row; the transport is asked to deliver
// again, the failure is recorded once for the wakeup, and the next delivery succeeds.
func TestAnEffectThatFailsIsDeliveredAgain(t *testing.T) {
	for name, fails := range map[string]func(context.Context) error{
		"an error": func(context.Context) error { return fmt.Errorf("password=hunter2: %w", errPlanted) },
		"a panic":  func(context.Context) error { panic("password=hunter2") },
	} {
		t.Run(name, func(t *testing.T) {
			places(t, func(t *testing.T, s *shop, p *place) {
				id := s.claimed(true)
				p.does = fails
				for range 3 {
					err := s.post(id)
					require.ErrorContains(t, err, "password=***")
					require.NotErrorIs(t, err, towline.ErrUnavailable)
				}
				require.Zero(t, p.happened())
				require.Len(t, enginetest.Only[events.PostSyncFailed](s.events(0)), 1)
				target := s.run(id).PostSync.Targets[0]
				require.Equal(t, decider.PostFailed, target.Effect)
				want := events.HandlerFailed
				if p.database() == nil {
					want = events.SinkError
				}
				require.Equal(t, want, target.Category)
				p.does = nil
				require.NoError(t, s.post(id))
				require.Equal(t, 1, p.happened())
				require.Equal(t, decider.EffectsDone, s.run(id).PostSync.Effects)
			})
		})
	}
}

// E-1, HP-3: the category of a function's failure is the one that it gives; a deadline of its own is a timeout.
func TestAFunctionNamesItsCategory(t *testing.T) {
	var fails error
	o := options{syncs: func(s []towline.Sync) {
		s[0].PostSync = towline.PostSync{Targets: []towline.Target{{Name: "index", Func: func(context.Context, *sql.Tx, towline.Post) error { return fails }}}}
	}}
	for want, err := range map[events.Category]error{
		events.Network: provider.Fail(events.Network, errPlanted), events.HandlerFailed: errors.New("timeout"),
	} {
		fails = err
		run(t, o, func(t *testing.T, s *shop) {
			id := s.marked()
			require.NoError(t, s.post(id))
			require.Equal(t, want, s.run(id).PostSync.Targets[0].Category)
		})
	}
}

// HP-2: in at_most_once mode a function runs once, without the ledger; what it fails in is undone, and is not tried again.
func TestAFunctionAtMostOnce(t *testing.T) {
	for name, fails := range map[string]error{"done": nil, "failed": errPlanted} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			o := options{syncs: func(s []towline.Sync) {
				s[0].PostSync = towline.PostSync{Targets: []towline.Target{{Name: "index", Func: func(_ context.Context, tx *sql.Tx, p towline.Post) error {
					calls++
					_, err := tx.Exec(`INSERT INTO effects VALUES ($1)`, p.MessageID)
					return errors.Join(err, fails)
				}}}}
			}}
			run(t, o, func(t *testing.T, s *shop) {
				_, err := s.file.DB().Exec(`CREATE TABLE effects (id TEXT)`)
				require.NoError(t, err)
				id := s.marked()
				for range 3 {
					require.NoError(t, s.post(id))
				}
				require.Equal(t, 1, calls)
				var effects, ledger int
				require.NoError(t, s.file.DB().QueryRow(`SELECT (SELECT count(*) FROM effects), (SELECT count(*) FROM _towline_once)`).Scan(&effects, &ledger))
				require.Zero(t, ledger)
				require.Equal(t, fails == nil, effects == 1)
			})
		})
	}
}

// HP-3: what is not configured here helps nobody by coming again, so it is on record and acknowledged; REC-10 tries again
// later. So is what fails while the process stops: the next one goes on with it.
func TestAFailureThatNoRedeliveryHelps(t *testing.T) {
	once := func(s []towline.Sync) { s[0].PostSync.Mode = towline.ExactlyOnce }
	for name, o := range map[string]options{
		"no action": {syncs: func(s []towline.Sync) {
			once(s)
			s[0].PostSync.Targets[0].SQL = ""
		}},
		"no SQL":    {syncs: once, noScripts: true},
		"no ledger": {syncs: once, noLedger: true},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, o, func(t *testing.T, s *shop) {
				id := s.claimed(true)
				require.NoError(t, s.post(id))
				require.NoError(t, s.post(id))
				target := s.run(id).PostSync.Targets[0]
				require.Equal(t, events.Configuration, target.Category)
				require.Equal(t, 1, target.Failures)
			})
		})
	}
	run(t, options{syncs: once}, func(t *testing.T, s *shop) {
		id := s.claimed(true)
		s.sink.breakAt("script", func(context.Context) error { return errPlanted })
		s.h.Drain()
		require.NoError(t, s.post(id))
		require.Equal(t, 1, s.run(id).PostSync.Targets[0].Failures)
	})
}

// N-6, HP-3: behind the grace of a stop nothing is begun, in either mode, and what the stop itself has ended is no failure
// of an effect in exactly_once mode.
func TestAnEffectThatAStopEnds(t *testing.T) {
	run(t, options{}, func(t *testing.T, s *shop) {
		id := s.marked()
		s.h.Stop()
		s.unchanged(func() { require.ErrorIs(t, s.post(id), provider.ErrStopping) })
	})
	places(t, func(t *testing.T, s *shop, p *place) {
		if p.database() == nil {
			return // a script is not interrupted
		}
		id := s.claimed(true)
		p.does = func(ctx context.Context) error {
			s.h.Stop()
			return context.Cause(ctx)
		}
		s.unchanged(func() { require.ErrorIs(t, s.post(id), provider.ErrStopping) })
		p.does = nil
		s.restart()
		require.NoError(t, s.post(id))
		require.Equal(t, 1, p.happened())
	})
}

// HP-3, K-9: an effect is at work once at a time in a process. What comes meanwhile, as it does when it takes longer than
// post_sync.redrive_after or another target of its run is sent again, is a duplicate; what comes behind a failure is not.
func TestAnEffectNeverRunsBesideItself(t *testing.T) {
	o := options{syncs: func(s []towline.Sync) { s[0].PostSync.Mode = towline.ExactlyOnce }}
	run(t, o, func(t *testing.T, s *shop) {
		id, other := s.claimed(true), s.claimed(true)
		calls, ends := 0, make(chan error)
		s.sink.breakAt("script", func(context.Context) error {
			calls++
			return <-ends
		})
		for i, end := range []error{errPlanted, nil} {
			done := make(chan error, 3)
			go func() { done <- s.post(id) }()
			synctest.Wait()
			go func() { done <- s.post(id) }()
			synctest.Wait()
			require.Equal(t, 2*i+1, calls)
			require.NoError(t, <-done, "the duplicate")
			go func() { done <- s.post(other) }()
			synctest.Wait()
			require.Equal(t, 2*i+2, calls, "that of another run is none")
			ends <- end
			ends <- end
			require.Equal(t, end != nil, <-done != nil)
			require.Equal(t, end != nil, <-done != nil)
		}
		for _, r := range []events.RunID{id, other} {
			require.Equal(t, decider.EffectsDone, s.run(r).PostSync.Effects)
		}
	})
}

// L-10, K-9: a function that hangs in a transaction of the store holds up the engine for no longer than an application's
// message may: it is undone, and fails as a timeout. In another database it is in nobody's way.
func TestAFunctionThatHangsIsUndoneInTheStore(t *testing.T) {
	places(t, func(t *testing.T, s *shop, p *place) {
		if p.database() == nil {
			return // a script is not interrupted
		}
		id, begun := s.claimed(true), time.Now()
		p.does = func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		stop := time.AfterFunc(time.Minute, s.h.Stop)
		defer stop.Stop()
		err := s.post(id)
		if p.database() != s.file.DB() {
			require.ErrorIs(t, err, provider.ErrStopping)
			return
		}
		require.ErrorContains(t, err, "held the store for too long")
		require.Equal(t, 4*time.Second, time.Since(begun))
		require.Equal(t, events.Timeout, s.run(id).PostSync.Targets[0].Category)
		require.Zero(t, p.happened())
	})
}
