// Package client asks a Towline node over its HTTP API: runs, units, outbox entries, jobs, events and what an operator does.
//
//	c, err := client.New(client.Config{Address: "unix:/run/towline/api.sock"})
//	run, err := c.Run(ctx, "7Q4ZKD", client.Now)
//
// What the node refuses is an *Error, with its code and what to do about it; a node that does not answer is ErrUnreachable.
// Nothing is tried again but Tail, which goes on where a lost stream has ended. Ids are taken in every form that people use.
package client
