package config

import (
	"fmt"
	"slices"
	"strings"
)

// Key is one key of towline.yaml.
type Key struct {
	Path    string // dotted; NAME stands for a name that the file gives
	Form    Form
	Default string   // as the file would have it; empty: none
	Choices []string // of a choice, and of each text of a list
	Min     string   // in the form of the key; empty: no bound
	Max     string
	Doc     string // one sentence or two; what zero means, if it means something
	Alias   string // a variable of the original, in force if neither flag nor TOWLINE_ name is (CFG-1)
	Live    bool   // a reload changes it; else a changed value needs a restart
	// Later says that nothing acts on the key in this release. It is read and checked all the same, so that a file need not
	// change with the next one, and Notes name it where somebody has set it.
	Later bool
	// Provider is the one to whose syncs the key belongs; empty: to all.
	Provider string

	aliasUnit   string // what follows the number of the alias
	zero        bool   // 0 is allowed below Min
	zeroIsNever bool   // its 0 is the negative of towline.Knobs
	// at is where the value belongs, given the names that stand for NAME. Of a section it makes the thing of that name, and
	// returns nil.
	at func(c *Config, names []string) any
}

// name is what stands for a name of the file's own in a path.
const name = "NAME"

// Variable is the environment variable of a key; empty: it has none, because it lies below a name.
func (k Key) Variable() string {
	if k.named() || k.Form == Any || k.Form == Section || k.Form == Ref {
		return ""
	}
	return "TOWLINE_" + strings.ToUpper(strings.ReplaceAll(k.Path, ".", "_"))
}

func (k Key) named() bool { return slices.Contains(strings.Split(k.Path, "."), name) }

// branch is a place in the tree of keys.
type branch struct {
	key   *Key // nil: a mapping that is no thing of its own
	next  map[string]*branch
	names []string // of next, in the order of the table
}

func newTree(keys []Key) *branch {
	root := &branch{}
	for i := range keys {
		at := root
		for _, part := range strings.Split(keys[i].Path, ".") {
			if at.next == nil {
				at.next = map[string]*branch{}
			}
			if at.next[part] == nil {
				at.next[part] = &branch{}
				at.names = append(at.names, part)
			}
			at = at.next[part]
		}
		if at.key != nil {
			panic(fmt.Sprintf("config: key %s stands twice in the table", keys[i].Path))
		}
		at.key = &keys[i]
	}
	return root
}

// mapping reports that keys lie below.
func (b *branch) mapping() bool { return b.next != nil || b.key != nil && b.key.Form == Section }

// step goes to a key below; named says that it is one of the file's own names.
func (b *branch) step(part string) (next *branch, named, ok bool) {
	if next, ok := b.next[part]; ok && part != name {
		return next, false, true
	}
	next, ok = b.next[name]
	return next, true, ok
}

// place is a path in a file: its parts, and which of them are names.
type place struct {
	parts []string
	names []string
}

func (p place) child(part string, named bool) place {
	out := place{append(slices.Clone(p.parts), part), p.names}
	if named {
		out.names = append(slices.Clone(p.names), part)
	}
	return out
}

// String is dotted. A name with a dot is quoted, so that no two places are one.
func (p place) String() string {
	parts := slices.Clone(p.parts)
	for i, part := range parts {
		if strings.ContainsAny(part, ". \"\n") || part == "" {
			parts[i] = fmt.Sprintf("%q", part)
		}
	}
	return strings.Join(parts, ".")
}

// unknown says what is meant by a key that does not exist: one beside it, else one of the same name elsewhere.
func unknown(b *branch, p place, part string) string {
	at := p.child(part, false).String()
	var beside []string
	for _, n := range b.names {
		if n != name {
			beside = append(beside, n)
		}
	}
	if near := nearest(part, beside); near != "" {
		return fmt.Sprintf("unknown key %s: did you mean %s?", at, p.child(near, false))
	}
	for _, k := range Keys() {
		if last := k.Path[strings.LastIndexByte(k.Path, '.')+1:]; last == part && last != name {
			return fmt.Sprintf("unknown key %s: did you mean %s?", at, k.Path)
		}
	}
	if len(beside) == 0 {
		return fmt.Sprintf("unknown key %s: nothing may stand below %s", at, p)
	}
	where := "here"
	if len(p.parts) > 0 {
		where = "in " + p.String()
	}
	return fmt.Sprintf("unknown key %s: %s may stand %s", at, orList(beside), where)
}

func didYouMean(text string, words []string) string {
	if near := nearest(text, words); near != "" {
		return fmt.Sprintf("; did you mean %s?", near)
	}
	return ""
}

// nearest is the word with the fewest changed letters; empty: none is near.
func nearest(text string, words []string) string {
	best, least := "", len(text)/3+2
	for _, w := range words {
		if d := distance(strings.ToLower(text), w); d < least {
			best, least = w, d
		}
	}
	return best
}

// distance counts the letters to insert, remove or replace, and neighbours to swap.
func distance(a, b string) int {
	var before []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next := make([]int, len(b)+1)
		next[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}
