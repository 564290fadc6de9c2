package git

// WithEnv adds to the environment of every command.
func (p *Provider) WithEnv(env ...string) *Provider {
	p.program.env = append(p.program.env, env...)
	return p
}

var (
	ParseCommit = parseCommit
	ParseChange = parseChange
	ParseFile   = parseFile
	RepairPath  = repairPath
	Named       = named
)
