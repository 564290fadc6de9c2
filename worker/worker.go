package worker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/client"
	"github.com/towline-dev/towline/handlers"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
	"github.com/towline-dev/towline/wire"
)

// Config of the workers of one process.
type Config struct {
	Client *client.Client // of the engine
	// Syncs are those whose units are done here, with their providers and sinks. A unit of anything else is left to others.
	Syncs   []node.Sync
	Workers int           // units at once; zero: 4
	Name    string        // for people; empty: HOST:PID
	Grace   time.Duration // for running units when Run is to end; zero: none
	Logger  *slog.Logger  // nil: slog.Default()

	// Ended is told of each attempt that has ended, from several goroutines; nil: nobody is.
	Ended func(Ended)
	// Away is told once when the engine cannot be asked, and with nil when it answers again; nil: nobody is.
	Away func(error)
}

// Ended is how an attempt ended, as far as this process knows. What became of the unit is in the engine.
type Ended struct {
	Lease wire.Lease
	How   towline.Settle // nil: the unit was cancelled, or its lease ended, and nothing was offered
	Err   error          // why How was not taken; towline.ErrLeaseLost: it came too late, and changes nothing
	Took  time.Duration
	Begun bool // false: it was handed back untouched
}

const defaultWorkers = 4

// Worker is the workers of one process.
type Worker struct {
	c        Config
	engine   *engine
	attempts *handlers.Attempts
	known    []wire.Known
	logger   *slog.Logger

	mu    sync.Mutex
	calls map[string]error // why the last one had no answer, by what it is about: the alias of a unit at work, or claiming
	away  bool             // as Away was told
}

// New makes workers. Nothing is asked before Run. Errors: no syncs, or one without a provider.
func New(c Config) (*Worker, error) {
	w := &Worker{c: c, logger: c.Logger, calls: map[string]error{claiming: nil}}
	if w.logger == nil {
		w.logger = slog.Default()
	}
	if w.c.Workers <= 0 {
		w.c.Workers = defaultWorkers
	}
	if w.c.Name == "" {
		host, _ := os.Hostname() // one that has none is known by its number alone
		w.c.Name = fmt.Sprintf("%s:%d", host, os.Getpid())
	}
	if len(c.Syncs) == 0 {
		return nil, errors.New("there are no syncs to work for: name some")
	}
	ports := map[string]handlers.Ports{}
	for _, s := range c.Syncs {
		if s.Provider == nil {
			return nil, fmt.Errorf("sync %q has no provider", s.Name)
		}
		ports[s.Name] = handlers.Ports{Provider: s.Provider, Sink: s.Sink}
		if s.Sink == nil {
			ports[s.Name] = handlers.Ports{Provider: s.Provider, Sink: sink.Discard}
		}
		w.known = append(w.known, knownOf(s))
	}
	w.engine = &engine{client: c.Client, heard: w.heard}
	w.attempts = handlers.NewAttempts(w.engine, handlers.AttemptsConfig{
		Ports: ports, Logger: w.logger, Patience: patience, MaxText: func() int { return maxText },
	})
	w.engine.progress = w.attempts.Progress
	return w, nil
}

// knownOf is what a unit must be of to be asked for (HU-1).
func knownOf(s node.Sync) wire.Known {
	k := wire.Known{Sync: s.Name, Provider: s.ProviderName, Sources: s.Sources}
	if k.Provider == "" {
		k.Provider = s.Name
	}
	for _, d := range s.Datasets {
		k.Datasets = append(k.Datasets, d.Name)
	}
	return k
}

// Run works until ctx ends. Then nothing more is claimed, running units have the grace to finish, and what is left is handed back
// if its sink allows that (U-16). It returns early if the engine refuses to be asked at all: an unknown token, or a request that
// it does not understand.
func (w *Worker) Run(ctx context.Context) error {
	for _, s := range w.c.Syncs {
		if starter, ok := s.Provider.(provider.Starter); ok { // what a worker that was killed has left behind
			if err := starter.Start(ctx); err != nil {
				return fmt.Errorf("sync %q: start of its provider: %w", s.Name, err)
			}
		}
	}
	beat, endBeat := context.WithCancel(context.WithoutCancel(ctx))
	var beating, working sync.WaitGroup
	beating.Go(func() { _ = w.attempts.Run(beat) }) // it ends with beat only
	err := w.claims(ctx, &working)
	grace := time.AfterFunc(max(w.c.Grace, 0), w.attempts.Stop)
	working.Wait()
	grace.Stop()
	w.attempts.Stop()
	endBeat()
	beating.Wait()
	return err
}

// claims asks for units while there are hands for them.
func (w *Worker) claims(ctx context.Context, working *sync.WaitGroup) error {
	hands := make(chan struct{}, w.c.Workers)
	for range w.c.Workers {
		hands <- struct{}{}
	}
	rest, secret := restLeast, rand.Text()
	for {
		free := take(ctx, hands)
		if free == 0 {
			return nil
		}
		asked := time.Now()
		leases, err := w.claim(ctx, free, secret)
		took := time.Since(asked)
		for range free - len(leases.Leases) {
			hands <- struct{}{}
		}
		asked = asked.Add(time.Duration(leases.WaitedMS) * time.Millisecond)
		for i, l := range leases.Leases {
			if i >= free {
				working.Go(func() { w.refuse(ctx, l, "its worker has asked for fewer") })
				continue
			}
			working.Go(func() {
				defer func() { hands <- struct{}{} }()
				w.do(ctx, l, asked)
			})
		}
		switch {
		case err == nil:
			w.heard(claiming, nil)
			rest, secret = restLeast, rand.Text() // an unclear answer is asked for again with the same one
			if len(leases.Leases) == 0 {
				pause(ctx, restLeast-took) // a proxy, or a server that stops, may not wait for a unit
			}
		case final(err):
			return err
		case ctx.Err() == nil:
			w.heard(claiming, err)
			pause(ctx, rest)
			rest = min(2*rest, restMost)
		}
	}
}

const (
	waits     = time.Second // for a unit, in one request: a stop waits for the answer, because it may hold leases
	answers   = 10 * time.Second
	restLeast = 200 * time.Millisecond
	restMost  = 5 * time.Second
	// patience is for how long a report is repeated that nobody has answered: an engine may be away for long, and what it says
	// behind that is the only word that counts.
	patience  = 24 * time.Hour
	maxText   = 2000
	maxClaims = 16 // of one request
)

// take waits for a hand that is free, and takes all that are. 0: ctx has ended, whatever is free.
func take(ctx context.Context, hands <-chan struct{}) (n int) {
	if ctx.Err() != nil { // select would draw lots
		return 0
	}
	select {
	case <-ctx.Done():
		return 0
	case <-hands:
	}
	for n = 1; n < maxClaims; n++ {
		select {
		case <-hands:
		default:
			return n
		}
	}
	return n
}

// claim asks for so many units at most. Its request outlives ctx, for as long as the answer may take: an answer that nobody reads
// would leave its units to the end of their leases.
func (w *Worker) claim(ctx context.Context, n int, secret string) (wire.Leases, error) {
	asking, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), waits+answers, errNoAnswer)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(2*waits, cancel) })
	defer stop()
	return w.c.Client.ClaimNext(asking, wire.ClaimAny{Worker: w.c.Name, Secret: secret, WaitMS: waits.Milliseconds(), Max: n, Known: w.known})
}

// final reports an answer that no repetition changes.
func final(err error) bool {
	var refused *client.Error
	if !errors.As(err, &refused) || refused.Code == "" {
		return false
	}
	switch refused.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusBadRequest, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// claiming is what the calls are about that ask for units.
const claiming = ""

// heard is told of every call, by what it is about: nil, or why it had no answer. An engine may answer one and not the other, as
// where its disk is full; it is back when it has answered all.
func (w *Worker) heard(about string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.calls[about]; !known { // a renewal whose unit has ended meanwhile
		return
	}
	w.calls[about] = err
	away := false
	for _, err := range w.calls {
		away = away || err != nil
	}
	if away == w.away {
		return
	}
	w.away = away
	if w.c.Away != nil {
		w.c.Away(err)
	}
}

// begin and over are the bounds of what a unit has to ask. What had no answer then says no longer that the engine is away; the next
// answer to anything says that it is back.
func (w *Worker) begin(l wire.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[l.Alias] = nil
}

func (w *Worker) over(l wire.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.calls, l.Alias)
}

// do is one attempt. What comes in when the process stops already is handed back untouched.
func (w *Worker) do(ctx context.Context, l wire.Lease, asked time.Time) {
	if ctx.Err() != nil {
		w.refuse(ctx, l, "the worker was stopped before it began")
		return
	}
	w.begin(l)
	began := time.Now()
	lease := leaseOf(l)
	how, err := w.attempts.Do(context.WithoutCancel(ctx), &lease, asked)
	w.end(Ended{Lease: l, How: how, Err: err, Took: time.Since(began), Begun: true})
}

// refuse hands a unit back untouched. It asks once: a lease of which nobody hears ends by itself.
func (w *Worker) refuse(ctx context.Context, l wire.Lease, reason string) {
	w.begin(l)
	began := time.Now()
	how := towline.HandedBack{Reason: reason}
	err := w.engine.Settle(context.WithoutCancel(ctx), leaseOf(l), how)
	w.end(Ended{Lease: l, How: how, Err: err, Took: time.Since(began)})
}

func (w *Worker) end(e Ended) {
	w.over(e.Lease)
	if w.c.Ended != nil {
		w.c.Ended(e)
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
