package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/store"
)

// BenchmarkBackup copies a store of about 100 MiB while somebody writes without a pause: by the page copy of Backup, and by
// VACUUM INTO. write-p99-ms is what the writer sees meanwhile. Decision 0023 has the numbers.
func BenchmarkBackup(b *testing.B) {
	s := openBench(b)
	const units = 150_000
	for i := range int64(units / 50) {
		require.NoError(b, s.Write(context.Background(), func(tx store.Tx) error {
			for n := range int64(50) {
				if err := settle(tx, benchUnit(i*50+n+1)); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	next := int64(units)
	for name, copied := range map[string]func(to string) error{
		"pages": func(to string) error {
			return copyStore(context.Background(), dsn{path: s.Path(), busyTimeout: busyTimeout}, to, nil)
		},
		"vacuum": func(to string) error {
			db, err := sql.Open(driverName, "file:"+s.Path())
			if err != nil {
				return err
			}
			defer db.Close()
			_, err = db.Exec(`VACUUM INTO '` + to + `'`)
			return err
		},
	} {
		b.Run(name, func(b *testing.B) {
			var took []time.Duration
			for i := 0; b.Loop(); i++ {
				done := make(chan error, 1)
				go func() { done <- copied(filepath.Join(b.TempDir(), fmt.Sprint(i, ".db"))) }()
				for going := true; going; {
					select {
					case err := <-done:
						require.NoError(b, err)
						going = false
					default:
						next++
						began := time.Now()
						require.NoError(b, s.Write(context.Background(), func(tx store.Tx) error { return settle(tx, benchUnit(next)) }))
						took = append(took, time.Since(began))
					}
				}
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "write-p99-ms")
			b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "write-max-ms")
			b.ReportMetric(float64(len(took))/float64(b.N), "writes/op")
		})
	}
}
