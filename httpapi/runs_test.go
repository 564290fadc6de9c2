package httpapi_test

import (
	"database/sql"
	"encoding/json"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/httpapi"
	"github.com/towline-dev/towline/ident"
	"github.com/towline-dev/towline/projections"
)

// T-2, T-3, R-1: 202 once the run is committed, with where it is; and it goes to its end.
func TestARunIsAcceptedAndEnds(t *testing.T) {
	w := start(t, oneDay)
	r := w.send("POST", "/v1/runs", map[string]any{
		"sync": "days", "mode": "backfill", "datasets": []string{"a"}, "since": before.AddDate(0, 0, -3), "before": before, "reason": "to see it",
	}, "Towline-Actor", "ann")
	var run httpapi.Run
	r.is(http.StatusAccepted, &run)
	require.Equal(t, "/v1/runs/"+run.ID.String(), r.header.Get("Location"))
	require.Equal(t, 6, run.Units)
	require.Equal(t, run.Alias+"/dispatch_sync_run#1", run.Dispatch.Entry)
	require.Equal(t, "local", run.Dispatch.Transport)

	done := w.wait(run.ID)
	require.Equal(t, "succeeded", string(done.State))
	require.Equal(t, 6, done.Succeeded)
	require.Nil(t, done.Dispatch)
	require.Len(t, done.PostSync, 1)

	var job httpapi.Job
	w.send("GET", "/v1/jobs/"+run.Job.String(), nil).is(http.StatusOK, &job)
	require.Equal(t, "ann", job.Actor)
	require.Equal(t, "to see it", job.Reason)
	require.Equal(t, run.ID, job.Result.Run)
	require.Equal(t, run.Links.Self, job.Links.Run)
	require.Contains(t, string(w.send("GET", "/v1/jobs/"+run.Job.String(), nil).body), `"sync_run_id":"`+run.ID.String()+`"`)

	for _, name := range []string{run.Alias, strings.ToLower(run.Alias), "run%2F" + run.ID.String()} {
		var same httpapi.Run
		w.send("GET", "/v1/runs/"+name, nil).is(http.StatusOK, &same)
		require.Equal(t, done, same)
	}
	var waited httpapi.Run
	r = w.send("POST", "/v1/runs", map[string]any{"sync": "days", "datasets": []string{"a"}}, "Prefer", "wait=30")
	r.is(http.StatusOK, &waited)
	require.Equal(t, "wait=30", r.header.Get("Preference-Applied"))
	require.Equal(t, "succeeded", string(waited.State))
}

// T-2, P-13: what is wrong with a request is said by one code, and nothing is written; so it is with what a run would plan.
func TestARefusedRunWritesNothing(t *testing.T) {
	w := start(t, oneDay, func(c *setup) { c.node.Knobs.MaxUnits = 10; c.idle = true })
	head := w.send("GET", "/v1/state", nil).header.Get("Towline-Seq")
	backfill := func(days int) map[string]any {
		return map[string]any{"sync": "days", "mode": "backfill", "datasets": []string{"a"}, "since": before.AddDate(0, 0, -days), "before": before}
	}
	for _, c := range []struct {
		body  any
		code  string
		field string
	}{
		{`{"sync":`, "bad_request", "body"},
		{`[]`, "invalid_request", ""},
		{`{"sync":"days","x":1}`, "invalid_request", "x"},
		{`{"sync":"days","sync":"days"}`, "bad_request", "body"},
		{`{"sync":"days","limit":99999999999999999999}`, "bad_request", "body"},
		{`{"sync":"days"} {}`, "bad_request", "body"},
		{"{\"sync\":\"\xff\"}", "bad_request", "body"},
		{`{"mode":"backfill"}`, "invalid_request", "sync"},
		{`{"sync":"days","mode":"sideways"}`, "invalid_request", "mode"},
		{`{"sync":"none"}`, "not_found", "sync"},
		{`{"sync":"days","sources":["west"]}`, "not_found", "sources"},
		{`{"sync":"days","datasets":["b"]}`, "invalid_request", "datasets"},
		{`{"sync":"days","mode":"backfill"}`, "invalid_request", "since"},
		{backfill(20), "plan_too_large", ""},
		{`{"sync":"days","reason":"` + strings.Repeat("x", 300<<10) + `"}`, "payload_too_large", ""},
	} {
		for _, path := range []string{"/v1/runs", "/v1/runs/dry-run"} { // P-13
			p := w.send("POST", path, c.body).problem(c.code)
			if c.field != "" {
				require.Equal(t, c.field, p.Field, "%s", c.body)
			}
		}
	}
	var dry httpapi.DryRun
	w.send("POST", "/v1/runs/dry-run", backfill(3)).is(http.StatusOK, &dry)
	require.Equal(t, 6, dry.Units)
	require.Len(t, dry.Planned, 6)
	require.True(t, dry.Known.IsZero())
	w.send("POST", "/v1/runs", `{"sync":"days"}`, "Content-Type", "text/plain").problem("unsupported_media_type")
	w.send("POST", "/v1/runs", `{"sync":"days"}`, "Prefer", "wait=soon").problem("bad_request")
	w.send("POST", "/v1/pause", map[string]any{"source": "north", "reason": "r"}).is(http.StatusOK, nil)
	w.send("POST", "/v1/pause", map[string]any{"source": "south", "reason": "r"}).is(http.StatusOK, nil)
	w.send("POST", "/v1/runs", map[string]any{"sync": "days"}).problem("source_paused")
	require.Equal(t, head, seqBefore(w, 2))
}

// HC-49: to look through a body costs no more than its length, also with many values under a long key.
func TestABodyCostsNoMoreThanItsLength(t *testing.T) {
	w := start(t, func(c *setup) { c.idle = true })
	body := `{"` + strings.Repeat("k", 100<<10) + `":[` + strings.Repeat("0,", 10_000) + `0]}`
	var before, behind runtime.MemStats
	runtime.ReadMemStats(&before)
	w.send("POST", "/v1/runs", body).problem("invalid_request")
	runtime.ReadMemStats(&behind)
	require.Less(t, behind.TotalAlloc-before.TotalAlloc, uint64(100<<20), "of a body of %d bytes", len(body))
	p := w.send("POST", "/v1/runs", `{"a":[{"`+strings.Repeat("k", 200)+`":[99999999999999999999]}]}`).problem("bad_request")
	require.Equal(t, "body.a[0]."+strings.Repeat("k", 90)+"…: 99999999999999999999 does not fit into 64 bits, and is not rounded", p.Detail)
}

// T-2, R-1: a run that is committed is never said to be refused, also if its store is gone before it can be shown.
func TestAnAcceptedRunIsNeverSaidToBeRefused(t *testing.T) {
	w := start(t, oneDay, func(c *setup) { c.idle = true })
	type answered struct {
		status int
		run    httpapi.Run
		err    error
	}
	waits := make(chan answered, 1)
	go func() {
		r, err := http.NewRequest("POST", "http://towline/v1/runs", strings.NewReader(`{"sync":"days","datasets":["a"]}`))
		var got answered
		if got.err = err; err == nil {
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Prefer", "wait=60")
			var answer *http.Response
			if answer, got.err = w.client.Do(r); got.err == nil {
				got.status, got.err = answer.StatusCode, json.NewDecoder(answer.Body).Decode(&got.run)
				_ = answer.Body.Close()
			}
		}
		waits <- got
	}()
	var runs httpapi.List[httpapi.Run]
	w.eventually(func() bool {
		w.send("GET", "/v1/runs", nil).is(http.StatusOK, &runs)
		return len(runs.Items) == 1
	})
	require.NoError(t, w.node.Close())
	got := <-waits
	require.NoError(t, got.err)
	require.Equal(t, http.StatusAccepted, got.status)
	want := runs.Items[0]
	want.PlannedAt, got.run.PlannedAt = time.Time{}, time.Time{}
	want.Selection = httpapi.Selection{Datasets: []string{"a"}}
	require.Equal(t, want, got.run, "what was planned")
}

// HC-22, P-5: a run that selects nothing is accepted and over, and says why; 0 of 0 is no division.
func TestARunOfNothingIsOver(t *testing.T) {
	w := start(t, func(c *setup) { c.idle = true })
	var run httpapi.Run
	w.send("POST", "/v1/runs", map[string]any{"sync": "days", "sources": []string{}}, "Prefer", "wait=60").is(http.StatusOK, &run)
	require.Equal(t, "failed", string(run.State))
	require.Equal(t, "no_sync_units_planned", run.Reason)
	require.Zero(t, run.Units)
	require.Empty(t, run.PostSync)
	var why httpapi.Explanation
	w.send("GET", "/v1/runs/"+run.Alias+"/why", nil).is(http.StatusOK, &why)
	require.Empty(t, why.Reason)
}

// HC-10, T-2: while another program holds the write lock a trigger is refused as unavailable, with when to come again; reads
// are answered; and the same request succeeds behind it.
func TestALockedStoreIsUnavailable(t *testing.T) {
	w := start(t, oneDay, func(c *setup) { c.idle = true })
	db, err := sql.Open("sqlite", filepath.Join(w.dir, "towline.db"))
	require.NoError(t, err)
	defer db.Close()
	db.SetMaxOpenConns(1)
	_, err = db.Exec(`BEGIN IMMEDIATE`)
	require.NoError(t, err)
	p := w.send("POST", "/v1/runs", map[string]any{"sync": "days"}, "Idempotency-Key", "k").problem("store_unavailable")
	require.Positive(t, p.RetryAfterMS)
	w.send("GET", "/v1/runs", nil).is(http.StatusOK, nil)
	_, err = db.Exec(`ROLLBACK`)
	require.NoError(t, err)
	w.send("POST", "/v1/runs", map[string]any{"sync": "days"}, "Idempotency-Key", "k").is(http.StatusAccepted, nil)
}

// seqBefore is the position of the log without its newest events.
func seqBefore(w *world, newest int) string {
	var log httpapi.Events
	w.send("GET", "/v1/events?limit=1000", nil).is(http.StatusOK, &log)
	return log.Items[len(log.Items)-1-newest].Seq.String()
}

// P-10, HC-27: a sync that allows one run at a time says which one is open, and where.
func TestAnOpenRunIsNamed(t *testing.T) {
	w := start(t, func(c *setup) { c.node.Syncs[0].OneActiveRun = true; c.idle = true })
	run := w.plan(1)
	p := w.send("POST", "/v1/runs", map[string]any{"sync": "days"}).problem("run_exists")
	require.Equal(t, &httpapi.Holder{ID: run.ID, Alias: run.Alias, Self: run.Links.Self}, p.Holder)
	require.Contains(t, p.Fix, "towline run cancel "+run.Alias)
}

// P-11, surfaces 5.2: the same key with the same body gives the first run; another body under it is refused; and a rejected
// plan does not use up the key.
func TestAnIdempotencyKeyStandsForOneRequest(t *testing.T) {
	w := start(t, oneDay, func(c *setup) { c.idle = true; c.node.Knobs.MaxUnits = 5 })
	w.send("POST", "/v1/runs", map[string]any{"sync": "days", "mode": "backfill", "since": before.AddDate(0, 0, -9), "before": before}, "Idempotency-Key", "k").
		problem("plan_too_large")
	first := w.plan(2, "Idempotency-Key", "k")
	r := w.send("POST", "/v1/runs", map[string]any{
		"before": before, "since": before.AddDate(0, 0, -2), "sources": []string{"north"}, "datasets": []string{"a"}, "mode": "backfill", "sync": "days",
	}, "Idempotency-Key", "k")
	var again httpapi.Run
	r.is(http.StatusAccepted, &again)
	require.Equal(t, first.ID, again.ID)
	require.Equal(t, "true", r.header.Get("Idempotency-Replayed"))
	require.Equal(t, "Idempotency-Key", w.send("POST", "/v1/runs", map[string]any{"sync": "days"}, "Idempotency-Key", "k").problem("key_reused").Field)
}

// X-1, HC-17: a cancel is at once; again it changes nothing; of what ended otherwise it says so, with the state.
func TestACancelSaysWhatIsSo(t *testing.T) {
	w := start(t, oneDay, byWorkers)
	run := w.plan(2)
	w.send("POST", "/v1/runs/"+run.Alias+"/cancel", nil).problem("invalid_request")
	var cancelled httpapi.Run
	w.send("POST", "/v1/runs/"+run.Alias+"/cancel", map[string]any{"reason": "enough"}).is(http.StatusOK, &cancelled)
	require.Equal(t, "cancelled", string(cancelled.State))
	seq := w.send("POST", "/v1/runs/"+run.Alias+"/cancel", map[string]any{"reason": "enough"}).is(http.StatusOK, nil).header.Get("Towline-Seq")
	require.NotEmpty(t, seq)

	other := w.plan(1)
	var lease httpapi.Leases
	w.send("POST", "/v1/leases/claim", map[string]any{"worker": "w", "wait_ms": 60000}).is(http.StatusOK, &lease)
	unit := "/v1/units/" + lease.Leases[0].Unit.String()
	w.send("POST", "/v1/leases/complete", map[string]any{}, "Lease-Token", lease.Leases[0].Token).is(http.StatusOK, nil)
	w.wait(other.ID)
	require.Equal(t, "succeeded", w.send("POST", "/v1/runs/"+other.Alias+"/cancel", map[string]any{"reason": "late"}).problem("already_ended").State)
	require.Equal(t, "succeeded", w.send("POST", unit+"/cancel", map[string]any{"reason": "late"}).problem("already_ended").State)

	w.send("POST", "/v1/runs/"+other.Alias+"/retry", nil).problem("invalid_request")
	r := w.send("POST", "/v1/runs/"+run.Alias+"/retry", map[string]any{"cancelled": true}, "Idempotency-Key", "again")
	var retry, again httpapi.Run
	r.is(http.StatusAccepted, &retry)
	require.Equal(t, run.ID, retry.RetryOf)
	require.Equal(t, 2, retry.Units)
	w.send("POST", "/v1/runs/"+run.Alias+"/retry", map[string]any{"cancelled": true}, "Idempotency-Key", "again").is(http.StatusAccepted, &again)
	require.Equal(t, retry.ID, again.ID)
	w.send("GET", run.Links.Self, nil).is(http.StatusOK, &again)
	require.Equal(t, retry.ID, again.Retries[0])
	w.send("POST", "/v1/runs/"+retry.Alias+"/retry", map[string]any{}).problem("conflict")
}

// HC-48: a malformed id is 400 with the field, an unknown one 404, an ambiguous one lists what it may mean; the same rule
// stands in package ident for the command line.
func TestIdsAreReadByOneRule(t *testing.T) {
	w := start(t, func(c *setup) { c.idle = true })
	run := w.plan(1)
	for _, path := range []string{"/v1/runs/", "/v1/units/", "/v1/jobs/"} {
		for _, id := range []string{"null", "12345", "%7B" + run.ID.String() + "%7D", run.ID.String() + "0", strings.Repeat("A", 5000)} {
			require.Equal(t, "id", w.send("GET", path+id, nil).problem("bad_request").Field, id)
		}
		w.send("GET", path+"00000000000000000000000000", nil).problem("not_found")
		w.send("GET", path+"000000", nil).problem("not_found")
	}
	for _, id := range []string{"x.post_sync", run.ID.String() + ".post", run.ID.String(), run.Alias + ".post_sync.0"} {
		w.send("GET", "/v1/outbox/"+id, nil).problem("bad_request")
	}
	w.send("GET", "/v1/outbox/"+run.ID.String()+".post_sync", nil).problem("not_found")
	w.send("GET", "/v1/outbox/"+run.ID.String()+".dispatch_sync_run.2", nil).problem("not_found")
	w.send("GET", "/v1/nothing", nil).problem("not_found")
	require.Equal(t, "GET", w.send("POST", "/v1/jobs", nil).header.Get("Allow"))
	w.send("POST", "/v1/jobs", nil).problem("method_not_allowed")

	var units httpapi.List[httpapi.Unit]
	w.send("GET", run.Links.Units, nil).is(http.StatusOK, &units)
	var unit httpapi.Unit
	w.send("GET", "/v1/units/"+escape(units.Items[0].Alias), nil).is(http.StatusOK, &unit)
	require.Equal(t, units.Items[0], unit)
	var entry httpapi.Entry
	w.send("GET", "/v1/outbox/"+escape(run.Dispatch.Entry), nil).is(http.StatusOK, &entry)
	require.Equal(t, ident.EntryID(projections.Key{Owner: run.ID, Kind: "dispatch_sync_run"}, 1), entry.ID)
	require.Equal(t, run.Dispatch.Entry, entry.Alias)
}

// HC-49: the digits of a payload come out as they went in.
func TestNoDigitIsLost(t *testing.T) {
	w := start(t, byWorkers)
	const digits = `{"id":1234567890123456789,"max":9223372036854775807,"dec":0.1,"neg":-9007199254740993,"z":1,"a":18446744073709551615}`
	run := w.plan(1)
	var leases httpapi.Leases
	r := w.send("POST", "/v1/leases/claim", map[string]any{"worker": "w", "wait_ms": 60000})
	r.is(http.StatusOK, &leases)
	require.Contains(t, string(r.body), `"config":{"big":1234567890123456789}`)
	lease := leases.Leases[0]
	w.send("POST", "/v1/leases/complete", `{"result":{"rows":3,"detail":`+digits+`},"state":`+digits+`}`, "Lease-Token", lease.Token).is(http.StatusOK, nil)
	w.wait(run.ID)
	unit := w.send("GET", "/v1/units/"+lease.Unit.String(), nil)
	require.Equal(t, 2, strings.Count(string(unit.body), digits), "%s", unit.body)
	log := w.send("GET", "/v1/events?where=type:UnitSucceeded", nil)
	require.Equal(t, 2, strings.Count(string(log.body), `"data":`)+strings.Count(string(log.body), `"state":`+digits), "%s", log.body)

	next := w.plan(1)
	r = w.send("POST", "/v1/leases/claim", map[string]any{"worker": "w", "wait_ms": 60000})
	require.Contains(t, string(r.body), `"state":`+digits, "what the last success has left: %s", next.ID)
	require.True(t, json.Valid(r.body))
}
