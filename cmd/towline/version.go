package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the build of a release: -ldflags "-X main.version=v1.2.3".
var version string

// build is what this binary says of itself.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func thisBuild() build {
	b := build{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	if b.Version == "" {
		b.Version = info.Main.Version
	}
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = "devel"
	}
	return b
}

func (p *program) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Say which towline this is",
		Example: "  towline version\n  towline version -o json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := thisBuild()
			return p.out.one(b, func(w io.Writer) {
				fmt.Fprintf(w, "towline %s  %s  %s\n", b.Version, b.Go, b.Platform)
				if b.Commit != "" {
					fmt.Fprintf(w, "commit  %s\n", b.Commit)
				}
			})
		},
	}
}

func (p *program) completionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "completion bash|zsh|fish|powershell", Short: "Print the completion of a shell",
		Long: "Prints a script by which the shell completes towline's commands and flags.",
		Example: `  source <(towline completion bash)
  towline completion zsh > "${fpath[1]}/_towline"
  towline completion fish > ~/.config/fish/completions/towline.fish`,
		Args:      cobra.MatchAll(one, cobra.OnlyValidArgs),
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(p.out, true)
			case "zsh":
				return root.GenZshCompletion(p.out)
			case "fish":
				return root.GenFishCompletion(p.out, true)
			}
			return root.GenPowerShellCompletionWithDesc(p.out)
		},
	}
}
