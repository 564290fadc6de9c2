package replay

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
)

// HTMLOptions say what of a history is on its page.
type HTMLOptions struct {
	// Units is how many units have a lane and each of their events. Of more, those that something else happened to than one
	// attempt which succeeded come first, then the first of the plan. Of the others the page holds the numbers. Zero: 40; and
	// of more, eight at most to which nothing else happened.
	Units int
	// First are ordinals of units that come before all others.
	First []int
	// Steps is how many events are told one by one; zero: 3000. A unit that does not fit any more is only counted, and so
	// is what a register does for every wakeup, as soon as one unit is.
	Steps int
	// Renewals tells each renewal of a lease. False: several in a row become one line.
	Renewals bool
}

const (
	usualUnits   = 40
	usualSamples = 8
	usualSteps   = 3000
)

// HTML writes a history as one page for people: a picture of what the run, its units and registers were over time and where
// processes died, what went wrong, and below each event with the rows that it changed. A reader stops at any event, and sees
// every row as it was behind it.
//
// The page needs nothing from outside, and forbids itself to ask for it: it can be sent and kept. Without scripts, and on
// paper, it is the picture and the events. Its size is bounded by what the options let in: some 2 KB for each step that is
// told, and at most 200 KB for the picture. BenchmarkPage has it for 10 units, 150 KB, and for 1,000, as usual 600 KB and
// with everything 10 MB, which a browser takes seconds to open.
//
// The same log gives the same page, and no secret is in it (E-4). The history is read twice: once for the picture.
func HTML(ctx context.Context, w io.Writer, h *History, o HTMLOptions) error {
	if err := writeHTML(ctx, w, h, o); err != nil {
		return fmt.Errorf("replay run %s: %w", h.Run, err)
	}
	return nil
}

func writeHTML(ctx context.Context, w io.Writer, h *History, o HTMLOptions) error {
	o.Steps = cmp.Or(max(o.Steps, 0), usualSteps)
	run, err := h.Outcome(ctx)
	if err != nil {
		return err
	}
	seen, err := look(ctx, h, o)
	if err != nil {
		return err
	}
	if !over(run) {
		restarts, err := h.RestartsAfter(ctx, seen.last)
		if err != nil {
			return err
		}
		seen.restart(restarts, 0)
	}
	seen.end(over(run))
	buffered := bufio.NewWriter(w)
	p := &page{words: words{h: h}, w: buffered, o: o, seen: seen, rows: map[string]int{}}
	p.head(run)
	for s, err := range h.Steps(ctx) {
		if err != nil {
			return err
		}
		if p.step(s); p.err != nil { // nobody reads the rest
			return p.err
		}
	}
	p.tail(run)
	if p.err != nil {
		return p.err
	}
	return buffered.Flush()
}
