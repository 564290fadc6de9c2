package crash_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/crash"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sim"
	"github.com/towline-dev/towline/sink"
)

// store is the file of a run that has ended. Here the simulator makes one; yours is that of your process.
func store(dir string) string {
	path := filepath.Join(dir, "towline.db")
	w := sim.New(sim.Config{
		Store: path, Seed: 1,
		Syncs: []sim.Sync{{
			Sync: towline.Sync{
				Name: "issues", Provider: "tracker", Sources: []string{"core"},
				Datasets: []towline.Dataset{{Name: "issues", Retry: towline.Retry{Max: 1}}},
				PostSync: towline.PostSync{Targets: []towline.Target{{Name: "report", SQL: "refresh"}}},
			},
			Provider: provider.Func(func(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
				return provider.Result{Rows: 3}, nil
			}),
		}},
	})
	w.Request(towline.RunSpec{Sync: "issues", Key: "1"})
	if err := w.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
	if err := w.Bury(); err != nil {
		log.Fatal(err)
	}
	return path
}

// What would have become of a run, had its process died behind any of its transactions?
func ExampleMakeMatrix() {
	dir, err := os.MkdirTemp("", "towline-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	m, err := crash.MakeMatrix(context.Background(), crash.Options{Store: store(dir)})
	if err != nil {
		log.Fatal(err)
	}
	if err := m.Text(os.Stdout); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 27 events, 17 durable boundaries, 23 crashes
	//
	// at  since  window  verdict             waited    of  rows       died behind
	//  1      0  –       recovered                0     0  –          NodeStarted
	//  2      0  –       recovered                0     0  –          NodeRecovered
	//  7      0  W0      recovered                0     0  C-2 C-38   JobOpened, RunPlanned(issues), OutboxArmed(issues dispatch_sync_run.1), JobLinked, UnitPlanned×1
	//  8      0  W2      recovered                0     0  C-3 C-38   OutboxClaimed(issues dispatch_sync_run.1)
	//  8      0  W3      duplicate absorbed       0     0  C-4 C-38   … and publish of issues dispatch_sync_run.1, not on record
	//                    1 message published again under the same id
	//  9      0  W4      recovered                0     0  C-5 C-38   OutboxDispatched(issues dispatch_sync_run.1)
	// 12      0  W1      recovered                0     0  C-7        UnitDispatched(issues 1 core/issues), RunDispatchStarted(issues), OutboxArmed(issues run_sync_u…
	// 13      0  W2      recovered                0     0  C-3        OutboxClaimed(issues run_sync_unit.1)
	// 13      0  W3      duplicate absorbed       0     0  C-4        … and publish of issues run_sync_unit.1, not on record
	//                    1 message published again under the same id
	// 14      0  W4      recovered                0     0  C-9        OutboxDispatched(issues run_sync_unit.1)
	// 15      0  W5      recovered             1m0s  1m0s  C-12       UnitClaimed(issues 1 core/issues)
	// 15      0  W6      duplicate absorbed    1m0s  1m0s  C-15       … and sink commit of issues 1 core/issues, not on record
	//                    a unit has written again, behind a newer fence
	// 17     1s  W7      recovered                0     0  C-16       UnitSucceeded(issues 1 core/issues), OutboxArmed(issues finalize_sync_run.1)
	// 18     1s  W2      recovered                0     0  C-3        OutboxClaimed(issues finalize_sync_run.1)
	// 18     1s  W3      duplicate absorbed       0     0  C-4        … and publish of issues finalize_sync_run.1, not on record
	//                    1 message published again under the same id
	// 19     1s  W4      recovered                0     0  C-5        OutboxDispatched(issues finalize_sync_run.1)
	// 22     1s  W1      recovered                0     0  C-20       RunFinalized(issues), JobClosed, OutboxArmed(issues post_sync.1)
	// 24     1s  W8      lost by contract         0     0  C-22       OutboxClaimed(issues post_sync.1), OutboxDispatched(issues post_sync.1)
	//                    issues report: unknown
	// 25     1s  W8      lost by contract         0     0  C-22 C-24  PostSyncStarted(issues report)
	//                    issues report: started, not completed
	// 25     1s  W8      lost by contract         0     0  C-23 C-24  … and publish of issues post_sync.1 report, not on record
	//                    issues report: started, not completed
	// 26     1s  W8      lost by contract         0     0  C-24       OutboxOutcome(issues post_sync.1 report)
	//                    issues report: started, not completed
	// 26     1s  W8      lost by contract         0     0  C-24       … and effect of issues report, not on record
	//                    issues report has happened, and nobody knows: started, not completed
	// 27     1s  –       recovered                0     0  –          PostSyncCompleted(issues report)
	//
	// 14 recovered, 4 duplicate absorbed, 5 lost by contract, 0 violated, 0 stranded, 0 invariants violated
	// longest wait 1m0s of 1m0s allowed, behind 15
}

// A crash is written down as a text file, which plays alike on another machine.
func ExampleCase() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "towline-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	o := crash.Options{Store: store(dir)}
	m, err := crash.MakeMatrix(ctx, o)
	if err != nil {
		log.Fatal(err)
	}
	c, err := crash.MakeCase(ctx, o, m.Rows[len(m.Rows)/2])
	if err != nil {
		log.Fatal(err)
	}
	var file strings.Builder
	if err := c.Write(&file); err != nil {
		log.Fatal(err)
	}

	read, err := crash.ReadCase(strings.NewReader(file.String()))
	if err != nil {
		log.Fatal(err)
	}
	played, err := read.Play(ctx, dir)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(played.Verdict, played.Rows)
	fmt.Println("as on record:", read.Reproduces(played) == nil)
	// Output:
	// duplicate absorbed [C-15]
	// as on record: true
}
