package jsonl_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/sink"
	"github.com/towline-dev/towline/sink/jsonl"
)

// A window is a file, and a row is a line. The second attempt replaces what the first has written; an older one cannot.
func ExampleDir() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "readings")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	d := jsonl.Dir(filepath.Join(dir, "out"))
	day := events.NewWindow(time.Date(2024, 3, 1, 0, 0, 0, 0, time.UTC), time.Date(2024, 3, 2, 0, 0, 0, 0, time.UTC))
	attempt := func(n, tide int) error { // the engine does this; a provider sees the Sink
		w, err := d.Open(ctx, sink.Scope{
			Source: "harbour", Dataset: "readings", Window: day, Attempt: n, Fence: events.NewFence(1, events.Position(n)),
			Surfaces: []string{"readings"},
		})
		if err != nil {
			return err
		}
		defer w.Abort()
		if err := w.Put(ctx, "readings", "2024-03-01 00:10", map[string]int{"tide_cm": tide}); err != nil {
			return err
		}
		return w.Commit(ctx)
	}
	if err := attempt(2, 312); err != nil {
		log.Fatal(err)
	}
	fmt.Println("an older one was refused:", attempt(1, 7) != nil)
	rows, err := os.ReadFile(filepath.Join(d.Path(), "readings", "harbour", "2024-03-01.jsonl"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(string(rows))
	// Output:
	// an older one was refused: true
	// {"source":"harbour","key":"2024-03-01 00:10","window":"2024-03-01","data":{"tide_cm":312}}
}
