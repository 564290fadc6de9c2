package projections

import (
	"encoding/json"

	"github.com/towline-dev/towline/events"
)

// The helpers below turn values into columns: what is not set is NULL, times are integer microseconds (CLK-5).

func micros(m events.Micros) any {
	if m == 0 {
		return nil
	}
	return int64(m)
}

func text[S ~string](s S) any {
	if s == "" {
		return nil
	}
	return string(s)
}

func blob(id [16]byte) any {
	if id == [16]byte{} {
		return nil
	}
	return id[:]
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// list is a JSON column; an empty list is NULL.
func list[T any](l []T) (any, error) {
	if len(l) == 0 {
		return nil, nil
	}
	b, err := json.Marshal(l)
	return string(b), err
}

func windowFrom(w events.Window) any {
	if w.From.IsZero() {
		return nil
	}
	return w.From.UnixMicro()
}
