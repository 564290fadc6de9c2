package towline

import (
	"context"
	"errors"

	"github.com/towline-dev/towline/events"
)

// Preview is what a request would plan now.
type Preview struct {
	Units   []events.UnitPlanned // in their order
	LeftOut []events.LeftOut     // as of Planned
	Known   Planned              // of a request whose key is known: it would plan nothing, and be answered with this
}

// errPreviewed takes a plan back that was decided only to be looked at.
var errPreviewed = errors.New("it was a preview")

// Preview decides a request as Plan does, and takes it back: nothing is written, and a key is not used up. What Plan would refuse
// is refused here, with the same errors. Sources are asked for their periods, as for a plan; what they answer may be another
// thing a moment later.
func (e *Engine) Preview(ctx context.Context, spec RunSpec) (Preview, error) {
	req, listed, known, err := e.asked(ctx, spec)
	if err != nil || known.Replayed {
		return Preview{Known: known}, err
	}
	var out Preview
	err = e.Transact(ctx, spec.By.Name, func(tx *Tx) (err error) {
		out = Preview{}
		var found bool
		if out.Known, found, err = tx.admit(req); err == nil && !found {
			if out.Units, out.LeftOut, err = tx.unitsOf(req, listed); err == nil {
				_, err = tx.accept(req, out.Units, out.LeftOut) // for what only the rules refuse
			}
		}
		if err == nil {
			err = errPreviewed
		}
		return err
	})
	if !errors.Is(err, errPreviewed) {
		return Preview{}, err
	}
	return out, nil
}
