package git

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/provider"
)

// lastSecond is the last committer date that has a period of its own, in the year 2514: the largest that a commit-graph
// can hold. To git a date is any number of 64 bits, and a negative one is read as a huge one. Every later date counts
// as this one, so that the periods together hold every commit.
const lastSecond = 1<<34 - 1

// Periods lists the periods that hold commits, with the Digest of each. All commits count that the ref selection
// reaches, by their committer date, also those of wrong clocks. The same list serves commits and changes.
func (p *Provider) Periods(ctx context.Context, source, dataset string, c events.Calendar, _ json.RawMessage) ([]provider.Period, error) {
	if dataset != Commits && dataset != Changes {
		return nil, provider.Fail(provider.Configuration, fmt.Errorf("dataset %q has no windows to list", dataset))
	}
	calendar, err := newCalendar(c)
	if err != nil {
		return nil, provider.Fail(provider.Configuration, err)
	}
	r, err := p.open(ctx, source)
	if err != nil {
		return nil, err
	}
	l, err := p.list(ctx, r, source)
	if err != nil {
		return nil, fmt.Errorf("list commits of %s: %w", source, err)
	}
	digests := make(map[events.Window]*Digest)
	err = l.each(func(second int64, id []byte) error {
		w := calendar.at(second)
		d := digests[w]
		if d == nil {
			d = new(Digest)
			digests[w] = d
		}
		d.add(id)
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := make([]provider.Period, 0, len(digests))
	for w, d := range digests {
		out = append(out, provider.Period{Window: w, Fingerprint: d.String()})
	}
	slices.SortFunc(out, func(a, b provider.Period) int { return a.Window.From.Compare(b.Window.From) })
	return out, nil
}

// EachCommit calls f for every commit of a source, with its id and its period. It is the list that an oracle compares
// with what was stored, so it walks by itself and does not share what the units use.
func (p *Provider) EachCommit(ctx context.Context, source string, c events.Calendar, f func(id string, w events.Window) error) error {
	calendar, err := newCalendar(c)
	if err != nil {
		return err
	}
	r, err := p.open(ctx, source)
	if err != nil {
		return err
	}
	args := append([]string{"rev-list", "--timestamp"}, p.refs...)
	err = r.run(ctx, command{args: args}, func(out io.Reader) error {
		return eachStamp(out, func(second int64, id []byte) error { return f(string(id), calendar.at(second)) })
	})
	if err != nil {
		return fmt.Errorf("list commits of %s: %w", source, err)
	}
	return nil
}

// CountAll is git rev-list --count over the ref selection: the number that the rows of commits must come to.
func (p *Provider) CountAll(ctx context.Context, source string) (int, error) {
	r, err := p.open(ctx, source)
	if err != nil {
		return 0, err
	}
	out, err := r.output(ctx, append([]string{"rev-list", "--count"}, p.refs...)...)
	if err != nil {
		return 0, fmt.Errorf("count commits of %s: %w", source, err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(out))
	if err != nil {
		return 0, fmt.Errorf("count commits of %s: %w", source, err)
	}
	return n, nil
}

// calendar finds the whole UTC period of a second. It remembers the last one, since listings come in order of date.
type calendar struct {
	start func(time.Time) (from, to time.Time)
	last  events.Window
}

func newCalendar(c events.Calendar) (*calendar, error) {
	date := func(y int, m time.Month, d int) time.Time { return time.Date(y, m, d, 0, 0, 0, 0, time.UTC) }
	starts := map[events.Calendar]func(time.Time) (time.Time, time.Time){
		events.Year: func(t time.Time) (time.Time, time.Time) {
			return date(t.Year(), 1, 1), date(t.Year()+1, 1, 1)
		},
		events.Month: func(t time.Time) (time.Time, time.Time) {
			return date(t.Year(), t.Month(), 1), date(t.Year(), t.Month()+1, 1)
		},
		events.Week: func(t time.Time) (time.Time, time.Time) {
			monday := t.Day() - (int(t.Weekday())+6)%7
			return date(t.Year(), t.Month(), monday), date(t.Year(), t.Month(), monday+7)
		},
		events.Day: func(t time.Time) (time.Time, time.Time) {
			return date(t.Year(), t.Month(), t.Day()), date(t.Year(), t.Month(), t.Day()+1)
		},
	}
	if starts[c] == nil {
		return nil, fmt.Errorf("window: %q is no calendar period: use month, week, day or year", c)
	}
	return &calendar{start: starts[c]}, nil
}

func (c *calendar) at(second int64) events.Window {
	t := time.Unix(second, 0).UTC()
	if t.Before(c.last.From) || !t.Before(c.last.To) {
		c.last = events.NewWindow(c.start(t))
	}
	return c.last
}

// bounds are the first and the last second of a window; false: it holds no date at all.
func bounds(w events.Window) (from, to int64, ok bool) {
	from, to = 0, lastSecond
	if !w.From.IsZero() {
		from = max(from, wholeSecond(w.From))
	}
	if !w.To.IsZero() {
		to = min(to, wholeSecond(w.To)-1)
	}
	return from, to, from <= to
}

// wholeSecond is the first whole second that is not before t.
func wholeSecond(t time.Time) int64 {
	s := t.Unix()
	if t.Nanosecond() > 0 {
		s++
	}
	return s
}
