package docs_test

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/towline-dev/towline/crash"
	"github.com/towline-dev/towline/events"
)

// The functions of this file are printed in OPERATING.md, and called by the test beside it.

// dieEverywhere says what becomes of a run whose process dies behind each of its transactions, and writes down the first crash
// that ends badly.
func dieEverywhere(ctx context.Context, store string, run events.RunID) error {
	o := crash.Options{Store: store, Run: run, Seed: 1} // Most: 500 for a long run
	m, err := crash.MakeMatrix(ctx, o)
	if err != nil {
		return err
	}
	if err := m.Text(os.Stdout); err != nil {
		return err
	}
	for _, r := range m.Rows {
		if r.Verdict.Good() {
			continue
		}
		c, err := crash.MakeCase(ctx, o, r)
		if err != nil {
			return err
		}
		f, err := os.Create("defect.case")
		if err != nil {
			return err
		}
		defer f.Close()
		return c.Write(f)
	}
	return nil
}

// playAgain plays a case file of another machine, and says in what the outcome differs.
func playAgain(ctx context.Context, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	c, err := crash.ReadCase(f)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	played, err := c.Play(ctx, os.TempDir())
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	fmt.Println(played.Verdict, strings.Join(played.Problems, "; "))
	return c.Reproduces(played)
}
