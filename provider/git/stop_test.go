package git_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	stdsync "sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/provider/git"
	"github.com/towline-dev/towline/provider/providertest"
)

// D-8, U-16: the end of the context kills git and all that it started, and is a clean stop.
func TestACancelledContextStopsCleanly(t *testing.T) {
	r := newRepo(t)
	r.fastImport(3000, 1)
	p := provide(t, r)
	for _, dataset := range []string{git.Commits, git.Changes} {
		ctx, cancel := context.WithCancel(context.Background())
		u := unit(dataset, everything)
		s := providertest.NewSink(u)
		s.Fail = func(providertest.Row) error { cancel(); return nil }
		_, err := p.Sync(ctx, u, s)
		require.ErrorIs(t, err, provider.ErrStopped)
		require.NotEmpty(t, s.Rows())
		require.Less(t, len(s.Rows()), 3000)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := p.Sync(ended, unit(git.Refs, everything), providertest.NewSink(unit(git.Refs, everything)))
	require.ErrorIs(t, err, provider.ErrStopped)
}

// D-8: what git has started ends with it. The child below holds git's output open, so Sync would not return.
func TestTheWholeProcessGroupIsKilled(t *testing.T) {
	r := newRepo(t)
	r.commit("2024-03-01T00:00:00Z", "x")
	p := endless(t, r)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	u := unit(git.Commits, everything)
	s := providertest.NewSink(u)
	s.Fail = func(providertest.Row) error { cancel(); return nil }
	_, err := p.Sync(ctx, u, s)
	require.ErrorIs(t, err, provider.ErrStopped)
}

// endless is a provider whose git log writes one commit, and then has a child that holds its output open.
func endless(t testing.TB, r repo) *git.Provider {
	t.Helper()
	return provide(t, r, func(o *git.Options) {
		o.Program = script(t, `
case "$*" in
*" log "*) printf '\0361111111111111111111111111111111111111111\037\0371\0371\037name\nmail\nsubject\000'; sleep 100000 & wait ;;
*) exec git "$@" ;;
esac`)
	})
}

// U-16: a stop in the middle of a line of git is a clean stop, not a line that is not understood.
func TestAStopInsideARecordIsClean(t *testing.T) {
	r := newRepo(t)
	r.commit("2024-03-01T00:00:00Z", "x")
	fifo := filepath.Join(t.TempDir(), "fifo")
	r.run(nil, "", "-c", "alias.fifo=!mkfifo "+fifo, "fifo")
	p := provide(t, r, func(o *git.Options) {
		o.Program = script(t, `case "$*" in *--timestamp*) printf '1709251200 11'; echo > `+fifo+`; exec sleep 100000 ;; *) exec git "$@" ;; esac`)
	})
	ctx, cancel := context.WithCancel(context.Background())
	var group stdsync.WaitGroup
	group.Go(func() {
		_, _ = os.ReadFile(fifo)
		cancel()
	})
	u := unit(git.Commits, everything)
	_, err := p.Sync(ctx, u, providertest.NewSink(u))
	group.Wait()
	require.ErrorIs(t, err, provider.ErrStopped)
}

// E-1, U-16: a deadline is a timeout, and a fault of the sink stays one, also when the context ends with it.
func TestWhatIsNoCleanStop(t *testing.T) {
	r := newRepo(t)
	r.fastImport(3000, 1)
	p := provide(t, r)
	u := unit(git.Commits, everything)

	late, cancel := context.WithDeadline(context.Background(), time.Unix(0, 0))
	defer cancel()
	_, err := p.Sync(late, u, providertest.NewSink(u))
	require.NotErrorIs(t, err, provider.ErrStopped)
	require.Equal(t, provider.Timeout, provider.CategoryOf(err))

	elsewhere := providertest.NewSink(u)
	elsewhere.Fail = func(providertest.Row) error { return fmt.Errorf("a context of the sink's own: %w", context.Canceled) }
	_, err = p.Sync(context.Background(), u, elsewhere)
	require.ErrorContains(t, err, "of the sink's own")
	require.NotErrorIs(t, err, provider.ErrStopped)

	full := fmt.Errorf("disk full")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s := providertest.NewSink(u)
	s.Fail = func(providertest.Row) error { cancel(); return full }
	_, err = p.Sync(ctx, u, s)
	require.ErrorIs(t, err, full)
	require.NotErrorIs(t, err, provider.ErrStopped)
}

// U-16, HU-4: only a stop of the process is a clean stop. What any other cause has ended returns that cause, or the unit
// would be handed back for ever.
func TestTheCauseOfAnEndIsTold(t *testing.T) {
	r := newRepo(t)
	r.commit("2024-03-01T00:00:00Z", "x")
	p := endless(t, r)
	u := unit(git.Commits, everything)
	lifetime := fmt.Errorf("the lifetime has ended")
	for cause, want := range map[error]error{
		nil:      provider.ErrStopped,
		lifetime: lifetime,
		fmt.Errorf("grace is over: %w", provider.ErrStopping): provider.ErrStopped,
	} {
		for said, say := range map[string]func(context.Context) error{
			"nothing": func(context.Context) error { return nil }, "the error": context.Context.Err, "the cause": context.Cause,
		} {
			ctx, cancel := context.WithCancelCause(context.Background())
			s := providertest.NewSink(u)
			s.Fail = func(providertest.Row) error {
				cancel(cause)
				return say(ctx)
			}
			_, err := p.Sync(ctx, u, s)
			require.ErrorIs(t, err, want, "the sink says %s", said)
			require.Equal(t, errors.Is(want, provider.ErrStopped), errors.Is(err, provider.ErrStopped))
		}
		ended, cancel := context.WithCancelCause(context.Background())
		cancel(cause)
		_, err := p.Sync(ended, u, providertest.NewSink(u))
		require.ErrorIs(t, err, want)
	}
}
