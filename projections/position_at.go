package projections

import (
	"fmt"

	"github.com/towline-dev/towline/events"
)

// PositionAt is the last event at or before a time; 0: there was none yet. It is the end of a transaction, whose events
// have one time (CLK-1). Times never fall along the log (CLK-2), so a search by halves needs no index: some twenty events
// are read of a million.
func (v View) PositionAt(t events.Micros) (events.Position, error) {
	head, at, err := v.Head()
	if err != nil || at <= t {
		return head, err
	}
	var found events.Position // at or before t
	for later := head; later-found > 1; {
		middle := found + (later-found)/2
		page, err := v.After(middle-1, 1)
		if err != nil || len(page) == 0 {
			return 0, fmt.Errorf("look for the time of position %d: %w", middle, err)
		}
		if page[0].At <= t {
			found = page[0].Position
		} else {
			later = middle
		}
	}
	return found, nil
}
