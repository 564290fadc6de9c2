package towline_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/node"
)

// A program was started on a day when the clock of its machine ran two weeks ahead. The clock has been corrected since, so
// the newest event lies in the future. Nobody but a person knows which of the two is right.
func ExampleEngine_ConfirmClock() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "towline-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	now := time.Date(2026, 3, 28, 9, 0, 0, 0, time.UTC) // wrong
	config := node.Config{
		Store: filepath.Join(dir, "towline.db"), Now: func() time.Time { return now }, Logger: slog.New(slog.DiscardHandler),
	}
	open := func() *node.Node {
		n, err := node.Open(ctx, config)
		if err != nil {
			log.Fatal(err)
		}
		return n
	}
	say := func(n *node.Node) {
		conditions, err := n.Engine().Health(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(len(conditions), "conditions")
		for _, c := range conditions {
			fmt.Println(c.Name)
		}
	}
	if err := open().Close(); err != nil {
		log.Fatal(err)
	}

	now = time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC) // right
	n := open()
	say(n)
	confirmed, err := n.Engine().ConfirmClock(ctx, towline.Actor{Name: "ada", Reason: "the time server was wrong until this morning"})
	fmt.Println("confirmed:", confirmed, err)
	say(n)
	if err := n.Close(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 1 conditions
	// clock_earlier_than_newest_event
	// confirmed: true <nil>
	// 0 conditions
}
