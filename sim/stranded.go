package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

// stranded is the error of a world that does not come to its end, with a line for each unit and register that is open: what
// it waits for (WHY-1).
func (w *World) stranded(ctx context.Context, format string, args ...any) error {
	err := fmt.Errorf("%w: %s", ErrStranded, fmt.Sprintf(format, args...))
	n := w.living()
	if n == nil || n.engine == nil {
		return fmt.Errorf("%w; no node lives that could say what waits", err)
	}
	open, because := w.whatIsOpen(ctx, n)
	if because != nil {
		return fmt.Errorf("%w; what waits cannot be asked: %v", err, because) //nolint:errorlint // the world is stranded, whatever else is wrong
	}
	if len(open) == 0 {
		return err
	}
	return fmt.Errorf("%w; this is open:\n  %s", err, strings.Join(open, "\n  "))
}

// mostOpen is how many lines tell what is open: more of them tell no more.
const mostOpen = 20

// whatIsOpen asks of every unit and register that is open why it is no further.
func (w *World) whatIsOpen(ctx context.Context, n *node) (lines []string, err error) {
	type thing struct{ id, name string }
	var things []thing
	err = n.engine.View(ctx, func(v projections.View) error {
		runs, err := v.OpenRuns(events.RunID{}, manyRuns)
		if err != nil {
			return err
		}
		for _, run := range runs {
			units, err := v.Units(run.Run, 0, manyUnits)
			if err != nil {
				return err
			}
			for _, u := range units {
				if !u.Status.Terminal() {
					things = append(things, thing{u.Unit.String(), "unit " + w.names.units[u.Unit]})
				}
			}
		}
		registers, err := v.OpenRegisters(manyRegisters)
		if err != nil {
			return err
		}
		held, err := v.HeldRegisters(manyRegisters)
		for _, r := range slices.Concat(registers, held) {
			t := thing{r.Key().String(), "register " + w.names.wakeup(r.Owner, r.Kind, r.Current)}
			if !slices.Contains(things, t) {
				things = append(things, t)
			}
		}
		return err
	})
	for i, t := range things {
		if i == mostOpen {
			return append(lines, fmt.Sprintf("and %d more", len(things)-i)), nil
		}
		why, err := n.engine.Why(ctx, t.id)
		if err != nil {
			return lines, err
		}
		lines = append(lines, t.name+": "+because(why))
	}
	return lines, err
}

const manyUnits = 1000

// because is an answer of Engine.Why in a few words.
func because(why towline.Why) string {
	r := why.Reason
	if r.Why == "" {
		return why.Status + ", and there is no reason"
	}
	text := why.Status
	if string(r.Why) != why.Status {
		text += ", waits for " + string(r.Why)
	}
	if r.Kind != "" {
		text += " of " + string(r.Kind)
	}
	if r.On != "" {
		text += " (" + r.On + ")"
	}
	if r.Why.NeedsPerson() {
		return text + ", which somebody must end"
	}
	if r.Next != 0 {
		text += ", until " + r.Next.String()
	}
	return text
}
