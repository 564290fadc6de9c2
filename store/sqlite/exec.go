package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"
)

// rawStmt is a prepared statement of the driver itself.
type rawStmt interface {
	driver.StmtExecContext
	Close() error
}

func (s *session) prepareExec(query string) (stmt rawStmt, err error) {
	err = s.conn.Raw(func(c any) error {
		prepared, err := c.(driver.ConnPrepareContext).PrepareContext(context.Background(), query)
		if err == nil {
			stmt = prepared.(rawStmt)
		}
		return err
	})
	return stmt, err
}

// execRaw runs a statement under the lock that database/sql holds on its connection.
func (s *session) execRaw(stmt rawStmt, args []any) error {
	s.ran++
	return s.conn.Raw(func(any) error {
		s.values = s.values[:0] // the driver binds them before it returns
		for i, arg := range args {
			v, err := value(arg)
			if err != nil {
				return fmt.Errorf("argument $%d: %w", i+1, err)
			}
			s.values = append(s.values, driver.NamedValue{Ordinal: i + 1, Value: v})
		}
		_, err := stmt.ExecContext(context.Background(), s.values)
		return err
	})
}

// value is an argument as the driver takes it. What is no plain value goes the way of database/sql.
func value(arg any) (driver.Value, error) {
	switch v := arg.(type) {
	case nil, int64, string, []byte, float64, bool:
		return v, nil
	case int:
		return int64(v), nil
	}
	return driver.DefaultParameterConverter.ConvertValue(arg)
}
