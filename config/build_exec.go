package config

import (
	"cmp"
	"context"
	osexec "os/exec"

	"github.com/towline-dev/towline/provider/exec"
)

// makeExec makes the command a provider. What its attempts leave for the next engine lies beside the store, for it is that
// store's engine that looks there. A program that is not there is a note and no error, as a repository is: its units fail
// with the reason, and the other syncs go on.
func makeExec(_ context.Context, b *building, s Sync) (parts, error) {
	env, secrets, err := b.environment(s.Exec.Env)
	if err != nil {
		return parts{}, err
	}
	o := exec.Options{
		Command: b.command(s.Exec.Command), Dir: cmp.Or(s.Exec.Dir, b.c.Dir), Protocol: exec.Protocol(s.Exec.Protocol),
		StallTimeout: s.Exec.StallTimeout, Grace: s.Exec.Grace, Folder: b.c.Store.Path + "-attempts", Logger: b.o.Logger,
		Env: env, Secrets: secrets,
	}
	p, err := exec.New(o)
	if err != nil {
		return parts{}, err
	}
	if _, err := osexec.LookPath(o.Command[0]); err != nil {
		b.note("sync %q: its program cannot be started: %v", s.Name, err)
	}
	out := parts{provider: p, sources: s.Exec.Sources, config: s.Config}
	if len(out.sources) == 0 {
		out.sources = []string{s.Name}
	}
	return out, nil
}
