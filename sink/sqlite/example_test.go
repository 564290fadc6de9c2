package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/towline-dev/towline/sink"
	"github.com/towline-dev/towline/sink/sqlite"
)

// A surface that is not declared needs nothing: its rows are JSON in a table of the same name.
func ExampleFile() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "readings")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	d := sqlite.File(filepath.Join(dir, "readings.db"))
	defer d.Close()

	w, err := d.Open(ctx, scope(1, day)) // the engine does this, and the Commit; a provider sees the Sink
	if err != nil {
		log.Fatal(err)
	}
	if err := w.Put(ctx, "readings", "2024-03-01 00:10", map[string]any{"tide_cm": 312}); err != nil {
		log.Fatal(err)
	}
	if err := w.Commit(ctx); err != nil {
		log.Fatal(err)
	}

	db, err := d.DB(ctx)
	if err != nil {
		log.Fatal(err)
	}
	var source, key, window string
	var tide int
	if err := db.QueryRowContext(ctx, `SELECT source, key, window, data ->> 'tide_cm' FROM readings`).Scan(&source, &key, &window, &tide); err != nil {
		log.Fatal(err)
	}
	fmt.Println(source, key, window, tide)
	// Output: harbour 2024-03-01 00:10 2024-03-01 312
}

// A declared table has columns of its own. at is a date with its time: with the time alone, each day would take over the
// rows of the day before.
func ExampleTables() {
	d := sqlite.File("readings.db", sqlite.Tables(sqlite.Table{
		Name: "readings", Source: "station", Window: "day", Key: []string{"station", "at"},
		Columns: []sqlite.Column{{Name: "at", Type: "TEXT"}, {Name: "tide_cm", Type: "INTEGER"}},
	}))
	defer d.Close()
	fmt.Println(filepath.Base(d.Path()))
	// Output: readings.db
}

// A store that was lost cannot say that the one after it is newer. Whoever begins anew says so.
func ExampleTakeOver() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "readings")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "readings.db")
	write := func(store string, opts ...sqlite.Option) error {
		d := sqlite.File(path, opts...)
		defer d.Close()
		w, err := d.Open(ctx, from(store, scope(1, day))) // the engine does this
		if err != nil {
			return err
		}
		return w.Commit(ctx)
	}
	fmt.Println(write("lost"))
	fmt.Println(errors.Is(write("fresh"), sink.ErrForeign))
	fmt.Println(write("fresh", sqlite.TakeOver()))
	// Output:
	// <nil>
	// true
	// <nil>
}

// A script is one transaction. Named parameters reach every statement of it.
func ExampleDestination_Script() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "readings")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	d := sqlite.File(filepath.Join(dir, "readings.db"))
	defer d.Close()
	err = d.Script(ctx, `
CREATE TABLE IF NOT EXISTS activity (run TEXT, generation INTEGER);
INSERT INTO activity VALUES (:run, :generation);`, sql.Named("run", "7Q4ZKD"), sql.Named("generation", 1))
	fmt.Println(err)
	// Output: <nil>
}
