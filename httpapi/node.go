package httpapi

import (
	"context"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/relay"
)

// Node is what an API is about: a *node.Node that runs, or a *node.Reader of a store, of which nothing can be written.
type Node interface {
	Engine() *towline.Engine
	// AsOf is the state behind an event; whoever asks closes it.
	AsOf(context.Context, events.Position) (*towline.Past, error)
	// Committed is closed with the next commit of this process; nil: nobody tells.
	Committed() <-chan struct{}
	// Loops say how its loops fare.
	Loops() []relay.Loop
	// Transport names the publisher of a kind; empty: it publishes none.
	Transport(events.Kind) string
	// Writable is nil unless the disk has refused a commit, and none has succeeded since; then it tries one.
	Writable(context.Context) error
	// BackupState says how its regular backup fares; the zero value: it makes none.
	BackupState() node.BackupState
}

var (
	_ Node = (*node.Node)(nil)
	_ Node = (*node.Reader)(nil)
)
