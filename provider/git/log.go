package git

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
)

// One record of git log begins with recordMark and is split at fieldMark. Free text is the last field: author, address
// and subject, on a line each. Neither can hold a line break in git, so whatever else they hold, unit separators too,
// the count of the fields is right; and if it is not, the unit fails.
const (
	recordMark = "\x1e"
	fieldMark  = "\x1f"

	commitFormat  = "%x1e%H%x1f%P%x1f%at%x1f%ct%x1f"
	commitFields  = 5
	freeTextLines = 3
)

// logArgs are those of every git log. The repository's own configuration may change none of what it prints. A format of
// our own has no colours, notes or decorations, counting lines runs no program for diffs, and a pipe has no pager, so none
// of these is switched off.
var logArgs = []string{"log", "--no-walk=unsorted", "--stdin", "-z", "--no-show-signature", "--encoding=UTF-8"}

// readLog calls f for every record that git log writes for the commits of the unit's window. It returns how many
// records f has said to be rows, and the fingerprint of the commits that were read.
func (p *Provider) readLog(ctx context.Context, r *repository, u provider.Unit, s sink.Sink, c command, f func(l *logRead, record []byte) error) (provider.Result, error) {
	from, to, ok := bounds(u.Window)
	if !ok {
		return provider.Result{}, nil
	}
	list, err := p.list(ctx, r, u.Source)
	if err != nil {
		return provider.Result{}, err
	}
	asked, err := list.within(from, to)
	if err != nil || asked.Commits() == 0 {
		return provider.Result{}, err
	}
	ids := list.ids(from, to)
	defer ids.Close()
	c.args, c.stdin = slices.Concat(logArgs, c.args), ids
	l := &logRead{progress: meter{put: s.Progress, now: p.now, last: p.now(), total: int64(asked.Commits())}}
	err = r.run(ctx, c, func(out io.Reader) error {
		return eachRecord(out, 0, func(record []byte) error { return f(l, record) })
	})
	if err != nil {
		return provider.Result{}, err
	}
	if l.read != asked {
		return provider.Result{}, provider.Fail(provider.OtherError, fmt.Errorf(
			"git log wrote the commits %s of %s: nothing is stored of a window that is not whole", &l.read, &asked))
	}
	return provider.Result{Rows: l.rows, Fingerprint: l.read.String()}, nil
}

// logRead is how far the reading of a log is.
type logRead struct {
	read     Digest
	rows     int
	progress meter
}

func (l *logRead) commit(id string) error {
	if err := l.read.Add(id); err != nil {
		return provider.Fail(provider.OtherError, err)
	}
	l.progress.tick()
	return nil
}

type commitRow struct {
	SHA           string  `json:"sha"`
	Parents       string  `json:"parents"`
	AuthorName    string  `json:"author_name"`
	AuthorEmail   string  `json:"author_email"`
	AuthorTime    *string `json:"author_time"` // nil: the commit has no date that is one
	CommitterTime *string `json:"committer_time"`
	Subject       string  `json:"subject"`
	Repaired      bool    `json:"encoding_repaired"`
}

func (p *Provider) syncCommits(ctx context.Context, r *repository, u provider.Unit, s sink.Sink) (provider.Result, error) {
	c := command{args: []string{"--no-patch", "--format=tformat:" + commitFormat + "%an%n%ae%n%s"}}
	if p.mailmap {
		c = command{
			global: []string{"-c", "mailmap.blob=HEAD:.mailmap", "-c", "mailmap.file=" + os.DevNull},
			args:   []string{"--no-patch", "--format=tformat:" + commitFormat + "%aN%n%aE%n%s"},
		}
	}
	return p.readLog(ctx, r, u, s, c, func(l *logRead, record []byte) error {
		row, err := parseCommit(record)
		if err != nil {
			return provider.Fail(provider.OtherError, err)
		}
		if err := l.commit(row.SHA); err != nil {
			return err
		}
		l.rows++
		return s.Put(ctx, Commits, row.SHA, row)
	})
}

// parseCommit never skips: a record that is not understood is an error with the id of its commit.
func parseCommit(record []byte) (commitRow, error) {
	fields := strings.SplitN(strings.TrimPrefix(string(record), recordMark), fieldMark, commitFields)
	if len(fields) != commitFields || !bytes.HasPrefix(record, []byte(recordMark)) {
		return commitRow{}, fmt.Errorf("commit %.64q: git log wrote %d fields, not %d", fields[0], len(fields), commitFields)
	}
	lines := strings.SplitN(fields[4], "\n", freeTextLines)
	if len(lines) != freeTextLines {
		return commitRow{}, fmt.Errorf("commit %.64q: git log wrote %d lines of text, not %d", fields[0], len(lines), freeTextLines)
	}
	row := commitRow{
		SHA: fields[0], Parents: fields[1], AuthorTime: timeText(fields[2]), CommitterTime: timeText(fields[3]),
	}
	for i, to := range []*string{&row.AuthorName, &row.AuthorEmail, &row.Subject} {
		var repaired bool
		*to, repaired = repair(lines[i])
		row.Repaired = row.Repaired || repaired
	}
	return row, nil
}

// lastDate is the end of the dates that fit into a text of fixed width.
var lastDate = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).Unix()

// timeText is a git date as fixed-width UTC text; nil for one that git itself cannot read, or that does not fit.
func timeText(seconds string) *string {
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil || n < 0 || n > lastDate {
		return nil
	}
	text := time.Unix(n, 0).UTC().Format("2006-01-02T15:04:05Z")
	return &text
}

type changeRow struct {
	SHA      string `json:"sha"`
	Path     string `json:"path"`
	Added    *int64 `json:"added"` // nil: binary
	Deleted  *int64 `json:"deleted"`
	Repaired bool   `json:"encoding_repaired"`
}

// changeArgs pin what numbers come out: real paths instead of renames, the root commit too, one algorithm. Of a merge git
// log shows none unless it is asked to.
var changeArgs = []string{
	"--numstat", "--no-renames", "--root", "--diff-algorithm=myers", "--ignore-submodules=none", "-O/dev/null",
	"--format=tformat:%x1e%H",
}

func (p *Provider) syncChanges(ctx context.Context, r *repository, u provider.Unit, s sink.Sink) (provider.Result, error) {
	partial, err := r.partial(ctx)
	if err != nil {
		return provider.Result{}, err
	}
	if partial {
		return provider.Result{}, r.wouldFetch("counting changed lines", "leave the dataset "+Changes+" out", nil)
	}
	sha := ""
	return p.readLog(ctx, r, u, s, command{args: changeArgs}, func(l *logRead, record []byte) error {
		if id, ok := bytes.CutPrefix(record, []byte(recordMark)); ok {
			sha = string(id)
			return l.commit(sha)
		}
		row, err := parseChange(sha, record)
		if err != nil {
			return provider.Fail(provider.OtherError, err)
		}
		l.rows++
		return s.Put(ctx, Changes, sha+":"+row.Path, row)
	})
}

// parseChange reads ADDED TAB DELETED TAB PATH. The first of a commit stands behind a line break.
func parseChange(sha string, record []byte) (changeRow, error) {
	fields := strings.SplitN(strings.TrimPrefix(string(record), "\n"), "\t", 3)
	if sha == "" || len(fields) != 3 || fields[2] == "" {
		return changeRow{}, fmt.Errorf("commit %.64q: git log wrote the change %.80q, which has not the fields added, deleted and path", sha, record)
	}
	row := changeRow{SHA: sha}
	row.Path, row.Repaired = repairPath(fields[2])
	for i, to := range []**int64{&row.Added, &row.Deleted} {
		if fields[i] == "-" {
			continue
		}
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return changeRow{}, fmt.Errorf("commit %.64q: git log wrote %.80q as a count of lines", sha, fields[i])
		}
		*to = &n
	}
	return row, nil
}

// meter counts commits and passes the count on, once a second at most.
type meter struct {
	put   func(done, total int64)
	now   func() time.Time
	last  time.Time
	done  int64
	total int64
}

func (m *meter) tick() {
	m.done++
	if now := m.now(); now.Sub(m.last) >= time.Second {
		m.last = now
		m.put(m.done, m.total)
	}
}
