package jsonl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// lockPoll is between two looks at a lock that another process has.
const lockPoll = 5 * time.Millisecond

// locked runs fn while nobody else changes the folder. ctx bounds the wait; fn is not interrupted. What a process that
// died has left to do is done first.
func (d *Destination) locked(ctx context.Context, fn func() error) (err error) {
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := d.makeDir(d.own(newFolder)); err != nil {
		return err
	}
	f, err := d.lock(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := d.redo(); err != nil {
		return fmt.Errorf("end the commit of a process that died: %w", err)
	}
	return fn()
}

// lock is an advisory lock of the system: a killed process loses it at once.
func (d *Destination) lock(ctx context.Context) (*os.File, error) {
	f, err := os.OpenFile(d.own(lockFile), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for start := time.Now(); ; {
		ok, err := tryLock(f)
		switch {
		case ok:
			return f, nil
		case err != nil:
			return nil, errors.Join(fmt.Errorf("lock %s: %w", f.Name(), err), f.Close())
		case time.Since(start) > d.wait:
			return nil, errors.Join(fmt.Errorf("%s is held by another process for longer than %v", f.Name(), d.wait), f.Close())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), f.Close())
		}
	}
}
