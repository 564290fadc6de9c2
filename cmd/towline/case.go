package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/towline-dev/towline/crash"
)

func (p *program) caseCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "case", Short: "Play a crash that was written down, or make a test of it",
		Example: "  towline case run defect.case\n  towline case to-test defect.case >defect_test.go",
		Args:    cobra.ArbitraryArgs,
		RunE:    func(cmd *cobra.Command, args []string) error { return p.group(cmd, args) },
	}
	c.AddCommand(p.caseRunCommand(), p.caseToTestCommand())
	return c
}

// replayed is what playing a case has come to.
type replayed struct {
	crashed
	Expected   crash.Verdict `json:"expected"`
	Log        string        `json:"log"` // hash of the log behind the recovery
	Reproduces bool          `json:"reproduces"`
	Differs    string        `json:"differs,omitempty"` // in what
}

func (p *program) caseRunCommand() *cobra.Command {
	return &cobra.Command{
		Use: "run FILE", Short: "Play a case, and compare it with what it was written down with",
		Long: `Lets an engine of this release recover from the crash of a case file, under virtual
time. Exit code 1 if that does not come to the verdict, the problems and the log
that are in the file. - is standard input.`,
		Example: "  towline case run defect.case",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			return interrupted(ctx, p.playCase(ctx, args[0]))
		},
	}
}

func (p *program) playCase(ctx context.Context, path string) error {
	c, err := p.readCase(path)
	if err != nil {
		return err
	}
	played, err := c.Play(ctx, os.TempDir())
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	out := replayed{crashed: crashedOf(played.Row), Expected: c.Verdict, Log: played.Log, Reproduces: true}
	if err := c.Reproduces(played); err != nil {
		out.Reproduces, out.Differs = false, err.Error()
	}
	if err := p.out.one(out, out.text); err != nil {
		return err
	}
	if !out.Reproduces {
		return &exitError{exitFailed, fmt.Errorf("%s: %w", path, errNotReproduced)}
	}
	return nil
}

func (r replayed) text(w io.Writer) {
	window := ""
	if r.Window != "" {
		window = "  " + r.Window
	}
	fmt.Fprintf(w, "%s%s  died behind %s\n", r.Verdict, window, r.Behind)
	for _, n := range append(append([]string{}, r.Notes...), r.Problems...) {
		fmt.Fprintf(w, "  %s\n", n)
	}
	if r.Reproduces {
		fmt.Fprintf(w, "reproduces: verdict, problems and log are those of the file (log %s)\n", r.Log)
		return
	}
	fmt.Fprintf(w, "differs: %s\n", r.Differs)
}

func (p *program) caseToTestCommand() *cobra.Command {
	pkg := "towline_test"
	c := &cobra.Command{
		Use: "to-test FILE", Short: "Write a Go test that plays a case",
		Long: `Writes a Go test file to standard output. It fails as long as the crash ends badly,
and stays as a guard when that is mended.`,
		Example: "  towline case to-test defect.case --package sync_test >defect_test.go",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p.command = cmd.CommandPath()
			c, err := p.readCase(args[0])
			if err != nil {
				return err
			}
			var text strings.Builder
			if err := c.GoTest(&text, pkg); err != nil {
				return p.usage("--package: %w", err)
			}
			_, err = io.WriteString(p.out, text.String())
			return err
		},
	}
	c.Flags().StringVar(&pkg, "package", pkg, "`NAME` of the Go package")
	return c
}

func (p *program) readCase(path string) (crash.Case, error) {
	r := p.stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return crash.Case{}, fileError(err)
		}
		defer f.Close()
		r = f
	}
	c, err := crash.ReadCase(r)
	if err != nil {
		return c, &configError{fmt.Errorf("%s: %w", path, err)}
	}
	return c, nil
}
