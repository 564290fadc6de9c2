package towline_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/store"
)

const month = 30 * 24 * time.Hour

// archived archives all that is old enough.
func (w *workshop) archived(age time.Duration) (all towline.Archived) {
	w.t.Helper()
	for {
		a, err := w.e.ArchiveRuns(context.Background(), age)
		require.NoError(w.t, err)
		if all.Add(a); !a.More {
			return all
		}
		require.Positive(w.t, a.Segments, "it goes on for ever")
	}
}

// rows are all rows of all views, but for where a run was archived.
func (w *workshop) rows() (out []string) {
	w.t.Helper()
	require.NoError(w.t, w.file.Read(context.Background(), func(r store.Reader) error {
		for _, t := range projections.Tables() {
			var columns []string
			require.NoError(w.t, r.Query(func(row store.Row) error {
				var name string
				err := row.Scan(&name)
				columns = append(columns, name)
				return err
			}, `SELECT name FROM pragma_table_info($1) WHERE name <> 'archived' ORDER BY cid`, t.Name))
			query := `SELECT ''`
			for _, c := range columns {
				query += fmt.Sprintf(` || '%s=' || quote("%s") || ' '`, c, c)
			}
			require.NoError(w.t, r.Query(func(row store.Row) error {
				var text string
				err := row.Scan(&text)
				out = append(out, t.Name+" "+text)
				return err
			}, query+` FROM "`+t.Name+`" ORDER BY `+t.Key))
		}
		return nil
	}))
	return out
}

// live counts the events of a run that are rows of the log.
func (w *workshop) live(run events.RunID) (n int) {
	w.t.Helper()
	var streams []events.StreamID
	w.view(func(v projections.View) {
		var err error
		streams, err = v.StreamsOf(run)
		require.NoError(w.t, err)
	})
	for _, id := range streams {
		if id.Family() == events.FamilyJob {
			continue
		}
		var of int
		require.NoError(w.t, w.file.DB().QueryRow(`SELECT count(*) FROM events WHERE stream = $1`, id.Key()).Scan(&of))
		n += of
	}
	return n
}

// L-1, I-26, SC-349, HC-54: runs in every final state leave the log when they are old enough, and nobody sees a difference: each
// row of each view, the log, the past and a rebuild are as before. A run that is open since the first day, one that a
// person has to look at, and young ones stay. The trap of others: a final state that retention forgets never ages out.
func TestFinishedRunsAreArchived(t *testing.T) {
	w := capped(t, towline.Knobs{}, "north", "south", "east", "west", "open", "held")
	open := w.started(days("open", 2))
	finish := func(spec towline.RunSpec, work func(towline.Lease)) events.RunID {
		p := w.started(spec)
		w.deliver(work)
		return p.Run
	}
	w.broker.take()
	w.claim(w.unit(open.Run, 1).Unit) // its lease ends, and it fails; the other unit stays open
	n := 0
	done := []events.RunID{
		finish(days("north", 7), w.complete),
		finish(days("south", 3), func(l towline.Lease) { w.fail(l, events.ProviderError) }),
		finish(days("east", 4), func(l towline.Lease) {
			if n++; n%2 == 0 {
				w.complete(l)
			} else {
				w.fail(l, events.ProviderError)
			}
		}),
	}
	cancelled := w.plan(days("west", 5))
	w.cancelRun(cancelled.Run)
	w.deliver(w.complete)
	done = append(done, cancelled.Run)
	want := []events.RunStatus{events.RunSucceeded, events.RunFailed, events.RunPartialFailed, events.RunIsCancelled}
	for i, run := range done {
		require.Equal(t, want[i], w.run(run).Status)
	}
	held := w.plan(days("held", 1))
	w.must(w.e.Park(context.Background(), towline.RegisterKey{Owner: held.Run, Kind: events.KindDispatch}, ada))
	w.cancelRun(held.Run)
	w.advance(month)
	young := w.plan(days("north", 1))
	w.cancelRun(young.Run)

	before, log := w.rows(), w.since(0)
	require.Zero(t, w.archived(2*month))
	got := w.archived(month)
	require.Equal(t, len(done), got.Runs)
	require.Positive(t, got.Bytes)
	for _, run := range done {
		require.Zero(t, w.live(run))
	}
	for _, run := range []events.RunID{open.Run, young.Run} {
		require.Positive(t, w.live(run))
	}
	require.Equal(t, rowsBut(before, "nodes"), rowsBut(w.rows(), "nodes"))
	require.Equal(t, log, w.since(0)[:len(log)])
	require.Zero(t, w.archived(month), "once is enough")
	w.verify()
	require.NoError(t, w.e.Rebuild(context.Background()))
	require.Equal(t, rowsBut(before, "nodes"), rowsBut(w.rows(), "nodes"))
	w.restart()
	w.verify()
	then := w.asOf(log[len(log)/2].Position)
	require.NoError(t, then.View(context.Background(), func(v projections.View) error {
		_, err := v.CountUnits(0)
		return err
	}))
}

func rowsBut(rows []string, table string) (out []string) {
	for _, r := range rows {
		if len(r) < len(table) || r[:len(table)] != table {
			out = append(out, r)
		}
	}
	return out
}

// L-1, U-19: a worker that comes back after its run was archived is told what it would have been told, and what it brings is on
// record behind what is sealed.
func TestAnArchivedStreamGoesOn(t *testing.T) {
	w := newWorkshop(t, single("north"))
	p := w.started(towline.RunSpec{Sync: "north"})
	l := w.claim(w.unit(p.Run, 1).Unit)
	w.advance(time.Minute)
	w.pass()
	w.deliver(nil)
	w.advance(month)
	require.Equal(t, 1, w.archived(month).Runs)
	w.restart()
	before := w.head()
	require.ErrorIs(t, w.e.Complete(context.Background(), l, events.Result{}), towline.ErrLeaseLost)
	require.Equal(t, []string{"UnitLateResult"}, enginetest.Types(w.since(before)))
	w.verify()
	require.NoError(t, w.e.Rebuild(context.Background()))
	require.Equal(t, 1, w.unit(p.Run, 1).LateResults)
	require.Zero(t, w.archived(month), "what came late stays in the log")
}

// L-1, L-2: a run that is larger than a segment goes in several, each a transaction of its own. Whichever of them is the last
// that reaches the disk, the log is whole, and the next call takes the rest.
func TestALargeRunIsArchivedInParts(t *testing.T) {
	for dies := range 4 {
		t.Run(fmt.Sprint(dies), func(t *testing.T) {
			w := capped(t, towline.Knobs{CapRun: 400, CapBucket: 400, CapEngine: 400}, "north")
			p := w.started(days("north", 400))
			w.deliver(w.complete)
			w.advance(month)
			before, log := rowsBut(w.rows(), "nodes"), w.since(0)
			w.store.dies, w.store.commits = dies, 0
			_, err := w.e.ArchiveRuns(context.Background(), month)
			if dies > 0 {
				require.ErrorIs(t, err, errPlanted)
				require.Positive(t, w.live(p.Run))
			}
			w.store.dies = 0
			w.restart()
			require.Equal(t, log, w.since(0)[:len(log)])
			w.verify()
			w.archived(month)
			require.Zero(t, w.live(p.Run))
			require.Equal(t, before, rowsBut(w.rows(), "nodes"))
			require.NoError(t, w.e.Rebuild(context.Background()))
			require.Equal(t, before, rowsBut(w.rows(), "nodes"))
		})
	}
}

// PF-11, D-22: an archived run of 50 units takes no more than 15 KiB: its part of a segment, the places of its streams, and
// the event that says so. What was live is read from the pages, too, so both are what the file pays.
func TestAnArchivedRunIsSmall(t *testing.T) {
	const runs, limit = 20, 15 << 10
	w := capped(t, towline.Knobs{CapRun: 50, CapBucket: 50}, "north")
	for range runs {
		p := w.started(days("north", 50))
		w.deliver(w.complete)
		require.Equal(t, events.RunSucceeded, w.run(p.Run).Status)
	}
	w.advance(month)
	pages := func(tables ...string) (bytes int) {
		for _, name := range tables {
			var n int
			require.NoError(t, w.file.DB().QueryRow(`SELECT coalesce(sum(pgsize), 0) FROM dbstat WHERE name = $1 OR name = 'sqlite_autoindex_' || $1 || '_1'`, name).Scan(&n))
			bytes += n
		}
		return bytes
	}
	live := pages("events")
	began := time.Now()
	a := w.archived(month)
	took := time.Since(began) / time.Duration(a.Segments)
	require.Equal(t, runs, a.Runs)
	archived := pages("events", "segments", "archived_streams", "segment_pages")
	t.Logf("a run of 50 units: %d bytes in the log, %d archived with all that stays in the log; %d in the segments; %s for each of %d segments",
		live/runs, archived/runs, int(a.Bytes)/runs, took, a.Segments)
	require.Less(t, archived/runs, limit)
}

// L-1: one run that cannot be sealed does not keep the others: here a table of the application refers to an event of it. The
// error names it.
func TestARunThatCannotBeSealedKeepsNobody(t *testing.T) {
	w := capped(t, towline.Knobs{}, "north", "south", "east")
	var runs []events.RunID
	for _, name := range []string{"north", "south", "east"} {
		p := w.started(days(name, 2))
		w.deliver(w.complete)
		runs = append(runs, p.Run)
	}
	w.sql(`CREATE TABLE note (at INTEGER REFERENCES events (position))`)
	_, err := w.file.DB().Exec(`INSERT INTO note SELECT max(position) FROM events WHERE stream = $1`, events.RunStream(runs[0]).Key())
	require.NoError(t, err)
	w.advance(month)
	a, err := w.e.ArchiveRuns(context.Background(), month)
	require.ErrorContains(t, err, "run/"+runs[0].String())
	require.Equal(t, 2, a.Runs)
	require.Positive(t, w.live(runs[0]))
	require.Zero(t, w.live(runs[1])+w.live(runs[2]))
	w.sql(`DROP TABLE note`)
	require.Equal(t, 1, w.archived(month).Runs)
}
