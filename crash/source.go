package crash

import (
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
func readLog(ctx context.Context, path, dir string) (log []events.Envelope, err error) {
	scratch := filepath.Join(dir, "source.db")
	if err := copyLog(ctx, path, scratch); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	s, err := sqlite.Open(ctx, scratch, sqlite.Options{Synchronous: "normal", Inline: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close(), os.Remove(scratch)) }()
	err = s.Read(ctx, func(r store.Reader) error {
		for env, err := range r.Log(ctx, 0) {
			if err != nil {
				return err
			}
			if len(log) == MaxEvents {
				return fmt.Errorf("%s: its log has more than %d events, and they are held in memory: this release makes no matrix of it", path, MaxEvents)
			}
			log = append(log, env)
		}
		return nil
	})
	return log, err
}

// copyLog makes a store that holds the log of another. Nobody who has the file open is disturbed.
func copyLog(ctx context.Context, from, to string) (err error) {
	s, err := sqlite.Open(ctx, to, sqlite.Options{Synchronous: "normal", Inline: true})
	if err != nil {
		return err
	}
	level := s.Level()
	if err := s.Close(); err != nil {
		return err
	}
	const attempts = 3
	for range attempts {
		var before [2]any
		before, err = looksOf(from)
		if err != nil {
			return err
		}
		err = copyEvents(ctx, from, to, before[0] == nil, level)
		after, lookErr := looksOf(from)
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
func copyEvents(ctx context.Context, from, to string, closed bool, level int) (err error) {
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
	_, err = db.ExecContext(ctx, `INSERT INTO main.events SELECT * FROM source.events ORDER BY position`)
	return err
}
