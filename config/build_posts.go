package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/towline-dev/towline"
)

func (b *building) posts(s Sync) (towline.PostSync, error) {
	out := towline.PostSync{Mode: s.mode(b.c)}
	for _, t := range s.PostSync.Targets {
		post := towline.Target{Name: t.Name, Transport: t.Transport, Topic: t.Topic, Idempotent: t.Idempotent}
		if t.SQL != "" {
			script, err := os.ReadFile(t.SQL)
			if err != nil {
				return out, fmt.Errorf("post_sync: sql: %w", err)
			}
			if post.SQL = string(script); strings.TrimSpace(post.SQL) == "" {
				return out, fmt.Errorf("post_sync: sql: %s is empty: write the statements that shall follow each run", t.SQL)
			}
		}
		if len(t.Exec) > 0 {
			post.Exec, post.Dir, post.Timeout = b.command(t.Exec), t.Dir, t.Timeout
			if post.Dir == "" {
				post.Dir = b.c.Dir
			}
			env, err := b.environment(t.Env)
			if err != nil {
				return out, fmt.Errorf("post_sync: %w", err)
			}
			post.Env = env
		}
		out.Targets = append(out.Targets, post)
	}
	return out, nil
}

// command makes a program that is named by a path absolute, so that it does not depend on where it is started.
func (b *building) command(words []string) []string {
	words = slices.Clone(words)
	if strings.ContainsRune(words[0], filepath.Separator) || strings.ContainsRune(words[0], '/') {
		words[0] = b.c.resolve(b.home(), words[0])
	}
	return words
}

func (b *building) environment(variables []Variable) ([]string, error) {
	var out []string
	for _, v := range variables {
		value, err := v.Value.Read(b.o.Env)
		if err != nil {
			return nil, fmt.Errorf("env %s: %w", v.Name, err)
		}
		out = append(out, v.Name+"="+value)
	}
	return out, nil
}
