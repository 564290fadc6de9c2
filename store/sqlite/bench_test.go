package sqlite

import (
	"context"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// benchUnit is a stream of its own for each i.
func benchUnit(i int64) events.StreamID {
	id := events.UnitID{0: 1, 1: 0x90}
	for b := 15; i > 0; b, i = b-1, i>>8 {
		id[b] = byte(i)
	}
	return events.UnitStream(id)
}

// settle is three events of a unit, as a worker's settle and claim would write them.
func settle(tx store.Tx, id events.StreamID) error {
	_, err := tx.Append(id, 0, events.Meta{Command: "ClaimUnit"},
		events.UnitDispatched{Dispatch: 1, Wakeup: 1, Attempt: 1, Cause: events.DispatchPlanned, Bucket: "git/light"},
		events.UnitClaimed{Attempt: 1, Token: "0123456789abcdef0123456789abcdef", LeaseExpiresAt: tx.Now() + 60_000_000, LeaseEndsAt: tx.Now() + 3_600_000_000, Worker: "w1"},
		events.UnitSucceeded{Attempt: 1, Token: "0123456789abcdef0123456789abcdef", Result: events.Result{Rows: 12}, Duration: 1234})
	return err
}

func openBench(b *testing.B) *Store {
	b.Helper()
	s, err := Open(context.Background(), filepath.Join(b.TempDir(), "bench.db"), Options{})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, s.Close()) })
	return s
}

// BenchmarkWriteAlone is one caller with three events in each transaction: a commit, and a sync, for each.
func BenchmarkWriteAlone(b *testing.B) {
	s := openBench(b)
	ctx := context.Background()
	n := int64(0)
	for b.Loop() {
		n++
		require.NoError(b, s.Write(ctx, func(tx store.Tx) error { return settle(tx, benchUnit(n)) }))
	}
	b.ReportMetric(float64(3*n)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkWriteGrouped64 is the same with 64 callers at once, who share commits.
func BenchmarkWriteGrouped64(b *testing.B) {
	s := openBench(b)
	var commits atomic.Int64
	s.Attach(store.Hooks{BeforeCommit: func(store.Tx) error { commits.Add(1); return nil }})
	ctx := context.Background()
	var n atomic.Int64
	var callers sync.WaitGroup
	b.ResetTimer()
	for range 64 {
		callers.Go(func() {
			for i := n.Add(1); i <= int64(b.N); i = n.Add(1) {
				if err := s.Write(ctx, func(tx store.Tx) error { return settle(tx, benchUnit(i)) }); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	callers.Wait()
	b.ReportMetric(float64(3*b.N)/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(b.N)/float64(commits.Load()), "tx/commit")
}

// BenchmarkReadLog reads and decodes a log of 200,000 events.
func BenchmarkReadLog(b *testing.B) {
	const total, each = 200_000, 4_000
	s := openBench(b)
	ctx := context.Background()
	for done := 0; done < total; {
		require.NoError(b, s.Write(ctx, func(tx store.Tx) error {
			for end := done + each; done < end; done += 4 {
				if err := settle(tx, benchUnit(int64(done+1))); err != nil {
					return err
				}
				if _, err := tx.Append(benchUnit(int64(done+1)), 3, events.Meta{}, events.UnitCancelled{Actor: "bench", Reason: "unit_cancelled"}); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	read := 0
	for b.Loop() {
		require.NoError(b, s.Read(ctx, func(r store.Reader) error {
			for _, err := range r.Log(ctx, 0) {
				if err != nil {
					return err
				}
				read++
			}
			return nil
		}))
	}
	if read%total != 0 {
		b.Fatalf("read %d events, want a multiple of %d", read, total)
	}
	b.ReportMetric(float64(read)/b.Elapsed().Seconds(), "events/s")
}
