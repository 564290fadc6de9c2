package towline

import (
	"context"
	"fmt"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/store"
)

// boot brings the views to the head, from the log alone if they are all gone (L-8), opens the incarnation (N-1), and
// decides what earlier incarnations left behind (N-4). Every step may be repeated: a boot that dies half way leaves the
// rest to the next (C-37).
func (e *Engine) boot(ctx context.Context, c Config) error {
	if err := e.store.Write(ctx, func(tx store.Tx) error { return projections.Open(tx) }); err != nil {
		return fmt.Errorf("bring the views to the head of the log: %w", err)
	}
	gone, err := e.start(ctx, c)
	if err != nil {
		return fmt.Errorf("start the incarnation: %w", err)
	}
	e.up = true
	recovered := events.NodeRecovered{GoneIncarnations: gone}
	if recovered.Leases, err = e.recoverLeases(ctx); err != nil {
		return fmt.Errorf("expire the leases of gone incarnations: %w", err)
	}
	claims, err := e.ReleaseClaims(ctx)
	if err != nil {
		return fmt.Errorf("release the claims of gone incarnations: %w", err)
	}
	recovered.Claims = claims.Claims + claims.Unknown
	if _, err := e.LoseEffects(ctx); err != nil {
		return fmt.Errorf("look for the effects that gone incarnations had begun: %w", err)
	}
	if err := e.wakeBroughtBack(ctx); err != nil {
		return fmt.Errorf("wake what is configured again: %w", err)
	}
	err = e.Transact(ctx, "", func(tx *Tx) error {
		recovered.Dispatches = tx.hot.GoneDispatches()
		_, err := tx.Execute(decider.RecoverNode{Node: e.node, Recovered: recovered})
		return err
	})
	if err != nil {
		return err
	}
	if err := e.defineSchedules(ctx); err != nil {
		return fmt.Errorf("define the schedules: %w", err)
	}
	return nil
}

// start appends NodeStarted, and counts the incarnations that it ends.
func (e *Engine) start(ctx context.Context, c Config) (gone int, err error) {
	mode := events.StoreShared
	if e.store.Exclusive() {
		mode = events.StoreExclusive
	}
	var doubt clockDoubt
	err = e.Transact(ctx, "", func(tx *Tx) error {
		alive, err := tx.View().AliveNodes()
		if err != nil {
			return err
		}
		_, newest, err := tx.tx.Head()
		if err != nil {
			return err
		}
		e.node = events.NodeID(e.mem.newULID(tx.now))
		doubt = tx.doubtClock()
		_, err = tx.Execute(decider.StartNode{Node: e.node, Started: events.NodeStarted{
			Host: c.Host, PID: c.PID, Version: c.Version, StoreMode: mode, Config: e.inForce.Load().recorded(),
			Behind: doubt.behind,
			Syncs:  e.syncs.recorded(),
		}})
		if err != nil {
			return err
		}
		if err := tx.beginLife(); err != nil {
			return err
		}
		if err := tx.startClock(newest); err != nil {
			return err
		}
		if e.origin, err = tx.origin(); err != nil {
			return err
		}
		if _, err := tx.armMessages(); err != nil { // NodeStarted is before anything else (N-1); the rest is next
			return err
		}
		gone = 0
		for _, n := range alive {
			if tx.Gone(n.Incarnation) {
				gone++
			}
		}
		return nil
	})
	if err == nil {
		e.doubt = doubt
		doubt.log(e.logger)
		e.logHold(ctx)
	}
	return gone, err
}

// origin is the first incarnation: it began the log, or only messages of an application lie before it.
func (t *Tx) origin() (events.NodeID, error) {
	first, err := t.tx.After(0, 1)
	if err != nil {
		return events.NodeID{}, err
	}
	if len(first) == 1 {
		if id, ok := first[0].Stream.Node(); ok {
			return id, nil
		}
	}
	id, _, err := t.View().FirstNode()
	return id, err
}

// recoverLeases decides every lease that a gone incarnation held, in pages.
func (e *Engine) recoverLeases(ctx context.Context) (int, error) {
	n, after := 0, projections.LeaseCursor{}
	for {
		var page []projections.LeaseCursor
		err := e.View(ctx, func(v projections.View) (err error) {
			page, err = v.OrphanedLeases(after, decisionsPerTransaction)
			return err
		})
		if err != nil || len(page) == 0 {
			return n, err
		}
		expired, err := e.ExpireLeases(ctx, page)
		n += expired.Failed + expired.Retried + expired.Exhausted
		if err != nil {
			return n, err
		}
		after = page[len(page)-1]
	}
}
