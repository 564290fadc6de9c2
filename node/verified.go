package node

import (
	"sync"
	"time"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/store/sqlite"
)

// StoreStats are what the writer of the store has done since the start.
func (n *Node) StoreStats() sqlite.Stats { return n.store.Stats() }

// VerifyState is what the daily verify of a node has found since its start (Config.VerifyEvery).
type VerifyState struct {
	LastOK   time.Time // the end of the newest that found nothing; zero: there was none yet
	Failures int       // how many have found something, or did not come to an end
}

// verified is written by the loop that verifies.
type verified struct {
	mu    sync.Mutex
	state VerifyState
}

// VerifyState says how the daily verify fares.
func (n *Node) VerifyState() VerifyState {
	n.verified.mu.Lock()
	defer n.verified.mu.Unlock()
	return n.verified.state
}

func (x *verified) note(now time.Time, v towline.Verification, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err != nil || !v.OK() {
		x.state.Failures++
		return
	}
	x.state.LastOK = now
}
