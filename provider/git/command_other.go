//go:build !unix

package git

import "os/exec"

// groupOfItsOwn does nothing: there are no process groups here, and git starts no other program for what we ask of it.
func groupOfItsOwn(*exec.Cmd) {}
