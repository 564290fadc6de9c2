package towlinetest_test

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sim"
	"github.com/towline-dev/towline/sink"
	"github.com/towline-dev/towline/sink/sqlite"
	"github.com/towline-dev/towline/towlinetest"
)

// few is a sync of one unit, for what need not be tested twice.
var few = towline.Sync{Datasets: []towline.Dataset{{Name: "first", Snapshot: true, Retry: towline.Retry{Max: 2}}}}

// fenced puts rows that depend on the unit alone.
func fenced(ctx context.Context, u provider.Unit, s sink.Sink) (provider.Result, error) {
	for i := range 3 {
		if err := s.Put(ctx, u.Dataset, fmt.Sprintf("%s %d", u.Window.Name(), i), map[string]int{"n": i}); err != nil {
			return provider.Result{}, err
		}
	}
	return provider.Result{}, nil
}

// HU-5, design 10.1: a provider that writes through its sink alone passes every window, of which there is one before and one
// behind each call of a port, its own included.
func TestAFencedProviderPasses(t *testing.T) {
	judged := 0
	r := try(t.Name(), func(tb testing.TB) {
		towlinetest.Matrix{Provider: provider.Func(fenced), Sync: few, Oracle: func(tb testing.TB) {
			judged++
			places := towlinetest.Destination(tb).Places()
			require.Len(tb, places, 1)
			require.Len(tb, towlinetest.Destination(tb).Rows(places[0]), 3)
		}}.Run(tb)
	})
	require.False(t, r.failed, r.said())
	require.Greater(t, judged, 2+2*2+2, "its provider, two puts and its sink, twice each, and what the engine commits and publishes")
	require.Contains(t, r.logs[len(r.logs)-1], fmt.Sprintf("%d windows, none failed; seed 1", judged-1))
	require.NotContains(t, r.logs[len(r.logs)-1], "worker_lost", "its datasets have a retry policy")
}

// G-4, design 10.1: what a provider does beside its sink happens again behind a kill. The report names the step at which it
// was killed, what was done twice, and the command that plays this window alone, which then fails alone.
func TestAProviderThatIsNotIdempotentFails(t *testing.T) {
	sent := map[string]int{}
	matrix := towlinetest.Matrix{
		Provider: provider.Func(func(ctx context.Context, u provider.Unit, s sink.Sink) (provider.Result, error) {
			result, err := fenced(ctx, u, s)
			if err == nil {
				sent[u.Dataset]++
			}
			return result, err
		}),
		Reset: func(testing.TB) { clear(sent) },
		Oracle: func(t testing.TB) {
			if sent["first"] != 1 {
				t.Errorf("first was sent %d times", sent["first"])
			}
		},
		Sync: few,
	}
	r := try("TestMine/of something", func(t testing.TB) { matrix.Run(t) })
	require.True(t, r.failed)
	t.Log("\n" + r.said())
	killed := regexp.MustCompile(`(?s)^towlinetest: \d of \d\d windows failed. Window (\d+): killed after provider sync 1 one/first, attempt 1\n\n` +
		`    first was sent 2 times\n\n` +
		`the provider has worked on one/first/-\S* twice:\n` +
		`    attempt 1, by incarnation 1: put 3 rows, and returned nil\n` +
		`    attempt 2, by incarnation 2: put 3 rows, and returned nil\n\n` +
		`before the kill:\n.*    0(\d+) after provider sync 1 one/first, attempt 1\n\n` +
		`again: go test github.com/towline-dev/towline/towlinetest -run '\^TestMine\$/\^of something\$' -towline.seed=1 -towline.window=(\d+)\n` +
		`window \d+, killed before sink sync 1 one/first, attempt 1: first was sent 2 times\n`).FindStringSubmatch(r.said())
	require.NotNil(t, killed)
	require.Equal(t, killed[1], killed[2])
	require.Equal(t, killed[1], killed[3])

	setFlag(t, "towline.window", killed[3])
	alone := try("TestMine", func(t testing.TB) { matrix.Run(t) })
	require.Contains(t, alone.said(), "1 of 1 window failed. Window "+killed[3]+": killed after provider")
	setFlag(t, "towline.window", "999")
	require.Contains(t, try("TestMine", func(t testing.TB) { matrix.Run(t) }).said(), "there is no window 999")
}

func setFlag(t *testing.T, name, value string) {
	t.Helper()
	was := flag.Lookup(name).Value.String()
	require.NoError(t, flag.Set(name, value))
	t.Cleanup(func() { require.NoError(t, flag.Set(name, was)) })
}

// HU-5: rows of its own behind sink.Guard pass, in one transaction that replaces them; the same rows without the fence and
// the replacement do not.
func TestAGuardedProviderPasses(t *testing.T) {
	for name, guarded := range map[string]bool{"guarded": true, "appended": false} {
		t.Run(name, func(t *testing.T) {
			var db *sql.DB
			write := func(ctx context.Context, u provider.Unit) error {
				tx, err := db.BeginTx(ctx, nil)
				if err != nil {
					return err
				}
				defer tx.Rollback()
				if guarded {
					if err := sink.Guard(ctx, tx, u.Scope()); err != nil {
						return err
					}
					if _, err := tx.ExecContext(ctx, `DELETE FROM tides WHERE source = $1`, u.Source); err != nil {
						return err
					}
				}
				if _, err := tx.ExecContext(ctx, `INSERT INTO tides VALUES ($1, 312)`, u.Source); err != nil {
					return err
				}
				return tx.Commit()
			}
			r := try(t.Name(), func(t testing.TB) {
				towlinetest.Matrix{
					Provider: provider.Func(func(ctx context.Context, u provider.Unit, s sink.Sink) (provider.Result, error) {
						return provider.Result{Rows: 1}, write(ctx, u)
					}),
					Reset: func(t testing.TB) {
						var err error
						db, err = sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "mine.db"))
						require.NoError(t, err)
						t.Cleanup(func() { require.NoError(t, db.Close()) })
						_, err = db.Exec(sink.GuardSchema + `; CREATE TABLE tides (source TEXT, cm INTEGER)`)
						require.NoError(t, err)
					},
					Oracle: func(t testing.TB) {
						var rows int
						require.NoError(t, db.QueryRow(`SELECT count(*) FROM tides`).Scan(&rows))
						require.Equal(t, 1, rows)
					},
					Sync: few,
					Sink: func(testing.TB) sink.Opener { return sink.Guarded },
				}.Run(t)
			})
			require.Equal(t, guarded, !r.failed, r.said())
			if !guarded {
				require.Contains(t, r.said(), "killed after provider sync 1 one/first, attempt 1")
			}
		})
	}
}

// A sink of one's own is made anew for each window, and closed with it.
func TestAMatrixOverASinkOfItsOwn(t *testing.T) {
	var to *sqlite.Destination
	towlinetest.Matrix{
		Provider: provider.Func(fenced),
		Sink: func(t testing.TB) sink.Opener {
			to = sqlite.File(filepath.Join(t.TempDir(), "rows.db"))
			t.Cleanup(func() { require.NoError(t, to.Close()) })
			return to
		},
		Oracle: func(t testing.TB) {
			db, err := to.DB(context.Background())
			require.NoError(t, err)
			var rows int
			require.NoError(t, db.QueryRow(`SELECT count(*) FROM first`).Scan(&rows))
			require.Equal(t, 3, rows)
		},
		Sync: few,
	}.Run(t)
}

// design 10.1: rows that depend on the attempt are seen without any oracle, unless that is meant.
func TestRowsThatAreOtherThanWithoutAKill(t *testing.T) {
	matrix := towlinetest.Matrix{
		Provider: provider.Func(func(ctx context.Context, u provider.Unit, s sink.Sink) (provider.Result, error) {
			return provider.Result{}, s.Put(ctx, "first", "a", map[string]int{"attempt": u.Attempt})
		}),
		Sync: few,
	}
	r := try(t.Name(), func(t testing.TB) { matrix.Run(t) })
	require.Contains(t, r.said(), `the sink holds other rows of one/first/`)
	require.Contains(t, r.said(), `it has first/a {"attempt":2}, and without a kill first/a {"attempt":1}`)
	matrix.AnyRows = true
	matrix.Run(t)
}

// G-4, design 10.1: a kill is a kill, also in the middle of a provider. From then on every port that it holds says ErrDead
// and has no effect: in what it does next, in its deferred functions, and in the goroutines that it has left running.
func TestADeadNodeHasNoPorts(t *testing.T) {
	var mu sync.Mutex
	var late []error // of calls behind a kill
	var left sync.WaitGroup
	afterwards := func(ctx context.Context, s sink.Sink) {
		err := s.Put(ctx, "first", "late", map[string]int{})
		s.State([]byte(`"late"`))
		s.Progress(1, 1)
		mu.Lock()
		defer mu.Unlock()
		late = append(late, err, towlinetest.Point(ctx, "late"))
	}
	p := func(ctx context.Context, u provider.Unit, s sink.Sink) (result provider.Result, err error) {
		defer func() {
			if errors.Is(err, sim.ErrDead) {
				afterwards(ctx, s)
			}
		}()
		gone := make(chan struct{})
		defer close(gone)
		var died bool
		left.Go(func() {
			<-gone
			if died {
				afterwards(ctx, s)
			}
		})
		if err = towlinetest.Point(ctx, "begun"); err == nil {
			result, err = fenced(ctx, u, s)
		}
		if died = errors.Is(err, sim.ErrDead); died {
			afterwards(ctx, s)
		}
		return result, err
	}
	kills := 0
	towlinetest.Matrix{
		Provider: provider.Func(p),
		Oracle: func(t testing.TB) {
			left.Wait()
			mu.Lock()
			defer mu.Unlock()
			if len(late) > 0 {
				kills++
			}
			for _, err := range late {
				require.ErrorIs(t, err, sim.ErrDead)
			}
			late = nil
		},
		Sync: few,
	}.Run(t)
	require.Equal(t, 5, kills, "the point, and two puts before and behind")
}

// HU-4: production asks for no order of what is put, and so does a matrix, as long as nothing else is wrong.
func TestAProviderWithGoroutinesOfItsOwn(t *testing.T) {
	towlinetest.Matrix{
		Provider: provider.Func(func(ctx context.Context, u provider.Unit, s sink.Sink) (provider.Result, error) {
			var group sync.WaitGroup
			errs := make([]error, 8)
			for i := range errs {
				group.Go(func() { errs[i] = s.Put(ctx, "first", fmt.Sprint(i), map[string]int{"n": i}) })
			}
			group.Wait()
			return provider.Result{}, errors.Join(errs...)
		}),
		Oracle: func(t testing.TB) {
			require.Len(t, towlinetest.Destination(t).Rows(towlinetest.Destination(t).Places()[0]), 8)
		},
		Sync: few,
	}.Run(t)
}

// G-4: what a provider has left running puts while its node is killed, and while the next one lives.
func TestWhatAProviderHasLeftRunning(t *testing.T) {
	var left sync.WaitGroup
	var mu sync.Mutex
	var ends []error
	over := make(chan struct{})
	p := provider.Func(func(ctx context.Context, u provider.Unit, s sink.Sink) (provider.Result, error) {
		left.Go(func() {
			var err error
			for err == nil {
				err = s.Put(context.Background(), "first", "left", map[string]int{})
			}
			<-over
			mu.Lock()
			defer mu.Unlock()
			ends = append(ends, err, s.Put(context.Background(), "first", "late", map[string]int{}))
		})
		return fenced(ctx, u, s)
	})
	c := ofFew(sim.Config{Puts: true, Faults: towlinetest.AtMost(1, func(c sim.Call) sim.Fault {
		if c.Port != sim.PortPut {
			return sim.Fault{}
		}
		return sim.Fault{How: sim.KillBehind}
	})})
	c.Syncs[0].Provider = p
	w := towlinetest.NewWorld(t, c)
	w.Request(towline.RunSpec{Sync: "s", Key: "1"})
	require.NoError(t, w.Run(context.Background()))
	require.Len(t, w.Crashes(), 1)
	w.Kill(1)
	close(over)
	left.Wait()
	require.Len(t, ends, 4, "of two attempts")
	for _, late := range []error{ends[1], ends[3]} {
		require.ErrorIs(t, late, sim.ErrDead)
	}
}

// A provider that goes on when it has returned is told so.
func TestAProviderThatPutsBehindItsReturn(t *testing.T) {
	var kept sink.Sink
	p := provider.Func(func(ctx context.Context, u provider.Unit, s sink.Sink) (provider.Result, error) {
		kept = s
		return fenced(ctx, u, s)
	})
	w := towlinetest.NewWorld(t, sim.Config{Syncs: []sim.Sync{{Sync: towline.Sync{
		Name: "s", Provider: "p", Sources: []string{"one"}, Datasets: few.Datasets,
	}, Provider: p}}})
	w.Request(towline.RunSpec{Sync: "s", Key: "1"})
	towlinetest.Finish(t, w)
	require.ErrorContains(t, kept.Put(context.Background(), "first", "late", map[string]int{}), "the provider has returned")
	w.Kill(1)
	require.ErrorIs(t, kept.Put(context.Background(), "first", "late", map[string]int{}), sim.ErrDead)
}

// design 10.1: a window that fails is played twice. If the second log differs, that is the report.
func TestAHandlerThatIsNotDeterministic(t *testing.T) {
	calls := 0
	r := try(t.Name(), func(t testing.TB) {
		towlinetest.Matrix{
			Provider: provider.Func(func(ctx context.Context, u provider.Unit, s sink.Sink) (provider.Result, error) {
				calls++
				return provider.Result{}, s.Put(ctx, "first", fmt.Sprint(calls), map[string]int{"n": calls})
			}),
			Sync: few,
		}.Run(t)
	})
	t.Log("\n" + r.said())
	require.Regexp(t, `handler not deterministic: step \d+ was, the first time:\n    put one/first/\S+: first/2 \{"n":2\}\nand the second time, with the same seed:\n    put one/first/\S+: first/3 \{"n":3\}\n`, r.said())
}

// What is judged is not reset: the second play of a window passes, and goes the same way.
func TestAnOracleThatHasNotReset(t *testing.T) {
	judged := 0
	r := try(t.Name(), func(t testing.TB) {
		towlinetest.Matrix{
			Provider: provider.Func(fenced), Sync: few,
			Oracle: func(t testing.TB) {
				if judged++; judged == 4 {
					t.Fatal("by chance")
				}
			},
		}.Run(t)
	})
	require.Contains(t, r.said(), "1 of ")
	require.Contains(t, r.said(), "by chance\n    played once more, this window has passed, and the log is the same")
}

// A provider that fails without any kill is no case for a matrix, and a panic of the oracle ends its window alone.
func TestWhatFailsWithoutAKill(t *testing.T) {
	r := try(t.Name(), func(t testing.TB) {
		towlinetest.CrashMatrix(t, provider.Func(func(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
			return provider.Result{}, provider.Fail(provider.Auth, errors.New("no token"))
		}), nil)
	})
	require.Contains(t, r.said(), "nothing was killed yet, and the run has failed")
	require.Contains(t, r.said(), "is failed: auth")
	require.Contains(t, r.said(), "put 0 rows, and returned: auth: no token")

	r = try(t.Name(), func(t testing.TB) {
		towlinetest.CrashMatrix(t, provider.Func(func(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
			counted(nil)["row"]++
			return provider.Result{}, nil
		}), nil)
	})
	require.Regexp(t, `put 0 rows, and panicked at matrix_test\.go:\d+: assignment to entry in nil map\n`, r.said())

	judged := 0
	r = try(t.Name(), func(t testing.TB) {
		towlinetest.Matrix{Provider: provider.Func(fenced), Sync: few, Oracle: func(t testing.TB) {
			if judged++; judged > 1 {
				panic("out of order")
			}
		}}.Run(t)
	})
	require.Contains(t, r.said(), "10 of the first 10 windows failed, which ended the matrix of ")
	require.Contains(t, r.said(), "panic: out of order")
	require.NotContains(t, r.said(), "played once more", "it panics each time")
	require.Contains(t, try(t.Name(), func(t testing.TB) { towlinetest.CrashMatrix(t, nil, nil) }).said(), "the matrix has no Provider")
	require.Contains(t, try(t.Name(), func(t testing.TB) { towlinetest.Destination(t) }).said(), "wants the testing.TB that the oracle was called with")
}

// What an oracle has not emptied tells of more with each window, and so it does when the first of them is played again.
func TestAnOracleThatForgetsToReset(t *testing.T) {
	calls := 0
	r := try(t.Name(), func(t testing.TB) {
		towlinetest.Matrix{
			Provider: provider.Func(func(ctx context.Context, u provider.Unit, s sink.Sink) (provider.Result, error) {
				calls++
				return fenced(ctx, u, s)
			}),
			Sync: few,
			Oracle: func(t testing.TB) {
				if calls > 3 {
					t.Errorf("%d calls", calls)
				}
			},
		}.Run(t)
	})
	require.Contains(t, r.said(), "played once more, this window has failed otherwise, and the log is the same")
}

// The oracle is asked also about a run that does not come to its end: what it has to empty is left to no other window.
func TestARunThatDoesNotEnd(t *testing.T) {
	plays, judged, left := 0, 0, 0
	sent := map[string]int{}
	cut := false // in a Put, behind which nothing goes well any more
	endless := towline.Retry{Max: 10, Backoff: 20 * time.Hour, On: []provider.Category{provider.Network}}
	r := try(t.Name(), func(t testing.TB) {
		towlinetest.Matrix{
			Provider: provider.Func(func(ctx context.Context, u provider.Unit, s sink.Sink) (provider.Result, error) {
				if cut {
					return provider.Result{}, provider.Fail(provider.Network, errors.New("the line is down"))
				}
				if u.Attempt == 1 {
					plays, left = plays+1, left+len(sent)
				}
				sent[u.Dataset]++
				err := s.Put(ctx, "first", "a", map[string]int{})
				cut = err != nil
				return provider.Result{}, err
			}),
			Sync:  towline.Sync{Datasets: []towline.Dataset{{Name: "first", Snapshot: true, Retry: endless}}},
			Knobs: towline.Knobs{ReconcileInterval: time.Hour}, // two days of passes are soon over
			Reset: func(testing.TB) { cut = false },
			Oracle: func(t testing.TB) {
				judged++
				t.Cleanup(func() { clear(sent) })
			},
		}.Run(t)
	})
	require.Contains(t, r.said(), "2 of ")
	require.Contains(t, r.said(), "the run does not come to its end: sim: stranded")
	require.GreaterOrEqual(t, judged, plays)
	require.Zero(t, left, "each window begins as the first one did")
}

// RW-1: a dataset without a retry policy loses a unit to a kill, and that is no failure of the provider. The log says in how many
// windows, why, and what to do.
func TestADatasetWithoutARetry(t *testing.T) {
	lost := 0
	r := try(t.Name(), func(t testing.TB) {
		towlinetest.Matrix{
			Provider: provider.Func(fenced),
			Sync:     towline.Sync{Datasets: []towline.Dataset{{Name: "first", Snapshot: true}}},
			Oracle: func(t testing.TB) {
				if len(towlinetest.Destination(t).Places()) == 0 {
					lost++
				}
			},
		}.Run(t)
	})
	require.False(t, r.failed, r.said())
	require.Positive(t, lost)
	said := r.logs[len(r.logs)-1]
	require.Contains(t, said, " windows, none failed; ")
	require.Regexp(t, `in [0-9]+ windows a unit of first has ended as worker_lost, for the dataset has no retry policy: give it one`, said)
}

// counted keeps a map that is written to out of sight of those who would see that it is none.
func counted(rows map[string]int) map[string]int { return rows }
