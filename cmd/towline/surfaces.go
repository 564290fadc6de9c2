package main

import (
	"context"
	"log/slog"

	"github.com/towline-dev/towline/config"
	"github.com/towline-dev/towline/node"
)

// surfaces are served beside a node, by up and by serve: the HTTP API, and the console on it. See overHTTP; nothing else here
// knows of HTTP.
type surfaces interface {
	// Open makes what is served, and binds its addresses, so that one that is taken is an error before the engine is
	// ready. It answers no request yet. The node was opened and does not run.
	Open(ctx context.Context, n *node.Node, c *config.Config, o serving) (served, error)
}

// serving is what the configuration does not hold.
type serving struct {
	Logger  *slog.Logger
	Version string // of the program
}

// served is one opened.
type served interface {
	// Addresses are where people and programs reach it, for the banner.
	Addresses() []string
	// Serve answers until ctx ends, which is before the node stops: what streams is cut, what writes is let finish. It has
	// released its addresses when it returns. An error ends the node.
	Serve(ctx context.Context) error
	// Reloaded is told of the configuration in force after a reload.
	Reloaded(c *config.Config)
}

// nothing is what is served without an address.
type nothing struct{}

func (nothing) Addresses() []string { return nil }

func (nothing) Serve(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (nothing) Reloaded(*config.Config) {}
