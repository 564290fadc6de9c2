package node

import (
	"fmt"

	"github.com/towline-dev/towline/events"
)

// again says for the log when what a message of a kind was about is sent again, once the in-process transport has given it
// up.
func (n *Node) again(topic string) string {
	k := n.engine.Knobs()
	switch events.Kind(topic) {
	case events.KindPostSync:
		return fmt.Sprintf("in exactly_once mode %s after it was sent, or by Redrive; in at_most_once mode never", k.PostSyncRedriveAfter)
	case events.KindUnit:
		return fmt.Sprintf("%s after it was sent", k.Stale)
	}
	return fmt.Sprintf("%s after it was sent", k.RedriveAfter)
}
