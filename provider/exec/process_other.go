//go:build !unix

package exec

import (
	"errors"
	"io/fs"
	"os"
	osexec "os/exec"
)

// Without process groups and signals the program alone is killed, at once.
const moreDescriptors = false

func ownGroup(*osexec.Cmd)               {}
func awaitEnd(cmd *osexec.Cmd)           { _ = cmd.Wait() }
func terminateGroup(cmd *osexec.Cmd)     { _ = cmd.Process.Kill() }
func killGroup(cmd *osexec.Cmd)          { _ = cmd.Process.Kill() }
func signalName(*os.ProcessState) string { return "" }
func numbered(int) string                { return "" }
func killed(*os.ProcessState) bool       { return false }
func outOfMemoryKills() int              { return 0 }

func notRunnable(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)
}
