package towline_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
	"github.com/towline-dev/towline/sink/sqlite"
)

// Two effects that follow each run exactly once, whatever dies: a script in the file of the sink, and a function in the
// store, where the program has a table of its own. Each commits together with its row of the once-ledger.
func ExamplePostSync() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "towline-example-")
	if err != nil {
		log.Fatal(err)
	}
	read := func(ctx context.Context, _ provider.Unit, s sink.Sink) (provider.Result, error) {
		return provider.Result{}, s.Put(ctx, "stations", "harbour", map[string]int{"metres": 4})
	}
	const count = `
		CREATE TABLE IF NOT EXISTS totals (run TEXT, stations INTEGER);
		INSERT INTO totals SELECT :run, count(*) FROM stations;`
	bill := func(ctx context.Context, tx *sql.Tx, p towline.Post) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO bills (sources) VALUES ($1)`, len(p.Payload.Sources))
		return err
	}
	destination := sqlite.File(filepath.Join(dir, "stations.db"))
	n, err := node.Open(ctx, node.Config{
		Store: filepath.Join(dir, "towline.db"),
		Syncs: []node.Sync{{
			Name: "stations", Sources: []string{"coast"}, Datasets: []towline.Dataset{{Name: "stations", Snapshot: true}},
			Provider: provider.Func(read), Sink: destination,
			PostSync: towline.PostSync{Mode: towline.ExactlyOnce, Targets: []towline.Target{
				{Name: "count", SQL: count},
				{Name: "bill", Func: bill},
			}},
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := n.DB().Exec(`CREATE TABLE bills (sources INTEGER)`); err != nil {
		log.Fatal(err)
	}
	err = n.RunWhile(ctx, func(ctx context.Context) error {
		planned, err := n.Engine().Plan(ctx, towline.RunSpec{Sync: "stations"})
		if err != nil {
			return err
		}
		run, err := n.Engine().WaitPostSync(ctx, planned.Run)
		if err != nil {
			return err
		}
		for _, t := range run.PostSync.Targets {
			fmt.Println(t.Target, t.Effect)
		}
		var bills, entered int
		const question = `SELECT (SELECT count(*) FROM bills), (SELECT count(*) FROM _towline_once)`
		if err := n.DB().QueryRow(question).Scan(&bills, &entered); err != nil {
			return err
		}
		fmt.Println("bills:", bills, "in the ledger of the store:", entered)
		return nil
	})
	if err := errors.Join(err, destination.Close(), os.RemoveAll(dir)); err != nil {
		log.Fatal(err)
	}
	// Output:
	// count completed
	// bill completed
	// bills: 1 in the ledger of the store: 1
}

// A command that follows each run. It reads what the run has brought as JSON on its standard input; the end of what it
// writes is kept. It may look at the generation to see what it has done before, so it is declared idempotent, and runs until
// it has succeeded once.
func ExampleTarget_exec() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "towline-example-")
	if err != nil {
		log.Fatal(err)
	}
	nothing := func(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
		return provider.Result{}, nil
	}
	n, err := node.Open(ctx, node.Config{
		Store: filepath.Join(dir, "towline.db"),
		Syncs: []node.Sync{{
			Name: "stations", Sources: []string{"coast"}, Datasets: []towline.Dataset{{Name: "stations", Snapshot: true}},
			Provider: provider.Func(nothing),
			PostSync: towline.PostSync{Mode: towline.ExactlyOnce, Targets: []towline.Target{{
				Name: "publish", Idempotent: true,
				Exec: []string{"sh", "-c", `mkdir -p "published/$TOWLINE_GENERATION" && grep -o '"sources":[^]]*]'`},
				Dir:  dir,
			}}},
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	err = n.RunWhile(ctx, func(ctx context.Context) error {
		planned, err := n.Engine().Plan(ctx, towline.RunSpec{Sync: "stations"})
		if err != nil {
			return err
		}
		run, err := n.Engine().WaitPostSync(ctx, planned.Run)
		if err != nil {
			return err
		}
		publish := run.PostSync.Targets[0]
		fmt.Println(publish.Effect, publish.Result)
		_, err = os.Stat(filepath.Join(dir, "published", run.Run.String()+".1"))
		fmt.Println("published under its generation:", err == nil)
		return nil
	})
	if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
		log.Fatal(err)
	}
	// Output:
	// completed "sources":["coast"]
	// published under its generation: true
}

// Once in a program of its own: whatever delivers the message of a post_sync twice, a row is added once, because the key of
// the effect commits with it.
func ExampleOnce() {
	dir, err := os.MkdirTemp("", "towline-example-")
	if err != nil {
		log.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "app.db")+"?_txlock=immediate")
	if err != nil {
		log.Fatal(err)
	}
	add := func(ctx context.Context, generation, target string) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		first, err := towline.Once(ctx, tx, generation+"."+target)
		if err != nil || !first {
			return err // done before: there is nothing to do
		}
		if _, err := tx.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS mails (n INTEGER); INSERT INTO mails VALUES (1)`); err != nil {
			return err
		}
		return tx.Commit()
	}
	for range 3 {
		if err := add(context.Background(), "01M8MJC5BMDV35NZ6QZ8JQQP1X.1", "mail"); err != nil {
			log.Fatal(err)
		}
	}
	var mails int
	err = db.QueryRow(`SELECT count(*) FROM mails`).Scan(&mails)
	fmt.Println("mails:", mails)
	if err := errors.Join(err, db.Close(), os.RemoveAll(dir)); err != nil {
		log.Fatal(err)
	}
	// Output:
	// mails: 1
}
