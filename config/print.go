package config

import (
	"slices"
	"strings"
)

// Rank is where a value came from; the higher one wins.
type Rank int

const (
	FromDefault Rank = iota
	FromFile
	FromAlias
	FromVariable
	FromFlag
)

func (r Rank) String() string {
	return [...]string{"default", "file", "alias", "variable", "flag"}[r]
}

// Origin is where a value came from.
type Origin struct {
	Kind  Rank
	Where string // file and line, variable or flag; empty: a default
}

func (o Origin) String() string {
	if o.Where == "" {
		return o.Kind.String()
	}
	if o.Kind == FromDefault {
		return "default, " + o.Where
	}
	return o.Where
}

// Value is one value in force.
type Value struct {
	Key    string // with the names of the file
	Text   string // as the file would have it; a secret is ***
	Origin Origin
	Live   bool // a reload changes it
}

// setting is a value with its key.
type setting struct {
	Value
	key   Key
	index int    // order of arrival, for what lies below names
	exact string // of a masked value, to see a change; never shown
}

// Values are all values in force: the fixed keys in the order of the table, then those below names in the order of the file.
func (c *Config) Values() []Value {
	out := make([]Value, len(c.order))
	for i, at := range c.order {
		out[i] = c.values[at].Value
	}
	return out
}

// Value is the one of a key; false: there is none.
func (c *Config) Value(key string) (Value, bool) {
	s, ok := c.values[key]
	if !ok {
		return Value{}, false
	}
	return s.Value, true
}

func (c *Config) remember(k Key, at, text string, o Origin) {
	index := len(c.values)
	if there, ok := c.values[at]; ok {
		index = there.index
	}
	c.values[at] = &setting{Value: Value{Key: at, Text: text, Origin: o, Live: k.Live}, key: k, index: index}
}

// present remembers a section that a file holds, so that one without keys of its own is seen, too.
func (c *Config) present(k Key, p place, where string) {
	c.remember(k, p.String(), "", Origin{Kind: FromFile, Where: where})
}

// sortValues leaves out what is no value in force: sections with keys, and keys of another provider.
func (c *Config) sortValues() {
	c.order = nil
	for at, s := range c.values {
		switch {
		case s.key.Form == Section:
			delete(c.values, at)
		case s.key.Provider != "" && !c.belongs(s):
			delete(c.values, at)
		default:
			c.order = append(c.order, at)
		}
	}
	rank := map[string]int{}
	for i, k := range table().keys {
		rank[k.Path] = i
	}
	slices.SortFunc(c.order, func(a, b string) int {
		x, y := c.values[a], c.values[b]
		if x.key.named() || y.key.named() {
			if x.key.named() != y.key.named() {
				return boolRank(x.key.named()) - boolRank(y.key.named())
			}
			return x.index - y.index
		}
		return rank[x.key.Path] - rank[y.key.Path]
	})
}

func boolRank(b bool) int {
	if b {
		return 1
	}
	return 0
}

// belongs reports a key of the provider that its sync has.
func (c *Config) belongs(s *setting) bool {
	for _, sync := range c.Syncs {
		if strings.HasPrefix(s.Key, place{parts: []string{"syncs", sync.Name}}.String()+".") {
			return sync.Provider == s.key.Provider
		}
	}
	return false
}

// Change is a key whose value differs between two configurations.
type Change struct {
	Key, Before, After string // empty: it is not there
	Live               bool   // a reload may change it
}

// Changes are the differences between a configuration and a later one, in order.
func (c *Config) Changes(later *Config) []Change {
	var out []Change
	for _, at := range c.order {
		before, after := c.values[at], later.values[at]
		switch {
		case after == nil:
			out = append(out, Change{Key: at, Before: before.Text, Live: before.Live})
		case before.Text != after.Text, before.exact != after.exact:
			out = append(out, Change{Key: at, Before: before.Text, After: after.Text, Live: after.Live})
		}
	}
	for _, at := range later.order {
		if after := later.values[at]; c.values[at] == nil {
			out = append(out, Change{Key: at, After: after.Text, Live: after.Live})
		}
	}
	return out
}
