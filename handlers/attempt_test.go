package handlers_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/handlers"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
)

// E-2, U-8, SC-190: a unit whose lifetime runs out is told to stop in time for its settle: it fails with timeout, by
// its worker, and finalize is armed.
func TestALifetimeThatRunsOutIsATimeout(t *testing.T) {
	t.Run("told so", func(t *testing.T) { lifetimeRunsOut(t, func(ctx context.Context) error { return ctx.Err() }) })
	t.Run("told as a clean stop", func(t *testing.T) {
		lifetimeRunsOut(t, func(context.Context) error { return provider.ErrStopped })
	})
}

func lifetimeRunsOut(t *testing.T, says func(context.Context) error) {
	run(t, options{knobs: towline.Knobs{MaxLifetime: 10 * time.Minute}}, func(t *testing.T, s *shop) {
		s.provider.does = func(ctx context.Context, _ provider.Unit, _ sink.Sink) (provider.Result, error) {
			<-ctx.Done()
			return provider.Result{}, says(ctx)
		}
		id, messages := s.dispatched(1)
		begun := time.Now()
		require.NoError(t, s.h.Handle(t.Context(), messages[0]))
		require.Equal(t, 10*time.Minute-20*time.Second, time.Since(begun), "a third of a lease is left for the settle")
		u := s.unit(id)
		require.Equal(t, events.UnitHasFailed, u.Status)
		require.Equal(t, events.Timeout, u.ErrorCategory)
		require.Zero(t, u.LateResults)
		all := s.events(0)
		require.Equal(t, []string{"UnitFailed", "OutboxArmed"}, enginetest.Types(all[len(all)-2:]))
	})
}

// HU-4, HU-6: a provider that does not hear that its lease has ended is left behind: its worker goes on, its sink takes
// nothing more, and the sink is closed when it returns at last.
func TestADeafProviderDoesNotKeepItsWorker(t *testing.T) {
	run(t, options{workers: 1, knobs: towline.Knobs{MaxLifetime: 5 * time.Minute}}, func(t *testing.T, s *shop) {
		free, put := make(chan struct{}), make(chan error, 1)
		s.provider.does = func(ctx context.Context, _ provider.Unit, w sink.Sink) (provider.Result, error) {
			<-free
			put <- w.Put(context.Background(), "rows", "k", nil)
			return provider.Result{}, nil
		}
		id, messages := s.dispatched(2)
		require.NoError(t, s.h.Handle(t.Context(), messages[0]))
		require.Equal(t, events.Timeout, s.units(id)[0].ErrorCategory)
		require.Contains(t, s.log.String(), "ignores its context")
		s.provider.obey(nil)
		require.NoError(t, s.h.Handle(t.Context(), messages[1]))
		require.Equal(t, events.UnitHasSucceeded, s.units(id)[1].Status)
		require.Equal(t, 1, s.sink.aborted(), "that of the second")
		close(free)
		require.Error(t, <-put)
		synctest.Wait()
		require.Equal(t, 2, s.sink.aborted())
		require.Empty(t, s.sink.rows())
	})
}

// HU-6, HC-11: a provider that ends its goroutine, as a test library does, has failed, and gives its worker back.
func TestAProviderThatEndsItsGoroutineHasFailed(t *testing.T) {
	run(t, options{workers: 1}, func(t *testing.T, s *shop) {
		s.provider.does = func(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
			runtime.Goexit()
			return provider.Result{}, nil
		}
		id, messages := s.dispatched(2)
		for _, m := range messages {
			require.NoError(t, s.h.Handle(t.Context(), m))
		}
		for _, u := range s.units(id) {
			require.Equal(t, events.ProviderError, u.ErrorCategory)
		}
	})
}

// HU-4, E-2: also with a short lease a deaf provider is left behind in time for the settle.
func TestADeafProviderWithAShortLease(t *testing.T) {
	run(t, options{knobs: towline.Knobs{Lease: 6 * time.Second, MaxLifetime: 6 * time.Second}}, func(t *testing.T, s *shop) {
		free := make(chan struct{})
		s.provider.does = func(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
			<-free
			return provider.Result{}, nil
		}
		id, messages := s.dispatched(1)
		require.NoError(t, s.h.Handle(t.Context(), messages[0]))
		require.Equal(t, events.Timeout, s.unit(id).ErrorCategory)
		close(free)
	})
}

// rude is a sink that does something else when it is asked.
type rude struct{ fenced, committed, abort, progress func() }

func (r *rude) Open(context.Context, sink.Scope) (sink.Writer, error) {
	w, err := sink.Discard.Open(context.Background(), sink.Scope{})
	return &rudeWriter{w, r}, err
}

func (r *rude) Fenced() bool {
	r.fenced()
	return true
}

type rudeWriter struct {
	sink.Writer
	r *rude
}

func (w *rudeWriter) Committed() bool {
	w.r.committed()
	return false
}

func (w *rudeWriter) Abort() error {
	if w.r.abort != nil {
		w.r.abort()
	}
	return nil
}

func (w *rudeWriter) Progress(int64, int64) {
	if w.r.progress != nil {
		w.r.progress()
	}
}

// HU-4: a sink that panics when it is told of progress, in whatever goroutine of the provider, ends neither the attempt nor
// the process.
func TestASinkThatBreaksAtProgress(t *testing.T) {
	broken := &rude{fenced: func() {}, committed: func() {}, progress: func() { panic("out of order") }}
	does := provider.Func(func(_ context.Context, _ provider.Unit, to sink.Sink) (provider.Result, error) {
		told := make(chan struct{})
		go func() {
			defer close(told)
			to.Progress(1, 2)
		}()
		<-told
		to.Progress(2, 2)
		return provider.Result{}, nil
	})
	ports := map[string]handlers.Ports{"days": {Provider: does, Sink: broken}}
	run(t, options{workers: 1, ports: ports}, func(t *testing.T, s *shop) {
		id, messages := s.dispatched(1)
		require.NoError(t, s.h.Handle(t.Context(), messages[0]))
		require.Equal(t, events.UnitHasSucceeded, s.unit(id).Status)
	})
}

// HU-4, HU-6: a sink that panics or ends the goroutine when it is asked what a failed attempt has left takes neither the
// process nor its worker with it.
func TestASinkThatBreaksWhenItIsAsked(t *testing.T) {
	panics := func() { panic("out of order") }
	ends := func(ctx context.Context) { runtime.Goexit() }
	for name, tt := range map[string]struct {
		does  func(context.Context) // the provider
		sink  rude
		stops bool
		want  events.Category
	}{
		"the provider ends its goroutine":              {ends, rude{fenced: panics, committed: panics}, false, events.ProviderError},
		"the same at a stop, the sink panics":          {func(ctx context.Context) { <-ctx.Done(); ends(ctx) }, rude{fenced: panics}, true, events.SinkError},
		"a deaf provider at a stop, the sink panics":   {nil, rude{fenced: panics}, true, events.SinkError},
		"the same, the sink ends the goroutine":        {nil, rude{fenced: runtime.Goexit}, true, events.SinkError},
		"the provider returns an error, a sink panics": {func(context.Context) {}, rude{fenced: panics, committed: panics}, false, events.SinkError},
	} {
		t.Run(name, func(t *testing.T) {
			var deaf chan struct{} // made where the clock stands still
			does := provider.Func(func(ctx context.Context, _ provider.Unit, _ sink.Sink) (provider.Result, error) {
				if tt.does == nil {
					<-deaf
				} else {
					tt.does(ctx)
				}
				return provider.Result{}, sink.ErrFenced
			})
			ports := map[string]handlers.Ports{"days": {Provider: does, Sink: &tt.sink}}
			run(t, options{workers: 1, ports: ports}, func(t *testing.T, s *shop) {
				deaf = make(chan struct{})
				id, messages := s.dispatched(1)
				done := s.begin(messages[0])
				if tt.stops {
					s.h.Stop()
				}
				require.NoError(t, <-done)
				require.Equal(t, tt.want, s.unit(id).ErrorCategory)
				close(deaf)
			})
		})
	}
}

// HU-4: an attempt whose provider has ended its goroutine is not deaf, however long its sink takes to clear up.
func TestASlowAbortIsWaitedFor(t *testing.T) {
	slow := &rude{abort: func() { <-time.After(20 * time.Minute) }}
	does := provider.Func(func(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
		runtime.Goexit()
		return provider.Result{}, nil
	})
	ports := map[string]handlers.Ports{"days": {Provider: does, Sink: slow}}
	run(t, options{workers: 1, unverified: true, knobs: towline.Knobs{MaxLifetime: 5 * time.Minute}, ports: ports}, func(t *testing.T, s *shop) {
		_, messages := s.dispatched(1)
		begun := time.Now()
		require.NoError(t, s.h.Handle(t.Context(), messages[0]))
		require.GreaterOrEqual(t, time.Since(begun), 20*time.Minute)
		require.NotContains(t, s.log.String(), "ignores its context")
	})
}
