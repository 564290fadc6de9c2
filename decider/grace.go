package decider

import "github.com/towline-dev/towline/events"

// Grace is what a step of the wall clock leaves to an attempt whose lease it would have ended (CLK-4). It follows from
// the stream of a node, so every rule that asks whether a lease is live is handed that of the attempt. The zero value is
// none.
type Grace struct {
	Until events.Micros // the lease is live until then at least
	Ends  events.Micros // the absolute end, which has moved with the clock
}

// expires is the end of the lease under a grace; 0: there is no lease.
func (l Lease) expires(g Grace) events.Micros { return max(l.ExpiresAt, g.Until) }

// ends is its absolute end.
func (l Lease) ends(g Grace) events.Micros { return max(l.EndsAt, g.Ends) }

// Left is how long the lease and the lifetime of its attempt still run.
func (l Lease) Left(now events.Micros, g Grace) (lease, lifetime events.Span) {
	return l.expires(g).Sub(now), l.ends(g).Sub(now)
}
