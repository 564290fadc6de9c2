package sqlite

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/feed"
	"github.com/towline-dev/towline/store"
)

// archiveStreams seals streams as an engine does: the segment, and right behind it the event that says so.
func archiveStreams(s *Store, ids ...events.StreamID) (sealed store.Sealed, err error) {
	err = s.Write(context.Background(), func(t store.Tx) error {
		if sealed, err = t.(store.ArchiveTx).Archive(ids); err != nil || sealed.Name == "" {
			return err
		}
		node := events.NodeStream(events.NodeID{15: 9})
		v, err := t.Version(node)
		if err != nil {
			return err
		}
		envs, err := t.Append(node, v, events.Meta{}, events.RunsArchived{Segment: sealed.Name, Hash: sealed.Hash, Streams: []string{ids[0].String()}})
		if err == nil && envs[0].Position.String() != sealed.Name {
			err = fmt.Errorf("segment %s is told of at position %d", sealed.Name, envs[0].Position)
		}
		return err
	})
	return sealed, err
}

// growStreams appends events to a hundred streams in a drawn order, with every kind of text that an envelope can have.
func growStreams(t *testing.T, s *Store, d *rand.Rand, n int) {
	t.Helper()
	require.NoError(t, grown(s, d, n))
}

func grown(s *Store, d *rand.Rand, n int) error {
	for n > 0 {
		err := s.Write(context.Background(), func(tx store.Tx) error {
			for range 1 + d.IntN(20) {
				n--
				id := unit(byte(1 + d.IntN(100)))
				v, err := tx.Version(id)
				if err != nil {
					return err
				}
				head, _, err := tx.Head()
				if err != nil {
					return err
				}
				m := events.Meta{Command: "renew_lease"}
				if d.IntN(3) == 0 {
					m = events.Meta{Actor: "Zoë \"the\"\nfirst", Command: "x y", Cause: min(head, 1)}
				}
				if _, err := tx.Append(id, v, m, events.UnitLeaseRenewed{Attempt: n, Token: events.Token(fmt.Sprint("π\t", n))}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// everyRead asks a store all that can be asked of its log.
func everyRead(t *testing.T, s store.Store, d *rand.Rand, log []events.Envelope) {
	t.Helper()
	require.Equal(t, log, readAll(t, s))
	streams := map[events.StreamID][]events.Envelope{}
	for _, e := range log {
		streams[e.Stream] = append(streams[e.Stream], e)
	}
	read := func(ask func(r store.Reader) ([]events.Envelope, error)) (got []events.Envelope) {
		require.NoError(t, s.Read(context.Background(), func(r store.Reader) (err error) {
			got, err = ask(r)
			return err
		}))
		return got
	}
	for id, want := range streams {
		require.Equal(t, want, read(func(r store.Reader) ([]events.Envelope, error) { return r.Stream(id) }), "%s", id)
	}
	for range 50 {
		p, limit := d.IntN(len(log)+3), 1+d.IntN(1500)
		got := read(func(r store.Reader) ([]events.Envelope, error) { return r.After(events.Position(p), limit) })
		want := log[min(p, len(log)):min(p+limit, len(log))]
		require.Equal(t, len(want), len(got), "%d events behind %d", limit, p)
		if len(want) > 0 {
			require.Equal(t, want, got)
		}
	}
}

// L-1, SC-349: a log of which streams were sealed reads as it did before, whoever asks: by position, by stream, from within
// a transaction, behind a reopening, without a lock, in a copy. A sealed stream goes on at its next version, and may be sealed
// again.
func TestASealedStreamReadsAsBefore(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "towline.db")
	d := rand.New(rand.NewPCG(7, 7))
	s, err := Open(ctx, path, Options{})
	require.NoError(t, err)
	rounds := 4
	if testing.Short() {
		rounds = 2
	}
	for round := range rounds {
		growStreams(t, s, d, 1500)
		before := readAll(t, s)
		var ids []events.StreamID
		for i := range 100 {
			if d.IntN(3) > 0 {
				ids = append(ids, unit(byte(1+i)))
			}
		}
		sealed, err := archiveStreams(s, ids...)
		require.NoError(t, err)
		require.Positive(t, sealed.Events)
		require.Less(t, sealed.Bytes, sealed.Plain)
		log := readAll(t, s)
		require.Equal(t, before, log[:len(before)], "round %d", round)
		everyRead(t, s, d, log)
		require.NoError(t, s.Write(ctx, func(tx store.Tx) error {
			for _, id := range ids {
				history, err := tx.Stream(id)
				require.NoError(t, err)
				version, err := tx.Version(id)
				require.NoError(t, err)
				require.Len(t, history, int(version), "%s", id)
			}
			page, err := tx.After(10, 700)
			require.NoError(t, err)
			require.Equal(t, log[10:710], page)
			return nil
		}))
		err = s.Write(ctx, func(tx store.Tx) error {
			_, err := tx.Append(ids[0], 1, events.Meta{}, renewed(1))
			return err
		})
		var conflict *store.ConflictError
		require.ErrorAs(t, err, &conflict, "it is as far as it was")
		require.NoError(t, s.Close())
		s, err = Open(ctx, path, Options{})
		require.NoError(t, err)
		everyRead(t, s, d, log)
	}
	log := readAll(t, s)
	to := filepath.Join(filepath.Dir(path), "copy.db")
	_, err = Backup(ctx, path, to, BackupOptions{})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	for _, name := range []string{path, to} {
		r, err := OpenReadOnly(ctx, name)
		require.NoError(t, err)
		everyRead(t, r, d, log)
		require.NoError(t, r.Close())
	}
}

// L-1: only what a segment holds may leave the log, and a segment is never changed.
func TestTheLogLosesOnlyWhatIsSealed(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "towline.db"), Options{})
	growStreams(t, s, rand.New(rand.NewPCG(1, 1)), 300)
	_, err := archiveStreams(s, unit(1), unit(2))
	require.NoError(t, err)
	for _, q := range []string{
		`DELETE FROM events`,
		`DELETE FROM events WHERE position = 1 + (SELECT min(position) FROM events)`,
		`DELETE FROM segments`,
		`UPDATE segments SET data = x'00'`,
		`DELETE FROM archived_streams`,
		`UPDATE archived_streams SET version = 1000`,
		`DELETE FROM segment_pages`,
		`UPDATE segment_pages SET page = page + 1`,
	} {
		_, err := s.DB().Exec(q)
		require.Error(t, err, q)
	}
	err = s.Write(context.Background(), func(tx store.Tx) error { return tx.Exec(`INSERT INTO archived_streams VALUES (x'0201', 1, 1)`) })
	require.ErrorContains(t, err, "not the log")
}

// L-1, L-9: a transaction that fails behind its seal leaves every row in the log, and no segment; a stream to which the same
// commit has appended is not sealed with half of what it has.
func TestASealIsUndoneWithItsTransaction(t *testing.T) {
	ctx := context.Background()
	s := open(t, filepath.Join(t.TempDir(), "towline.db"), Options{})
	growStreams(t, s, rand.New(rand.NewPCG(2, 2)), 300)
	before := readAll(t, s)
	undo := fmt.Errorf("undo")
	err := s.Write(ctx, func(tx store.Tx) error {
		_, err := tx.(store.ArchiveTx).Archive([]events.StreamID{unit(1), unit(2)})
		require.NoError(t, err)
		return undo
	})
	require.ErrorIs(t, err, undo)
	require.Equal(t, before, readAll(t, s))
	err = s.Write(ctx, func(tx store.Tx) error {
		v, err := tx.Version(unit(1))
		require.NoError(t, err)
		_, err = tx.Append(unit(1), v, events.Meta{}, renewed(1))
		require.NoError(t, err)
		_, err = tx.(store.ArchiveTx).Archive([]events.StreamID{unit(1)})
		return err
	})
	var conflict *store.ConflictError
	require.ErrorAs(t, err, &conflict)
	require.Equal(t, before, readAll(t, s))
	sealed, err := archiveStreams(s, unit(200))
	require.NoError(t, err)
	require.Zero(t, sealed, "a stream without a row is no segment")
	require.Equal(t, before, readAll(t, s))
}

// L-1: whatever is changed in a segment, whoever reads it gets an error that names it, and no wrong event.
func TestADamagedSegmentIsNamed(t *testing.T) {
	for name, damage := range map[string]string{
		"a byte of it":                         `UPDATE segments SET data = cast(substr(data, 1, 40) || CASE substr(data, 41, 1) WHEN x'00' THEN x'01' ELSE x'00' END || substr(data, 42) AS BLOB)`,
		"its end":                              `UPDATE segments SET data = substr(data, 1, length(data) - 1)`,
		"all of it":                            `UPDATE segments SET data = x''`,
		"its hash":                             `UPDATE segments SET hash = zeroblob(32)`,
		"it is that of another":                `UPDATE segments SET data = (SELECT data FROM segments AS o WHERE o.id <> segments.id)`,
		"it is gone":                           `DELETE FROM segments`,
		"all of it, with the hash that it has": `UPDATE segments SET (data, hash) = (SELECT data, hash FROM segments AS o WHERE o.id <> segments.id)`,
	} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			path := filepath.Join(t.TempDir(), "towline.db")
			s, err := Open(ctx, path, Options{})
			require.NoError(t, err)
			growStreams(t, s, rand.New(rand.NewPCG(3, 3)), 300)
			sealed, err := archiveStreams(s, unit(1), unit(2))
			require.NoError(t, err)
			_, err = archiveStreams(s, unit(3), unit(4))
			require.NoError(t, err)
			require.NoError(t, s.Close())
			makeDB(t, path, `PRAGMA foreign_keys = off`, `DROP TRIGGER segments_no_update`, `DROP TRIGGER segments_no_delete`, damage)
			again := open(t, path, Options{})
			require.NoError(t, again.Read(ctx, func(r store.Reader) error {
				_, err := r.Stream(unit(1))
				require.ErrorIs(t, err, errSegment)
				require.ErrorContains(t, err, "segment "+sealed.Name+":")
				for _, err = range r.Log(ctx, 0) {
					if err != nil {
						break
					}
				}
				require.ErrorIs(t, err, errSegment)
				_, err = r.Stream(unit(5))
				require.NoError(t, err, "the rest can be read")
				return nil
			}))
		})
	}
}

// DUR-7: a store of an older level has no segments until it is upgraded, for the release that it may go back to would read a
// log with gaps. Once upgraded, that release refuses it.
func TestAnOlderLevelIsNotArchived(t *testing.T) {
	path := filepath.Join(t.TempDir(), "towline.db")
	as(t, levels{1, 1}, func() { storeOf(t, path, 3) })
	s, err := Open(context.Background(), path, Options{})
	require.NoError(t, err)
	require.ErrorIs(t, s.CanArchive(), store.ErrFormat)
	require.ErrorContains(t, s.CanArchive(), "store upgrade")
	_, err = archiveStreams(s, unit(1))
	require.ErrorIs(t, err, store.ErrFormat)
	require.NoError(t, s.Close())
	_, err = Upgrade(context.Background(), path)
	require.NoError(t, err)
	s, err = Open(context.Background(), path, Options{})
	require.NoError(t, err)
	require.NoError(t, s.CanArchive())
	_, err = archiveStreams(s, unit(1))
	require.NoError(t, err)
	require.NoError(t, s.Close())
	as(t, levels{1, 1}, func() {
		_, err := Open(context.Background(), path, Options{})
		require.ErrorIs(t, err, store.ErrFormat)
	})
}

// L-1: what a feed group has not seen yet comes to it from the segments, in order, also where it has chosen types.
func TestTheFeedReadsSegments(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "towline.db"), Options{})
	growStreams(t, s, rand.New(rand.NewPCG(4, 4)), 500)
	var ids []events.StreamID
	for i := range 80 {
		ids = append(ids, unit(byte(1+i)))
	}
	_, err := archiveStreams(s, ids...)
	require.NoError(t, err)
	var want []int
	for _, e := range readAll(t, s) {
		want = append(want, int(e.Position))
	}
	c := subscribe(t, s, "all", feed.Options{})
	require.Equal(t, want, c.take(len(want)))
}

// archiveForEver grows a log and seals streams of it.
func archiveForEver(path string) error {
	s, err := Open(context.Background(), path, Options{})
	if err != nil {
		return err
	}
	d := rand.New(rand.NewPCG(5, 5))
	for n := byte(1); ; n = n%100 + 1 {
		if err := grown(s, d, 100); err != nil {
			return err
		}
		sealed, err := archiveStreams(s, unit(n), unit(n%100+1), unit((n+50)%100+1))
		if err != nil {
			return err
		}
		fmt.Println("sealed", sealed.Name)
	}
}

// L-1, DUR-6: a seal for which the disk has no room undoes itself, says so, and succeeds when there is room.
func TestASealOnAFullDisk(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "towline.db"), Options{})
	growStreams(t, s, rand.New(rand.NewPCG(6, 6)), 3000)
	var ids []events.StreamID
	for i := range 100 {
		ids = append(ids, unit(byte(1+i)))
	}
	before := readAll(t, s)
	for pages := range 3 {
		fill(t, s, pages)
		_, err := archiveStreams(s, ids...)
		require.ErrorIs(t, err, store.ErrUnavailable)
		require.Equal(t, before, readAll(t, s))
	}
	sealed, err := archiveStreams(s, ids...)
	require.NoError(t, err)
	require.Equal(t, len(before), sealed.Events)
	require.Equal(t, before, readAll(t, s)[:len(before)])
}

// L-1: a process that is killed while it seals leaves a log without a gap: a stream is in it whole, or in a segment whole.
func TestAKillWhileItSeals(t *testing.T) {
	path := filepath.Join(t.TempDir(), "towline.db")
	for range 5 {
		c := start(t, "archive", path)
		for range 3 {
			require.Regexp(t, `^sealed \d+$`, c.line(t))
		}
		c.kill(t)
		require.Error(t, c.cmd.Wait())
		s, err := Open(context.Background(), path, Options{})
		require.NoError(t, err)
		log := readAll(t, s)
		var live, archived int
		require.NoError(t, s.DB().QueryRow(`SELECT (SELECT count(*) FROM events), (SELECT sum(events) FROM segments)`).Scan(&live, &archived))
		require.Equal(t, len(log), live+archived)
		require.NoError(t, s.Close())
	}
}

// HC-54: what an archive leaves free is given back when somebody asks for it, and the log is what it was.
func TestAStoreIsMadeSmall(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "towline.db")
	s, err := Open(ctx, path, Options{})
	require.NoError(t, err)
	growStreams(t, s, rand.New(rand.NewPCG(8, 8)), 6000)
	var ids []events.StreamID
	for i := range 100 {
		ids = append(ids, unit(byte(1+i)))
	}
	_, err = archiveStreams(s, ids...)
	require.NoError(t, err)
	log := readAll(t, s)
	require.ErrorIs(t, Compact(ctx, path, Options{}), store.ErrLocked)
	require.NoError(t, s.Close())
	before, err := Look(ctx, path)
	require.NoError(t, err)
	require.Greater(t, before.Free, before.Bytes/2)
	require.NoError(t, Compact(ctx, path, Options{}))
	after, err := Look(ctx, path)
	require.NoError(t, err)
	require.Zero(t, after.Free)
	require.Less(t, after.Bytes, before.Bytes/2)
	require.Equal(t, before.Level, after.Level)
	require.Equal(t, log, logOf(t, path))
}
