package decider

import "github.com/towline-dev/towline/events"

// Failure is a publish that was refused for now or ended unknown, and what its node knows of the transport.
//
// It is charged once: to the wakeup, which loses its attempt, if the transport took something else meanwhile, and else to
// the transport, whose breaker it moves (O-16). Nobody can tell a bad message from a broker that is away before the
// broker has taken another.
type Failure struct {
	Transport string        // empty: no publish failed, or for want of room in this process (B-8)
	Accepted  events.Micros // when the transport last accepted a message of this node; 0: it never did
	Overtaken bool          // it accepted one after this publish had failed
}

// Blamed reports that a transport which last accepted a message at that time has worked since this number failed before.
func (r Register) Blamed(accepted events.Micros) bool {
	return r.FailedAt != 0 && accepted > r.FailedAt
}

// spendsAttempt reports that the failure is the wakeup's own. That of a probe never is.
func (f Failure) spendsAttempt(r Register, cause events.ReleaseCause) bool {
	return cause != events.ReleaseBreakerOpen && (f.Overtaken || r.Blamed(f.Accepted))
}
