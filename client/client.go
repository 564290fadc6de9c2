package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/towline-dev/towline/events"
)

// Config says which node is asked, and by whom.
type Config struct {
	// Address is unix:PATH, http://HOST:PORT or https://HOST:PORT, also with a path in front of /v1.
	Address string
	Token   string // empty: none, which a socket and loopback do without
	Actor   string // who acts, for the record; empty: the node names where the request came from
	// Transport sends the requests; nil: over the network to Address.
	Transport http.RoundTripper
}

// Client asks one node. It is safe for concurrent use.
type Client struct {
	c    Config
	base string
	http *http.Client
}

// ErrUnreachable: no node answers there, or its answer was cut off. Whether it has done what it was asked for is not known.
var ErrUnreachable = errors.New("the engine cannot be reached")

// New makes a client. It asks nothing yet. Errors: an address that is none.
func New(c Config) (*Client, error) {
	out := &Client{c: c}
	transport := c.Transport
	path, isUnix := strings.CutPrefix(c.Address, "unix:")
	switch {
	case isUnix && path == "":
		return nil, errors.New("address unix: without a path: write unix:PATH")
	case isUnix:
		out.base = "http://localhost"
		if transport == nil {
			transport = overSocket(path)
		}
	default:
		u, err := url.Parse(c.Address)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, fmt.Errorf("address %q: want http://HOST:PORT, https://HOST:PORT or unix:PATH", c.Address)
		}
		out.base = strings.TrimSuffix(u.String(), "/")
		if transport == nil {
			transport = http.DefaultTransport.(*http.Transport).Clone()
		}
	}
	out.http = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // a token is for the node that was named
	}}
	return out, nil
}

func overSocket(path string) http.RoundTripper {
	var d net.Dialer
	return &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return d.DialContext(ctx, "unix", path)
	}}
}

// Close ends connections that wait for the next request.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Address is the node that is asked.
func (c *Client) Address() string { return c.c.Address }

// At is a place in the log as of which is asked; the zero value, Now, is the present.
type At events.Position

// Now is the present.
const Now At = 0

func (a At) into(q url.Values) url.Values {
	if a != Now {
		q.Set("at_seq", strconv.FormatInt(int64(a), 10))
	}
	return q
}

// Answer is one answer, and the position of the newest event that it knows.
type Answer[T any] struct {
	Value T
	Seq   events.Position
}

// call is one request.
type call struct {
	method, path string
	query        url.Values
	body         any // nil: none
	header       http.Header
}

func get(path string, query url.Values) call {
	return call{method: http.MethodGet, path: path, query: query}
}

func post(path string, body any) call { return call{method: http.MethodPost, path: path, body: body} }

// under joins parts of a path, of which ids may hold anything.
func under(parts ...string) string {
	var out strings.Builder
	out.WriteString("/v1")
	for _, p := range parts {
		out.WriteString("/" + url.PathEscape(p))
	}
	return out.String()
}

// ask sends a call and reads its answer.
func ask[T any](ctx context.Context, c *Client, of call) (Answer[T], error) {
	out, _, err := askWhole[T](ctx, c, of)
	return out, err
}

// askWhole is ask for whoever needs the header of the answer.
func askWhole[T any](ctx context.Context, c *Client, of call) (out Answer[T], header http.Header, err error) {
	if header, err = c.read(ctx, of, &out.Value); err != nil {
		return out, nil, err
	}
	out.Seq = seqOf(header)
	return out, header, nil
}

// read decodes an answer that is no problem, and returns its header. One without content leaves into as it is.
func (c *Client) read(ctx context.Context, of call, into any) (http.Header, error) {
	frame, err := c.send(ctx, of)
	if err != nil {
		return nil, err
	}
	defer frame.Body.Close()
	body, err := io.ReadAll(frame.Body)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if frame.StatusCode == http.StatusNoContent {
		return frame.Header, nil
	}
	if err := json.Unmarshal(body, into); err != nil {
		return nil, fmt.Errorf("the answer of %s to %s %s is not understood: %w", c.c.Address, of.method, of.path, err)
	}
	return frame.Header, nil
}

func seqOf(header http.Header) events.Position {
	n, err := strconv.ParseInt(header.Get("Towline-Seq"), 10, 64)
	if err != nil {
		return 0 // an answer that says nothing of it
	}
	return events.Position(n)
}

// send returns an answer that is no problem. Whoever gets it closes its body.
func (c *Client) send(ctx context.Context, of call) (*http.Response, error) {
	frame, err := c.frame(ctx, of)
	if err != nil {
		return nil, err
	}
	if frame.StatusCode >= http.StatusMultipleChoices {
		defer frame.Body.Close()
		return nil, c.problemOf(frame)
	}
	return frame, nil
}

// frame returns an answer, whatever it says. Whoever gets it closes its body.
func (c *Client) frame(ctx context.Context, of call) (*http.Response, error) {
	for _, part := range strings.Split(of.path, "/") {
		if part == "." || part == ".." {
			return nil, &Error{Status: http.StatusBadRequest, Code: CodeBadRequest, Title: "no name", Detail: fmt.Sprintf("%q is no name of anything", part)}
		}
	}
	var body io.Reader
	if of.body != nil {
		b, err := json.Marshal(of.body)
		if err != nil {
			return nil, fmt.Errorf("write the request: %w", err)
		}
		body = bytes.NewReader(b)
	}
	at := c.base + of.path
	if len(of.query) > 0 {
		at += "?" + of.query.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, of.method, at, body)
	if err != nil {
		return nil, fmt.Errorf("write the request: %w", err)
	}
	for name, values := range of.header {
		r.Header[name] = values
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.c.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.c.Token)
	}
	if c.c.Actor != "" {
		r.Header.Set("Towline-Actor", c.c.Actor)
	}
	frame, err := c.http.Do(r)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	return frame, nil
}

// unreachable is why no answer came: the caller's own wish, or the node.
func (c *Client) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var u *url.Error // it names the whole URL, of which the address says enough
	if errors.As(err, &u) {
		err = u.Err
	}
	return fmt.Errorf("%w at %s: %w", ErrUnreachable, c.c.Address, err)
}
