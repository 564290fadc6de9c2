//go:build !darwin && !dragonfly && !freebsd && !linux && !netbsd && !openbsd

package turn

// locked is nothing where there is no flock: there the turn is always ours, and SQLite's own wait has to do.
type locked struct{}

func (*Turn) take() error { return nil }
func (*Turn) give()       {}
func (*Turn) close()      {}
