package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/towline-dev/towline/client"
)

// action is what every command has that changes something.
type action struct {
	reason string
	dry    bool // only say what would be done
	yes    bool
	rate   string // of many; empty: as fast as it goes
}

// unasked is how many targets an action may have without --yes.
const unasked = 25

func (a *action) add(f *pflag.FlagSet) {
	f.StringVar(&a.reason, "reason", "", "why, for the record: `TEXT`")
	f.BoolVar(&a.dry, "dry-run", false, "say what would be done, and do nothing")
}

// addBulk is for actions that may have many targets.
func (a *action) addBulk(f *pflag.FlagSet) {
	a.add(f)
	f.BoolVar(&a.yes, "yes", false, fmt.Sprintf("do it to more than %d targets", unasked))
}

// why is the reason, which must be there.
func (a *action) why(p *program) error {
	if strings.TrimSpace(a.reason) == "" && !a.dry {
		return p.usage("--reason is missing: say why, for the record")
	}
	return nil
}

// target is one thing to which something is done.
type target struct{ id, words string }

// each does something to every target. The exact list is said first. It goes on behind a refusal, and ends with the first of
// them; Ctrl-C stops it between two.
func (a *action) each(ctx context.Context, p *program, verb string, targets []target, do func(context.Context, target) error) error {
	if len(targets) > 1 || a.dry {
		for _, t := range targets {
			fmt.Fprintf(p.stderr, "%s %s  %s\n", verb, t.id, t.words)
		}
	}
	if a.dry {
		fmt.Fprintf(p.stderr, "towline: nothing was done: %s\n", plural(len(targets), "target", "targets"))
		return nil
	}
	if len(targets) > unasked && !a.yes {
		return p.usage("that are %d targets, and nothing was done: --yes does it to more than %d", len(targets), unasked)
	}
	pause, err := a.pause(p)
	if err != nil {
		return err
	}
	var first error
	done, refused := 0, 0
	for i, t := range targets {
		if i > 0 && pause > 0 {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%d of %d done: %w", done, len(targets), context.Cause(ctx))
		}
		err := do(ctx, t)
		switch {
		case err == nil:
			done++
			continue
		case len(targets) > 1:
			fmt.Fprintf(p.stderr, "towline: %s: %s\n", t.id, inWords(err))
		}
		if refused++; first == nil {
			first = err
		}
	}
	if first != nil && len(targets) > 1 {
		return fmt.Errorf("%d of %d done, %d refused; the first: %w", done, len(targets), refused, first)
	}
	return first
}

// pause is between two of many.
func (a *action) pause(p *program) (time.Duration, error) {
	if a.rate == "" {
		return 0, nil
	}
	n, err := strconv.ParseFloat(strings.TrimSuffix(a.rate, "/s"), 64)
	if err != nil || n <= 0 {
		return 0, p.usage("--rate %q: want so many a second, as 5/s", a.rate)
	}
	return time.Duration(float64(time.Second) / n), nil
}

// targets are the things that were named, or those of the list, which the query has chosen, that are meant. One of the two
// is wanted; noun is what the help calls a thing.
func targets[T any](ctx context.Context, p *program, names []string, noun, where string, list *client.List[T], meant func(T) (target, bool)) ([]target, error) {
	if len(names) == 0 == (where == "") {
		return nil, p.usage("name one %s or more, or choose by --where", noun)
	}
	var out []target
	for _, name := range names {
		out = append(out, target{id: name})
	}
	if where == "" {
		return out, nil
	}
	for v, err := range list.All(ctx) {
		if err != nil {
			return nil, err
		}
		if t, ok := meant(v); ok {
			out = append(out, t)
		}
	}
	return out, nil
}
