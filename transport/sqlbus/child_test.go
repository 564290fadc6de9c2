package sqlbus_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/transport/sqlbus"
)

// The test binary plays other processes of a bus: it starts itself with a role.
const roleVariable = "SQLBUS_TEST_ROLE"

const shortLease = 600 * time.Millisecond

func childOptions() sqlbus.Options {
	o := quick()
	o.Lease = shortLease
	return o
}

var roles = map[string]func(*sqlbus.Bus) error{
	// publish publishes batches of three for ever, and prints the number of each that was accepted.
	"publish": func(b *sqlbus.Bus) error {
		for n := 0; ; n++ {
			var batch []*message.Message
			for part := range 3 {
				batch = append(batch, message.NewMessage(fmt.Sprintf("%d.%d", n, part), []byte(strings.Repeat("x", 2000))))
			}
			if err := b.Publisher().Publish("topic", batch...); err != nil {
				return err
			}
			fmt.Println(n)
		}
	},
	// consume acknowledges all, and prints each id first.
	"consume": func(b *sqlbus.Bus) error {
		in, err := b.Subscriber("group", 4).Subscribe(context.Background(), "topic")
		if err != nil {
			return err
		}
		fmt.Println("ready")
		for m := range in {
			fmt.Println(m.UUID)
			m.Ack()
		}
		return nil
	},
	// hold takes one message, prints its id, and acknowledges it when it is told to; then it says whether the message's
	// context had ended before.
	"hold": func(b *sqlbus.Bus) error {
		in, err := b.Subscriber("group", 1).Subscribe(context.Background(), "topic")
		if err != nil {
			return err
		}
		m := <-in
		fmt.Println(m.UUID)
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		m.Ack()
		<-m.Context().Done()
		fmt.Println("acknowledged")
		_, _ = io.Copy(io.Discard, os.Stdin)
		return b.Close()
	},
	// fill publishes until it is refused, and says how many were accepted and what the last outcome was.
	"fill": fillDisk,
}

func fillDisk(b *sqlbus.Bus) error {
	accepted := 0
	payload := []byte(strings.Repeat("x", 200_000))
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		r := b.Send(ctx, "topic", message.NewMessage(fmt.Sprint(accepted), payload))
		cancel()
		if r.Outcome != events.Accepted {
			fmt.Println(accepted, r.Outcome, r.Uncounted, r.Permanent)
			break
		}
		accepted++
	}
	return nil
}

func child() bool {
	role, path, ok := strings.Cut(os.Getenv(roleVariable), " ")
	if !ok {
		return false
	}
	o := childOptions()
	o.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	b, err := sqlbus.Open(context.Background(), path, o)
	if err == nil {
		err = roles[role](b)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, role+":", err)
		os.Exit(1)
	}
	return true
}

type process struct {
	*exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
}

func start(t *testing.T, role, path string) *process {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	c := exec.Command(exe, "-test.run=^$")
	c.Env = append(os.Environ(), roleVariable+"="+role+" "+path)
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	require.NoError(t, err)
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	return &process{c, in, bufio.NewScanner(out)}
}

func (p *process) line(t *testing.T) string {
	t.Helper()
	require.True(t, p.lines.Scan(), "the process printed nothing more: %v", p.lines.Err())
	return p.lines.Text()
}
