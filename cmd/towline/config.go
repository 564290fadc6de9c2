package main

import (
	"github.com/spf13/cobra"

	"github.com/towline-dev/towline/config"
)

func (p *program) configCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "config", Short: "Show the configuration in force, and its schema",
		Example: "  towline config print --origin",
		Args:    cobra.ArbitraryArgs,
		RunE:    func(cmd *cobra.Command, args []string) error { return p.group(cmd, args) },
	}
	c.AddCommand(p.configPrint(), p.configSchema())
	return c
}

// configValue is a line of config print.
type configValue struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
	From   string `json:"from"` // default, file, alias, variable or flag
	Live   bool   `json:"live"` // a reload changes it
}

func (p *program) configPrint() *cobra.Command {
	var origin bool
	c := &cobra.Command{
		Use:   "print [KEY…]",
		Short: "Show every value in force, or those of some keys or sections",
		Long: `Shows every value in force: flag before variable before file before default.
Secrets are shown as ***. KEY is a key, or the beginning of several: relay shows
all of relay.`,
		Example: `  towline config print --origin           # and where each came from
  towline config print relay unit.lease   # a section and a key
  TOWLINE_RELAY_BATCH=10 towline config print relay.batch -o json`,
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := p.load(false)
			if err != nil {
				return err
			}
			rows, err := chosen(c, args)
			if err != nil {
				return err
			}
			columns := []string{"KEY", "VALUE"}
			if origin {
				columns = append(columns, "ORIGIN")
			}
			return list(p.out, rows, columns, func(v configValue) []string { return []string{v.Key, v.Value, v.Origin}[:len(columns)] })
		},
	}
	c.Flags().BoolVar(&origin, "origin", false, "show where each value came from (JSON always does)")
	return c
}

func (p *program) configSchema() *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of towline.yaml",
		Long: "Prints the JSON Schema of towline.yaml, which editors understand. It is always JSON, whatever -o says.",
		Example: `  towline config schema > towline.schema.json
  # and as the first line of towline.yaml:
  # yaml-language-server: $schema=towline.schema.json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := p.out.Write(config.Schema())
			return err
		},
	}
}
