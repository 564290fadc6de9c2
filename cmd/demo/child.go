package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/provider/git"
	"github.com/towline-dev/towline/sink/sqlite"
	"github.com/towline-dev/towline/transport/local"
)

// The child is this program, started again: one node on the two files. It gets its order in a variable, says words on a
// pipe, and lives until it is killed or its standard input ends, which also happens when the parent dies.

// childVariable holds the order of a child. It marks the process as one.
const childVariable = "TOWLINE_DEMO_CHILD"

// wordsPipe is the file descriptor on which a child speaks: the first of exec.Cmd.ExtraFiles.
const wordsPipe = 3

// order is what a child shall do.
type order struct {
	Dir    string `json:"dir"`
	Source string `json:"source"`
	Repo   string `json:"repo"`
	Layout layout `json:"layout"`
	RunCap int    `json:"run_cap,omitzero"` // units in flight per run; 0: the default
	Plan   *plan  `json:"plan,omitzero"`    // a run to plan first
	Idle   bool   `json:"idle,omitzero"`    // plan, and never start the relay
	Halt   halt   `json:"halt,omitzero"`
	Absorb bool   `json:"absorb,omitzero"` // say when a message was absorbed
}

// plan is a run to ask for.
type plan struct {
	Mode     events.Mode `json:"mode"`
	Datasets []string    `json:"datasets,omitempty"`
	Since    time.Time   `json:"since,omitzero"`
	Before   time.Time   `json:"before,omitzero"`
}

// word is what a child says, one JSON document a line.
type word struct {
	Word    string        `json:"word"`
	Kind    events.Kind   `json:"kind,omitzero"`
	Message string        `json:"message,omitzero"` // id
	Unit    events.UnitID `json:"unit,omitzero"`
	Rows    int           `json:"rows,omitzero"`
	Count   int64         `json:"count,omitzero"`
	Error   string        `json:"error,omitzero"`
}

const (
	wordWindow   = "window"   // at the window; the child will not move again
	wordSent     = "sent"     // a message was given to the bus
	wordAbsorbed = "absorbed" // messages that found their work done, since the start
	wordFailed   = "failed"
)

// childMain is the whole life of a child. It returns the exit code of a clean end; most children have none.
func childMain(text string) int {
	say := speaker(os.NewFile(wordsPipe, "parent"))
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		say(word{Word: wordFailed, Error: fmt.Sprintf("%s is not for people: %v", childVariable, err)})
		return exitFailed
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		if o.Idle || o.Halt != (halt{}) {
			os.Exit(exitFailed) // it was to be killed, and a gate blocks what it has caught: the parent is dead
		}
		stop()
	}()
	if err := work(ctx, o, say); err != nil {
		say(word{Word: wordFailed, Error: err.Error()})
		return exitFailed
	}
	return exitOK
}

func speaker(pipe *os.File) func(word) {
	var mu sync.Mutex
	encoder := json.NewEncoder(pipe)
	return func(w word) {
		mu.Lock()
		defer mu.Unlock()
		_ = encoder.Encode(w) // a parent that is gone hears nothing, and its end of standard input says the rest
	}
}

func work(ctx context.Context, o order, say func(word)) error {
	g := &gates{halt: o.Halt, say: say}
	c, err := o.config(g)
	if err != nil {
		return err
	}
	n, err := node.Open(ctx, c)
	if err != nil {
		return err
	}
	if o.Plan != nil {
		if _, err := n.Engine().Plan(ctx, o.Plan.spec()); err != nil {
			return errors.Join(fmt.Errorf("plan: %w", err), n.Close())
		}
	}
	if o.Idle {
		say(word{Word: wordWindow})
		<-ctx.Done()
		return n.Close()
	}
	g.engine = n.Engine()
	if o.Halt.Absorbed {
		go sayAbsorbed(ctx, n.Engine(), say)
	}
	return n.Run(ctx)
}

// syncName is the one sync of the demo. Every surface of the git provider may be written again, since the sink replaces a
// window as a whole; so a lost worker is no failure.
const syncName = "code"

// Knobs that differ from the defaults, so that nobody has to watch a minute pass.
const (
	countdown    = time.Second // instead of 60 s
	retryBackoff = time.Second // no default: a retry is declared
	retryMax     = 5           // a unit may be at work at more than one of the kills
)

// config is that of any program that embeds Towline, but for the gates.
func (o order) config(g *gates) (node.Config, error) {
	provider, err := git.New(git.Options{Repos: map[string]string{o.Source: o.Repo}})
	if err != nil {
		return node.Config{}, err
	}
	s := node.Sync{
		Name: syncName, ProviderName: git.Name, Sources: []string{o.Source},
		Datasets: o.Layout.datasets(), Provider: provider, Sink: destination(o.Dir),
		PostSync:     towline.PostSync{Targets: []towline.Target{{Name: "activity", SQL: activityScript}}},
		OneActiveRun: true,
	}
	c := node.Config{
		Store: storePath(o.Dir), Version: "demo", Knobs: towline.Knobs{Countdown: countdown, CapRun: o.RunCap},
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	if g == nil {
		c.Workers, c.Syncs = -1, []node.Sync{s}
		return c, nil
	}
	s.Provider = gatedGit{provider, g}
	c.Syncs = []node.Sync{s}
	c.Bus = local.New(local.Options{Logger: c.Logger})
	c.Routes = g.routes(c.Bus)
	return c, nil
}

func storePath(dir string) string   { return filepath.Join(dir, "towline.db") }
func historyPath(dir string) string { return filepath.Join(dir, "history.db") }

// destination is history.db, with the tables that the provider describes.
func destination(dir string) *sqlite.Destination {
	var tables []sqlite.Table
	for _, t := range git.Tables() {
		tables = append(tables, sqlite.Table{Name: t.Name, Columns: t.Columns, Key: t.Key, Source: t.Source, Window: t.Window})
	}
	return sqlite.File(historyPath(dir), sqlite.Tables(tables...))
}

// activityScript is the post_sync action. It appends, so running it twice would count every month twice: that is why
// post_sync is delivered at most once.
const activityScript = `
CREATE TABLE IF NOT EXISTS activity (repo TEXT NOT NULL, month TEXT NOT NULL, commits INTEGER NOT NULL, generation TEXT NOT NULL);
INSERT INTO activity (repo, month, commits, generation)
SELECT repo, coalesce(substr(committer_time, 1, 7), window) AS month, count(*), :generation
FROM commits
GROUP BY repo, month;`

func (p plan) spec() towline.RunSpec {
	return towline.RunSpec{
		Sync: syncName, Mode: p.Mode, Datasets: p.Datasets, Since: p.Since, Before: p.Before,
		By: towline.Actor{Name: "demo"},
	}
}

// sayAbsorbed passes on a counter of the engine that has no signal: a duplicate changes nothing, so nothing in the log
// tells of it.
func sayAbsorbed(ctx context.Context, e *towline.Engine, say func(word)) {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	said := int64(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if n := e.Tally().Absorbed; n > said {
			said = n
			say(word{Word: wordAbsorbed, Count: n})
		}
	}
}
