package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/towline-dev/towline/config"
)

// program is one call of towline.
type program struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	out            *answer  // standard output; the first error of a write ends the command
	surfaces       surfaces // beside the node of up and serve

	flags   globals
	access  access
	command string // that runs, for errors of usage
	parsed  bool   // the command line was understood: an error behind it is no error of usage
}

// globals are the flags of every command.
type globals struct {
	config  string
	set     []string
	store   string
	form    string
	noColor bool
}

// run is the program without the process around it.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	p := &program{stdin: stdin, stdout: stdout, stderr: stderr, surfaces: overHTTP{}}
	p.out = &answer{to: stdout}
	root := p.root()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(p.out)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(context.Background())
	if err == nil {
		err = p.out.err
	}
	if err != nil && !p.parsed {
		err = &usageError{err, cmd.CommandPath()}
	}
	code := codeOf(err)
	p.tell(err, code)
	return int(code)
}

// tell says what went wrong, once.
func (p *program) tell(err error, code exitCode) {
	var silent *exitError
	switch {
	case code == exitOK, errors.Is(err, syscall.EPIPE), errors.As(err, &silent) && silent.err == nil:
		return
	}
	fmt.Fprintf(p.stderr, "towline: %s\n", strings.ReplaceAll(inWords(err), "\n", "\n         "))
}

// root is the command tree.
func (p *program) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "towline",
		Short: "Durable sync runs in one binary: run them, watch them, ask why",
		Long: `Towline plans sync runs into units, sends the units to workers, and brings every
committed run to an end, whatever dies on the way.`,
		Example: `  towline init git ~/src      # write towline.yaml for the repositories there
  towline up --start code     # run, and start the first job`,
		SilenceErrors: true, SilenceUsage: true,
		PersistentPreRunE: func(*cobra.Command, []string) error { return p.understood() },
		RunE:              func(cmd *cobra.Command, args []string) error { return p.group(cmd, args) },
		Args:              cobra.ArbitraryArgs,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(flagError)
	p.globalFlags(root.PersistentFlags())
	for flag, words := range map[string][]string{"output": forms} {
		must(root.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)))
	}
	root.AddCommand(
		p.runCommand(), p.unitCommand(), p.outboxCommand(), p.whyCommand(), p.eventsCommand(), p.stateCommand(), p.scheduleCommand(), p.pauseCommand(), p.resumeCommand(),
		p.verifyCommand(), p.replayCommand(), p.doctorCommand(), p.crashCommand(), p.caseCommand(), p.simCommand(), p.reconcileCommand(), p.relayCommand(), p.rebuildCommand(),
		p.upCommand(), p.serveCommand(), p.workerCommand(), p.initCommand(), p.checkCommand(), p.configCommand(), p.storeCommand(), p.completionCommand(), p.versionCommand(),
		exitCodesTopic(), crashWindowsTopic(), handbookTopic(),
	)
	return root
}

func (p *program) globalFlags(f *pflag.FlagSet) {
	f.StringVar(&p.flags.config, "config", "", "configuration `FILE`; without it $TOWLINE_CONFIG, ./towline.yaml, ~/.config/towline, /etc/towline")
	f.StringArrayVar(&p.flags.set, "set", nil, "set a key of the configuration: `KEY=VALUE`; may be repeated")
	f.StringVar(&p.flags.store, "store", "", "`FILE` of the store, instead of store.path")
	f.StringVarP(&p.flags.form, "output", "o", "table", "form of the answer: table, json or jsonl")
	f.BoolVar(&p.flags.noColor, "no-color", false, "no colour, also on a terminal; as NO_COLOR")
	must(cobra.MarkFlagFilename(f, "config", "yaml", "yml"))
	must(cobra.MarkFlagFilename(f, "store", "db"))
}

// must is for mistakes in the tree itself, which every call would meet.
func must(err error) {
	if err != nil {
		panic(fmt.Sprintf("towline: the command tree: %v", err))
	}
}

// understood ends what is about the command line.
func (p *program) understood() error {
	if err := p.out.as(p.flags.form); err != nil {
		return err
	}
	for _, s := range p.flags.set {
		if key, _, ok := strings.Cut(s, "="); !ok || key == "" {
			return fmt.Errorf("--set %q: want KEY=VALUE, as relay.batch=10", s)
		}
	}
	p.parsed = true
	return nil
}

// group is what a command does that only holds others: it shows them, and knows no other word.
func (p *program) group(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	p.parsed = false
	text := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		text += fmt.Sprintf(": did you mean %s?", strings.Join(near, " or "))
	}
	return errors.New(text)
}

// options are where the configuration is looked for, and what the command line sets of it.
func (p *program) options(need bool) config.Options {
	o := config.Options{File: p.flags.config, Need: need}
	for _, s := range p.flags.set {
		key, value, _ := strings.Cut(s, "=")
		o.Flags = append(o.Flags, config.Flag{Name: "--set", Key: key, Text: value})
	}
	if p.flags.store != "" {
		o.Flags = append(o.Flags, config.Flag{Name: "--store", Key: "store.path", Text: absolute(p.flags.store)})
	}
	return o
}

// absolute: what a flag names starts where the caller stands, not at the configuration.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// load reads the configuration, and says on standard error what is worth a word.
func (p *program) load(need bool) (*config.Config, error) {
	c, err := config.Load(p.options(need))
	if err != nil {
		return nil, &configError{err}
	}
	for _, note := range c.Notes() {
		fmt.Fprintf(p.stderr, "towline: %s\n", note)
	}
	return c, nil
}
