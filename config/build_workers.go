package config

import (
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/transport"
	"github.com/towline-dev/towline/transport/pull"
)

// workers says who does the units. Without local workers, those of a store that this process holds alone wait for workers that
// ask, and all else, from dispatch to post_sync, is done here. A store that is shared is left to its processes with workers,
// for a unit that waits for whoever asks would get no message to them.
func (b *building) workers() {
	n := &b.out.Node
	switch {
	case b.works():
		n.Workers = b.c.Workers
	case n.Shared:
		n.Workers = -1
	default:
		askForUnits(n)
	}
}

// works reports local workers.
func (b *building) works() bool { return b.c.Workers > 0 && !b.o.NoWorkers }

// askForUnits leaves units to whoever asks. The one worker of the node never gets one: it makes the node handle what is the
// engine's own.
func askForUnits(n *node.Config) {
	n.Workers = 1
	n.Routes = map[events.Kind]transport.Publisher{events.KindUnit: pull.Publisher{}}
}
