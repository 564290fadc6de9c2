package handlers_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/handlers"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
	"github.com/towline-dev/towline/transport"
)

// HU-2, HU-4, HU-6, SC-161: a unit is claimed, its provider called once with all that it needs, and its result is
// stored with the rows and the state of its sink.
func TestAUnitIsWorkedOn(t *testing.T) {
	run(t, options{}, func(t *testing.T, s *shop) {
		s.provider.does = func(_ context.Context, u provider.Unit, w sink.Sink) (provider.Result, error) {
			require.NoError(t, w.Put(t.Context(), "rows", "1", nil))
			require.NoError(t, w.Put(t.Context(), "more", "2", nil))
			w.State(json.RawMessage(`{"seen":2}`))
			return provider.Result{Fingerprint: "f"}, nil
		}
		id, messages := s.dispatched(1)
		require.NoError(t, s.h.Handle(t.Context(), messages[0]))
		u := s.unit(id)
		require.Equal(t, events.UnitHasSucceeded, u.Status)
		require.Equal(t, events.Result{Rows: 2, Fingerprint: "f", State: json.RawMessage(`{"seen":2}`)}, u.Result)
		require.Equal(t, []string{"rows/1", "more/2"}, s.sink.rows())
		require.Equal(t, 1, s.sink.aborts, "abort follows commit, and does nothing")

		calls := s.provider.called()
		require.Len(t, calls, 1)
		require.Equal(t, provider.Unit{
			Run: id, ID: u.Unit, Alias: u.Alias, Sync: "days", Source: "north", Dataset: "a", Members: []string{"a"},
			Mode:   towline.Backfill,
			Window: u.Window, Surfaces: []string{"rows", "more"}, Attempt: 1, Fence: events.NewFence(1, u.Claimed),
			Config: json.RawMessage(`{"a":1}`), Store: s.e.Node().String(), // the first incarnation gives the store its name
			Obey: handlers.ObeyTimeout,
		}, calls[0])

		second, messages := s.dispatched(1)
		require.NoError(t, s.h.Handle(t.Context(), messages[0]))
		require.Equal(t, json.RawMessage(`{"seen":2}`), s.provider.called()[1].State, "what the last success has left")
		require.Greater(t, s.provider.called()[1].Fence, calls[0].Fence)
		require.Equal(t, "f", s.unit(second).Result.Fingerprint)
	})
}

// Section 10, HC-48, HC-46, K-7, SC-145, SC-168, SC-170, SC-316: what cannot be read is acknowledged, counted and
// logged; what is unknown, over or doubled is acknowledged; nothing is written, no provider is called, and the next
// message is handled as usual.
func TestMessagesThatAskForNothing(t *testing.T) {
	run(t, options{}, func(t *testing.T, s *shop) {
		id, messages := s.dispatched(1)
		good := messages[0]
		unknown := events.RunID{1}
		unit := func(v string) string {
			return fmt.Sprintf(`{"kind":"run_sync_unit","run_id":%q,"unit_id":%s}`, id, v)
		}
		bad := int64(0)
		s.unchanged(func() {
			for name, payload := range map[string]string{
				"no JSON": "x", "empty": "", "null": "null", "no kind": `{}`, "no run": `{"kind":"dispatch_sync_run"}`,
				"braces": unit(`"{01ARZ3NDEKTSV4RRFFQ69G5FAV}"`), "dashes": unit(`"01ARZ3ND-EKTS-V4RR-FFQ6-9G5FAV"`),
				"no id": unit(`""`), "null id": unit("null"),
				"the word null": unit(`"null"`), "number": unit("7"), "10 KB": unit(`"` + strings.Repeat("A",
					10_000) + `"`),
				"unknown kind":     fmt.Sprintf(`{"kind":"defrost","run_id":%q}`, id),
				"an application's": fmt.Sprintf(`{"kind":"message","run_id":%q}`, id),
			} {
				require.NoError(t, s.h.Handle(t.Context(), message.NewMessage("m", []byte(payload))), name)
				bad++
				require.Equal(t, bad, s.e.Tally().BadMessages, name)
			}
			require.Contains(t, s.log.String(), "bad message")
			for _, n := range []transport.Notice{
				{Kind: events.KindDispatch, Run: unknown}, {Kind: events.KindUnit, Run: unknown, Unit: events.UnitID{1}},
				{Kind: events.KindFinalize, Run: unknown}, {Kind: events.KindPostSync, Run: unknown, Target: "index"},
				{Kind: events.KindDispatch, Run: id}, {Kind: events.KindFinalize, Run: id}, {Kind: events.KindPostSync,
					Run: id, Target: "index"},
			} {
				require.NoError(t, s.deliver(n), "%+v", n)
			}
		})
		require.EqualValues(t, 2, s.e.Tally().UnexpectedPosts)
		require.EqualValues(t, 5, s.e.Tally().Absorbed)
		require.Empty(t, s.provider.called())
		good.Payload = append([]byte(`{"later":[{}],`),
			[]byte(strings.ToLower(string(good.Payload))[1:])...) // ids in the other case, and a field of a newer release
		require.NoError(t, s.h.Handle(t.Context(), good))
		require.Equal(t, events.UnitHasSucceeded, s.unit(id).Status)
		s.unchanged(func() { require.NoError(t, s.h.Handle(t.Context(), good)) })
		require.Len(t, s.provider.called(), 1)
	})
}

// HU-1, U-5, SC-166, SC-167, SC-169: a duplicate that comes while the unit is at work calls no provider, and is never
// told of as a success.
func TestADuplicateCallsNoProvider(t *testing.T) {
	run(t, options{}, func(t *testing.T, s *shop) {
		free := make(chan struct{})
		s.provider.does = func(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
			<-free
			return provider.Result{}, nil
		}
		id, messages := s.dispatched(1)
		first := s.begin(messages[0])
		s.unchanged(func() {
			for range 5 {
				require.NoError(t, <-s.begin(messages[0]))
			}
		})
		require.Equal(t, events.UnitIsRunning, s.unit(id).Status)
		require.EqualValues(t, 5, s.e.Tally().Absorbed)
		close(free)
		require.NoError(t, <-first)
		require.Len(t, s.provider.called(), 1)
	})
}

// E-1, E-2, U-8, HU-6, SC-163, SC-164, SC-189, SC-196: the category of a failure is that of its type, whatever its text
// says; an untyped one is provider_error; nothing of a failed attempt is committed.
func TestTheCategoryOfAFailureIsItsType(t *testing.T) {
	put := func(surface string) func(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
		return func(ctx context.Context, _ provider.Unit, s sink.Sink) (provider.Result, error) {
			return provider.Result{}, s.Put(ctx, surface, "k", nil)
		}
	}
	failing := func(err error) func(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
		return func(ctx context.Context, _ provider.Unit, s sink.Sink) (provider.Result, error) {
			require.NoError(t, s.Put(ctx, "rows", "k", nil))
			return provider.Result{}, err
		}
	}
	for name, c := range map[string]struct {
		does  func(context.Context, provider.Unit, sink.Sink) (provider.Result, error)
		sink  string
		err   error
		panic bool
		exit  bool
		want  events.Category
	}{
		"auth": {does: failing(provider.Fail(events.Auth, errors.New("no"))), want: events.Auth},
		"network": {does: failing(provider.Fail(events.Network, errors.New("reset"))),
			want: events.Network},
		"timeout": {does: failing(provider.Fail(events.Timeout, errors.New("slow"))), want: events.Timeout},
		"not found": {does: failing(provider.Fail(events.NotFound, errors.New("gone"))),
			want: events.NotFound},
		"configuration": {does: failing(provider.Fail(events.Configuration, errors.New("no key"))),
			want: events.Configuration},
		"wrapped": {does: failing(fmt.Errorf("page 7: %w", provider.Fail(events.Auth,
			errors.New("no")))), want: events.Auth},
		"untyped": {does: failing(errors.New("429 rate limit, 404 not found, timeout")),
			want: events.ProviderError},
		"a deadline of its own": {does: failing(fmt.Errorf("get: %w", context.DeadlineExceeded)), want: events.Timeout},
		"what is not its to find": {does: failing(provider.Fail(events.WorkerLost, errors.New("x"))),
			want: events.ProviderError},
		"panic":                   {does: panics, want: events.ProviderError},
		"undeclared surface":      {does: put("elsewhere"), want: events.UndeclaredSurface},
		"sink refuses to open":    {sink: "open", err: errPlanted, want: events.SinkError},
		"sink refuses a row":      {does: put("rows"), sink: "put", err: errPlanted, want: events.SinkError},
		"sink refuses the commit": {does: put("rows"), sink: "commit", err: errPlanted, want: events.SinkError},
		"another store's sink":    {sink: "open", err: fmt.Errorf("x: %w", sink.ErrForeign), want: events.Configuration},
		"sink panics at open":     {sink: "open", panic: true, want: events.SinkError},
		"sink panics at a row":    {does: put("rows"), sink: "put", panic: true, want: events.SinkError},
		"sink panics at commit":   {does: put("rows"), sink: "commit", panic: true, want: events.SinkError},
		"sink exits at open":      {sink: "open", exit: true, want: events.SinkError},
		"sink exits at commit":    {does: put("rows"), sink: "commit", exit: true, want: events.SinkError},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, options{workers: 1}, func(t *testing.T, s *shop) {
				s.provider.does = c.does
				if c.sink != "" {
					s.sink.breakAt(c.sink, func(context.Context) error {
						if c.panic {
							panic("sink out of order")
						}
						if c.exit {
							runtime.Goexit()
						}
						return c.err
					})
				}
				id, messages := s.dispatched(2)
				require.NoError(t, s.h.Handle(t.Context(), messages[0]), "the message is done with")
				u := s.units(id)[0]
				require.Equal(t, events.UnitHasFailed, u.Status)
				require.Equal(t, c.want, u.ErrorCategory)
				require.NotEmpty(t, u.ErrorText)
				require.Empty(t, s.sink.rows())
				s.provider.does = nil
				s.sink.breakAt(c.sink, nil)
				require.NoError(t, s.h.Handle(t.Context(), messages[1]), "HC-11: the only worker is free again")
				require.Equal(t, events.UnitHasSucceeded, s.units(id)[1].Status)
			})
		})
	}
}

// RL-1, U-9: what a provider says of a rate limit reaches the decision: how long, and whose it is, also through wrapping. It
// is no failure, and the unit goes on when the time has come.
func TestARateLimitOfAProviderDefersItsUnit(t *testing.T) {
	named := &provider.Error{Category: events.RateLimit, After: 7 * time.Second, Account: "ada", Err: errors.New("slow down")}
	for name, tt := range map[string]struct {
		err  error
		wait time.Duration
		key  string
	}{
		"it says how long":    {provider.RateLimited(7*time.Second, errors.New("slow down")), 7 * time.Second, "p/north"},
		"it does not":         {provider.RateLimited(0, errors.New("slow down")), time.Minute, "p/north"},
		"by its category":     {provider.Fail(provider.RateLimit, errors.New("slow down")), time.Minute, "p/north"},
		"it names an account": {fmt.Errorf("page 7: %w", named), 7 * time.Second, "p/ada"},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, options{workers: 1}, func(t *testing.T, s *shop) {
				s.provider.does = func(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
					return provider.Result{}, tt.err
				}
				id, messages := s.dispatched(1)
				before := s.head()
				require.NoError(t, s.h.Handle(t.Context(), messages[0]))
				u := s.unit(id)
				require.Equal(t, events.UnitIsRetrying, u.Status)
				require.Contains(t, u.ErrorText, "slow down")
				for _, e := range s.events(before) {
					if r, ok := e.Event.(events.UnitRetryScheduled); ok {
						require.Equal(t, tt.key, r.CooldownKey)
						require.Equal(t, e.At.Add(events.SpanOf(tt.wait)), r.AvailableAt)
					}
				}
			})
		})
	}
}

// RL-1: only a rate limit asks to wait, whatever else an error carries.
func TestOnlyARateLimitAsksToWait(t *testing.T) {
	for _, err := range []error{
		nil, errors.New("429"), provider.Fail(events.Network, errors.New("x")),
		&provider.Error{Category: events.Network, After: time.Hour, Account: "ada", Err: errors.New("x")},
	} {
		after, account := provider.LimitOf(err)
		require.Zero(t, after)
		require.Empty(t, account)
	}
}

func panics(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
	panic("out of order")
}

// HU-6: a sink that panics in its clearing up, or ends the goroutine, does not change how the attempt ended.
func TestAnAbortThatPanicsChangesNothing(t *testing.T) {
	run(t, options{}, func(t *testing.T, s *shop) {
		s.sink.breakAt("abort", func(context.Context) error { panic("out of order") })
		id, messages := s.dispatched(3)
		require.NoError(t, s.h.Handle(t.Context(), messages[0]))
		s.sink.breakAt("abort", func(context.Context) error { return errPlanted })
		require.NoError(t, s.h.Handle(t.Context(), messages[1]))
		s.sink.breakAt("abort", func(context.Context) error { runtime.Goexit(); return nil })
		require.NoError(t, s.h.Handle(t.Context(), messages[2]))
		for _, u := range s.units(id) {
			require.Equal(t, events.UnitHasSucceeded, u.Status)
		}
		require.Equal(t, 2, strings.Count(s.log.String(), "msg=abort"))
	})
}

// HU-6, L-12: a result that cannot be stored fails the unit, with a word on why.
func TestAResultThatCannotBeStoredFailsTheUnit(t *testing.T) {
	run(t, options{}, func(t *testing.T, s *shop) {
		s.provider.does = func(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
			return provider.Result{Detail: json.RawMessage("{")}, nil
		}
		id, messages := s.dispatched(1)
		require.NoError(t, s.h.Handle(t.Context(), messages[0]))
		u := s.unit(id)
		require.Equal(t, events.ProviderError, u.ErrorCategory)
		require.Contains(t, u.ErrorText, "result.detail")
	})
}

// P-7: a sync without ports here fails its units as a matter of configuration.
func TestASyncWithoutPortsFailsItsUnits(t *testing.T) {
	run(t, options{ports: map[string]handlers.Ports{}}, func(t *testing.T, s *shop) {
		id, messages := s.dispatched(1)
		require.NoError(t, s.h.Handle(t.Context(), messages[0]))
		require.Equal(t, events.Configuration, s.unit(id).ErrorCategory)
	})
}

// L-10, SC-347: no transaction is open while a provider, a sink or a script works: each of them can write to the same
// store.
func TestNoTransactionIsOpenAcrossAPort(t *testing.T) {
	run(t, options{}, func(t *testing.T, s *shop) {
		n := 0
		ask := func(context.Context) error {
			n++
			s.plan(1)
			return nil
		}
		for _, method := range []string{"open", "put", "commit", "abort", "script"} {
			s.sink.breakAt(method, ask)
		}
		s.provider.does = func(ctx context.Context, _ provider.Unit, w sink.Sink) (provider.Result, error) {
			require.NoError(t, ask(ctx))
			return provider.Result{}, w.Put(ctx, "rows", "k", nil)
		}
		id := s.marked()
		require.NoError(t, s.deliver(transport.Notice{Kind: events.KindPostSync, Run: id, Target: "index"}))
		require.Equal(t, 6, n)
	})
}

// HU-5, HU-8, U-19, C-17, SC-179, SC-181, SC-183: a unit whose lease is lost while it works is told to stop, commits
// nothing, and its settle is refused; what the next attempt writes stands.
func TestALostLeaseCommitsNothing(t *testing.T) {
	run(t, options{syncs: func(syncs []towline.Sync) {
		syncs[0].Datasets[0].Retry = towline.Retry{Max: 1, Backoff: time.Second}
	}}, func(t *testing.T, s *shop) {
		free := make(chan struct{})
		var put, ended error
		s.provider.does = func(ctx context.Context, u provider.Unit, w sink.Sink) (provider.Result, error) {
			if u.Attempt == 1 {
				require.NoError(t, w.Put(ctx, "rows", "old", nil))
				<-free // a provider that hears nothing
				put, ended = w.Put(ctx, "rows", "late", nil), context.Cause(ctx)
				return provider.Result{}, nil
			}
			return provider.Result{}, w.Put(ctx, "rows", "new", nil)
		}
		id, messages := s.dispatched(1)
		first := s.begin(messages[0])
		s.stop() // the heartbeat dies, the work goes on
		require.NoError(t, <-s.done)
		s.done <- nil
		wait(time.Minute)
		s.expire()
		wait(time.Second)
		require.NoError(t, s.deliver(transport.Notice{Kind: events.KindDispatch, Run: id}))
		require.NoError(t, s.h.Handle(t.Context(), s.messages(id)[0]))
		require.Equal(t, []string{"rows/new"}, s.sink.rows())
		close(free)
		require.NoError(t, <-first)
		require.Error(t, put)
		require.ErrorContains(t, ended, "lease")
		require.Equal(t, []string{"rows/new"}, s.sink.rows())
		u := s.unit(id)
		require.Equal(t, events.UnitHasSucceeded, u.Status)
		require.Equal(t, 2, u.Attempt)
		require.Equal(t, 1, u.LateResults)
		require.Contains(t, s.log.String(), "late result, refused")
	})
}

// expire decides every lease that has ended, as a reconciler does.
func (s *shop) expire() {
	s.t.Helper()
	found := s.expired()
	_, err := s.e.ExpireLeases(context.Background(), found)
	require.NoError(s.t, err)
}

// HU-4, SC-182: a start-up that is so slow that the lease is lost calls no provider.
func TestASlowStartCallsNoProvider(t *testing.T) {
	run(t, options{}, func(t *testing.T, s *shop) {
		s.sink.breakAt("open", func(ctx context.Context) error { <-ctx.Done(); return nil })
		id, messages := s.dispatched(1)
		done := s.begin(messages[0])
		s.stop()
		require.NoError(t, <-s.done)
		s.done <- nil
		wait(time.Minute)
		require.NoError(t, <-done)
		require.Empty(t, s.provider.called())
		require.Equal(t, 1, s.unit(id).LateResults)
	})
}

// HU-7, SC-184, L-11: a settle for which the store is away is tried again while the lease lasts, and the result is
// stored once.
func TestASettleIsTriedAgainWhileTheStoreIsAway(t *testing.T) {
	run(t, options{}, func(t *testing.T, s *shop) {
		s.provider.does = func(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
			s.store.gone.Store(true)
			return provider.Result{Rows: 5}, nil
		}
		id, messages := s.dispatched(1)
		done := s.begin(messages[0])
		wait(30 * time.Second)
		s.store.gone.Store(false)
		wait(time.Second)
		require.NoError(t, <-done)
		require.Equal(t, events.UnitHasSucceeded, s.unit(id).Status)
		require.Equal(t, 5, s.unit(id).Result.Rows)
		require.Len(t, enginetest.Only[events.UnitSucceeded](s.events(0)), 1)
	})
}

// HU-7, SC-185: a store that is away for longer than the lease leaves the unit to the expiry of its lease; the worker
// is free.
func TestASettleIsGivenUpWithItsLease(t *testing.T) {
	run(t, options{workers: 1}, func(t *testing.T, s *shop) {
		s.provider.does = func(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
			s.store.gone.Store(true)
			return provider.Result{}, nil
		}
		id, messages := s.dispatched(1)
		begun := time.Now()
		require.NoError(t, <-s.begin(messages[0]))
		require.GreaterOrEqual(t, time.Since(begun), time.Minute)
		require.LessOrEqual(t, time.Since(begun), time.Minute+time.Second)
		require.Contains(t, s.log.String(), "left to the expiry of the lease")
		s.store.gone.Store(false)
		require.Len(t, s.expired(), 1)
		s.expire()
		require.Equal(t, events.WorkerLost, s.unit(id).ErrorCategory)
	})
}

// Section 10, HC-13: a store fault makes a handler refuse its message, so that the transport delivers it again; it
// holds no worker.
func TestAStoreFaultRefusesTheMessage(t *testing.T) {
	run(t, options{workers: 1}, func(t *testing.T, s *shop) {
		id, messages := s.dispatched(1)
		s.store.gone.Store(true)
		for range 3 {
			require.ErrorIs(t, s.h.Handle(t.Context(), messages[0]), towline.ErrUnavailable)
			require.ErrorIs(t, s.deliver(transport.Notice{Kind: events.KindDispatch, Run: id}), towline.ErrUnavailable)
			require.ErrorIs(t, s.deliver(transport.Notice{Kind: events.KindFinalize, Run: id}), towline.ErrUnavailable)
			require.ErrorIs(t, s.deliver(transport.Notice{Kind: events.KindPostSync, Run: id, Target: "index"}),
				towline.ErrUnavailable)
		}
		require.Empty(t, s.provider.called())
		s.store.gone.Store(false)
		require.NoError(t, s.h.Handle(t.Context(), messages[0]))
		require.Equal(t, events.UnitHasSucceeded, s.unit(id).Status)
	})
}

// U-16, HU-5, P-10: of two runs over one window, the older that meets what the newer has written goes on behind it, with
// a newer attempt: nothing fails, and the last word is that of an attempt that began later.
func TestAnOlderRunGoesOnBehindANewer(t *testing.T) {
	run(t, options{}, func(t *testing.T, s *shop) {
		older, late := s.dispatched(1)
		s.provider.does = func(ctx context.Context, u provider.Unit, w sink.Sink) (provider.Result, error) {
			if u.Run == older && u.Attempt == 1 {
				<-time.After(30 * time.Second)
			}
			return provider.Result{}, w.Put(ctx, "rows", fmt.Sprint(u.Run == older, u.Attempt), nil)
		}
		done := s.begin(late[0])
		wait(time.Second)
		newer, soon := s.dispatched(1)
		require.NoError(t, s.h.Handle(t.Context(), soon[0]))
		require.Equal(t, events.UnitHasSucceeded, s.unit(newer).Status)
		require.NoError(t, <-done)
		require.Equal(t, 1, s.unit(older).HandBacks)
		for _, m := range s.messages(older) {
			require.NoError(t, s.h.Handle(t.Context(), m))
		}
		require.Equal(t, events.UnitHasSucceeded, s.unit(older).Status)
		require.Equal(t, []string{"rows/false 1", "rows/true 2"}, s.sink.rows())
	})
}

// HU-4: what a unit reports of its progress is shown while it runs, the longest first, and gone behind it.
func TestProgressIsShownWhileAUnitRuns(t *testing.T) {
	run(t, options{}, func(t *testing.T, s *shop) {
		s.provider.does = func(ctx context.Context, u provider.Unit, w sink.Sink) (provider.Result, error) {
			w.Progress(3, 10)
			_ = w.Put(ctx, "rows", "k", nil)
			<-time.After(10 * time.Second)
			return provider.Result{}, nil
		}
		id, messages := s.dispatched(2)
		first := s.begin(messages[0])
		wait(time.Second)
		second := s.begin(messages[1])
		p := s.h.Progress()
		require.Len(t, p, 2)
		u := s.units(id)[0]
		require.Equal(t, handlers.UnitProgress{Unit: u.Unit, Alias: u.Alias, Run: id, Attempt: 1, Done: 3, Total: 10,
			Rows: 1, Since: p[0].Since, Heard: p[0].Since}, p[0])
		require.Equal(t, time.Second, p[1].Since.Sub(p[0].Since))
		wait(10 * time.Second)
		require.NoError(t, <-first)
		require.NoError(t, <-second)
		require.Empty(t, s.h.Progress())
	})
}

// HC-04: many workers end the units of a run at the same moment: the run ends once.
func TestManyWorkersEndARunOnce(t *testing.T) {
	run(t, options{workers: 16, knobs: towline.Knobs{CapBucket: 50, CapRun: 50}}, func(t *testing.T, s *shop) {
		s.provider.does = func(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
			<-time.After(time.Second)
			return provider.Result{}, nil
		}
		id, messages := s.dispatched(50)
		var done []<-chan error
		for _, m := range messages {
			c := make(chan error, 1)
			go func() { c <- s.h.Handle(context.Background(), m) }()
			done = append(done, c)
		}
		synctest.Wait()
		wait(10 * time.Second)
		for _, d := range done {
			require.NoError(t, <-d)
		}
		for range 6 {
			require.NoError(t, s.deliver(transport.Notice{Kind: events.KindFinalize, Run: id}))
		}
		require.Equal(t, events.RunSucceeded, s.run(id).Status)
		require.Len(t, enginetest.Only[events.RunFinalized](s.events(0)), 1)
	})
}

// HU-5, HU-6: what the log would refuse of a result is refused before the sink takes its rows.
func TestAResultThatCannotBeStoredCommitsNothing(t *testing.T) {
	for state, says := range map[string]string{
		`"` + strings.Repeat("x", events.MaxResultBytes) + `"`: "keep them to",
		`{"cursor":12345678901234567890123}`:                   "state.cursor: 12345678901234567890123 does not fit into 64 bits", // as over the API, behind the commit of a remote worker
	} {
		run(t, options{}, func(t *testing.T, s *shop) {
			s.provider.does = func(ctx context.Context, _ provider.Unit, w sink.Sink) (provider.Result, error) {
				w.State(json.RawMessage(state))
				return provider.Result{}, w.Put(ctx, "rows", "k", nil)
			}
			id, messages := s.dispatched(1)
			require.NoError(t, s.h.Handle(t.Context(), messages[0]))
			u := s.unit(id)
			require.Equal(t, events.ProviderError, u.ErrorCategory)
			require.Contains(t, u.ErrorText, says)
			require.Empty(t, s.sink.rows())
		})
	}
}
