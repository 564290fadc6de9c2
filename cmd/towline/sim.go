package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/towline-dev/towline/sim"
	"github.com/towline-dev/towline/sim/script"
)

// simulation says what is simulated.
type simulation struct {
	seed uint64
	ops  int
	tell bool
}

const usualOps = 20

func (p *program) simCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "sim", Short: "Run engine, relay and handlers in the simulator",
		Example: "  towline sim run --seed 7\n  towline sim run found.txt",
		Args:    cobra.ArbitraryArgs,
		RunE:    func(cmd *cobra.Command, args []string) error { return p.group(cmd, args) },
	}
	c.AddCommand(p.simRunCommand())
	return c
}

func (p *program) simRunCommand() *cobra.Command {
	o := simulation{seed: 1, ops: usualOps}
	c := &cobra.Command{
		Use: "run [FILE]", Short: "Play a schedule of faults that a seed draws, or a scenario file",
		Long: `Plays a world: processes, a broker, providers, an operator, and whatever a seed lets
go wrong with them, under virtual time and with the code of this release. Behind it
all faults end, every run must end, and every invariant must hold. The same seed and
number of operations give the same log, by its hash.

A FILE is a scenario file (docs/SCENARIO_FILES.md); - is standard input. What has
happened is told; what the file says of it is not compared.

Exit code 1 if an invariant is violated, or something does not end. Then the schedule
is on standard output as a scenario file, which plays alike.`,
		Example: "  towline sim run --seed 7 --ops 40\n  towline sim run --seed 7 --tell\n  towline sim run found.txt",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p.command = cmd.CommandPath()
			f := cmd.Flags()
			if len(args) > 0 && (f.Changed("seed") || f.Changed("ops")) {
				return p.usage("a file has its own schedule: leave --seed and --ops away")
			}
			if o.tell && p.out.form != "table" {
				return p.usage("--tell tells what happens line by line: leave -o away")
			}
			if o.ops < 0 {
				return p.usage("--ops %d: want a number of things that happen", o.ops)
			}
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			if len(args) > 0 {
				return interrupted(ctx, p.simFile(ctx, args[0]))
			}
			return interrupted(ctx, p.simSeed(ctx, o))
		},
	}
	f := c.Flags()
	f.Uint64Var(&o.seed, "seed", o.seed, "`SEED` of all chance")
	f.IntVar(&o.ops, "ops", o.ops, "how many `THINGS` happen beside the work")
	f.BoolVar(&o.tell, "tell", false, "tell what happens")
	return c
}

// simulated is what a simulation has come to.
type simulated struct {
	OK       bool     `json:"ok"`
	Seed     uint64   `json:"seed,omitzero"`
	Ops      int      `json:"ops,omitzero"`
	Commands int      `json:"commands"` // that were played
	Skipped  int      `json:"skipped"`  // that made no sense where they stood
	Events   int      `json:"events"`
	Log      string   `json:"log"` // its hash
	Problem  string   `json:"problem,omitempty"`
	Schedule []string `json:"schedule,omitempty"` // of a problem: the lines of a scenario file
}

func (p *program) simSeed(ctx context.Context, o simulation) error {
	played, err := p.play(ctx, script.Draw(o.seed, o.ops), playing{drawn: true, tell: o.tell, told: p.progress("commands played")})
	if err != nil {
		return err
	}
	played.Seed, played.Ops = o.seed, o.ops
	return p.simAnswer(played, fmt.Sprintf("G-1: found by towline sim run --seed %d --ops %d.", o.seed, o.ops))
}

func (p *program) simFile(ctx context.Context, path string) error {
	r := p.stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return fileError(err)
		}
		defer f.Close()
		r = f
	}
	lines, err := script.ReadScenario(path, r)
	if err != nil {
		return &configError{err}
	}
	var commands []script.Command
	for _, l := range lines {
		commands = append(commands, l)
	}
	played, err := p.play(ctx, commands, playing{tell: p.out.form == "table", told: p.progress("commands played")})
	if err != nil {
		return err
	}
	return p.simAnswer(played, "G-1: from "+path+".")
}

// playing says how commands are played.
type playing struct {
	drawn bool // by a seed: what makes no sense where it stands is skipped, and what no call has met is no mistake
	tell  bool
	told  *progress
}

// play plays commands on a new world, and checks it behind the last. What must not be is in the answer; the error is that of a
// folder or of a file that makes no sense.
func (p *program) play(ctx context.Context, commands []script.Command, how playing) (out simulated, err error) {
	dir, err := os.MkdirTemp("", "towline-sim-")
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	player := script.New(dir)
	defer func() { err = errors.Join(err, player.Close()) }()
	defer how.told.over()
	for i, c := range commands {
		if ctx.Err() != nil {
			return out, context.Cause(ctx)
		}
		how.told.at(i, len(commands))
		said, err := player.Play(ctx, c)
		if how.tell {
			fmt.Fprintf(p.out, "%s\n%s", c, said)
		}
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return out, context.Cause(ctx)
		case how.drawn && !violated(player, i == len(commands)-1):
			out.Skipped++
			continue
		default:
			out.Problem = err.Error()
		}
		out.Commands++
		out.Schedule = append(out.Schedule, c.String()) // a line of a file prints as its command
		if out.Problem != "" {
			break
		}
	}
	if out.Problem == "" && !how.drawn {
		if err := player.Finish(ctx); err != nil {
			out.Problem = err.Error()
		}
	}
	return out, out.take(ctx, player)
}

// violated reports that an error is about the world, and not about a command that makes no sense in it.
func violated(player *script.Player, last bool) bool {
	return last || player.World() != nil && len(player.World().Broken()) > 0
}

// take reads the log of a world that is over.
func (s *simulated) take(ctx context.Context, player *script.Player) error {
	s.OK = s.Problem == ""
	if s.OK {
		s.Schedule = nil
	}
	if player.World() == nil {
		return nil
	}
	log, err := player.World().Log(ctx)
	s.Events, s.Log = len(log), sim.HashLog(log)
	return err
}

func (p *program) simAnswer(s simulated, protects string) error {
	err := p.out.one(s, func(w io.Writer) {
		if !s.OK {
			fmt.Fprintf(w, "# %s\n\n%s\n----\n", protects, strings.Join(s.Schedule, "\n"))
			return
		}
		fmt.Fprintf(w, "%s, %s: ok\nlog %s\n", plural(s.Commands, "command", "commands"), plural(s.Events, "event", "events"), s.Log)
	})
	if err == nil && !s.OK {
		err = &exitError{exitFailed, errors.New(s.Problem)}
	}
	return err
}
