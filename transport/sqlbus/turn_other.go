//go:build !darwin && !dragonfly && !freebsd && !linux && !netbsd && !openbsd

package sqlbus

// turn is always ours where there is no flock: there SQLite's own wait has to do.
type turn struct{ path string }

func (*turn) during(fn func() error) error { return fn() }
func (*turn) close()                       {}
