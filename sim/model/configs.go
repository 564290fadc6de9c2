package model

// usual is one run that one relay serves, in a store that several processes share, and one fault.
var usual = Config{
	Runs: 1, Cap: 1, Relays: 1, MaxAttempts: 2, MaxRetries: 1, MaxReturns: 1, MaxFailures: 2, Faults: 1, Reduced: true,
}

const allActs = CancelRuns | CancelUnits | PauseEngine | PauseSource | OpenBreaker | ParkWakeups | ReleaseUnits

// small are explored in every test run: as a whole, or their first states.
var small = []Config{
	usual.with("relays", func(c *Config) { c.Units, c.Relays, c.MaxReturns = []Unit{{}}, 2, 0 }),
	usual.with("cap", func(c *Config) { c.Units, c.MaxRetries, c.MaxReturns = []Unit{{}, {}}, 0, 0 }),
	usual.with("acts", func(c *Config) {
		c.Units, c.Targets, c.Faults, c.Acts, c.MaxActs = []Unit{{Reference: true}, {}}, 1, 0, allActs, 1
	}),
	usual.with("tiers", func(c *Config) { c.Units, c.MaxReturns = []Unit{{Reference: true}, {}}, 0 }),
	usual.with("in process", func(c *Config) {
		c.Units, c.Targets, c.Exclusive, c.InProcess, c.MaxReturns = []Unit{{}}, 1, true, true, 0
	}),
	usual.with("two runs", func(c *Config) { c.Units, c.Runs, c.Faults, c.MaxReturns = []Unit{{}, {Run: 1}}, 2, 0, 0 }),
	usual.with("suspects", func(c *Config) {
		c.Units, c.Cap, c.Exclusive, c.InProcess, c.MaxReturns = []Unit{{}, {}}, 2, true, true, 0
	}),
	usual.with("fan-out", func(c *Config) { c.Units, c.Targets, c.MaxReturns = []Unit{{}}, 2, 0 }),
	usual.with("exactly once", func(c *Config) { c.Units, c.Targets, c.Mode, c.MaxReturns = []Unit{{}}, 2, ExactlyOnce, 0 }),
	usual.with("never started", func(c *Config) { c.Units, c.Faults, c.MaxReturns, c.NeverStarted = []Unit{{}}, 0, 0, true }),
}

// large are explored by hand and in long tests, up to a bound.
var large = []Config{
	// Two runs share the one slot of a bucket (B-6): without a fault, but with time in every order, and an operator.
	usual.with("two runs", func(c *Config) {
		c.Units, c.Runs, c.Faults, c.MaxReturns = []Unit{{}, {Run: 1}}, 2, 0, 0
		c.Acts, c.MaxActs = CancelRuns|CancelUnits|ParkWakeups|ReleaseUnits, 1
	}),
	// A process dies under two units, and dies again (RW-8).
	usual.with("suspects", func(c *Config) {
		c.Units, c.Cap, c.Exclusive, c.InProcess, c.Faults, c.MaxReturns = []Unit{{}, {}}, 2, true, true, 2, 0
	}),
	// Two targets at most once (K-8, O-12), and a run that may be cancelled.
	usual.with("fan-out", func(c *Config) {
		c.Units, c.Targets, c.Faults, c.MaxReturns = []Unit{{}}, 2, 2, 0
		c.Acts, c.MaxActs = CancelRuns|ParkWakeups|OpenBreaker, 1
	}),
	// Two targets exactly once (HP-3, REC-10), held, parked and redriven (O-18).
	usual.with("exactly once", func(c *Config) {
		c.Units, c.Targets, c.Mode, c.Faults, c.MaxReturns, c.Acts, c.MaxActs = []Unit{{}}, 2, ExactlyOnce, 2, 0, ParkWakeups, 1
	}),
	// Tiers and boot recovery, with messages in the memory of the process (N-3, N-4).
	usual.with("in process", func(c *Config) {
		c.Units, c.Targets, c.Exclusive, c.InProcess, c.Faults = []Unit{{Reference: true}, {}}, 1, true, true, 2
		c.Acts, c.MaxActs = CancelUnits|ReleaseUnits, 1
	}),
	// Two relays race (O-9, M-3), and an operator does whatever he can.
	usual.with("two relays", func(c *Config) {
		c.Units, c.Relays, c.Acts, c.MaxActs = []Unit{{Reference: true}, {}}, 2, allActs, 1
	}),
}

// walked are the configurations in which the decider walks beside the model.
var walked = []Config{
	usual.with("shared", func(c *Config) {
		c.Units, c.Targets, c.Relays, c.Permanent = []Unit{{Reference: true}, {}, {Source: 1}}, 2, 2, true
		c.Acts = allActs
	}),
	usual.with("two runs", func(c *Config) {
		c.Units, c.Runs, c.Cap, c.Relays = []Unit{{}, {}, {Run: 1}, {Run: 1}}, 2, 2, 2
		c.Targets, c.Acts = 1, allActs
	}),
	usual.with("in process", func(c *Config) {
		c.Units, c.Runs, c.Cap, c.Targets = []Unit{{}, {}, {Run: 1}}, 2, 2, 2
		c.Exclusive, c.InProcess, c.Acts = true, true, allActs
	}),
	usual.with("exactly once", func(c *Config) {
		c.Units, c.Targets, c.Mode, c.Permanent = []Unit{{}, {}}, 2, ExactlyOnce, true
		c.Cap, c.Acts = 2, allActs
	}),
	usual.with("exactly once, in process", func(c *Config) {
		c.Units, c.Targets, c.Mode = []Unit{{}, {}}, 2, ExactlyOnce
		c.Cap, c.Exclusive, c.InProcess, c.Acts = 2, true, true, PauseSource|ParkWakeups
	}),
	usual.with("effects that die", func(c *Config) {
		c.Units, c.Runs, c.Cap, c.Targets, c.Relays, c.Exclusive = []Unit{{}, {Run: 1}}, 2, 2, 2, 2, true
	}),
}

func (c Config) with(name string, change func(*Config)) Config {
	c.Name = name
	change(&c)
	return c
}
