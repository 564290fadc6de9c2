//go:build !unix

package subprocess

import "os/exec"

// OwnGroup does nothing: there are no process groups here, and the end of the context kills the command alone.
func OwnGroup(*exec.Cmd) {}
