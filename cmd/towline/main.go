// Command towline runs Towline, watches it and looks into it. Each command is thin: it parses, calls, and prints.
//
//	towline init git ~/src
//	towline up --start code
package main

import (
	"os"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
