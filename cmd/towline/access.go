package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/towline-dev/towline/client"
	"github.com/towline-dev/towline/httpapi"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/store"
)

// access is where a command finds what it asks. Every reading and acting command goes the same way: a client of the API, over
// a socket, over a network, or within this process to a file that is read.
type access struct {
	db        string // a file to read
	url       string // an engine
	tokenFile string
	atSeq     int64
	atTime    string
	flags     *pflag.FlagSet // of the command that was asked for the past; nil: it cannot be
}

// atSeqGiven tells a zero that somebody has written from none.
func (a *access) atSeqGiven() bool { return a.flags != nil && a.flags.Changed("at-seq") }

// accessFlags are those of commands that ask an engine or a file.
func (p *program) accessFlags(f *pflag.FlagSet) {
	p.urlFlags(f)
	f.StringVar(&p.access.db, "db", "", "read this `FILE` of a store or backup, with or without an engine on it; as $TOWLINE_DB")
	must(cobra.MarkFlagFilename(f, "db", "db"))
}

// urlFlags are those of commands that act, for which a file is not enough.
func (p *program) urlFlags(f *pflag.FlagSet) {
	f.StringVar(&p.access.url, "url", "", "ask the engine at this `URL`: http://HOST:PORT or unix:PATH; as $TOWLINE_URL")
	f.StringVar(&p.access.tokenFile, "token-file", "", "`FILE` with the token for --url; without it $TOWLINE_TOKEN")
}

// atFlags are those of reads that may be about the past.
func (p *program) atFlags(f *pflag.FlagSet) {
	f.Int64Var(&p.access.atSeq, "at-seq", 0, "as it was behind the event at this `N`")
	f.StringVar(&p.access.atTime, "at-time", "", "as it was at this `TIME`, as 2026-11-30T14:03:00Z or 14:03 of today")
}

// at is when the answer is to be of.
func (p *program) at(ctx context.Context, c *client.Client) (client.At, error) {
	switch {
	case p.access.atSeq != 0 && p.access.atTime != "":
		return 0, p.usage("--at-seq and --at-time both say when: give one of them")
	case p.access.atSeq < 0 || p.access.atSeq == 0 && p.access.atSeqGiven():
		return 0, p.usage("--at-seq %d: the log begins at 1", p.access.atSeq)
	case p.access.atTime == "":
		return client.At(p.access.atSeq), nil
	}
	t, err := parseTime(p.access.atTime, time.Now())
	if err != nil {
		return 0, p.usage("--at-time %s", err)
	}
	return c.PositionAt(ctx, t)
}

// momentOf is the moment of which an answer is, for what is counted up to it: now, or then.
func (p *program) momentOf(ctx context.Context, c *client.Client, at client.At) (time.Time, error) {
	now := time.Now()
	if at == client.Now {
		return now, nil
	}
	if p.access.atTime != "" {
		t, err := parseTime(p.access.atTime, now)
		if t.After(now) {
			t = now
		}
		return t, err
	}
	s, err := c.State(ctx, at)
	return s.Value.At, err
}

// usage is an error of the command line that is found behind its parsing.
func (p *program) usage(format string, args ...any) error {
	return &usageError{err: fmt.Errorf(format, args...), command: p.command}
}

// asking runs a command that reads: with the engine that answers, else with the file of its store.
func (p *program) asking(cmd *cobra.Command, fn func(context.Context, *client.Client) error) error {
	return p.with(cmd, true, fn)
}

// readsAt makes c a command that reads, and is asked about a moment: ask does it, with the arguments.
func (p *program) readsAt(c *cobra.Command, ask func(context.Context, *client.Client, client.At, []string) error) *cobra.Command {
	c.RunE = func(cmd *cobra.Command, args []string) error {
		return p.asking(cmd, func(ctx context.Context, c *client.Client) error {
			at, err := p.at(ctx, c)
			if err != nil {
				return err
			}
			return ask(ctx, c, at, args)
		})
	}
	p.accessFlags(c.Flags())
	p.atFlags(c.Flags())
	return c
}

// acting runs a command that changes something, for which it takes an engine.
func (p *program) acting(cmd *cobra.Command, fn func(context.Context, *client.Client) error) error {
	return p.with(cmd, false, fn)
}

func (p *program) with(cmd *cobra.Command, fileWillDo bool, fn func(context.Context, *client.Client) error) (err error) {
	p.command, p.access.flags = cmd.CommandPath(), cmd.Flags()
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	c, done, err := p.reach(ctx, fileWillDo)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	return fn(ctx, c)
}

// reach finds who is asked: --db, then --url, then the engine of the configuration, then the file of its store.
func (p *program) reach(ctx context.Context, fileWillDo bool) (*client.Client, func() error, error) {
	db, url := p.access.db, p.access.url
	if db != "" && url != "" {
		return nil, nil, p.usage("--db and --url both say whom to ask: give one of them")
	}
	if db == "" && url == "" {
		db, url = os.Getenv("TOWLINE_DB"), os.Getenv("TOWLINE_URL")
	}
	switch {
	case db != "" && fileWillDo:
		return p.inFile(ctx, db)
	case url != "":
		token, err := p.token()
		if err != nil {
			return nil, nil, err
		}
		return p.over(url, token)
	}
	c, err := p.load(false)
	if err != nil {
		return nil, nil, err
	}
	addresses, err := c.Addresses()
	if err != nil {
		return nil, nil, &configError{err}
	}
	slices.SortStableFunc(addresses, func(a, b string) int { return cmp.Compare(schemeOf(b), schemeOf(a)) }) // sockets first
	for _, at := range addresses {
		if answers(ctx, at) {
			return p.over(urlOf(at), "")
		}
	}
	nobody := fmt.Sprintf("no engine answers at %s", orNone(strings.Join(addresses, ", ")))
	if !fileWillDo {
		return nil, nil, fmt.Errorf("%w: %s: start it with towline up, or name it with --url", client.ErrUnreachable, nobody)
	}
	if _, err := os.Stat(c.Store.Path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("%w: %s, and there is no store %s: start it with towline up, or name a file with --db", client.ErrUnreachable, nobody, c.Store.Path)
	}
	fmt.Fprintf(p.stderr, "towline: %s: reading %s\n", nobody, c.Store.Path)
	return p.inFile(ctx, c.Store.Path)
}

// over asks an engine.
func (p *program) over(address, token string) (*client.Client, func() error, error) {
	c, err := client.New(client.Config{Address: address, Token: token, Actor: actor()})
	if err != nil {
		return nil, nil, p.usage("--url: %w", err)
	}
	return c, func() error { c.Close(); return nil }, nil
}

// inFile answers from a file, in this process and by the same API.
func (p *program) inFile(ctx context.Context, path string) (*client.Client, func() error, error) {
	r, err := p.reader(ctx, path)
	if err != nil {
		return nil, nil, err
	}
	s, err := httpapi.New(httpapi.Config{Node: r, Version: thisBuild().Version, Logger: p.quietLogger()})
	if err != nil {
		return nil, nil, errors.Join(err, r.Close())
	}
	c, err := client.New(client.Config{Address: "http://" + inFileHost, Transport: s.Inside(), Actor: actor()})
	if err != nil {
		return nil, nil, errors.Join(err, s.Close(), r.Close())
	}
	return c, func() error { return errors.Join(s.Close(), r.Close()) }, nil
}

// inFileHost stands in addresses of what is answered in this process.
const inFileHost = "localhost"

// reader opens a store to read it, whoever has it open.
func (p *program) reader(ctx context.Context, path string) (*node.Reader, error) {
	r, err := node.OpenReader(ctx, node.ReaderConfig{Store: path, Version: thisBuild().Version, Logger: p.quietLogger()})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: there is no file %s", store.ErrUnavailable, path)
	}
	return r, err
}

// token is what --url is asked with; empty: none.
func (p *program) token() (string, error) {
	if p.access.tokenFile == "" {
		return os.Getenv("TOWLINE_TOKEN"), nil
	}
	b, err := os.ReadFile(p.access.tokenFile)
	if err != nil {
		return "", p.usage("--token-file: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

const dialTime = 2 * time.Second

// answers reports that somebody listens at an address.
func answers(ctx context.Context, address string) bool {
	network, at := "tcp", address
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		network, at = "unix", path
	}
	d := net.Dialer{Timeout: dialTime}
	c, err := d.DialContext(ctx, network, at)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// urlOf is an address of api.listen as a client is given it.
func urlOf(address string) string {
	if schemeOf(address) == "" {
		return "http://" + address
	}
	return address
}

// schemeOf is unix: of a socket, and empty of host:port.
func schemeOf(address string) string {
	if strings.HasPrefix(address, "unix:") {
		return "unix:"
	}
	return ""
}
