package main

import (
	"fmt"
	"iter"

	"github.com/spf13/pflag"
)

// listFlags are those of lists.
type listFlags struct {
	where string
	limit int
}

const usualLimit = 50

func (l *listFlags) add(f *pflag.FlagSet, example string) {
	f.StringVar(&l.where, "where", "", "only what this `QUERY` chooses, such as '"+example+"'")
	f.IntVar(&l.limit, "limit", usualLimit, "`N` rows at most; 0: all")
}

// page is how many rows are asked for at once.
func (l *listFlags) page() int {
	const most = 200
	if l.limit <= 0 || l.limit >= most {
		return most
	}
	return l.limit + 1 // one more shows that there are more
}

// rows answers with what a list yields, up to a limit, and says on standard error when there is more. JSON lines leave as they
// come. It returns what it has shown.
func rows[T any](p *program, all iter.Seq2[T, error], limit int, columns []string, cells func(T) []string) (shown []T, err error) {
	if limit < 0 {
		return nil, p.usage("--limit %d: want 0 for all, or how many", limit)
	}
	more := false
	for row, err := range all {
		if err != nil {
			return shown, err
		}
		if limit > 0 && len(shown) == limit {
			more = true
			break
		}
		shown = append(shown, row)
		if p.out.form == "jsonl" {
			if err := p.out.json(row, ""); err != nil {
				return shown, err
			}
		}
	}
	if p.out.form != "jsonl" {
		if err := list(p.out, shown, columns, cells); err != nil {
			return shown, err
		}
	}
	if more {
		fmt.Fprintf(p.stderr, "towline: there are more: --limit 0 shows all, --where fewer\n")
	}
	return shown, nil
}

// say adds a line below a table; other forms of the answer do without.
func (a *answer) say(format string, args ...any) {
	if a.form == "table" {
		fmt.Fprintf(a, format+"\n", args...)
	}
}
