package crash

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/store"
	"github.com/towline-dev/towline/store/sqlite"
)

// looks are the files of a folder, with what is in them.
func looks(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		out[e.Name()] = fmt.Sprintf("%x", sha256.Sum256(data))
	}
	return out
}

func copyTo(t *testing.T, to, from string) {
	t.Helper()
	r, err := os.Open(from)
	require.NoError(t, err)
	defer r.Close()
	w, err := os.Create(to)
	require.NoError(t, err)
	_, err = io.Copy(w, r)
	require.NoError(t, err)
	require.NoError(t, w.Close())
}

// DUR-4: the store that is looked at is only read. Nothing of it changes and nothing appears beside it, also while a process
// has it open, and what a killed process has left beside it counts.
func TestTheStoreIsOnlyRead(t *testing.T) {
	ctx := context.Background()
	path := newspaper{plain: true}.print(t)
	closed, err := readLog(ctx, path, t.TempDir())
	require.NoError(t, err)

	before := looks(t, filepath.Dir(path))
	again, err := readLog(ctx, path, t.TempDir())
	require.NoError(t, err)
	require.Equal(t, closed, again)
	require.Equal(t, before, looks(t, filepath.Dir(path)))

	s, err := sqlite.Open(ctx, path, sqlite.Options{Synchronous: "normal", Inline: true})
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, s.Write(ctx, func(tx store.Tx) error {
		_, err := tx.Append(events.SourceControlStream("north"), 0, events.Meta{}, events.SourcePaused{Actor: "ada", Reason: "maintenance"})
		return err
	}))
	open, err := readLog(ctx, path, t.TempDir())
	require.NoError(t, err)
	require.Len(t, open, len(closed)+1, "a commit that is in the WAL counts")
	require.NoError(t, s.Write(ctx, func(tx store.Tx) error {
		_, err := tx.Append(events.SourceControlStream("north"), 1, events.Meta{}, events.SourceResumed{Actor: "ada", Reason: "over"})
		return err
	}), "the process that has it open goes on")

	killed := filepath.Join(t.TempDir(), "killed.db")
	copyTo(t, killed, path)
	copyTo(t, killed+"-wal", path+"-wal")
	before = looks(t, filepath.Dir(killed))
	left, err := readLog(ctx, killed, t.TempDir())
	require.NoError(t, err)
	require.Len(t, left, len(closed)+2)
	after := looks(t, filepath.Dir(killed))
	delete(after, filepath.Base(killed)+"-shm") // holds nothing, and is made anew by whoever opens the file
	require.Equal(t, before, after)
}

// L-8, AS-1: the store that grows by the transactions of a log holds the same log, and the same views.
func TestAGrownStoreIsTheStore(t *testing.T) {
	ctx := context.Background()
	path := newspaper{kills: []int{40}}.print(t)
	log, err := readLog(ctx, path, t.TempDir())
	require.NoError(t, err)
	grown := filepath.Join(t.TempDir(), "grown.db")
	g, err := newGrower(ctx, grown)
	require.NoError(t, err)
	defer g.close()
	for _, b := range boundariesOf(log) {
		require.NoError(t, g.add(ctx, b.tx))
	}
	copied := filepath.Join(t.TempDir(), "copied.db")
	require.NoError(t, g.copyTo(ctx, copied))

	require.Equal(t, views(t, path), views(t, copied))
	same, err := readLog(ctx, copied, t.TempDir())
	require.NoError(t, err)
	require.Equal(t, log, same)
}

func views(t *testing.T, path string) map[string]projections.Page {
	t.Helper()
	ctx := context.Background()
	s, err := sqlite.Open(ctx, path, sqlite.Options{Synchronous: "normal", Inline: true})
	require.NoError(t, err)
	defer s.Close()
	out := map[string]projections.Page{}
	require.NoError(t, s.Read(ctx, func(r store.Reader) error {
		for _, table := range projections.Tables() {
			page, err := projections.ReadPage(r, table, nil, math.MaxInt32)
			if err != nil {
				return err
			}
			out[table.Name] = page
		}
		return nil
	}))
	return out
}

func TestWhatIsNoStore(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "notes.txt")
	require.NoError(t, os.WriteFile(text, []byte("this is no database, and it is long enough to have a header of one hundred bytes, or so it seems to me"), 0o644))
	for path, says := range map[string]string{
		filepath.Join(dir, "missing.db"): "no such file",
		dir:                              "is a folder",
		text:                             "not a database",
	} {
		_, err := MakeMatrix(context.Background(), Options{Store: path})
		require.ErrorContains(t, err, says)
	}
	require.Len(t, looks(t, dir), 1, "nothing is made beside it")
}

// DUR-4: a store that is opened while it is read is read again, from the beginning.
func TestAStoreThatIsOpenedMeanwhile(t *testing.T) {
	ctx := context.Background()
	path := newspaper{plain: true}.print(t)
	want, err := readLog(ctx, path, t.TempDir())
	require.NoError(t, err)
	scratch := filepath.Join(t.TempDir(), "source.db")
	var looked []bool
	require.NoError(t, undisturbed(path, func(closed bool) error {
		if err := copyLog(ctx, path, scratch, closed, MaxEvents); err != nil {
			return err
		}
		if looked = append(looked, closed); len(looked) > 1 {
			return nil
		}
		s, err := openScratch(ctx, path)
		if err != nil {
			return err
		}
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		return s.Write(ctx, func(tx store.Tx) error {
			_, err := tx.Append(events.SourceControlStream("north"), 0, events.Meta{}, events.SourcePaused{Actor: "ada"})
			return err
		})
	}))
	require.Equal(t, []bool{true, false}, looked)
	got, err := readLog(ctx, scratch, t.TempDir())
	require.NoError(t, err)
	require.Len(t, got, len(want)+1)

	tries := 0
	err = undisturbed(scratch, func(bool) error {
		tries++
		at := time.Unix(int64(tries), 0)
		return os.Chtimes(scratch, at, at)
	})
	require.ErrorContains(t, err, "it is being opened and closed all the time")
	require.Equal(t, 3, tries)
}

// A log is held in memory, so a longer one is refused before it is.
func TestALogThatIsTooLong(t *testing.T) {
	ctx := context.Background()
	path := newspaper{plain: true}.print(t)
	log, err := readLog(ctx, path, t.TempDir())
	require.NoError(t, err)
	dir := t.TempDir()
	same, err := readAtMost(ctx, path, dir, len(log))
	require.NoError(t, err)
	require.Equal(t, log, same)
	_, err = readAtMost(ctx, path, dir, len(log)-1)
	require.ErrorContains(t, err, fmt.Sprintf("its log has more than %d events", len(log)-1))
	require.Empty(t, looks(t, dir), "what was copied is removed")
}
