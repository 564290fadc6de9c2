package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/crash"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/ident"
	"github.com/towline-dev/towline/node"
)

// dying says which crashes are played, and which is written down.
type dying struct {
	most int
	seed uint64
	file string // of a case
	at   int64
}

func (p *program) crashCommand() *cobra.Command {
	o := dying{seed: 1}
	c := &cobra.Command{
		Use: "crash RUN", Short: "Let a run that has been die at every durable boundary, and say what becomes of it",
		Long: `Takes the log of a run, and lets the process die behind each of its transactions, in
the simulator: an engine of this release goes on from there under virtual time, and
the world around it is as the log has recorded it. The answer is a matrix with what
became of each death. The store is only read, whoever has it open.

--case writes a crash down, to be played on any machine: the first that ends badly,
or with --at the first that has that event on disk. There is nothing in it that anybody has written.

Exit code 1 if a crash is stranded or violates an invariant.`,
		Example: "  towline crash 7Q4ZKD\n  towline crash 7Q4ZKD --most 200 --case defect.case\n  towline crash 7Q4ZKD --case w5.case --at 1187",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p.command = cmd.CommandPath()
			switch {
			case o.at != 0 && o.file == "":
				return p.usage("--at chooses the crash that is written down: add --case FILE")
			case o.most < 0 || o.at < 0:
				return p.usage("--most and --at are not negative")
			}
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			return interrupted(ctx, p.crash(ctx, args[0], o))
		},
	}
	f := c.Flags()
	p.dbFlag(f)
	f.IntVar(&o.most, "most", 0, "play this `N` of the crashes, in equal distances; 0: all")
	f.Uint64Var(&o.seed, "seed", o.seed, "`SEED` of what the log does not tell")
	f.StringVar(&o.file, "case", "", "write a crash to this `FILE`")
	f.Int64Var(&o.at, "at", 0, "with --case: the first crash with the event at this `N` on disk")
	must(cobra.MarkFlagFilename(f, "case", "case"))
	return c
}

func (p *program) crash(ctx context.Context, name string, o dying) error {
	options := crash.Options{Most: o.most, Seed: o.seed}
	err := p.reading(ctx, func(r *node.Reader) (err error) {
		options.Store = r.Path()
		options.Run, err = runNamed(ctx, r, name)
		return err
	})
	if err != nil {
		return err
	}
	told := p.progress("crashes played")
	options.Progress = told.at
	m, err := crash.MakeMatrix(ctx, options)
	told.over()
	if err != nil {
		return err
	}
	if err := p.showMatrix(m); err != nil {
		return err
	}
	if o.file != "" {
		if err := p.writeCase(ctx, options, m, o); err != nil {
			return err
		}
	}
	if !m.Good() {
		return &exitError{code: exitFailed}
	}
	return nil
}

func (p *program) showMatrix(m crash.Matrix) error {
	if p.out.form != "table" {
		return list(p.out, crashesOf(m), nil, nil)
	}
	to := p.stdout // a terminal gets colours
	if p.flags.noColor {
		to = p.out
	}
	return m.Text(to)
}

// writeCase writes down one crash: the one that is asked for, or the first that ends badly.
func (p *program) writeCase(ctx context.Context, options crash.Options, m crash.Matrix, o dying) error {
	for _, r := range m.Rows {
		if o.at == 0 && r.Verdict.Good() || r.Position < events.Position(o.at) {
			continue
		}
		c, err := crash.MakeCase(ctx, options, r)
		if err != nil {
			return err
		}
		if err := wholeFile(o.file, func(w io.Writer) error { return c.Write(w) }); err != nil {
			return err
		}
		fmt.Fprintf(p.stderr, "towline: wrote %s, which is %s; play it with: towline case run %s\n", o.file, c.Verdict, ident.Shell(o.file))
		return nil
	}
	if o.at != 0 {
		return fmt.Errorf("--at %d: no crash was played with that event on disk: %w", o.at, towline.ErrNotFound)
	}
	fmt.Fprintf(p.stderr, "towline: no crash ends badly, so %s was not written; --at chooses one that ends well\n", o.file)
	return nil
}

// crashed is a row of a matrix in JSON.
type crashed struct {
	Seq      events.Position `json:"seq"` // of the newest event on disk
	SinceUS  int64           `json:"since_us"`
	Behind   string          `json:"behind"`
	Called   string          `json:"called,omitempty"`
	Window   string          `json:"window,omitempty"`
	Verdict  crash.Verdict   `json:"verdict"`
	Rows     []string        `json:"rows,omitempty"` // of the crash table
	WaitedUS int64           `json:"waited_us"`
	BoundUS  int64           `json:"bound_us"`
	TookUS   int64           `json:"took_us"`
	Events   int             `json:"events"`
	Notes    []string        `json:"notes,omitempty"`
	Problems []string        `json:"problems,omitempty"`
}

func crashesOf(m crash.Matrix) []crashed {
	out := make([]crashed, 0, len(m.Rows))
	for _, r := range m.Rows {
		out = append(out, crashedOf(r))
	}
	return out
}

func crashedOf(r crash.Row) crashed {
	micros := func(d time.Duration) int64 { return d.Microseconds() }
	return crashed{
		Seq: r.Position, SinceUS: micros(r.Since), Behind: r.What, Called: r.Called, Window: r.Window, Verdict: r.Verdict, Rows: r.Rows,
		WaitedUS: micros(r.Waited), BoundUS: micros(r.Bound), TookUS: micros(r.Took), Events: r.Events, Notes: r.Notes, Problems: r.Problems,
	}
}

var errNotReproduced = errors.New("it does not come to what it was written down with")
