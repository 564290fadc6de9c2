package script_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/towline-dev/towline/sim/script"
)

// A process dies between the claim of a wakeup and its publish, and the next one goes on.
func Example() {
	dir, err := os.MkdirTemp("", "scenario")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	p := script.New(dir)
	defer p.Close()
	commands, err := script.ParseAll(`
		sync weather sources=harbour
		dataset weather readings window=day
		quietly plan weather mode=backfill since=-1d before=0d
		crash before publish weather dispatch_sync_run.1
		boot
		until behind publish`)
	if err != nil {
		panic(err)
	}
	for _, c := range commands {
		said, err := p.Play(context.Background(), c)
		if err != nil {
			panic(err)
		}
		fmt.Print(said)
	}
	if err := p.Finish(context.Background()); err != nil {
		panic(err)
	}
	// Output:
	// 0s      OutboxClaimed weather dispatch_sync_run.1: attempt 1, until 1m
	// 0s      x node 1 dies before publish weather dispatch_sync_run.1
	// 0s      NodeStarted
	// 0s      OutboxReleased weather dispatch_sync_run.1: incarnation_gone, due 0s, may be published
	// 0s      NodeRecovered: gone incarnations 1, claims 1
	// 0s      OutboxClaimed weather dispatch_sync_run.1: attempt 2, until 1m
	// 0s      ! publish weather dispatch_sync_run.1
}

// A command prints itself as the line of a file.
func ExampleParse() {
	c, err := script.Parse("fault   publish refuse times=3 of weather dispatch_sync_run")
	fmt.Println(c, err)
	fmt.Println(script.Hold{For: 2 * time.Hour, Task: "1/relay"})
	// Output:
	// fault publish refuse times=3 of weather dispatch_sync_run <nil>
	// hold for=2h 1/relay
}
