//go:build darwin || linux

package sqlbus_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/transport/sqlbus"
)

func publish(t testing.TB, b *sqlbus.Bus, ids ...string) {
	t.Helper()
	var ms []*message.Message
	for _, id := range ids {
		ms = append(ms, message.NewMessage(id, []byte(id)))
	}
	require.NoError(t, b.Publisher().Publish("topic", ms...))
}

// numbers are ids.
func numbers(n int) (ids []string) {
	for i := range n {
		ids = append(ids, strconv.Itoa(i))
	}
	return ids
}

func next(t testing.TB, in <-chan *message.Message, within time.Duration) *message.Message {
	t.Helper()
	select {
	case m, open := <-in:
		require.True(t, open, "the subscription has ended")
		return m
	case <-time.After(within):
		t.Fatal("no message came")
		return nil
	}
}

// empty reports that the file holds nothing any more: no message and no claim.
func empty(t testing.TB, path string) bool {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)")
	require.NoError(t, err)
	defer db.Close()
	var n int
	require.NoError(t, db.QueryRow(`SELECT (SELECT count(*) FROM messages) + (SELECT count(*) FROM claims)`).Scan(&n))
	return n == 0
}

// WMILL-4: a publisher that is killed in the middle of its batches has lost none that it was told of, and left no half of one.
func TestAKilledPublisherLeavesWholeBatches(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bus.db")
	for range 3 {
		p := start(t, "publish", path)
		accepted := 0
		for range 20 {
			accepted, _ = strconv.Atoi(p.line(t))
		}
		require.NoError(t, p.Process.Kill())
		for p.lines.Scan() {
			if n, err := strconv.Atoi(p.lines.Text()); err == nil {
				accepted = max(accepted, n)
			}
		}
		_ = p.Wait()
		parts := map[string]int{}
		for _, m := range stored(t, path, "topic") {
			batch, _, _ := strings.Cut(m.UUID, ".")
			require.Len(t, m.Payload, 2000)
			parts[batch]++
		}
		for n := range accepted + 1 {
			require.Positive(t, parts[strconv.Itoa(n)], "batch %d was accepted", n)
		}
		for batch, n := range parts {
			require.Zero(t, n%3, "of batch %s there are %d messages", batch, n)
		}
	}
}

// WMILL-4: what a killed consumer held is handed on behind its lease, and not before.
func TestAKilledConsumerIsFollowed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bus.db")
	b := open(t, path, childOptions())
	publish(t, b, "a")
	p := start(t, "hold", path)
	require.Equal(t, "a", p.line(t))
	in, err := b.Subscriber("group", 1).Subscribe(t.Context(), "topic")
	require.NoError(t, err)
	select {
	case <-in:
		t.Fatal("it came although its consumer lives")
	case <-time.After(2 * shortLease): // it is renewed
	}
	require.NoError(t, p.Process.Kill())
	killed := time.Now()
	m := next(t, in, 10*time.Second)
	require.Equal(t, "a", m.UUID)
	require.Less(t, time.Since(killed), shortLease+5*time.Second)
	m.Ack()
	require.Eventually(t, func() bool { return empty(t, path) }, 5*time.Second, 10*time.Millisecond)
}

// WMILL-4: a consumer that was stopped beyond its lease comes back as a zombie. Its late acknowledgement settles nothing of
// others: neither the message that another has, nor those behind it.
func TestALateAcknowledgementChangesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bus.db")
	b := open(t, path, childOptions())
	publish(t, b, "a", "b")
	p := start(t, "hold", path)
	require.Equal(t, "a", p.line(t))
	require.NoError(t, p.Process.Signal(syscall.SIGSTOP))
	in, err := b.Subscriber("group", 2).Subscribe(t.Context(), "topic")
	require.NoError(t, err)
	got := []*message.Message{next(t, in, 10*time.Second), next(t, in, 10*time.Second)}
	require.ElementsMatch(t, []string{"a", "b"}, []string{got[0].UUID, got[1].UUID})

	require.NoError(t, p.Process.Signal(syscall.SIGCONT))
	_, err = fmt.Fprintln(p.in)
	require.NoError(t, err)
	require.Equal(t, "acknowledged", p.line(t))
	require.NoError(t, p.in.Close())
	_ = p.Wait()
	groups, err := b.Groups(t.Context())
	require.NoError(t, err)
	require.Len(t, groups, 1)
	require.Equal(t, 2, groups[0].Claimed, "both are at this consumer still")

	got[0].Nack() // what the zombie has acknowledged comes again all the same
	again := next(t, in, 10*time.Second)
	require.Equal(t, got[0].UUID, again.UUID)
	again.Ack()
	got[1].Ack()
	require.Eventually(t, func() bool { return empty(t, path) }, 5*time.Second, 10*time.Millisecond)
}

// WMILL-4: consumers of one group in three processes share its work: each message goes to one of them, and all of them get
// some.
func TestConsumersShareTheWork(t *testing.T) {
	const messages, consumers = 3000, 3
	path := filepath.Join(t.TempDir(), "bus.db")
	b := open(t, path, quick())
	lines := make(chan string)
	for i := range consumers {
		p := start(t, "consume", path)
		require.Equal(t, "ready", p.line(t))
		go func() {
			for p.lines.Scan() {
				lines <- fmt.Sprintf("%d %s", i, p.lines.Text())
			}
		}()
	}
	for some := range slices.Chunk(numbers(messages), 50) {
		publish(t, b, some...)
	}
	shares, seen := map[string]int{}, map[string]bool{}
	limit := time.After(time.Minute)
	for len(seen) < messages {
		select {
		case l := <-lines:
			who, id, _ := strings.Cut(l, " ")
			require.False(t, seen[id], "message %s came twice", id)
			seen[id] = true
			shares[who]++
		case <-limit:
			t.Fatalf("%d of %d came", len(seen), messages)
		}
	}
	require.Len(t, shares, consumers, "each has done some: %v", shares)
	require.Eventually(t, func() bool { return empty(t, path) }, 10*time.Second, 20*time.Millisecond)
	t.Logf("shares: %v", shares)
}

// O-10: on a disk that is full a publish is refused, and counts no attempt. What was accepted is there, whole, and nothing
// else; when there is room again, consumers and publishers go on.
func TestAFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := mountSmall(dir); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { unmount(t, dir) })
	path, ballast := filepath.Join(dir, "bus.db"), filepath.Join(dir, "ballast")
	require.NoError(t, os.WriteFile(ballast, make([]byte, 9<<20), 0o600))
	b := open(t, path, quick())
	in, err := b.Subscriber("group", 1).Subscribe(t.Context(), "topic")
	require.NoError(t, err)
	p := start(t, "fill", path)
	words := strings.Fields(p.line(t))
	require.NoError(t, p.Wait())
	require.Equal(t, []string{"refused", "true", "false"}, words[1:])
	accepted, err := strconv.Atoi(words[0])
	require.NoError(t, err)
	require.Positive(t, accepted)
	require.NoError(t, os.Remove(ballast))
	seen := map[string]bool{}
	for len(seen) < accepted {
		m := next(t, in, 20*time.Second)
		require.Len(t, m.Payload, 200_000)
		seen[m.UUID] = true
		m.Ack()
	}
	for n := range accepted {
		require.True(t, seen[strconv.Itoa(n)])
	}
	require.Eventually(t, func() bool { return empty(t, path) }, 10*time.Second, 20*time.Millisecond)
	publish(t, b, "there is room again")
	require.Equal(t, "there is room again", next(t, in, 5*time.Second).UUID)
}

// DUR-3: a file that is deleted or replaced under its users is refused by them at once, before they say that anything is in
// it; their subscriptions end, and the next start has a bus again.
func TestAFileThatIsGone(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(path string) error
	}{
		{"deleted", os.Remove},
		{"replaced", func(path string) error { return os.Rename(path+".other", path) }},
		{"its WAL deleted", func(path string) error { return os.Remove(path + "-wal") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "bus.db")
			other, err := sqlbus.Open(t.Context(), path+".other", quick())
			require.NoError(t, err)
			require.NoError(t, other.Close())
			b := open(t, path, quick())
			publish(t, b, "a")
			in, err := b.Subscriber("group", 1).Subscribe(t.Context(), "topic")
			require.NoError(t, err)
			next(t, in, 5*time.Second).Ack()
			require.NoError(t, c.do(path))
			r := b.Send(t.Context(), "topic", message.NewMessage("b", nil))
			require.ErrorIs(t, r.Err, sqlbus.ErrMoved)
			require.True(t, r.Uncounted)
			require.ErrorIs(t, b.Send(t.Context(), "topic", message.NewMessage("c", nil)).Err, sqlbus.ErrMoved, "for good")
			select {
			case _, open := <-in:
				require.False(t, open)
			case <-time.After(10 * time.Second):
				t.Fatal("the subscription goes on")
			}
			require.NoError(t, b.Close())
			if c.name == "deleted" { // its WAL is left, with what was not copied back
				_, err := sqlbus.Open(t.Context(), path, quick())
				require.ErrorContains(t, err, "its WAL")
				require.NoError(t, os.Remove(path+"-wal"))
			}
			again := open(t, path, quick())
			publish(t, again, "d")
		})
	}
}
