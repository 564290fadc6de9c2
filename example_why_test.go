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
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
)

// Anything that waits can be asked why. There is exactly one answer, with the event that shows it.
func ExampleEngine_Why() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "why")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	n, err := node.Open(ctx, node.Config{
		Store: filepath.Join(dir, "towline.db"), Logger: slog.New(slog.DiscardHandler),
		Syncs: []node.Sync{{
			Name: "pages", Sources: []string{"wiki"}, Datasets: []towline.Dataset{{Name: "pages", Window: towline.Day}},
			Provider: provider.Func(func(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
				return provider.Result{}, nil
			}), Sink: sink.Discard,
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer n.Close()

	day := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	spec := towline.RunSpec{Sync: "pages", Sources: []string{"wiki"}, Mode: towline.Backfill, Since: day, Before: day.AddDate(0, 0, 3)}
	p, err := n.Engine().Plan(ctx, spec)
	if err != nil {
		log.Fatal(err)
	}
	if err := n.Engine().PauseSource(ctx, "wiki", towline.Actor{Name: "ada", Reason: "it moves"}); err != nil {
		log.Fatal(err)
	}
	why, err := n.Engine().Why(ctx, p.Run.String())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(why.Status, "waits:", why.Reason.Why, why.Reason.On)
	fmt.Println("needs a person:", why.Reason.Why.NeedsPerson())
	for _, c := range why.Counts {
		fmt.Println(c.Units, "units:", c.Why)
	}
	fmt.Println(why.Evidence.Stream, why.Evidence.Text)
	// Output:
	// planned waits: source_paused wiki
	// needs a person: true
	// 3 units: source_paused
	// control/source/wiki SourcePaused {actor: ada, reason: "it moves"}
}
