package node

import (
	"errors"
	"fmt"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/sink"
	"github.com/towline-dev/towline/transport"
)

// checkPosts refuses a target of post_sync that this process could not do. What the target says for itself is the engine's
// to check.
func (s Sync) checkPosts(c Config) error {
	for _, t := range s.PostSync.Targets {
		if t.Name == "" {
			return fmt.Errorf("sync %q: a post_sync target has no name: name is empty", s.Name)
		}
		if err := s.checkPost(t, c); err != nil {
			return fmt.Errorf("sync %q: post_sync target %q: %w", s.Name, t.Name, err)
		}
	}
	return nil
}

func (s Sync) checkPost(t towline.Target, c Config) error {
	if t.Transport != "" {
		p := c.Transports[t.Transport]
		switch {
		case p == nil:
			return fmt.Errorf("transport %q is not configured: add it to transports", t.Transport)
		case events.InProcess(p.Name()):
			return fmt.Errorf("transport %q keeps its messages in the memory of this process, and an accepted publish would be the end of the target: give the target an action, or name another transport", t.Transport)
		case !transport.Confirms(p):
			return fmt.Errorf("transport %q cannot confirm a publish, so no message could ever be known to have arrived: use another, or say so in its Traits if it can", t.Transport)
		}
		return nil
	}
	if c.Routes[events.KindPostSync] != nil {
		return nil // whoever consumes it knows what to do
	}
	if !t.HasAction() {
		return errors.New("it has no action: set sql, func, exec or transport, or route post_sync to a consumer")
	}
	if t.SQL == "" {
		return nil
	}
	if scripts, ok := s.Sink.(sink.Scripter); !ok || scripts == nil {
		return errors.New("its sink runs no SQL: use a sink that does, as sink/sqlite, or another action")
	}
	if _, ok := s.Sink.(sink.OnceScripter); !ok && s.PostSync.Mode == events.ExactlyOnce {
		return errors.New("its sink keeps no once-ledger, so exactly_once cannot hold: use a sink that does, as sink/sqlite, another action, or at_most_once")
	}
	return nil
}
