package main

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/towline-dev/towline/config"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/ident"
	"github.com/towline-dev/towline/provider/git"
)

//go:embed templates
var templates embed.FS

func (p *program) initGit(f *initFlags) *cobra.Command {
	var name string
	c := &cobra.Command{
		Use: "git DIR…", Short: "Write a towline.yaml for the repositories in some folders",
		Long: `Writes towline.yaml and activity.sql for the history of git repositories, and lists
those that were found. DIR is a repository, or a folder of repositories. Where the
first run would have more units than plan.max_units, each repository gets a sync of
its own.`,
		Example: `  towline init git ~/src            # all repositories in a folder
  towline init git . ../other       # two repositories
  towline init git --sync work ~/work --config ~/.config/towline/towline.yaml`,
		Args: some,
		RunE: func(cmd *cobra.Command, args []string) error {
			syncs, err := findRepositories(cmd.Context(), name, args)
			if err != nil {
				return err
			}
			text := gitConfig(syncs)
			script, err := templates.ReadFile("templates/activity.sql")
			if err != nil {
				panic(fmt.Sprintf("towline: %v", err)) // it is embedded
			}
			path := p.configPath()
			next := "towline up --start " + ident.Shell(syncs[0].Name)
			if len(syncs) > 1 {
				next += ", or any other of them"
			}
			return p.written(f, []file{{path, text}, {filepath.Join(filepath.Dir(path), "activity.sql"), script}}, written{Syncs: syncs, Next: next})
		},
	}
	c.Flags().StringVar(&name, "sync", "code", "`NAME` of the sync")
	return c
}

// findRepositories makes the syncs for some folders: one, or one for each repository where the first run would be too large.
func findRepositories(ctx context.Context, name string, dirs []string) ([]writtenSync, error) {
	var patterns, paths []string
	for _, dir := range dirs {
		pattern, matches, err := repositoriesIn(ctx, absolute(dir))
		if err != nil {
			return nil, err
		}
		patterns, paths = append(patterns, pattern), append(paths, matches...)
	}
	found, err := git.Discover(ctx, paths...)
	if err != nil {
		return nil, fmt.Errorf("look for repositories: %w", err)
	}
	reader, err := git.New(git.Options{Repos: found})
	if err != nil {
		return nil, err
	}
	all := writtenSync{Name: name, repos: patterns}
	for _, source := range slices.Sorted(maps.Keys(found)) {
		months, err := reader.Periods(ctx, source, git.Commits, events.Month, nil)
		if err != nil {
			return nil, err // it says what is wrong with the repository, and what to do
		}
		all.Sources = append(all.Sources, writtenSource{source, found[source], len(months)})
		all.Units += firstUnits(len(months))
	}
	if most := (config.Default().Knobs.MaxUnits); all.Units <= most || len(all.Sources) == 1 {
		return []writtenSync{all}, nil
	}
	var each []writtenSync
	for _, s := range all.Sources {
		each = append(each, writtenSync{Name: s.Name, repos: []string{portable(s.Path)}, Sources: []writtenSource{s}, Units: firstUnits(s.Months)})
	}
	return each, nil
}

// firstUnits: refs and files once, commits and changes for each month.
func firstUnits(months int) int { return 2 + 2*months }

// repositoriesIn is a folder as a line of repos, with what it stands for now: a repository itself, or all in a folder.
func repositoriesIn(ctx context.Context, dir string) (pattern string, matches []string, err error) {
	info, err := os.Stat(dir)
	if err != nil {
		return "", nil, &exitError{exitNotFound, fmt.Errorf("%w: name a repository or a folder of repositories", err)}
	}
	if !info.IsDir() {
		return "", nil, &exitError{exitUsage, fmt.Errorf("%s is no folder: name a repository or a folder of repositories", dir)}
	}
	itself, err := git.Discover(ctx, dir)
	if err != nil {
		return "", nil, fmt.Errorf("look for repositories: %w", err)
	}
	if len(itself) > 0 {
		return portable(dir), []string{dir}, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", nil, err
	}
	for _, e := range entries {
		matches = append(matches, filepath.Join(dir, e.Name()))
	}
	inside, err := git.Discover(ctx, matches...)
	if err != nil {
		return "", nil, fmt.Errorf("look for repositories: %w", err)
	}
	if len(inside) == 0 {
		return "", nil, &exitError{exitNotFound, fmt.Errorf("there is no git repository in %s: name a repository or the folder that holds some", dir)}
	}
	return filepath.Join(portable(dir), "*"), matches, nil
}

// portable writes a path below the home folder with ~, and no letter of it is one of a pattern.
func portable(path string) string {
	if home, err := os.UserHomeDir(); err == nil {
		if rel, err := filepath.Rel(home, path); err == nil && filepath.IsLocal(rel) && rel != "." {
			path = filepath.Join("~", rel)
		}
	}
	if filepath.Separator == '\\' {
		return path // a pattern has no escapes there
	}
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// gitConfig is the text of towline.yaml.
func gitConfig(syncs []writtenSync) []byte {
	text, err := templates.ReadFile("templates/git.yaml")
	if err != nil {
		panic(fmt.Sprintf("towline: %v", err)) // it is embedded
	}
	head, rest, _ := strings.Cut(string(text), "# --- each sync\n")
	each, tail, _ := strings.Cut(rest, "# --- behind them\n")
	var out strings.Builder
	out.WriteString(strings.Replace(head, "FIRST", syncs[0].Name, 1))
	for _, s := range syncs {
		var repos []string
		for _, r := range s.repos {
			repos = append(repos, quoted(r))
		}
		out.WriteString(strings.NewReplacer("NAME", quoted(s.Name), "REPOS", strings.Join(repos, ", ")).Replace(each))
	}
	out.WriteString(tail)
	return []byte(out.String())
}

// quoted is a text as YAML has it: a plain word, or in double quotes, which are those of JSON.
func quoted(text string) string {
	plain := func(r rune) bool {
		return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}
	if !strings.ContainsFunc(text, plain) && strings.Trim(text, "0123456789-") != "" && !slices.Contains([]string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}, strings.ToLower(text)) {
		return text
	}
	b, err := json.Marshal(text)
	if err != nil {
		panic(fmt.Sprintf("towline: quote %q: %v", text, err)) // a text always has a form in JSON
	}
	return string(b)
}
