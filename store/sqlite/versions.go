package sqlite

import "github.com/towline-dev/towline/events"

// versions remembers at which version a stream is, so that most appends need no look-up. It holds true while the log
// ends where it ended when the entries were made: events are only ever added, and any event that this writer did not
// add moves the head. So it is emptied when a commit begins at another head, and when one that had written is void.
//
// It forgets by generation: when young is full it becomes old, and what was old and not asked for again is gone.
type versions struct {
	young, old map[events.StreamID]events.Version
}

// maxVersions bounds one of the two generations, about 2 MiB: as many streams as an engine keeps folds of by default.
const maxVersions = 16_384

func (v *versions) get(id events.StreamID) (events.Version, bool) {
	if n, ok := v.young[id]; ok {
		return n, true
	}
	n, ok := v.old[id]
	if ok {
		v.put(id, n)
	}
	return n, ok
}

func (v *versions) put(id events.StreamID, n events.Version) {
	if v.young == nil || len(v.young) >= maxVersions {
		v.old, v.young = v.young, make(map[events.StreamID]events.Version)
	}
	v.young[id] = n
}

func (v *versions) forget() { *v = versions{} }
