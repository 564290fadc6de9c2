package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Options say where a configuration is looked for. The zero value is that of a person at a terminal.
type Options struct {
	File  string            // --config; empty: it is searched for
	Flags []Flag            // what stands on the command line
	Env   []string          // NAME=value; nil: that of this process
	Dir   string            // the working folder; empty: that of this process
	Need  bool              // no file at all is an error
	stat  func(string) bool // whether there is such a file; nil: ask the system
}

// Flag sets a key on the command line.
type Flag struct {
	Name string // as it was written, "--store"
	Key  string
	Text string
}

// ErrNoFile says that there is no configuration file. The text says where it was looked for.
var ErrNoFile = errors.New("there is no towline.yaml")

// SystemFile is the last place in which a configuration is looked for.
const SystemFile = "/etc/towline/towline.yaml"

// FileName is that of a configuration in a folder.
const FileName = "towline.yaml"

// loading is a configuration in the making.
type loading struct {
	c        *Config
	env      map[string]string
	names    []string // of env, sorted
	home     string
	problems Problems
}

// Load reads a configuration: flag before TOWLINE_ variable before alias of the original before file before default. It
// reads the one file and nothing else; secrets stay references. Errors: Problems, all of them at once; ErrNoFile; a file
// that cannot be read.
func Load(o Options) (*Config, error) {
	if o.Env == nil {
		o.Env = os.Environ()
	}
	if o.Dir == "" {
		dir, err := os.Getwd()
		if err != nil {
			return nil, fmt.Errorf("configuration: the working folder: %w", err)
		}
		o.Dir = dir
	}
	l := &loading{c: &Config{Dir: o.Dir, values: map[string]*setting{}}, env: map[string]string{}}
	for _, v := range o.Env {
		if name, value, ok := strings.Cut(v, "="); ok && name != "" {
			l.env[name] = value
			l.names = append(l.names, name)
		}
	}
	slices.Sort(l.names)
	l.home = l.env["HOME"]
	file, err := l.find(o)
	if err != nil {
		return nil, err
	}
	if file != "" {
		l.c.File, l.c.Dir = file, filepath.Dir(file)
	}
	if err := l.read(o); err != nil {
		return nil, err
	}
	l.check()
	if len(l.problems) > 0 {
		return nil, l.problems
	}
	l.c.sortValues()
	return l.c, nil
}

// read goes from the lowest rank to the highest.
func (l *loading) read(o Options) error {
	for _, k := range table().keys {
		if k.Default != "" && !k.named() {
			l.set(k, place{parts: strings.Split(k.Path, ".")}, k.defaultValue(), Origin{Kind: FromDefault})
		}
	}
	if l.c.File != "" {
		top, err := readFile(l.c.File)
		if err != nil {
			return err
		}
		reader{l, l.shown(o)}.mapping(top, table().root, place{}, "")
	} else {
		l.c.Version = 1
		l.c.remember(table().keys[0], "version", "1", Origin{Kind: FromDefault})
	}
	l.readEnv()
	for _, f := range o.Flags {
		l.readFlag(f)
	}
	l.placeStore()
	l.placeSocket()
	return nil
}

// shown is the file as people know it: relative where it lies in the working folder.
func (l *loading) shown(o Options) string {
	if rel, err := filepath.Rel(o.Dir, l.c.File); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return l.c.File
}

// find is the file in force; empty: there is none.
func (l *loading) find(o Options) (string, error) {
	absolute := func(path string) string {
		if filepath.IsAbs(path) {
			return filepath.Clean(path)
		}
		return filepath.Join(o.Dir, path)
	}
	if o.File != "" {
		return absolute(o.File), nil
	}
	if file := l.env["TOWLINE_CONFIG"]; file != "" {
		return absolute(file), nil
	}
	user := l.env["XDG_CONFIG_HOME"]
	if user == "" && l.home != "" {
		user = filepath.Join(l.home, ".config")
	}
	places := []string{absolute(FileName)}
	if user != "" {
		places = append(places, filepath.Join(user, "towline", FileName))
	}
	places = append(places, SystemFile)
	there := o.stat
	if there == nil {
		there = func(path string) bool {
			_, err := os.Stat(path)
			return !errors.Is(err, fs.ErrNotExist)
		}
	}
	for _, path := range places {
		if there(path) {
			return path, nil
		}
	}
	if o.Need {
		return "", fmt.Errorf("%w in %s: write one with towline init git DIR, or name one with --config", ErrNoFile, orList(places))
	}
	return "", nil
}

// placeStore puts the store where nobody has said: beside the configuration, so that two folders never share one.
func (l *loading) placeStore() {
	if l.c.Store.Path != "" {
		return
	}
	const file = "towline.db"
	l.c.Store.Path = filepath.Join(l.c.Dir, file)
	where := Origin{Kind: FromDefault}
	if state, _, _ := strings.Cut(l.env["STATE_DIRECTORY"], ":"); filepath.IsAbs(state) {
		l.c.Store.Path = filepath.Join(state, file)
		where.Where = "STATE_DIRECTORY"
	}
	k := table().root.next["store"].next["path"].key
	l.c.remember(*k, k.Path, l.c.Store.Path, where)
}

// shared are variables with our prefix that are no keys.
var shared = []string{"TOWLINE_CONFIG", "TOWLINE_URL", "TOWLINE_DB", "TOWLINE_TOKEN"}

// readEnv takes the variables over: aliases first, for they have the lower rank. An unknown one is only reported, because
// workers and tests share the prefix.
func (l *loading) readEnv() {
	known := map[string]bool{}
	for _, v := range shared {
		known[v] = true
	}
	for _, k := range table().keys {
		variable := k.Variable()
		if variable == "" {
			continue
		}
		known[variable] = true
		at := place{parts: strings.Split(k.Path, ".")}
		value, ours := l.env[variable]
		if old, ok := l.env[k.Alias]; ok && k.Alias != "" {
			l.set(k, at, raw{text: old + k.aliasUnit}, Origin{Kind: FromAlias, Where: k.Alias})
			if ours {
				l.c.notes = append(l.c.notes, fmt.Sprintf("%s is overruled by %s", k.Alias, variable))
			}
		}
		if ours {
			l.set(k, at, textValue(k, value), Origin{Kind: FromVariable, Where: variable})
		}
	}
	for _, n := range l.names {
		if strings.HasPrefix(n, "TOWLINE_") && !known[n] && !strings.HasPrefix(n, "TOWLINE_TEST_") {
			l.c.notes = append(l.c.notes, fmt.Sprintf("%s is set and is no key%s", n, didYouMeanVariable(n)))
		}
	}
}

func didYouMeanVariable(n string) string {
	var words []string
	for _, k := range table().keys {
		if v := k.Variable(); v != "" {
			words = append(words, strings.ToLower(v))
		}
	}
	if near := nearest(n, words); near != "" {
		return fmt.Sprintf(": did you mean %s?", strings.ToUpper(near))
	}
	return ""
}

func (l *loading) readFlag(f Flag) {
	at, b := place{}, table().root
	for _, part := range strings.Split(f.Key, ".") {
		next, isName, ok := b.step(part)
		if !ok || isName {
			text := unknown(b, at, part)
			if isName {
				text = fmt.Sprintf("%s lies below a name: write it into the file", f.Key)
			}
			l.problem(Problem{Where: f.Name, Text: text})
			return
		}
		at, b = at.child(part, false), next
	}
	if b.mapping() || b.key == nil {
		l.problem(Problem{Where: f.Name, Key: f.Key, Text: "is a section: name one of its keys"})
		return
	}
	l.set(*b.key, at, textValue(*b.key, f.Text), Origin{Kind: FromFlag, Where: f.Name})
}

// textValue is a value in one text: a list is separated by commas, and [] is the empty one.
func textValue(k Key, text string) raw {
	if k.Form != Listing || text == "" {
		return raw{text: text}
	}
	if text == "[]" { // as in the file
		return raw{list: []string{}}
	}
	list := strings.Split(text, ",")
	for i := range list {
		list[i] = strings.TrimSpace(list[i])
	}
	return raw{list: list}
}

// Default is the configuration without a file, a variable or a flag.
func Default() *Config {
	c, err := Load(Options{Env: []string{}, Dir: string(filepath.Separator), stat: func(string) bool { return false }})
	if err != nil {
		panic(fmt.Sprintf("config: the defaults: %v", err)) // a test reads them
	}
	return c
}
