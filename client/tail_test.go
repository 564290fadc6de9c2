package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/client"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/httpapi"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/wire"
)

// cutter passes connections on to a node, and cuts each of them off somewhere: in the middle of a line, an item or a header.
type cutter struct {
	net.Listener
	to   string
	dice *rand.Rand
	mu   sync.Mutex
	all  sync.WaitGroup
}

func cut(t *testing.T, to string, seed uint64) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c := &cutter{Listener: l, to: to, dice: rand.New(rand.NewPCG(seed, 0))}
	c.all.Go(c.accept)
	t.Cleanup(func() {
		require.NoError(t, c.Close())
		c.all.Wait()
	})
	return c
}

func (c *cutter) accept() {
	for {
		in, err := c.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", c.to)
		if err != nil {
			_ = in.Close()
			return
		}
		c.mu.Lock()
		const least, most = 100, 60_000
		bytes := int64(least + c.dice.IntN(most))
		c.mu.Unlock()
		c.all.Go(func() {
			_, _ = io.Copy(out, in)
			_ = out.Close()
		})
		c.all.Go(func() {
			_, _ = io.CopyN(in, out, bytes)
			_ = in.Close()
			_ = out.Close()
		})
	}
}

// submit makes two events with each message.
func submit(t *testing.T, n *node.Node, messages int) {
	var all sync.WaitGroup
	const writers = 16
	for w := range writers {
		all.Go(func() {
			for i := w; i < messages; i += writers {
				_, err := n.Engine().Submit(context.Background(), towline.Message{Topic: "t", Payload: fmt.Appendf(nil, `{"n":%d}`, i)})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// Surfaces 5.5: of more than 10,000 events that are written while a stream is cut off all the time, none is missed and none
// comes twice.
func TestATailMissesNothingAndDoublesNothing(t *testing.T) {
	const messages = 5000
	w := start(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	c := w.client(client.Config{Address: "http://" + cut(t, w.port, seed).Addr().String()})
	written := make(chan events.Position, 1)
	go func() {
		submit(t, w.node, messages)
		head, err := w.node.Engine().Head(context.Background())
		if err != nil {
			t.Error(err)
		}
		written <- head
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var last, until events.Position
	lost := 0
	for e, err := range c.Tail(ctx, client.TailOptions{Lost: func(error) { lost++ }}) {
		require.NoError(t, err)
		require.Equal(t, last+1, e.Seq)
		last = e.Seq
		select {
		case until = <-written:
		default:
		}
		if until != 0 && last >= until {
			break
		}
	}
	require.Greater(t, int(last), 2*messages)
	require.Greater(t, lost, 20, "the streams were not cut off")
}

// Surfaces 5.5: a tail outlives the node: it goes on where it was when the node is back.
func TestATailOutlivesItsNode(t *testing.T) {
	w := start(t)
	c := w.client(client.Config{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	head, err := w.node.Engine().Head(ctx)
	require.NoError(t, err)
	got := make(chan wire.Event)
	go func() {
		defer close(got)
		for e, err := range c.Tail(ctx, client.TailOptions{After: head}) {
			if err != nil {
				return
			}
			got <- e
		}
	}()
	first := w.node.Engine().Node()
	submit(t, w.node, 1)
	require.Equal(t, head+1, (<-got).Seq)
	again := make(chan struct{})
	go func() {
		defer close(again)
		w.end()
		w.up()
	}()
	last := head + 1
	for e := range got {
		require.Equal(t, last+1, e.Seq)
		if last = e.Seq; e.Type == "NodeStarted" && e.Node != first {
			break
		}
	}
	<-again
	cancel()
	for range got {
		continue // to its end
	}
}

// Surfaces 5.5: what a node refuses ends a tail; so does the end of the caller's wish, with its reason.
func TestWhatEndsATail(t *testing.T) {
	w := start(t)
	c := w.client(client.Config{})
	var refused *client.Error
	for _, err := range c.Tail(t.Context(), client.TailOptions{Where: "nope:1"}) {
		require.ErrorAs(t, err, &refused)
		require.Equal(t, httpapi.CodeInvalidRequest, refused.Code)
	}
	for _, err := range c.Tail(t.Context(), client.TailOptions{After: 1_000_000}) {
		require.ErrorAs(t, err, &refused)
		require.Equal(t, client.CodeNotFound, refused.Code)
	}
	own := errors.New("its own reason")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(time.Millisecond, func() { cancel(own) })
	for _, err := range c.Tail(ctx, client.TailOptions{After: client.Newest, Where: "type:StoreRestored"}) {
		require.ErrorIs(t, err, own)
	}
}
