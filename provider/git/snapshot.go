package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
)

type refRow struct {
	Name     string `json:"name"`
	Target   string `json:"target"`
	Repaired bool   `json:"encoding_repaired"`
}

// syncRefs reads every ref, whatever the ref selection is: it is the list that explains the selection. An entry is a
// line; git allows neither blanks nor control characters in the name of a ref. A ref that is broken fails the unit: to
// leave it out would be to say that it is gone.
func (p *Provider) syncRefs(ctx context.Context, r *repository, _ provider.Unit, s sink.Sink) (provider.Result, error) {
	if _, err := r.hasCommits(ctx); err != nil {
		return provider.Result{}, err
	}
	args := []string{"for-each-ref", "--format=%(objectname) %(refname)"}
	rows := 0
	err := r.run(ctx, command{args: args}, func(out io.Reader) error {
		return eachRecord(out, '\n', func(line []byte) error {
			target, name, ok := strings.Cut(string(line), " ")
			if !ok {
				return provider.Fail(provider.OtherError, fmt.Errorf("git for-each-ref wrote %.80q", line))
			}
			row := refRow{Target: target}
			row.Name, row.Repaired = repair(name)
			rows++
			return s.Put(ctx, Refs, row.Name, row)
		})
	})
	return provider.Result{Rows: rows}, err
}

type fileRow struct {
	Path     string `json:"path"`
	Size     *int64 `json:"size"` // nil: a submodule, or a blob that a partial clone lacks
	Blob     string `json:"blob"`
	Repaired bool   `json:"encoding_repaired"`
}

func (p *Provider) syncFiles(ctx context.Context, r *repository, _ provider.Unit, s sink.Sink) (provider.Result, error) {
	head, err := r.head(ctx)
	if err != nil || head == "" {
		return provider.Result{}, err
	}
	partial, err := r.partial(ctx)
	if err != nil {
		return provider.Result{}, err
	}
	args := []string{"ls-tree", "-r", "-z", "--full-tree"}
	if !partial {
		args = append(args, "-l") // the size; asking for it would make a partial clone fetch
	}
	rows := 0
	err = r.run(ctx, command{args: append(args, head)}, func(out io.Reader) error {
		return eachRecord(out, 0, func(record []byte) error {
			row, err := parseFile(record, !partial)
			if err != nil {
				return provider.Fail(provider.OtherError, err)
			}
			rows++
			return s.Put(ctx, Files, row.Path, row)
		})
	})
	var exit *exitError
	if partial && errors.As(err, &exit) {
		err = r.wouldFetch("listing the files of HEAD", "leave the dataset "+Files+" out", exit)
	}
	return provider.Result{Rows: rows}, err
}

// parseFile reads MODE TYPE BLOB [SIZE] TAB PATH.
func parseFile(record []byte, sized bool) (fileRow, error) {
	about, path, ok := strings.Cut(string(record), "\t")
	fields := strings.Fields(about)
	want := 3
	if sized {
		want = 4
	}
	if !ok || len(fields) != want {
		return fileRow{}, fmt.Errorf("git ls-tree wrote %.80q, which has not %d fields and a path", record, want)
	}
	row := fileRow{Blob: fields[2]}
	row.Path, row.Repaired = repairPath(path)
	if sized && fields[3] != "-" {
		n, err := strconv.ParseInt(fields[3], 10, 64)
		if err != nil {
			return fileRow{}, fmt.Errorf("git ls-tree wrote %.80q as the size of %.80q", fields[3], path)
		}
		row.Size = &n
	}
	return row, nil
}
