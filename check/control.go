package check

import (
	"strings"

	"github.com/towline-dev/towline/events"
)

// controlEvent folds pauses. A pause of what is paused changes nothing and is no fault.
func (c *Checker) controlEvent(e events.Envelope) {
	c.namedVersion(e)
	source, _ := strings.CutPrefix(e.Stream.String(), "control/source/")
	switch e.Event.(type) {
	case events.EnginePaused:
		c.paused = true
	case events.EngineResumed:
		c.paused = false
	case events.SourcePaused:
		c.sources[source] = true
	case events.SourceResumed:
		delete(c.sources, source)
	case events.RestoreHoldReleased:
		c.hold = false
	}
}

// held says what keeps the units of a source from being dispatched at now, or "" (X-3, X-4, RL-5). What is not
// configured at a node is held too, but the log does not show it.
func (c *Checker) held(provider, source string, now events.Micros) string {
	switch {
	case c.paused:
		return "the engine is paused (X-3)"
	case c.sources[source]:
		return "source " + source + " is paused (X-4)"
	}
	if until := c.cooldown.until(provider, source); until > now {
		return "its source is under a cooldown until " + until.String() + " (RL-5)"
	}
	return ""
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
