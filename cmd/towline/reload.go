package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/config"
	"github.com/towline-dev/towline/node"
)

// reloads takes each SIGHUP as a wish to read the configuration again.
func (e *engine) reloads(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-e.hangups:
			e.supervisor.reloading()
			status := "ready" + e.syncsInWords()
			if err := e.reload(ctx); err != nil {
				status = "reload refused, nothing has changed: " + err.Error()
				e.screen.line(status)
			}
			e.supervisor.ready(status)
		}
	}
}

// reload takes the configuration over as a whole or not at all (CFG-3). What cannot change while the engine runs refuses it.
func (e *engine) reload(ctx context.Context) error {
	later, err := config.Load(e.p.options(true))
	if err != nil {
		return err
	}
	changes := e.c.Changes(later)
	if len(changes) == 0 {
		e.screen.line("reload: nothing differs")
		return nil
	}
	if fixed := fixedOf(e.c, later, changes); len(fixed) > 0 {
		return fmt.Errorf("%s cannot change while the engine runs: take it back, or restart", strings.Join(fixed, ", "))
	}
	if err := e.node.Engine().Reload(ctx, later.Knobs, towline.Actor{Name: "SIGHUP"}); err != nil {
		return err
	}
	if err := e.node.SetRetention(node.Retention{ArchiveAfter: later.Retention.ArchiveAfter}); err != nil {
		return err
	}
	for _, note := range later.Notes() {
		if !slices.Contains(e.c.Notes(), note) {
			e.screen.line(note)
		}
	}
	e.c = later
	e.setLevel(later)
	e.served.Reloaded(later)
	for _, c := range changes {
		e.screen.line(fmt.Sprintf("reload: %s %s → %s", c.Key, orNone(c.Before), orNone(c.After)))
	}
	return nil
}

// fixedOf names what only a restart takes over: a sync that has come or gone as one thing, and else each key.
func fixedOf(now, later *config.Config, changes []config.Change) (fixed []string) {
	for _, c := range changes {
		if c.Live {
			continue
		}
		name := c.Key
		if sync, ok := syncOfKey(c.Key); ok {
			_, was := now.Sync(sync)
			_, is := later.Sync(sync)
			switch {
			case !was:
				name = fmt.Sprintf("syncs.%s (new)", sync)
			case !is:
				name = fmt.Sprintf("syncs.%s (gone)", sync)
			}
		}
		if !slices.Contains(fixed, name) {
			fixed = append(fixed, name)
		}
	}
	return fixed
}

// syncOfKey is the name of the sync that a key is about.
func syncOfKey(key string) (name string, ok bool) {
	rest, ok := strings.CutPrefix(key, "syncs.")
	name, _, _ = strings.Cut(rest, ".")
	return name, ok
}

// hangups are the wishes. They are taken from before the engine is ready, for SIGHUP ends a process that does not ask for it.
func hangups() chan os.Signal {
	c := make(chan os.Signal, 1) // more at once are one
	onReload(c)
	return c
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}
