package towline_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/projections"
)

// U-7, U-21, WM-1, WM-2, I-9, SC-108, SC-161: a success carries its watermark, and the last one of a run the wakeup of
// the finalizer; one before the last arms nothing.
func TestTheLastSuccessArmsFinalize(t *testing.T) {
	w := newWorkshop(t)
	p := w.started(towline.RunSpec{Sync: "reports"})
	first, last := w.claim(w.unit(p.Run, 1).Unit), w.claim(w.unit(p.Run, 2).Unit)
	w.advance(30 * time.Second)

	before := w.head()
	require.NoError(t, w.e.Complete(context.Background(), first, events.Result{Rows: 7}))
	log := w.since(before)
	require.Equal(t, []string{"UnitSucceeded"}, enginetest.Types(log))
	require.Equal(t, events.UnitSucceeded{
		Attempt: 1, Token: first.Token, Result: events.Result{Rows: 7}, Duration: events.SpanOf(30 * time.Second),
		Watermarks: []events.Watermark{{Source: "north", Dataset: "articles", At: events.MicrosOf(start)}},
	}, log[0].Event)
	require.Equal(t, start, watermark(w, "north", "articles"), "the planned end of the window, not the time of completion")

	before = w.head()
	w.complete(last)
	log = w.since(before)
	oneTx(t, log)
	require.Equal(t, []string{"UnitSucceeded", "OutboxArmed"}, enginetest.Types(log))
	require.Equal(t, events.OutboxArmed{N: 1, AvailableAt: events.MicrosOf(start.Add(30 * time.Second)),
		Cause: events.ArmSettled}, log[1].Event)
	u := w.unit(p.Run, 2)
	require.Equal(t, events.UnitHasSucceeded, u.Status)
	require.Zero(t, u.LeaseExpiresAt)
	require.Empty(t, u.Worker)
}

// WM-3, SC-111: units that finish out of order leave the larger watermark, and a lower one is not even written.
func TestAWatermarkNeverGoesBack(t *testing.T) {
	w := newWorkshop(t, single("north"))
	old := w.started(towline.RunSpec{Sync: "north"})
	oldLease := w.claim(w.unit(old.Run, 1).Unit)
	w.advance(30 * time.Second)
	young := w.started(towline.RunSpec{Sync: "north"})
	w.complete(w.claim(w.unit(young.Run, 1).Unit))
	before := w.head()
	w.complete(oldLease)
	require.Empty(t, enginetest.Only[events.UnitSucceeded](w.since(before))[0].Watermarks)
	require.Equal(t, start.Add(30*time.Second), watermark(w, "north", "north-articles"))
}

// WM-4, WM-5, W-1, W-4, SC-099, SC-103, SC-112, SC-113: backfill, snapshots and calendar periods write no watermark;
// full_resync does; a family writes one per member.
func TestWhoWritesWatermarks(t *testing.T) {
	s := towline.Sync{
		Name: "tracker", Provider: "p", Sources: []string{"north"},
		Datasets: []towline.Dataset{
			{Name: "plain"}, {Name: "family", Members: []string{"items", "labels"}}, {Name: "all", Snapshot: true},
			{Name: "years", Window: towline.Year},
		},
	}
	for mode, want := range map[events.Mode][]string{
		towline.Incremental: {"items", "labels", "plain"},
		towline.FullResync:  {"items", "labels", "plain"},
		towline.Backfill:    nil,
	} {
		t.Run(string(mode), func(t *testing.T) {
			w := newWorkshop(t, s)
			spec := towline.RunSpec{Sync: "tracker", Mode: mode}
			if mode == towline.Backfill {
				spec.Since, spec.Before = start.AddDate(0, 0, -3), start
			}
			w.plan(spec)
			w.deliver(w.complete)
			var got []string
			w.view(func(v projections.View) {
				all, err := v.Watermarks()
				require.NoError(t, err)
				for _, m := range all {
					got = append(got, m.Dataset)
				}
			})
			require.Equal(t, want, got)
		})
	}
}

// WM-2, W-5, SC-110: a window that ends ahead of now, which only a backfill may have, moves nothing; a watermark is
// never after its event.
func TestAWatermarkIsNeverAheadOfNow(t *testing.T) {
	w := newWorkshop(t, single("north"))
	w.plan(towline.RunSpec{Sync: "north", Before: start.Add(time.Hour)})
	w.deliver(w.complete)
	require.Equal(t, start, watermark(w, "north", "north-articles"))
}

// L-2, C-15, SC-114: a settle that fails half way leaves the unit with its lease, and no watermark, no refilled slot,
// no wakeup; the same settle can be repeated.
func TestASettleThatFailsHalfWayChangesNothing(t *testing.T) {
	w := openWorkshop(t, options{config: towline.Config{Knobs: towline.Knobs{CapEngine: 1}}})
	p := w.started(towline.RunSpec{Sync: "reports"})
	l := w.claim(w.unit(p.Run, 1).Unit)
	require.Equal(t, 1, w.statuses(p.Run)[events.UnitIsPlanned])
	w.sql(`CREATE TRIGGER planted BEFORE INSERT ON watermarks BEGIN SELECT RAISE(ABORT, 'planted'); END`)

	w.unchanged(func() {
		require.ErrorContains(t, w.e.Complete(context.Background(), l, events.Result{}), "planted")
	})
	u := w.unit(p.Run, 1)
	require.Equal(t, events.UnitIsRunning, u.Status)
	require.False(t, u.LeaseExpiresAt.IsZero())
	require.Zero(t, watermark(w, "north", "articles"))
	require.Equal(t, 1, w.statuses(p.Run)[events.UnitIsPlanned])
	differences, err := w.e.CompareMemory(context.Background())
	require.NoError(t, err)
	require.Empty(t, differences)

	w.sql(`DROP TRIGGER planted`)
	w.complete(l)
	require.Equal(t, start, watermark(w, "north", "articles"))
	require.Equal(t, map[events.UnitStatus]int{events.UnitHasSucceeded: 1, events.UnitIsDispatching: 1}, w.statuses(p.Run))
}

// U-19, HU-8, SC-176, SC-177, SC-178: a late settle of any kind changes nothing, is on record once per attempt, and its
// worker learns that it lost.
func TestALateResultIsRecordedOnce(t *testing.T) {
	for name, late := range map[string]func(*workshop, towline.Lease) error{
		"success": func(w *workshop, l towline.Lease) error {
			return w.e.Complete(context.Background(), l, events.Result{Rows: 1})
		},
		"failure": func(w *workshop, l towline.Lease) error {
			return w.e.Fail(context.Background(), l, events.Auth,
				"no")
		},
		"hand-back": func(w *workshop, l towline.Lease) error { return w.e.Release(context.Background(), l, "stopping") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorkshop(t)
			p := w.started(towline.RunSpec{Sync: "reports"})
			l := w.claim(w.unit(p.Run, 1).Unit)
			w.advance(time.Minute)
			w.pass()
			row := w.unit(p.Run, 1)
			require.Equal(t, events.WorkerLost, row.ErrorCategory)
			before := w.head()
			for range 100 {
				require.ErrorIs(t, late(w, l), towline.ErrLeaseLost)
			}
			log := w.since(before)
			require.Equal(t, []string{"UnitLateResult"}, enginetest.Types(log))
			require.Equal(t, events.LateUnitTerminal, enginetest.Only[events.UnitLateResult](log)[0].Reason)
			require.Equal(t, events.LateResultText, enginetest.Only[events.UnitLateResult](log)[0].Text)
			row.LateResults = 1
			require.Equal(t, row, w.unit(p.Run, 1), "nothing but the record has changed")
			require.Zero(t, watermark(w, "north", "articles"))
		})
	}
}

// U-19, SC-365: two attempts of a unit that are both late leave one record each, however often they settle; a stranger
// leaves none.
func TestEachLateAttemptIsRecorded(t *testing.T) {
	s := single("north")
	s.Datasets[0].Retry = towline.Retry{Max: 2, Backoff: time.Second}
	w := newWorkshop(t, s)
	p := w.started(towline.RunSpec{Sync: "north"})
	unit := w.unit(p.Run, 1).Unit
	var leases []towline.Lease
	for range 3 {
		leases = append(leases, w.claim(unit))
		w.advance(time.Minute)
		w.pass()
		w.advance(time.Second)
		w.pass()
		w.dispatch(p.Run)
		w.step()
	}
	require.Equal(t, events.WorkerLostExhausted, w.unit(p.Run, 1).ErrorCategory)
	before := w.head()
	for range 3 {
		for _, l := range leases[:2] {
			require.ErrorIs(t, w.e.Complete(context.Background(), l, events.Result{}), towline.ErrLeaseLost)
		}
	}
	require.Equal(t, []string{"UnitLateResult", "UnitLateResult"}, enginetest.Types(w.since(before)))
	require.Equal(t, 2, w.unit(p.Run, 1).LateResults)
	w.unchanged(func() {
		never := leases[2]
		never.Unit.Attempt = 9
		require.ErrorIs(t, w.e.Complete(context.Background(), never, events.Result{}), towline.ErrLeaseLost)
	})
}

// U-19: a stranger with a guessed token is refused, and does not use up the record of the worker that is still at work.
func TestAStrangerLeavesNoRecord(t *testing.T) {
	w := newWorkshop(t)
	p := w.started(towline.RunSpec{Sync: "reports"})
	l := w.claim(w.unit(p.Run, 1).Unit)
	stranger := l
	stranger.Token = "guessed"
	w.unchanged(func() {
		require.ErrorIs(t, w.e.Complete(context.Background(), stranger, events.Result{}), towline.ErrLeaseLost)
	})
	w.complete(l)
}

// HU-9, U-19, SC-195: repeating the settle that was accepted gets the first answer again and appends nothing, also
// while the next attempt is under way.
func TestARepeatedSettleGetsTheFirstAnswer(t *testing.T) {
	s := single("north")
	s.Datasets[0].Retry = towline.Retry{Max: 1, Backoff: time.Second, On: []events.Category{events.Network}}
	ctx := context.Background()
	for name, settle := range map[string]func(*workshop, towline.Lease) error{
		"success":        func(w *workshop, l towline.Lease) error { return w.e.Complete(ctx, l, events.Result{Rows: 2}) },
		"failure":        func(w *workshop, l towline.Lease) error { return w.e.Fail(ctx, l, events.Auth, "no") },
		"declared retry": func(w *workshop, l towline.Lease) error { return w.e.Fail(ctx, l, events.Network, "reset") },
		"hand-back":      func(w *workshop, l towline.Lease) error { return w.e.Release(ctx, l, "stopping") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorkshop(t, s)
			p := w.started(towline.RunSpec{Sync: "north"})
			l := w.claim(w.unit(p.Run, 1).Unit)
			require.NoError(t, settle(w, l))
			repeat := func() {
				w.unchanged(func() {
					for range 3 {
						require.NoError(t, settle(w, l))
					}
				})
			}
			repeat()
			if w.unit(p.Run, 1).Status == events.UnitIsRetrying {
				w.advance(time.Second)
				w.dispatch(p.Run)
				repeat()
				again := w.claim(l.Unit.Unit)
				repeat()
				w.complete(again)
				repeat()
			}
		})
	}
}

// L-11, SC-188: a settle outlives the context of its caller.
func TestASettleOutlivesItsCaller(t *testing.T) {
	w := newWorkshop(t)
	p := w.started(towline.RunSpec{Sync: "reports"})
	first, second := w.claim(w.unit(p.Run, 1).Unit), w.claim(w.unit(p.Run, 2).Unit)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.NoError(t, w.e.Complete(ctx, first, events.Result{}))
	_, err := w.e.RenewAll(ctx, []towline.Lease{second})
	require.NoError(t, err)
	_, settled, _ := w.e.SettleAndClaim(ctx, second, towline.Completed{}, first.Unit.Unit, towline.Worker{})
	require.NoError(t, settled)
	require.Equal(t, map[events.UnitStatus]int{events.UnitHasSucceeded: 2}, w.statuses(p.Run))
}

// U-16, O-13, SC-186, SC-187: a unit that is handed back uses up no retry, is due at once the first time and later
// behind a growing wait, and fails at the tenth in a row.
func TestHandBacksWaitLongerAndEnd(t *testing.T) {
	w := newWorkshop(t, single("north"))
	p := w.started(towline.RunSpec{Sync: "north"})
	unit := w.unit(p.Run, 1).Unit
	waits := []time.Duration{0, 5, 10, 20, 40, 80, 160, 300, 300}
	for i := range 9 {
		before := w.head()
		require.NoError(t, w.e.Release(context.Background(), w.claim(unit), "stopping"))
		scheduled := enginetest.Only[events.UnitRetryScheduled](w.since(before))[0]
		require.Equal(t, events.HandedBack, scheduled.Cause)
		require.Equal(t, i+1, scheduled.HandBacks)
		require.Zero(t, scheduled.ExpiredLeaseRetries)
		wait := scheduled.AvailableAt.Sub(events.MicrosOf(w.now.Now())).Std()
		least := waits[i] * time.Second
		require.GreaterOrEqual(t, wait, least)
		require.LessOrEqual(t, wait, least+least/10)
		r, _ := w.register(p.Run, events.KindDispatch)
		require.Equal(t, scheduled.AvailableAt.Time(), r.AvailableAt, "I-10: dispatch is armed for that time")
		if i == 0 {
			require.Equal(t, events.UnitIsDispatching, w.unit(p.Run, 1).Status, "B-6: its own slot lets it in at once")
			w.step() // the wakeup that nobody needs any more is dropped
			continue
		}
		w.unchanged(func() { w.pass() })
		w.advance(wait)
		w.step()
		w.dispatch(p.Run)
		w.step()
	}
	require.NoError(t, w.e.Release(context.Background(), w.claim(unit), "stopping"))
	u := w.unit(p.Run, 1)
	require.Equal(t, events.UnitHasFailed, u.Status)
	require.Equal(t, events.ProviderError, u.ErrorCategory)
	w.pending(p.Run, events.KindFinalize)
}

// U-16: hand-backs count in a row; another outcome begins the row anew.
func TestAnotherOutcomeBeginsTheRowOfHandBacksAnew(t *testing.T) {
	s := single("north")
	s.Datasets[0].Retry = towline.Retry{Max: 1, Backoff: time.Second, On: []events.Category{events.Network}}
	w := newWorkshop(t, s)
	p := w.started(towline.RunSpec{Sync: "north"})
	unit := w.unit(p.Run, 1).Unit
	again := func() towline.Lease {
		w.untilDue(w.unit(p.Run, 1))
		w.dispatch(p.Run)
		return w.claim(unit)
	}
	require.NoError(t, w.e.Release(context.Background(), w.claim(unit), "stopping"))
	require.NoError(t, w.e.Release(context.Background(), again(), "stopping"))
	require.Equal(t, 2, w.unit(p.Run, 1).HandBacks)
	w.fail(again(), events.Network)
	require.Zero(t, w.unit(p.Run, 1).HandBacks)
	require.NoError(t, w.e.Release(context.Background(), again(), "stopping"))
	require.Equal(t, 1, w.unit(p.Run, 1).HandBacks)
	w.fail(again(), events.Network)
	require.Equal(t, events.UnitHasFailed, w.unit(p.Run, 1).Status, "the retry of its category is still used up")
}

// U-8, U-10, E-2, RW-2, SC-191, SC-192: a category that the policy lists is tried again, with its backoff and its own
// maximum; any other is final.
func TestADeclaredCategoryIsTriedAgain(t *testing.T) {
	s := single("north")
	s.Datasets[0].Retry = towline.Retry{Max: 2, Backoff: 30 * time.Second, On: []events.Category{events.Network}}
	w := newWorkshop(t, s)
	p := w.started(towline.RunSpec{Sync: "north"})
	unit := w.unit(p.Run, 1).Unit
	for i := range 2 {
		before := w.head()
		w.fail(w.claim(unit), events.Network)
		scheduled := enginetest.Only[events.UnitRetryScheduled](w.since(before))[0]
		require.Equal(t, events.Network, scheduled.Cause)
		require.Equal(t, i+1, scheduled.CategoryRetries)
		due := w.now.Now().Add(30 * time.Second)
		require.Equal(t, events.MicrosOf(due), scheduled.AvailableAt)
		r, _ := w.register(p.Run, events.KindDispatch)
		require.Equal(t, due, r.AvailableAt)
		w.advance(30 * time.Second)
		w.step()
		w.dispatch(p.Run)
	}
	w.fail(w.claim(unit), events.Network)
	u := w.unit(p.Run, 1)
	require.Equal(t, events.UnitHasFailed, u.Status)
	require.Equal(t, events.Network, u.ErrorCategory)

	p = w.started(towline.RunSpec{Sync: "north"})
	w.fail(w.claim(w.unit(p.Run, 1).Unit), events.Auth)
	require.Equal(t, events.Auth, w.unit(p.Run, 1).ErrorCategory)
}

// E-2, I-19: a worker cannot report what is not its to find; a made-up expired_lease wins no retry.
func TestAWorkerCannotReportWhatTheReconcilerFinds(t *testing.T) {
	s := single("north")
	s.Datasets[0].Retry = towline.Retry{Max: 2}
	for _, c := range []events.Category{"", events.ExpiredLease, events.HandedBack, events.WorkerLost,
		events.NeverStarted} {
		w := newWorkshop(t, s)
		p := w.started(towline.RunSpec{Sync: "north"})
		w.fail(w.claim(w.unit(p.Run, 1).Unit), c)
		require.Equal(t, events.ProviderError, w.unit(p.Run, 1).ErrorCategory)
	}
}

// L-12, HC-49: a result that cannot be stored, or that another language would read as another, is refused by name, before anything is decided; one at the bound is taken.
func TestAResultIsChecked(t *testing.T) {
	w := newWorkshop(t)
	p := w.started(towline.RunSpec{Sync: "reports"})
	l := w.claim(w.unit(p.Run, 1).Unit)
	text := func(n int) json.RawMessage { return json.RawMessage(`"` + strings.Repeat("x", n-2) + `"`) }
	for name, c := range map[string]struct {
		result events.Result
		field  string
	}{
		"state is no JSON":              {events.Result{State: json.RawMessage("{")}, "result.state"},
		"detail is no JSON":             {events.Result{Detail: json.RawMessage("nope")}, "result.detail"},
		"state is no UTF-8":             {events.Result{State: json.RawMessage("\"\xff\"")}, "result.state"},
		"a number is rounded by others": {events.Result{State: json.RawMessage(`{"cursor":12345678901234567890123}`)}, "result"},
		"a key stands twice":            {events.Result{Detail: json.RawMessage(`{"a":[{"b":1,"b":2}]}`)}, "result"},
		"nested too deep":               {events.Result{State: json.RawMessage(strings.Repeat("[", 70) + strings.Repeat("]", 70))}, "result"},
		"too large": {events.Result{State: text(events.MaxResultBytes), Detail: json.RawMessage("1")},
			"result"},
		"fingerprint is no UTF-8": {events.Result{Fingerprint: "\xff"}, "result.fingerprint"},
		"fingerprint too long":    {events.Result{Fingerprint: strings.Repeat("f", 1025)}, "result.fingerprint"},
	} {
		w.unchanged(func() {
			err := w.e.Complete(context.Background(), l, c.result)
			var request *towline.RequestError
			require.ErrorAs(t, err, &request, name)
			require.Equal(t, c.field, request.Field, name)
			require.ErrorIs(t, err, towline.ErrInvalid)
		})
	}
	require.NoError(t, w.e.Complete(context.Background(), l, events.Result{State: text(events.MaxResultBytes - 1),
		Detail: json.RawMessage("1")}))
}

// I-26, L-12: what a success leaves for the next is stored in the form that the log gives back, so a rebuilt view is
// the live one.
func TestALeftStateIsWhatTheLogGivesBack(t *testing.T) {
	w := newWorkshop(t, single("north"))
	p := w.started(towline.RunSpec{Sync: "north"})
	l := w.claim(w.unit(p.Run, 1).Unit)
	require.Nil(t, l.State)
	loose := json.RawMessage("{ \"a\" : \"<b> & c\",\n\t\"d\": [1,  2] }")
	require.NoError(t, w.e.Complete(context.Background(), l, events.Result{State: loose, Detail: loose}))

	w.advance(time.Minute)
	next := w.started(towline.RunSpec{Sync: "north"})
	l = w.claim(w.unit(next.Run, 1).Unit)
	require.JSONEq(t, string(loose), string(l.State))
	w.crash()
	w.verify() // the tables, against a fold of the log
	require.NoError(t, w.e.Rebuild(context.Background()))
	w.view(func(v projections.View) {
		state, err := v.LeftState("north", "north-articles")
		require.NoError(t, err)
		require.Equal(t, l.State, state)
	})
}

// E-3, SC-163, SC-196, SC-341: an error text is redacted, valid and bounded before it is stored, at the first try; its
// category is typed, whatever stands in it.
func TestAFailureIsRecordedWhateverItsTextIs(t *testing.T) {
	w := newWorkshop(t)
	p := w.started(towline.RunSpec{Sync: "reports"})
	l := w.claim(w.unit(p.Run, 1).Unit)
	text := "GET https://ada:hunter2@example.org/429/items: \xff 500 rate limit" + strings.Repeat("é", 1<<20)
	require.NoError(t, w.e.Fail(context.Background(), l, events.Auth, text))
	u := w.unit(p.Run, 1)
	require.Equal(t, events.Auth, u.ErrorCategory)
	require.LessOrEqual(t, len(u.ErrorText), 2000)
	require.True(t, utf8.ValidString(u.ErrorText))
	require.Contains(t, u.ErrorText, "https://***@example.org/429/items: \uFFFD 500")
	require.NotContains(t, u.ErrorText, "hunter2")
}

// L-12, E-4: a result is stored as it was written, but for white space.
func TestAResultIsStoredAsItWasWritten(t *testing.T) {
	w := newWorkshop(t)
	p := w.started(towline.RunSpec{Sync: "reports"})
	l := w.claim(w.unit(p.Run, 1).Unit)
	wide := strings.Repeat("<", events.MaxResultBytes-20)
	require.NoError(t, w.e.Complete(context.Background(), l, events.Result{State: json.RawMessage(`{"t": "a <b> & ` + wide[:100] + `"}`),
		Detail: json.RawMessage(`"` + wide[:60_000] + `"`)}))
	require.JSONEq(t, `{"t":"a <b> & `+wide[:100]+`"}`, string(w.unit(p.Run, 1).Result.State))
	require.NotContains(t, string(w.unit(p.Run, 1).Result.State), "u003c")
}

// E-1, I-26: a category that is none becomes provider_error, with the caller's word in the text.
func TestACategoryOfTheCallersOwn(t *testing.T) {
	w := newWorkshop(t)
	p := w.started(towline.RunSpec{Sync: "reports"})
	l := w.claim(w.unit(p.Run, 1).Unit)
	require.NoError(t, w.e.Fail(context.Background(), l, events.Category("out of \xff ink"), "no more"))
	u := w.unit(p.Run, 1)
	require.Equal(t, events.ProviderError, u.ErrorCategory)
	require.Contains(t, u.ErrorText, "ink: no more")
}
