//go:build unix

package exec_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/provider/exec"
	"github.com/towline-dev/towline/sink/sqlite"
)

// A script of the shell is a provider: each JSON object that it writes is a row. This one is told by a server to slow down, says
// so, and is run again.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "towline-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	script := `
		if [ "$TOWLINE_ATTEMPT" = 1 ]; then
			echo '{"towline":"retry_after","seconds":0.1}' >&3
			exit 75
		fi
		echo "{\"id\":9007199254740993,\"source\":\"$TOWLINE_SOURCE\"}"`
	p, err := exec.New(exec.Options{Command: []string{"/bin/sh", "-c", script}, Key: []string{"id"}, Folder: filepath.Join(dir, "attempts")})
	if err != nil {
		log.Fatal(err)
	}
	tickets := sqlite.File(filepath.Join(dir, "tickets.db"))
	defer tickets.Close()
	n, err := node.Open(ctx, node.Config{
		Store: filepath.Join(dir, "towline.db"),
		Syncs: []node.Sync{{
			Name: "tickets", ProviderName: exec.Name, Sources: []string{"desk"}, Provider: p, Sink: tickets,
			Datasets: []towline.Dataset{{Name: "issues", Snapshot: true}},
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	err = n.RunWhile(ctx, func(ctx context.Context) error {
		planned, err := n.Engine().Plan(ctx, towline.RunSpec{Sync: "tickets"})
		if err != nil {
			return err
		}
		run, err := n.Engine().Wait(ctx, planned.Run)
		if err != nil {
			return err
		}
		return n.Engine().View(ctx, func(v projections.View) error {
			units, err := v.Units(planned.Run, 0, 1)
			fmt.Printf("%s after %d attempts, %d row\n", run.Status, units[0].Attempt, units[0].Result.Rows)
			return err
		})
	})
	if err != nil {
		log.Fatal(err)
	}
	db, err := tickets.DB(ctx)
	if err != nil {
		log.Fatal(err)
	}
	var row string
	if err := db.QueryRow(`SELECT data FROM issues`).Scan(&row); err != nil {
		log.Fatal(err)
	}
	fmt.Println(row)
	// Output:
	// succeeded after 2 attempts, 1 row
	// {"id":9007199254740993,"source":"desk"}
}
