package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// one wants one argument, which the use line of the command names, and which says something.
func one(cmd *cobra.Command, args []string) error {
	name := argumentOf(cmd)
	switch {
	case len(args) == 0:
		return fmt.Errorf("%s is missing", name)
	case len(args) > 1:
		return fmt.Errorf("one %s is wanted: %q is too much", name, args[1])
	case strings.TrimSpace(args[0]) == "":
		return fmt.Errorf("%s is empty", name)
	}
	return nil
}

// some wants one argument or more, none of them empty.
func some(cmd *cobra.Command, args []string) error {
	for _, a := range args {
		if strings.TrimSpace(a) == "" {
			return fmt.Errorf("%s is empty", argumentOf(cmd))
		}
	}
	if len(args) == 0 {
		return fmt.Errorf("%s is missing", argumentOf(cmd))
	}
	return nil
}

// argumentOf is the word behind the name of a command in its use line.
func argumentOf(cmd *cobra.Command) string {
	words := strings.Fields(cmd.Use)
	return strings.TrimSuffix(words[1], "…")
}

// flagError says what a flag wants of which the value cannot be read, without the words of a library.
func flagError(_ *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	want := "a number"
	switch {
	case invalid.GetFlag().Value.Type() == "bool":
		want = "true or false"
	case errors.Is(err, strconv.ErrRange):
		want = "a smaller number"
	}
	return fmt.Errorf("--%s %q: want %s", invalid.GetFlag().Name, invalid.GetValue(), want)
}

// named refuses a flag that was given and names nothing: an unset variable of a script would choose nothing at all.
func named(flag string, values []string) error {
	if len(values) == 0 || slices.ContainsFunc(values, func(v string) bool { return strings.TrimSpace(v) == "" }) {
		return fmt.Errorf("--%s is empty: name one, or leave it out", flag)
	}
	return nil
}
