//go:build !unix

package main

import (
	"errors"
	"os"
	"os/exec"
)

var errNoKill = errors.New("this system has no SIGKILL to show: run the demo on Linux, macOS or a BSD")

func groupOfItsOwn(*exec.Cmd) {}

func kill(*os.Process) error { return errNoKill }

func killed(*os.ProcessState) bool { return false }

func holdFile(*os.File) error { return errNoKill }

func terminalWidth(*os.File) (int, bool) { return 0, false }
