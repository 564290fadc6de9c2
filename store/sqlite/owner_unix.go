//go:build unix

package sqlite

import (
	"io/fs"
	"syscall"
)

// ownerOf is whose a file is.
func ownerOf(info fs.FileInfo) (o owner, known bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return o, false
	}
	return owner{int(s.Uid), int(s.Gid)}, true
}
