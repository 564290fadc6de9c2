//go:build !darwin && !dragonfly && !freebsd && !linux && !netbsd && !openbsd

package jsonl

import (
	"fmt"
	"os"
	"runtime"
)

func tryLock(*os.File) (bool, error) {
	return false, fmt.Errorf("the sink needs advisory file locks, which this release does not know on %s", runtime.GOOS)
}
