package docs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/sink/sqlite"
	"github.com/towline-dev/towline/transport"
	"github.com/towline-dev/towline/transport/local"
)

// HU-5, I-26: a copy of an open store is a store. Beside a sink that has gone on without it its attempts are refused
// and go on behind it, until its log has caught up or they are given up; what was open in it goes on, and its post_sync
// comes a second time.
func TestAnOldCopyOfTheStore(t *testing.T) {
	dir := t.TempDir()
	dest := destination(t, filepath.Join(dir, "readings.db"))
	s := readings(dest, writes)
	s.PostSync.Targets = []towline.Target{{Name: "ledger", SQL: `
		CREATE TABLE IF NOT EXISTS ledger (generation TEXT);
		INSERT INTO ledger VALUES (:generation)`}}
	original, old := filepath.Join(dir, "towline.db"), filepath.Join(dir, "old.db")

	bus := local.New(local.Options{})
	mute := moody{bus, "mute", func(transport.Notice) transport.Receipt { return transport.Refused(errMood) }}
	soon := towline.Knobs{BackoffBase: time.Millisecond, BackoffCap: time.Millisecond, MaxAttempts: 1_000_000}
	n := open(t, node.Config{
		Store: original, Syncs: []node.Sync{s}, Knobs: soon, Bus: bus,
		Routes: map[events.Kind]transport.Publisher{events.KindFinalize: mute},
	})
	p := plan(t, n, towline.RunSpec{Sync: "readings"})
	while(t, n, func() {
		until(t, original, `SELECT 1 FROM outbox_view WHERE kind = 'finalize_sync_run' AND last_cause = 'refused'`)
		execute(t, original, "VACUUM INTO '"+old+"'")
	})
	n = open(t, node.Config{Store: original, Syncs: []node.Sync{s}, Knobs: soon})
	while(t, n, func() {
		_, err := n.Engine().Wait(t.Context(), p.Run)
		require.NoError(t, err)
		for range 15 {
			require.Equal(t, events.RunSucceeded, ended(t, n, towline.RunSpec{Sync: "readings", Mode: towline.FullResync}).Status)
		}
	})

	n = open(t, node.Config{Store: old, Syncs: []node.Sync{s}, Knobs: soon})
	while(t, n, func() {
		require.NoError(t, prove(t.Context(), n))
		_, err := n.Engine().Wait(t.Context(), p.Run)
		require.NoError(t, err)
		require.Equal(t, events.RunFailed, ended(t, n, towline.RunSpec{Sync: "readings", Mode: towline.FullResync}).Status)
	})
	for _, row := range query(t, old, `SELECT attempt, error_category, error_text FROM units_view WHERE status = 'failed'`) {
		require.Equal(t, []string{"10", "provider_error"}, row[:2])
		require.Contains(t, row[2], "handed back 10 times in a row")
	}
	require.Equal(t, [][]string{{"2"}}, query(t, dest.Path(), `SELECT count(*) FROM ledger WHERE generation = '`+p.Run.String()+`.1'`))
}

// HU-5: a new store beside a sink that another one has written is refused, until it is told to take over; then the other
// one is.
func TestANewStoreTakesOver(t *testing.T) {
	dir := t.TempDir()
	sunk := filepath.Join(dir, "readings.db")
	run := func(store string, opts ...sqlite.Option) events.RunStatus {
		n := open(t, node.Config{
			Store: filepath.Join(dir, store), Syncs: []node.Sync{readings(destination(t, sunk, opts...), writes)},
		})
		var status events.RunStatus
		while(t, n, func() {
			status = ended(t, n, towline.RunSpec{Sync: "readings", Mode: towline.FullResync}).Status
		})
		return status
	}
	require.Equal(t, events.RunSucceeded, run("old.db"))
	require.Equal(t, events.RunFailed, run("new.db"))
	for _, row := range query(t, filepath.Join(dir, "new.db"), `SELECT error_category, error_text FROM units_view`) {
		require.Equal(t, "configuration", row[0])
		require.Contains(t, row[1], "another Towline store has written")
		require.Contains(t, row[1], "sqlite.TakeOver()")
	}
	require.Equal(t, events.RunSucceeded, run("new.db", sqlite.TakeOver()))
	require.Equal(t, events.RunSucceeded, run("new.db", sqlite.TakeOver()), "it may stay set")
	require.Equal(t, events.RunSucceeded, run("new.db"))
	require.Equal(t, events.RunFailed, run("old.db"))
}

// DUR-7: a store of a higher level is refused, in the words of the document.
func TestANewerStoreIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "towline.db")
	n := open(t, node.Config{Store: path})
	require.NoError(t, n.Close())
	execute(t, path, "PRAGMA user_version = 3")
	_, err := node.Open(t.Context(), node.Config{Store: path})
	require.Error(t, err)
	text, readErr := os.ReadFile(operating)
	require.NoError(t, readErr)
	_, words, _ := strings.Cut(err.Error(), path+" ")
	require.Contains(t, string(text), "`"+words+"`")
}

// HC-24, DUR-4: how the files grow. Run it with -v for the figures.
func TestHowMuchRoomItNeeds(t *testing.T) {
	dir := t.TempDir()
	store := filepath.Join(dir, "towline.db")
	s := readings(destination(t, filepath.Join(dir, "readings.db")), writes)
	s.PostSync.Targets = []towline.Target{{Name: "after", SQL: "SELECT 1"}}
	n := open(t, node.Config{Store: store, Syncs: []node.Sync{s}})
	size := func() (bytes float64) {
		require.NoError(t, n.DB().QueryRow(`SELECT page_count * page_size FROM pragma_page_count, pragma_page_size`).Scan(&bytes))
		return bytes
	}
	units := 0
	january := towline.RunSpec{
		Sync: "readings", Mode: towline.Backfill, Since: time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC), Before: time.Date(2025, 2, 1, 0, 0, 0, 0, time.UTC),
	}
	while(t, n, func() {
		before := size()
		for range 6 {
			units += ended(t, n, january).Total
		}
		perUnit := (size() - before) / float64(units) / 1024
		t.Logf("%d units, %.2f KiB each", units, perUnit)
		require.InDelta(t, 1.5, perUnit, 0.35)

		began := time.Now()
		require.NoError(t, prove(t.Context(), n))
		t.Logf("verify took %s", time.Since(began))
	})

	var pages int
	n = open(t, node.Config{Store: store})
	require.NoError(t, n.DB().QueryRow(`PRAGMA wal_autocheckpoint`).Scan(&pages))
	require.Equal(t, 32, pages*4096/1_000_000, "MB of the store's WAL")
	source, err := os.ReadFile("../sink/sqlite/destination.go")
	require.NoError(t, err)
	m := regexp.MustCompile(`wal_autocheckpoint\((\d+)\)`).FindSubmatch(source)
	require.Len(t, m, 2)
	_, err = fmt.Sscan(string(m[1]), &pages)
	require.NoError(t, err)
	require.Equal(t, 16, pages*4096/1_000_000, "MB of the sink's")
}
