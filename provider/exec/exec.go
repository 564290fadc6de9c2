package exec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/redact"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
)

// Name is the provider's name in buckets and retry policies.
const Name = "exec"

// Protocol is how the lines of a program are read.
type Protocol string

const (
	Native Protocol = "native"
	Lines  Protocol = "lines"
)

// Options is the command. The zero value of every field but Command is a good choice.
type Options struct {
	// Command is the program and its arguments, which may hold templates.
	Command []string
	// Dir is the working folder. A relative path of the program starts there. Empty: that of this process.
	Dir string
	// Protocol is how its output is read. Empty: as its first JSON object says.
	Protocol Protocol
	// Env is added to the environment.
	Env map[string]string
	// Secrets are added to the environment, too. Their values are masked in all that is kept or logged of the program, if
	// they have at least 4 bytes.
	Secrets map[string]string
	// Key are the fields of a row whose values are its key, if the program gives none. Empty: rows are numbered.
	Key []string
	// Grace is how long the program may go on behind SIGTERM. Zero: 5 s. It is cut to what the caller allows (HU-4).
	Grace time.Duration
	// StallTimeout is behind how much silence a unit is shown as stalled. Zero: 5 min; negative: never.
	StallTimeout time.Duration
	// Folder is where running attempts are on record, so that what a killed engine has left is found. It is made if it is
	// missing, and may be shared. Empty: one of the user's below the folder for temporary files.
	Folder string
	// Logger takes the log lines of programs. Nil: slog.Default().
	Logger *slog.Logger
}

const (
	defaultGrace = 5 * time.Second
	defaultStall = 5 * time.Minute
)

// Provider runs the command. It is safe for concurrent use.
type Provider struct {
	o       Options
	args    []template
	inherit []string // of the environment
	masked  *strings.Replacer
	places  places

	mu   sync.Mutex
	busy map[events.UnitID]chan struct{} // closed when the attempt has ended
}

var (
	_ provider.Provider = (*Provider)(nil)
	_ provider.Starter  = (*Provider)(nil)
	_ provider.Watched  = (*Provider)(nil)
)

// New is a provider of the command in o. It runs nothing yet. Errors name the field and the fix.
func New(o Options) (*Provider, error) {
	if len(o.Command) == 0 || o.Command[0] == "" {
		return nil, errors.New("command is empty: name a program")
	}
	if o.Protocol != "" && o.Protocol != Native && o.Protocol != Lines {
		return nil, fmt.Errorf("protocol %q is not known: use native or lines, or leave it out", o.Protocol)
	}
	if o.Grace < 0 {
		return nil, fmt.Errorf("grace is %s: it cannot be negative", o.Grace)
	}
	if slices.Contains(o.Key, "") {
		return nil, errors.New("key names an empty field: name fields of a row, or leave it out")
	}
	if err := checkEnvironment(o.Env, o.Secrets); err != nil {
		return nil, err
	}
	p := &Provider{o: o, inherit: inherited(), masked: redact.Values(slices.Collect(maps.Values(o.Secrets))...), busy: map[events.UnitID]chan struct{}{}}
	if strings.Contains(o.Command[0], "{{") {
		return nil, fmt.Errorf("command %q: the program cannot be a template", o.Command[0])
	}
	for _, arg := range o.Command[1:] {
		t, err := parseTemplate(arg)
		if err != nil {
			return nil, fmt.Errorf("command: %w", err)
		}
		p.args = append(p.args, t)
	}
	p.o.Command, p.o.Key = slices.Clone(o.Command), slices.Clone(o.Key)
	p.o.Env, p.o.Secrets = maps.Clone(o.Env), maps.Clone(o.Secrets)
	p.o.Grace = cmp.Or(o.Grace, defaultGrace)
	p.o.StallTimeout = cmp.Or(o.StallTimeout, defaultStall)
	p.places = places{dir: cmp.Or(o.Folder, defaultFolder()), shared: o.Folder == ""}
	if p.o.Logger == nil {
		p.o.Logger = slog.Default()
	}
	return p, nil
}

// StallAfter is behind how much silence a unit is shown as stalled.
func (p *Provider) StallAfter() time.Duration { return p.o.StallTimeout }

// Start ends what the attempts of a killed engine have left, whatever its store was: whether an engine lives is told by a
// lock that it holds. Errors: the folder cannot be used; ctx has ended.
func (p *Provider) Start(ctx context.Context) error {
	if err := p.places.prepare(); err != nil {
		return err
	}
	_, err := p.places.sweep(ctx, p.o.Logger)
	return err
}

// Sync runs the program for one attempt. Beside those of the sink its errors are: the cause of ctx, if that ended the program;
// what an exit code says; configuration for a program that cannot be started, or whose output is that of another protocol;
// provider_error for output that cannot be read, and for all else. Beside an error the result has a Detail.
func (p *Provider) Sync(ctx context.Context, u provider.Unit, s sink.Sink) (provider.Result, error) {
	leave, err := p.enter(ctx, u.ID)
	if err != nil {
		return provider.Result{}, p.failed(err)
	}
	defer leave()
	if err := p.places.prepare(); err != nil {
		return provider.Result{}, p.failed(provider.Fail(provider.Configuration, err))
	}
	left, err := p.places.sweep(ctx, p.o.Logger)
	switch {
	case ctx.Err() != nil:
		return provider.Result{}, p.failed(context.Cause(ctx))
	case err != nil:
		return provider.Result{}, p.failed(err)
	}
	if group := left[u.ID.String()]; group != 0 {
		return provider.Result{}, p.failed(fmt.Errorf("process group %d of an earlier attempt does not end, not even by SIGKILL", group))
	}
	a := &attempt{p: p, unit: u, sink: s, logger: p.o.Logger.With("run", u.Run, "unit", u.Alias, "attempt", u.Attempt)}
	result, err := a.run(ctx)
	if err != nil {
		return result, p.failed(err)
	}
	return result, nil
}

func (p *Provider) failed(err error) error {
	return maskedError{fmt.Errorf("exec %s: %w", p.o.Command[0], err), p}
}

// enter waits for an earlier attempt of the unit that was left behind (HU-4) and whose program is still in its grace.
func (p *Provider) enter(ctx context.Context, unit events.UnitID) (leave func(), err error) {
	for {
		p.mu.Lock()
		before, busy := p.busy[unit]
		if !busy {
			done := make(chan struct{})
			p.busy[unit] = done
			p.mu.Unlock()
			return func() {
				p.mu.Lock()
				delete(p.busy, unit)
				p.mu.Unlock()
				close(done)
			}, nil
		}
		p.mu.Unlock()
		select {
		case <-before:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// grace is how long the program may go on behind SIGTERM.
func (p *Provider) grace(u provider.Unit) time.Duration {
	const toEnd = 500 * time.Millisecond // of what the caller allows, for all behind SIGKILL
	if u.Obey == 0 {
		return p.o.Grace
	}
	return min(p.o.Grace, max(u.Obey-toEnd, u.Obey/2))
}
