package node

import "github.com/towline-dev/towline/store/sqlite"

// Stats are the store's.
func (n *Node) Stats() sqlite.Stats { return n.store.Stats() }
