// Package worker does units of an engine that runs in another process, or on another machine, over its API (surfaces 5.4). It
// asks for units, lets the providers of this process do them, writes through their sinks, and says how each ended. It holds no
// rule and no store: what is true is the engine's to say.
//
// An engine that is away, or starts again, costs nothing as long as leases last: renewals and reports are repeated, and the same
// report twice is one (HU-9). A lease that could not be renewed in time ends here by this machine's own clock (HU-4), and the
// sink refuses what an attempt writes behind a newer one (HU-5). So no worker need be trusted to be awake.
package worker
