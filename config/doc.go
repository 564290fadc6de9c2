// Package config is towline.yaml: where it is found, what its keys are, what each value is and where it came from.
//
// One table (Keys) holds every key with its form, default, bounds and text. The reader of the file, the TOWLINE_ variables,
// the messages about unknown keys, Values, Schema and Reference all come from it, so none of them can know a key that the
// others do not.
//
//	c, err := config.Load(config.Options{})
//	b, err := config.Build(ctx, c, config.BuildOptions{})
//	n, err := node.Open(ctx, b.Node)
//
// Load reads and validates the whole configuration and touches nothing else. Build makes what node.Open needs of it:
// providers, sinks, syncs, schedules, retry policies, knobs.
package config
