package node

import (
	"context"
	"sync"
	"time"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/store/sqlite"
)

// Writable is nil unless the disk has refused a commit, and none has succeeded since; then it tries one. Errors: what the disk
// says, which wraps towline.ErrUnavailable; ctx's.
func (n *Node) Writable(ctx context.Context) error {
	if n.store.Fault() == nil {
		return nil
	}
	return n.store.Try(ctx)
}

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
