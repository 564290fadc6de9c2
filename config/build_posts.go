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
			env, secrets, err := b.environment(t.Env)
			if err != nil {
				return out, fmt.Errorf("post_sync: %w", err)
			}
			for _, name := range sortedKeys(env) {
				post.Env = append(post.Env, name+"="+env[name])
			}
			for _, name := range sortedKeys(secrets) {
				post.Secrets = append(post.Secrets, name+"="+secrets[name])
			}
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

// environment are the variables of a command: those that are plain texts, and those that are secrets.
func (b *building) environment(variables []Variable) (plain, secrets map[string]string, err error) {
	plain, secrets = map[string]string{}, map[string]string{}
	for _, v := range variables {
		value, err := v.Value.Read(b.o.Env)
		if err != nil {
			return nil, nil, fmt.Errorf("env %s: %w", v.Name, err)
		}
		if v.Value.Secret.IsZero() {
			plain[v.Name] = value
		} else {
			secrets[v.Name] = value
		}
	}
	return plain, secrets, nil
}
