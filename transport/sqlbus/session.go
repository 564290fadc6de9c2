package sqlbus

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
)

const (
	applicationID = 0x544c4253 // "TLBS", in the header of the file
	formatLevel   = 1
	busyTimeout   = 5000 // milliseconds that a connection waits for the lock of another
)

// schema is a file format. What stands at or below the frontier of a group, and has no claim, is settled: only what is open
// has rows.
const schema = `
CREATE TABLE messages (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, -- never used again: a frontier stays true when all messages are gone
  topic TEXT NOT NULL,
  uuid TEXT NOT NULL,
  metadata TEXT NOT NULL, -- JSON
  payload BLOB NOT NULL,
  at INTEGER NOT NULL -- microseconds
) STRICT;
CREATE INDEX messages_topic ON messages (topic, seq);
CREATE TABLE groups (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  topic TEXT NOT NULL,
  name TEXT NOT NULL,
  frontier INTEGER NOT NULL DEFAULT 0, -- the newest message that was ever handed out
  UNIQUE (topic, name)
) STRICT;
CREATE TABLE claims (
  group_id INTEGER NOT NULL REFERENCES groups (id),
  seq INTEGER NOT NULL REFERENCES messages (seq),
  token INTEGER NOT NULL, -- of the consumer that has it; 0: nobody
  until INTEGER, -- when it may be handed out again: the end of the lease, or of the wait; NULL: never, it is parked
  deliveries INTEGER NOT NULL,
  parked INTEGER, -- when
  PRIMARY KEY (group_id, seq),
  CHECK ((until IS NULL) = (parked IS NOT NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX claims_until ON claims (group_id, until) WHERE until IS NOT NULL;
CREATE INDEX claims_seq ON claims (seq);
CREATE INDEX claims_parked ON claims (parked) WHERE parked IS NOT NULL;
`

// session is one connection with its prepared statements. Its pragmas are set on it alone, for nobody else has it. No
// statement gets a context that ends: it would interrupt the connection, and perhaps a commit.
type session struct {
	db       *sql.DB
	conn     *sql.Conn
	prepared map[string]*sql.Stmt
	level    string // of synchronous
}

func connect(path, mode string) (*session, error) {
	u := url.URL{Scheme: "file", Path: path, RawQuery: fmt.Sprintf("mode=%s&_pragma=busy_timeout(%d)", mode, busyTimeout)}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, err
	}
	conn, err := db.Conn(context.Background())
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &session{db: db, conn: conn, prepared: map[string]*sql.Stmt{}}, nil
}

func (s *session) close() error {
	var errs []error
	for _, stmt := range s.prepared { // one left open prevents the checkpoint of the last connection
		errs = append(errs, stmt.Close())
	}
	return errors.Join(append(errs, s.conn.Close(), s.db.Close())...)
}

func (s *session) stmt(query string) (*sql.Stmt, error) {
	if stmt := s.prepared[query]; stmt != nil {
		return stmt, nil
	}
	stmt, err := s.conn.PrepareContext(context.Background(), query)
	if err == nil {
		s.prepared[query] = stmt
	}
	return stmt, err
}

// exec says how many rows a statement has changed.
func (s *session) exec(query string, args ...any) (int64, error) {
	stmt, err := s.stmt(query)
	if err != nil {
		return 0, err
	}
	result, err := stmt.ExecContext(context.Background(), args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// row scans the first row; without one it is sql.ErrNoRows.
func (s *session) row(dest []any, query string, args ...any) error {
	stmt, err := s.stmt(query)
	if err != nil {
		return err
	}
	return stmt.QueryRowContext(context.Background(), args...).Scan(dest...)
}

func (s *session) each(scan func(*sql.Rows) error, query string, args ...any) error {
	stmt, err := s.stmt(query)
	if err != nil {
		return err
	}
	rows, err := stmt.QueryContext(context.Background(), args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// plain runs statements that are not kept.
func (s *session) plain(query string) error {
	_, err := s.conn.ExecContext(context.Background(), query)
	return err
}

// synchronous sets how much the next commits sync.
func (s *session) synchronous(level string) error {
	if s.level == level {
		return nil
	}
	if err := s.plain("PRAGMA synchronous = " + level); err != nil {
		return err
	}
	s.level = level
	return nil
}

// openWriter opens the file, which is made if it is missing. Nothing is written to a file that is another program's.
func openWriter(path string) (_ *session, err error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(path + "-wal"); err == nil {
			return nil, fmt.Errorf("%s is missing, and its WAL %s-wal is there: put the file back, or remove the WAL", path, path)
		}
	}
	s, err := connect(path, "rwc")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if _, err := s.known(path); err != nil {
		return nil, err
	}
	var mode string
	if err := s.conn.QueryRowContext(context.Background(), "PRAGMA journal_mode = wal").Scan(&mode); err != nil {
		return nil, err
	}
	if !strings.EqualFold(mode, "wal") {
		return nil, fmt.Errorf("%s cannot have a WAL here: put the bus on a local file system", path)
	}
	if err := s.plain("PRAGMA fullfsync = 1; PRAGMA checkpoint_fullfsync = 1; PRAGMA foreign_keys = 1; PRAGMA temp_store = memory"); err != nil {
		return nil, err
	}
	if err := s.synchronous("full"); err != nil {
		return nil, err
	}
	return s, s.make(path)
}

// known reports a file with a format; another database than a bus is an error.
func (s *session) known(path string) (bool, error) {
	var id, level, tables int64
	err := s.conn.QueryRowContext(context.Background(), `
		SELECT (SELECT application_id FROM pragma_application_id), (SELECT user_version FROM pragma_user_version),
		       (SELECT count(*) FROM sqlite_master)`).Scan(&id, &level, &tables)
	switch {
	case err != nil:
		return false, fmt.Errorf("%s is no bus: %w", path, err)
	case id == 0 && level == 0 && tables == 0:
		return false, nil
	case id != applicationID:
		return false, fmt.Errorf("%s is another program's database (application id %#x): give the bus a file of its own", path, id)
	case level != formatLevel:
		return false, fmt.Errorf("%s has format level %d, and this release reads level %d: open it with a newer release", path, level, formatLevel)
	}
	return true, nil
}

func (s *session) make(path string) error {
	if err := s.plain("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	known, err := s.known(path)
	if err == nil && !known {
		err = s.plain(schema + fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d;", applicationID, formatLevel))
	}
	if err != nil {
		return errors.Join(err, s.plain("ROLLBACK"))
	}
	return s.plain("COMMIT")
}
