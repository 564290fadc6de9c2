//go:build unix

package httpapi

import "syscall"

// ownersOnly sets the mode that the file of a socket gets when it appears: on Linux there is then no moment in which others
// may connect. Other systems refuse it, and there the mode is set behind it; a folder of the owner's keeps others out meanwhile.
func ownersOnly(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), socketMode) })
}
