package sink_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
)

// A provider that writes to tables of its own, in one transaction with the fence; the sink of its sync is sink.Guarded. Here
// its first attempt has overslept, and comes after its second.
func ExampleGuard() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "readings")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "mine.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, sink.GuardSchema+`; CREATE TABLE tides (station TEXT, day TEXT, cm INTEGER)`); err != nil {
		log.Fatal(err)
	}
	sync := func(ctx context.Context, u provider.Unit, cm int) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := sink.Guard(ctx, tx, u.Scope()); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM tides WHERE station = $1 AND day = $2`, u.Source, u.Window.Name())
		if err == nil {
			_, err = tx.ExecContext(ctx, `INSERT INTO tides VALUES ($1, $2, $3)`, u.Source, u.Window.Name(), cm)
		}
		return errors.Join(err, tx.Commit())
	}

	first := time.Date(2024, 3, 1, 0, 0, 0, 0, time.UTC)
	unit := provider.Unit{Source: "harbour", Dataset: "tides", Window: events.NewWindow(first, first.AddDate(0, 0, 1))} // the engine gives it
	unit.Attempt, unit.Fence = 2, events.NewFence(1, 1187)
	fmt.Println(sync(ctx, unit, 312))
	unit.Attempt, unit.Fence = 1, events.NewFence(1, 1003)
	fmt.Println(errors.Is(sync(ctx, unit, 7), sink.ErrFenced))
	var cm int
	if err := db.QueryRowContext(ctx, `SELECT cm FROM tides`).Scan(&cm); err != nil {
		log.Fatal(err)
	}
	fmt.Println(cm)
	// Output:
	// <nil>
	// true
	// 312
}
