package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/towline-dev/towline/config"
)

// initFlags are those of every init.
type initFlags struct{ force bool }

func (p *program) initCommand() *cobra.Command {
	var f initFlags
	c := &cobra.Command{
		Use: "init", Short: "Write a commented towline.yaml",
		Long: `Writes a commented towline.yaml into this folder, or where --config says. A file
that is there is not touched, unless --force says so.`,
		Example: "  towline init git ~/src\n  towline init exec\n  towline init empty",
		Args:    cobra.ArbitraryArgs,
		RunE:    func(cmd *cobra.Command, args []string) error { return p.group(cmd, args) },
	}
	c.PersistentFlags().BoolVar(&f.force, "force", false, "overwrite files that are there")
	c.AddCommand(p.initGit(&f))
	for _, t := range []struct{ name, short, template, next string }{
		{"exec", "for a program of your own", "templates/exec.yaml", "write ./pull, then: towline up --start pull"},
		{"empty", "without any sync", "templates/empty.yaml", "add a sync, then: towline check"},
	} {
		c.AddCommand(&cobra.Command{
			Use: t.name, Short: "Write a towline.yaml " + t.short, Example: "  towline init " + t.name, Args: cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error {
				text, err := templates.ReadFile(t.template)
				if err != nil {
					panic(fmt.Sprintf("towline: %v", err)) // it is embedded
				}
				return p.written(&f, []file{{p.configPath(), text}}, written{Next: t.next})
			},
		})
	}
	return c
}

// written is the answer of an init.
type written struct {
	Files []string      `json:"files"`
	Syncs []writtenSync `json:"syncs,omitempty"`
	Next  string        `json:"next"` // what to do
}

// writtenSync is a sync of the new file, with what it will read.
type writtenSync struct {
	Name    string          `json:"name"`
	Sources []writtenSource `json:"sources"`
	Units   int             `json:"units"` // of its first run
	repos   []string        // patterns of the file
}

// writtenSource is a repository that was found.
type writtenSource struct {
	Name   string `json:"name"`
	Path   string `json:"path"`
	Months int    `json:"months"` // with commits
}

// file is one to be written.
type file struct {
	path string
	text []byte
}

// configPath is where init writes the configuration.
func (p *program) configPath() string {
	if p.flags.config != "" {
		return absolute(p.flags.config)
	}
	return absolute(config.FileName)
}

// written writes files, all or none of those that are there already, and says what to do next.
func (p *program) written(f *initFlags, files []file, w written) error {
	for _, file := range files {
		if _, err := os.Lstat(file.path); !errors.Is(err, fs.ErrNotExist) && !f.force {
			return &exitError{exitConflict, fmt.Errorf("%s is there already: --force overwrites it, --config writes elsewhere", file.path)}
		}
	}
	if p.flags.config != "" {
		w.Next = strings.ReplaceAll(w.Next, "towline ", "towline --config "+p.flags.config+" ")
	}
	for _, file := range files {
		if err := os.WriteFile(file.path, file.text, 0o644); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		w.Files = append(w.Files, file.path)
	}
	return p.out.one(w, w.text)
}

func (w written) text(out io.Writer) {
	for _, path := range w.Files {
		if dir, err := os.Getwd(); err == nil {
			if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) {
				path = rel
			}
		}
		fmt.Fprintf(out, "wrote %s\n", path)
	}
	for _, s := range w.Syncs {
		fmt.Fprintf(out, "sync %s: %s, %s in the first run\n", s.Name, plural(len(s.Sources), "repository", "repositories"), plural(s.Units, "unit", "units"))
		for _, source := range s.Sources {
			fmt.Fprintf(out, "  %s  %s  %s\n", source.Name, source.Path, plural(source.Months, "month", "months"))
		}
	}
	fmt.Fprintf(out, "next: %s\n", w.Next)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
