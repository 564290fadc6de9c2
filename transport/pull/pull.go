// Package pull is the transport of units whose workers ask for them (POST /v1/leases/claim) and get no message: the state of
// a dispatched unit says all that its message would, and is in the store. Route run_sync_unit to it in a process without
// local workers.
package pull

import (
	"context"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/towline-dev/towline/transport"
)

// Name is what marks record.
const Name = "pull"

// Publisher accepts what a worker will ask for. Nothing is sent, so nothing can be lost: a unit that nobody asks for stays
// dispatched, and counts as stale behind dispatch.stale like one whose message is lost (U-4). Its zero value is ready.
type Publisher struct{}

// Name says where a mark's message is.
func (Publisher) Name() string { return Name }

// Send accepts everything.
func (Publisher) Send(ctx context.Context, _ string, _ *message.Message) transport.Receipt {
	if ctx.Err() != nil {
		return transport.NotBegun(context.Cause(ctx))
	}
	return transport.Accepted("its worker asks for it")
}
