package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/towline-dev/towline/config"
	"github.com/towline-dev/towline/httpapi"
	"github.com/towline-dev/towline/metrics"
	"github.com/towline-dev/towline/node"
)

// overHTTP serves a node at the addresses of api.listen.
type overHTTP struct{}

// Open reads the tokens of the store, made if missing, and binds all addresses or none. Without an address nothing is served.
func (overHTTP) Open(ctx context.Context, n *node.Node, c *config.Config, o serving) (served, error) {
	addresses, err := c.Addresses()
	if err != nil {
		return nil, &configError{err}
	}
	if len(addresses) == 0 {
		return nothing{}, nil
	}
	tokens, err := httpapi.OpenTokens(c.Store.Path)
	if err != nil {
		return nil, err
	}
	counted, err := metrics.New(ctx, metrics.Config{Node: n, Store: c.Store.Path, Version: o.Version, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	h := &httpServed{}
	h.server, err = httpapi.New(httpapi.Config{
		Node: n, Tokens: tokens, Version: o.Version, Logger: o.Logger,
		MaxBody: int64(c.API.MaxBody), StallAfter: c.StallAfter, NoPages: !c.Console, Metrics: counted,
	})
	if err != nil {
		return nil, err
	}
	for _, at := range addresses {
		l, err := httpapi.Listen(ctx, at)
		if err != nil {
			return nil, errors.Join(err, h.close())
		}
		h.listeners = append(h.listeners, l)
	}
	return h, nil
}

// httpServed is an API with its listeners.
type httpServed struct {
	server    *httpapi.Server
	listeners []httpapi.Listener
}

// Addresses are what a browser opens first, then the sockets.
func (h *httpServed) Addresses() []string {
	var pages, sockets []string
	for _, l := range h.listeners {
		switch at := l.Addr().(type) {
		case *net.UnixAddr:
			sockets = append(sockets, "socket "+at.Name)
		default:
			pages = append(pages, fmt.Sprintf("http://%s/", at))
		}
	}
	return slices.Concat(pages, sockets)
}

func (h *httpServed) Serve(ctx context.Context) error { return h.server.Serve(ctx, h.listeners...) }

// Reloaded has nothing to do: what a reload changes of the API is among the knobs, which the engine has already.
func (h *httpServed) Reloaded(*config.Config) {}

// close releases what Open has taken, when it cannot take all.
func (h *httpServed) close() error {
	err := h.server.Close()
	for _, l := range h.listeners {
		err = errors.Join(err, l.Close())
	}
	return err
}

// reachedAt is the line of the banner about addresses; empty: there is none.
func reachedAt(addresses []string, console bool) string {
	if len(addresses) == 0 {
		return ""
	}
	word := "api      "
	if console {
		word = "console  "
	}
	return word + strings.Join(addresses, "      ")
}
