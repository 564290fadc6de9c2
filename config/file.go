package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v3"
)

// raw is a value as it was written.
type raw struct {
	text string
	list []string        // of a list; else nil
	json json.RawMessage // of a key of the form Any
}

// Problem is one thing that is wrong with a configuration.
type Problem struct {
	Where string `json:"where"` // file and line, variable or flag; empty: the configuration as a whole
	Key   string `json:"key"`   // empty: no key of its own
	Text  string `json:"problem"`
}

func (p Problem) String() string {
	out := p.Text
	if p.Key != "" {
		out = p.Key + ": " + out
	}
	if p.Where != "" {
		out = p.Where + ": " + out
	}
	return out
}

// Problems are all that is wrong with a configuration, so that one look is enough.
type Problems []Problem

func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, problem := range p {
		lines[i] = problem.String()
	}
	return strings.Join(lines, "\n")
}

// maxFile bounds a configuration.
const maxFile = 1 << 20

// readFile is the top mapping of a file.
func readFile(path string) (*yaml.Node, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("configuration: %w", err)
	case len(b) > maxFile:
		return nil, fmt.Errorf("configuration: %s is longer than 1 MiB: is it the right file?", path)
	}
	d := yaml.NewDecoder(bytes.NewReader(b))
	var doc yaml.Node
	switch err := d.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return &yaml.Node{Kind: yaml.MappingNode}, nil
	case err != nil:
		return nil, fmt.Errorf("configuration: %s: %w", path, err)
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("configuration: %s holds a second document: one file is one configuration", path)
	}
	return doc.Content[0], nil
}

// reader takes a file into a configuration.
type reader struct {
	l    *loading
	file string // as it is shown
}

// mapping reads the keys of a mapping. b is the place of the mapping in the table.
func (r reader) mapping(n *yaml.Node, b *branch, p place, where string) {
	if n = target(n); isNull(n) {
		n = &yaml.Node{Kind: yaml.MappingNode, Line: n.Line} // "refs:" is "refs: {}"
	}
	if n.Kind != yaml.MappingNode {
		r.wrong(n, p, "want a mapping of keys and values")
		return
	}
	r.l.begin(b, p, where)
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if line, twice := seen[key.Value]; twice {
			r.wrong(key, p.child(key.Value, false), fmt.Sprintf("stands twice, first in line %d", line))
			continue
		}
		seen[key.Value] = key.Line
		r.entry(key, value, b, p)
	}
}

func (r reader) entry(key, value *yaml.Node, b *branch, p place) {
	if key.Kind != yaml.ScalarNode || key.Value == "" || key.Tag == "!!merge" {
		r.wrong(key, p, "a key must be a plain word")
		return
	}
	next, isName, ok := b.step(key.Value)
	if !ok {
		r.l.problem(Problem{Where: r.at(key), Text: unknown(b, p, key.Value)})
		return
	}
	at := p.child(key.Value, isName)
	if next.mapping() {
		r.mapping(value, next, at, r.at(key))
		return
	}
	v, problem := value2raw(target(value), *next.key)
	if problem != "" {
		r.wrong(value, at, problem)
		return
	}
	r.l.set(*next.key, at, v, Origin{Kind: FromFile, Where: r.at(key)})
}

// value2raw takes a value from YAML as text, so that YAML's own idea of numbers and dates plays no part.
func value2raw(n *yaml.Node, k Key) (v raw, problem string) {
	if k.Form == Any {
		return anyValue(n)
	}
	switch {
	case isNull(n):
		return v, "has no value: write one, or leave the line out"
	case n.Kind == yaml.ScalarNode:
		return raw{text: n.Value}, ""
	case n.Kind == yaml.SequenceNode:
		v.list = []string{}
		for _, item := range n.Content {
			item = target(item)
			if item.Kind != yaml.ScalarNode || isNull(item) {
				return v, "want a list of texts"
			}
			v.list = append(v.list, item.Value)
		}
		return v, ""
	}
	return v, "is a mapping: want one value, " + k.hint()
}

// anyValue takes a value of any form over as JSON. Only what is a number of JSON is one, with its digits as they were written
// (EX-1); a date is the text that it looks like.
func anyValue(n *yaml.Node) (v raw, problem string) {
	var out bytes.Buffer
	if problem := appendJSON(&out, n, 0); problem != "" {
		return v, problem
	}
	return raw{json: out.Bytes()}, ""
}

// deepest bounds what anyValue reads; an alias may stand within what it stands for.
const deepest = 100

func appendJSON(out *bytes.Buffer, n *yaml.Node, depth int) (problem string) {
	n = target(n)
	switch {
	case depth > deepest || out.Len() > maxFile:
		return "is too deep or too large"
	case n.Kind == yaml.MappingNode:
		seen := map[string]bool{}
		out.WriteByte('{')
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			switch {
			case key.Kind != yaml.ScalarNode || key.Tag == "!!merge":
				return "a key must be a plain word"
			case seen[key.Value]:
				return fmt.Sprintf("%s stands twice", key.Value)
			case i > 0:
				out.WriteByte(',')
			}
			seen[key.Value] = true
			out.Write(jsonText(key.Value))
			out.WriteByte(':')
			if problem := appendJSON(out, n.Content[i+1], depth+1); problem != "" {
				return problem
			}
		}
		out.WriteByte('}')
	case n.Kind == yaml.SequenceNode:
		out.WriteByte('[')
		for i, item := range n.Content {
			if i > 0 {
				out.WriteByte(',')
			}
			if problem := appendJSON(out, item, depth+1); problem != "" {
				return problem
			}
		}
		out.WriteByte(']')
	default:
		return appendScalar(out, n)
	}
	return ""
}

func appendScalar(out *bytes.Buffer, n *yaml.Node) (problem string) {
	switch n.ShortTag() {
	case "!!null":
		out.WriteString("null")
	case "!!bool":
		out.WriteString(strings.ToLower(n.Value))
	case "!!int", "!!float":
		if !json.Valid([]byte(n.Value)) {
			return fmt.Sprintf("%s is no number of JSON: write it in decimal digits, or in quotes", n.Value)
		}
		out.WriteString(n.Value)
	default:
		out.Write(jsonText(n.Value))
	}
	return ""
}

func jsonText(text string) []byte {
	b, err := json.Marshal(text)
	if err != nil {
		panic(fmt.Sprintf("config: encode %q: %v", text, err)) // a text always has a form
	}
	return b
}

// target is what an alias stands for.
func target(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

func (r reader) at(n *yaml.Node) string { return fmt.Sprintf("%s:%d", r.file, n.Line) }

func (r reader) wrong(n *yaml.Node, p place, text string) {
	r.l.problem(Problem{Where: r.at(n), Key: p.String(), Text: text})
}

// begin enters a mapping: the thing of that name is made, and what lies directly in it has its default.
func (l *loading) begin(b *branch, p place, where string) {
	if b.key != nil {
		b.key.at(l.c, p.names)
		l.c.present(*b.key, p, where)
	}
	if len(p.names) == 0 {
		return // the fixed keys have theirs already
	}
	for _, part := range b.names {
		next := b.next[part]
		if part == name || next.key == nil || next.key.Default == "" {
			continue
		}
		l.set(*next.key, p.child(part, false), next.key.defaultValue(), Origin{Kind: FromDefault})
	}
}

// defaultValue is the default as a value.
func (k Key) defaultValue() raw {
	if k.Form == Listing {
		return raw{list: strings.Split(k.Default, ", ")}
	}
	return raw{text: k.Default}
}

// set takes a value over, unless one of a higher rank is there.
func (l *loading) set(k Key, p place, v raw, o Origin) {
	at := p.String()
	if there, ok := l.c.values[at]; ok && there.Origin.Kind > o.Kind {
		return
	}
	to := k.at(l.c, p.names)
	shown, err := k.put(to, v)
	if err != nil {
		l.problem(Problem{Where: o.Where, Key: at, Text: err.Error()})
		return
	}
	switch to := to.(type) {
	case *string:
		if k.Form == Path {
			*to = l.c.resolve(l.home, *to)
			shown = *to
		}
	case *Secret:
		*to = l.fromHere(*to)
	case *EnvValue:
		to.Secret = l.fromHere(to.Secret)
	}
	l.c.remember(k, at, shown, o)
	switch to.(type) {
	case *Secret, *EnvValue:
		l.c.values[at].exact = v.text
	}
}

// fromHere makes the file of a secret absolute.
func (l *loading) fromHere(s Secret) Secret {
	if s.scheme == "file" {
		s.where = l.c.resolve(l.home, s.where)
	}
	return s
}

func (l *loading) problem(p Problem) {
	if !slices.Contains(l.problems, p) {
		l.problems = append(l.problems, p)
	}
}
