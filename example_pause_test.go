package towline_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
)

// A source is paused while its wiki moves. A plan that names no sources leaves it out, one that is for it alone is refused,
// and units that were planned for it wait until somebody resumes it.
func ExampleEngine_PauseSource() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "towline-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	read := func(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
		return provider.Result{Rows: 1}, nil
	}
	n, err := node.Open(ctx, node.Config{
		Store: filepath.Join(dir, "towline.db"),
		Syncs: []node.Sync{{
			Name: "pages", Sources: []string{"blog", "wiki"}, Datasets: []towline.Dataset{{Name: "pages"}}, Provider: provider.Func(read),
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	e, ada := n.Engine(), towline.Actor{Name: "ada", Reason: "the wiki moves"}
	accepted, err := e.Plan(ctx, towline.RunSpec{Sync: "pages"})
	if err != nil {
		log.Fatal(err)
	}
	if err := e.PauseSource(ctx, "wiki", ada); err != nil {
		log.Fatal(err)
	}
	if planned, err := e.Plan(ctx, towline.RunSpec{Sync: "pages"}); err == nil {
		fmt.Println("left out:", planned.LeftOut)
	}
	_, err = e.Plan(ctx, towline.RunSpec{Sync: "pages", Sources: []string{"wiki"}})
	fmt.Println("refused:", errors.Is(err, towline.ErrSourcePaused))

	running, stop := context.WithCancel(ctx)
	stopped := make(chan error, 1)
	go func() { stopped <- n.Run(running) }()
	err = e.View(ctx, func(v projections.View) error {
		paused, err := v.Paused()
		for _, p := range paused {
			fmt.Printf("%s is paused by %s: %s\n", p.Source, p.By, p.Reason)
		}
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := e.ResumeSource(ctx, "wiki", ada); err != nil {
		log.Fatal(err)
	}
	run, err := e.Wait(ctx, accepted.Run)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %d of %d units\n", run.Status, run.Succeeded, run.Total)
	stop()
	if err := <-stopped; err != nil {
		log.Fatal(err)
	}
	// Output:
	// left out: [{wiki source_paused}]
	// refused: true
	// wiki is paused by ada: the wiki moves
	// succeeded: 2 of 2 units
}
