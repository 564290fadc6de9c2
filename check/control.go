package check

import (
	"slices"
	"strings"

	"github.com/towline-dev/towline/events"
)

// controlEvent folds pauses. A pause of what is paused, and a resume of what is not, append nothing.
func (c *Checker) controlEvent(e events.Envelope) {
	c.namedVersion(e)
	source, ofSource := strings.CutPrefix(e.Stream.String(), "control/source/")
	actor := ""
	switch ev := e.Event.(type) {
	case events.EnginePaused:
		actor = ev.Actor
		c.switched(e, !ofSource, c.paused, true)
		c.paused = true
	case events.EngineResumed:
		actor = ev.Actor
		c.switched(e, !ofSource, c.paused, false)
		c.paused = false
	case events.SourcePaused:
		actor = ev.Actor
		c.switched(e, ofSource, c.sources[source], true)
		c.sources[source] = true
	case events.SourceResumed:
		actor = ev.Actor
		c.switched(e, ofSource, c.sources[source], false)
		delete(c.sources, source)
	case events.RestoreHoldReleased:
		actor = ev.Actor
		c.hold = false
	}
	if actor == "" {
		c.wrong("I-2", e, "%s, and nobody is named who asked for it (X-7)", e.Event.EventType())
	}
}

func (c *Checker) switched(e events.Envelope, belongs, was, is bool) {
	switch {
	case !belongs:
		c.wrong("I-2", e, "%s is of another control stream (X-3, X-4)", e.Event.EventType())
	case was == is:
		c.wrong("I-2", e, "%s, and that is so already (X-3, X-4)", e.Event.EventType())
	}
}

// held says what keeps a unit from being dispatched by a node at now, or "" (X-3, X-4, X-9, RL-5).
func (c *Checker) held(by events.NodeID, u *unit, now events.Micros) string {
	if why := c.heldSource(u.Plan.Provider, u.Plan.Source, now); why != "" {
		return why
	}
	if n := c.nodes[by]; n != nil && n.lacks(u.run.Sync, u.Plan.Provider, u.Plan.Source, u.Plan.Dataset) {
		return "the node is not configured for " + u.Plan.Source + "/" + u.Plan.Dataset + " of sync " + u.run.Sync + " (X-9)"
	}
	return ""
}

// heldSource is held without what is not configured.
func (c *Checker) heldSource(provider, source string, now events.Micros) string {
	if why := c.pausedSource(source); why != "" {
		return why
	}
	if until := c.cooldown.until(provider, source); until > now {
		return "its source is under a cooldown until " + until.String() + " (RL-5)"
	}
	return ""
}

func (c *Checker) pausedSource(source string) string {
	switch {
	case c.paused:
		return "the engine is paused (X-3)"
	case c.sources[source]:
		return "source " + source + " is paused (X-4)"
	}
	return ""
}

// lacks reports what a node has said that it is not configured for. One that has said nothing lacks nothing.
func (n *node) lacks(sync, provider, source, dataset string) bool {
	if n.syncs == nil {
		return false
	}
	for _, s := range n.syncs {
		if s.Sync == sync && s.Provider == provider {
			return !slices.Contains(s.Sources, source) || !slices.Contains(s.Datasets, dataset)
		}
	}
	return true
}

// lacked reports that no incarnation which may be alive is configured for a unit.
func (c *Checker) lacked(u *unit) bool {
	for _, n := range c.alive {
		if !n.lacks(u.run.Sync, u.Plan.Provider, u.Plan.Source, u.Plan.Dataset) {
			return false
		}
	}
	return len(c.alive) > 0
}

// cooldowns knows until when a key must be left alone, and which key a source has used. A source that never reported
// one may share a key with another; the log does not show that.
type cooldowns struct {
	keys  map[place]string
	times map[string]events.Micros
}

type place struct{ provider, source string }

func newCooldowns() cooldowns {
	return cooldowns{map[place]string{}, map[string]events.Micros{}}
}

func (c cooldowns) note(provider, source, key string, until events.Micros) {
	c.keys[place{provider, source}] = key
	c.times[key] = max(c.times[key], until)
}

func (c cooldowns) until(provider, source string) events.Micros {
	key, ok := c.keys[place{provider, source}]
	if !ok {
		return 0
	}
	return c.times[key]
}
