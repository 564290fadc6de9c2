package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"time"

	_ "modernc.org/sqlite" // the driver

	"github.com/towline-dev/towline/events"
)

// stage is where the story is played: the files, the child that works on them, and what is known of both.
type stage struct {
	repo repository
	choices
	dir    string
	tell   *narrator
	report *report

	log      *logbook // nil until the first child has made the file
	child    *process
	word     word // of the child that lives: at which window it stands
	atWindow bool

	// Of the last kill.
	dead            word
	killedAt        events.Position // head of the log
	firstDispatched []events.UnitID // by the delivery whose relay died
	redispatch      int             // number of the wakeup for the units left over

	kills      []time.Time   // all of them
	victimUnit events.UnitID // which lost its worker; the one of the timeline
}

const (
	// pollEvery is how often the log is looked at. A process that reads another's file gets no signal from it.
	pollEvery = 5 * time.Millisecond
	// patience is how long the log may stand still while something is expected. A running unit renews its lease every
	// 20 s, but a plan over a huge repository is silent for longer.
	patience = 5 * time.Minute
	// settled is the same for a child that stands at its window: what it has to write it has written, but for a message
	// that is still being handled, and a time that comes within the countdown.
	settled = 30 * time.Second
)

// order fills in what every order has.
func (s *stage) order(o order) order {
	o.Dir, o.Source, o.Repo, o.Layout = s.dir, s.repo.source, s.repo.path, s.repo.layout
	return o
}

// play runs the crashes, and then what is left to do.
func (s *stage) play(ctx context.Context) error {
	defer func() { s.child.end() }()
	for i := range crashes {
		if err := s.begin(crashes[i].order(s)); err != nil {
			return err
		}
		if i > 0 {
			if err := s.recover(ctx, i-1); err != nil {
				return err
			}
		}
		if err := s.crash(ctx, i); err != nil {
			return err
		}
	}
	if err := s.begin(s.order(order{RunCap: s.secondCap})); err != nil {
		return err
	}
	if err := s.recover(ctx, len(crashes)-1); err != nil {
		return err
	}
	if err := s.finish(ctx, 1); err != nil {
		return err
	}
	return s.bringCurrent(ctx)
}

func (s *stage) begin(o order) (err error) {
	s.word, s.atWindow = word{}, false
	if o.Plan != nil {
		s.tell.status("planning")
	}
	s.child, err = start(o)
	return err
}

// crash waits until the child stands at its window and the log shows what the crash table says, and kills it.
func (s *stage) crash(ctx context.Context, i int) error {
	c := &crashes[i]
	r := s.report.add(c)
	if err := s.await(ctx, "the window of "+c.row, func() bool { return s.atWindow || s.missed(i) }); err != nil {
		return err
	}
	if !s.atWindow {
		return fmt.Errorf("%s: the run went past the window: the repository has changed meanwhile, start again", c.row)
	}
	if s.log == nil {
		var err error
		if s.log, err = openLogbook(storePath(s.dir)); err != nil {
			return err
		}
	}
	if err := s.awaitWithin(ctx, settled, "the trace of "+c.row, func() bool { return c.left(s) != nil }); err != nil {
		return err
	}
	if err := s.child.kill(); err != nil {
		return fmt.Errorf("%s: %w", c.row, err)
	}
	s.dead, s.kills = s.word, append(s.kills, time.Now())
	if _, err := s.log.catchUp(ctx); err != nil {
		return err
	}
	s.killedAt = s.log.last
	left := c.left(s)
	if left == nil {
		return fmt.Errorf("%s: the dead process has not left what the crash table says", c.row)
	}
	r.Killed, r.PID, r.left = true, s.child.pid(), left
	if !s.dead.Unit.IsZero() {
		r.Unit, s.victimUnit = s.alias(s.dead.Unit), s.dead.Unit
	}
	if c.autopsy != nil {
		var err error
		if r.autopsy, err = c.autopsy(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", c.row, err)
		}
	}
	s.tell.killed(i, c, r, s)
	return nil
}

// missed reports that the unit whose worker shall die has ended without coming to its window.
func (s *stage) missed(i int) bool {
	if s.log == nil || crashes[i].order(s).Halt.At != inUnit {
		return false
	}
	t := s.log.tallies[s.log.run(0)]
	return t.ended == t.total
}

// recover waits until the log shows that the crash is over, on the clock of the process that has just been started.
func (s *stage) recover(ctx context.Context, i int) error {
	c, r := &crashes[i], &s.report.Cases[i]
	var failed *events.UnitFailed
	err := s.await(ctx, "the recovery of "+c.row, func() bool {
		if _, e, ok := newest[events.UnitFailed](s.log.streams[events.UnitStream(s.dead.Unit)]); ok {
			failed = &e
		}
		return failed != nil || c.after(s) != nil
	})
	if err != nil {
		return err
	}
	if failed != nil {
		return fmt.Errorf("%s: the unit was not tried again, it failed: %s", c.row, failed.Category)
	}
	took := time.Since(s.child.started)
	r.RecoveredMS, r.after = took.Milliseconds(), c.after(s)
	if c.proof != nil {
		if r.proof, err = c.proof(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", c.row, err)
		}
	}
	r.Outcome = c.want
	s.tell.recovered(c, r, s, took)
	return nil
}

// finish waits for the end of the nth run and of its post_sync, and stops the child cleanly.
func (s *stage) finish(ctx context.Context, n int) error {
	err := s.await(ctx, "the end of the run", func() bool {
		run := s.log.streams[events.RunStream(s.log.run(n))]
		_, _, done := newest[events.PostSyncCompleted](run)
		_, _, failed := newest[events.PostSyncFailed](run)
		_, end, ended := newest[events.RunFinalized](run)
		return done || failed || ended && !end.PostSyncOwed
	})
	if err != nil {
		return err
	}
	stopping, cancel := context.WithTimeoutCause(ctx, patience, errors.New("the child does not stop"))
	defer cancel()
	if err := s.child.stop(stopping); err != nil {
		return err
	}
	if _, err = s.log.catchUp(ctx); err == nil {
		s.tell.ended(n, s)
	}
	return err
}

// bringCurrent runs the sync as it would run every day, and compares. If the repository has moved since the plan, it
// runs once more, a bounded number of times.
func (s *stage) bringCurrent(ctx context.Context) error {
	const most = 3
	for n := 2; ; n++ {
		before, err := commitsOf(ctx, s.repo.path)
		if err != nil {
			return err
		}
		if err := s.begin(s.order(order{Plan: &plan{}})); err != nil {
			return err
		}
		if err := s.await(ctx, "the plan of the next run", func() bool { return len(s.log.runs) > n }); err != nil {
			return err
		}
		if err := s.finish(ctx, n); err != nil {
			return err
		}
		now, err := commitsOf(ctx, s.repo.path)
		if err != nil {
			return err
		}
		if s.report.Oracle, err = compare(ctx, now, historyPath(s.dir), s.repo.source); err != nil {
			return err
		}
		if s.report.Oracle.holds() || n-1 == most || maps.Equal(before, now) {
			return nil
		}
	}
}

// await looks at the log and listens to the child until done says so.
func (s *stage) await(ctx context.Context, what string, done func() bool) error {
	return s.awaitWithin(ctx, patience, what, done)
}

func (s *stage) awaitWithin(ctx context.Context, patience time.Duration, what string, done func() bool) error {
	look := time.NewTicker(pollEvery)
	defer look.Stop()
	quiet := time.NewTimer(patience)
	defer quiet.Stop()
	for {
		if s.log != nil {
			fresh, err := s.log.catchUp(ctx)
			if err != nil {
				return err
			}
			if fresh {
				quiet.Reset(patience)
				s.tell.progress(s.log)
			}
		}
		if done() {
			return nil
		}
		select {
		case w, ok := <-s.child.words:
			if !ok {
				return s.child.death()
			}
			if s.child.note(w) {
				s.word, s.atWindow = w, true
			}
		case <-look.C:
		case <-quiet.C:
			return fmt.Errorf("waited for %s, and the log stood still for %s", what, patience)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// count asks history.db from outside how many rows of a table fit. A table is made with its first rows.
func (s *stage) count(ctx context.Context, table, where string, args ...any) (n int, err error) {
	db, err := openReader(historyPath(s.dir))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema WHERE name = $1`, table).Scan(&n); err != nil || n == 0 {
		return n, err
	}
	err = db.QueryRowContext(ctx, `SELECT count(*) FROM `+table+` WHERE `+where, args...).Scan(&n)
	return n, err
}

// openReader opens a file for queries; nothing can be changed through it.
func openReader(path string) (*sql.DB, error) {
	place := url.URL{Scheme: "file", Path: path, RawQuery: "mode=rw&_pragma=query_only(1)&_pragma=busy_timeout(5000)"}
	db, err := sql.Open("sqlite", place.String())
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return db, nil
}

func (s *stage) alias(id events.UnitID) string {
	u := s.log.units[id]
	return events.Alias(u.Run, u.Source, u.Dataset, u.Window)
}
