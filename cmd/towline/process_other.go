//go:build !unix

package main

import "os"

// stopSignals end up and serve cleanly.
var stopSignals = []os.Signal{os.Interrupt}

// onReload: there is no signal for it here.
func onReload(chan<- os.Signal) {}

// keepOnWithoutReader: no reader ends a process here.
func keepOnWithoutReader() {}

// terminalWidth finds no terminal here: progress is told in lines.
func terminalWidth(*os.File) (int, bool) { return 0, false }
