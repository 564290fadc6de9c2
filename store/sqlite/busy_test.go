package sqlite

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"fmt"

	"github.com/towline-dev/towline/store"
)

func BenchmarkBusy(b *testing.B) {
	for _, busy := range []int{0, 4} {
		for _, callers := range []int{1, 2, 8, 64} {
			b.Run(fmt.Sprintf("busy=%d/callers=%d", busy, callers), func(b *testing.B) {
				s := openBench(b)
				ctx := context.Background()
				var stop atomic.Bool
				for range busy {
					go func() {
						for !stop.Load() {
						}
					}()
				}
				defer stop.Store(true)
				var commits atomic.Int64
				s.Attach(store.Hooks{BeforeCommit: func(store.Tx) error { commits.Add(1); return nil }})
				var n atomic.Int64
				var wg sync.WaitGroup
				b.ResetTimer()
				for range callers {
					wg.Go(func() {
						for i := n.Add(1); i <= int64(b.N); i = n.Add(1) {
							if err := s.Write(ctx, func(tx store.Tx) error { return settle(tx, benchUnit(i)) }); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tx/s")
				b.ReportMetric(float64(b.N)/float64(commits.Load()), "tx/commit")
			})
		}
	}
}
