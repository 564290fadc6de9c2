package main

import (
	"context"
	"errors"
	"io/fs"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/towline-dev/towline/node"
)

// What is here is about commands that need no running engine: they look at the file of a store, whoever has it open.

// dbFlag is that of commands that read a file, and ask nobody.
func (p *program) dbFlag(f *pflag.FlagSet) {
	f.StringVar(&p.access.db, "db", "", "read this `FILE` of a store, backup or copy; without it the store of the configuration")
	must(cobra.MarkFlagFilename(f, "db", "db"))
}

// file is the store that such a command reads.
func (p *program) file() (string, error) {
	if p.access.db != "" {
		return p.access.db, nil
	}
	c, err := p.load(false)
	if err != nil {
		return "", err
	}
	return c.Store.Path, nil
}

// reading runs a command on a reader of the store.
func (p *program) reading(ctx context.Context, fn func(*node.Reader) error) error {
	path, err := p.file()
	if err != nil {
		return err
	}
	r, err := p.reader(ctx, path)
	if err != nil {
		return err
	}
	return errors.Join(fn(r), r.Close())
}

// interrupted is the error of a command that Ctrl-C has ended: that alone, and not what it has cut short.
func interrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// fileError is that of a file which a command line names.
func fileError(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return &exitError{exitNotFound, err}
	}
	return err
}
