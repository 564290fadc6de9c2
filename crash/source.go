package crash

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
	"github.com/towline-dev/towline/store/sqlite"
)

// MaxEvents bounds the log that is looked at: it is held in memory.
const MaxEvents = 200_000

// readLog reads the log of a store. It is copied first, by one statement and so as of one moment, into a file in dir: a
// connection that writes would bring up to date a file that somebody else may have open, or move what a killed process has
// left beside it.
func readLog(ctx context.Context, path, dir string) ([]events.Envelope, error) {
	return readAtMost(ctx, path, dir, MaxEvents)
}

func readAtMost(ctx context.Context, path, dir string, most int) (log []events.Envelope, err error) {
	scratch := filepath.Join(dir, "source.db")
	err = undisturbed(path, func(closed bool) error { return copyLog(ctx, path, scratch, closed, most) })
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, errors.Join(err, removeStore(scratch)))
	}
	s, err := openScratch(ctx, scratch)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close(), removeStore(scratch)) }()
	err = s.Read(ctx, func(r store.Reader) error {
		for env, err := range r.Log(ctx, 0) {
			if err != nil {
				return err
			}
			log = append(log, env)
		}
		return nil
	})
	return log, err
}

func openScratch(ctx context.Context, path string) (*sqlite.Store, error) {
	return sqlite.Open(ctx, path, sqlite.Options{Synchronous: "normal", Inline: true})
}

// copyLog makes a store that holds the log of another. Nobody who has the file open is disturbed. What an earlier try has
// left is removed first: its events would be in the way of the same ones.
func copyLog(ctx context.Context, from, to string, closed bool, most int) error {
	if err := removeStore(to); err != nil {
		return err
	}
	s, err := openScratch(ctx, to)
	if err != nil {
		return err
	}
	level := s.Level()
	if err := s.Close(); err != nil {
		return err
	}
	return copyEvents(ctx, from, to, closed, level, most)
}

// undisturbed calls read until nobody has opened the store meanwhile, a few times at most. closed says that nobody has it
// open. With a WAL a reader is one among others, and sees one moment.
func undisturbed(path string, read func(closed bool) error) error {
	const attempts = 3
	var err error
	for range attempts {
		before, lookErr := looksOf(path)
		if lookErr != nil {
			return lookErr
		}
		err = read(before[0] == nil)
		after, lookErr := looksOf(path)
		if lookErr != nil || before[0] != nil || before == after {
			return errors.Join(err, lookErr)
		}
	}
	return errors.Join(err, errors.New("it is being opened and closed all the time: try again"))
}

// looksOf tells whether somebody has opened a store between two looks: it then has a WAL, or has become another file. The
// first value is nil without a WAL.
func looksOf(path string) (looks [2]any, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return looks, err
	}
	if info.IsDir() {
		return looks, fmt.Errorf("%s is a folder: name the file of a store", path)
	}
	looks[1] = fmt.Sprintf("%d %d", info.Size(), info.ModTime().UnixNano())
	switch _, err := os.Stat(path + "-wal"); {
	case err == nil:
		looks[0] = true
	case !errors.Is(err, fs.ErrNotExist):
		return looks, err
	}
	return looks, nil
}

// copyEvents reads the file as it lies there if nobody has it open, so that nothing is made beside it, and otherwise as
// one more reader.
func copyEvents(ctx context.Context, from, to string, closed bool, level, most int) (err error) {
	query := "mode=ro"
	if closed {
		query += "&immutable=1"
	}
	from, err = filepath.Abs(from)
	if err != nil {
		return err
	}
	source := url.URL{Scheme: "file", Path: from, RawQuery: query}
	target := url.URL{Scheme: "file", Path: to, RawQuery: "mode=rw&_pragma=busy_timeout(5000)"}
	db, err := sql.Open("sqlite", target.String())
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1) // what is attached, is so in one connection
	defer func() { err = errors.Join(err, db.Close()) }()
	if _, err := db.ExecContext(ctx, `ATTACH $1 AS source`, source.String()); err != nil {
		return err
	}
	var ours, theirs, theirLevel int64
	for _, q := range []struct {
		pragma string
		to     *int64
	}{{"main.application_id", &ours}, {"source.application_id", &theirs}, {"source.user_version", &theirLevel}} {
		if err := db.QueryRowContext(ctx, "PRAGMA "+q.pragma).Scan(q.to); err != nil {
			return err
		}
	}
	if ours != theirs || theirLevel < 1 || theirLevel > int64(level) {
		return fmt.Errorf("%w: it is no store that this release reads", store.ErrFormat)
	}
	copied, err := db.ExecContext(ctx, `INSERT INTO main.events SELECT * FROM source.events ORDER BY position LIMIT $1`, most+1)
	if err != nil {
		return err
	}
	if n, err := copied.RowsAffected(); err != nil || n > int64(most) {
		return cmp.Or(err, fmt.Errorf("its log has more than %d events, and they are held in memory: this release makes no matrix of it", most))
	}
	return nil
}
