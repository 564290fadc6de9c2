package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/httpapi"
)

// pages reads a list to its end, with something done between the pages.
func pages[T any](w *world, path string, between func()) (out []T) {
	w.t.Helper()
	for after := ""; ; {
		var page httpapi.List[T]
		w.send("GET", path+"&after="+url.QueryEscape(after), nil).is(http.StatusOK, &page)
		out = append(out, page.Items...)
		if page.Next == "" {
			return out
		}
		after = page.Next
		between()
	}
}

// HC-46, surfaces 5: a row that existed at the start appears exactly once, while others come in between.
func TestAListShowsEachRowOnceWhileOthersCome(t *testing.T) {
	w := start(t, oneDay, func(c *setup) { c.idle = true })
	var first []string
	for range 15 {
		first = append(first, w.plan(3).ID.String())
	}
	more := func() { w.plan(1) }
	times := map[string]int{}
	for _, r := range pages[httpapi.Run](w, "/v1/runs?limit=7", more) {
		times[r.ID.String()]++
	}
	for _, id := range first {
		require.Equal(t, 1, times[id], id)
	}
	units := map[string]int{}
	for _, u := range pages[httpapi.Unit](w, "/v1/units?limit=7", more) {
		units[u.Run.String()]++
	}
	entries := map[string]int{}
	for _, e := range pages[httpapi.Entry](w, "/v1/outbox?limit=7", more) {
		entries[e.Owner.String()]++
	}
	jobs := map[string]int{}
	for _, j := range pages[httpapi.Job](w, "/v1/jobs?limit=7", more) {
		jobs[j.Result.Run.String()]++
	}
	for _, id := range first {
		require.Equal(t, 3, units[id])
		require.Equal(t, 1, entries[id])
		require.Equal(t, 1, jobs[id])
	}
	ordinals := pages[httpapi.Unit](w, "/v1/runs/"+first[0]+"/units?limit=2", more)
	require.Len(t, ordinals, 3)
	require.Equal(t, "after", w.send("GET", "/v1/runs/"+first[0]+"/units?after=9223372036854775807", nil).problem("bad_request").Field)
	for i, u := range ordinals {
		require.Equal(t, i+1, u.Ordinal)
	}
}

// Surfaces 4.1: lists are chosen by the query grammar; a wrong query names its term.
func TestAListIsChosenByAQuery(t *testing.T) {
	w := start(t, oneDay, func(c *setup) { c.idle = true })
	run := w.plan(3)
	w.plan(2)
	for path, want := range map[string]int{
		"/v1/runs?where=state:planned":                                                      2,
		"/v1/runs?where=" + url.QueryEscape("run:"+run.Alias):                               1,
		"/v1/runs?where=" + url.QueryEscape("-run:"+run.Alias+" sync:days"):                 1,
		"/v1/units?where=" + url.QueryEscape("run:"+run.Alias+" window>=2026-02-27"):        2,
		"/v1/units?where=" + url.QueryEscape("window:2026-02"):                              5,
		"/v1/outbox?where=" + url.QueryEscape("kind:dispatch_sync_run state:pending"):       2,
		"/v1/outbox?where=" + url.QueryEscape("outcome:unknown"):                            0,
		"/v1/units?where=" + url.QueryEscape(`worker:""`):                                   5,
		"/v1/units?where=" + url.QueryEscape(`-worker:""`):                                  0,
		"/v1/jobs?where=" + url.QueryEscape("trigger:backfill age<1h"):                      2,
		"/v1/runs/" + run.ID.String() + "/units?where=" + url.QueryEscape("-state:planned"): 0,
	} {
		var list httpapi.List[json.RawMessage]
		w.send("GET", path, nil).is(http.StatusOK, &list)
		require.Len(t, list.Items, want, path)
	}
	for _, path := range []string{"/v1/runs", "/v1/units", "/v1/outbox", "/v1/jobs", "/v1/events", "/v1/runs/" + run.Alias + "/units"} {
		p := w.send("GET", path+"?where=colour:red", nil).problem("invalid_request")
		require.Equal(t, "where", p.Field)
		require.Contains(t, p.Fix, "use one of")
		w.send("GET", path+"?limit=0", nil).problem("invalid_request")
		w.send("GET", path+"?limit=99999999999999999999", nil).problem("bad_request")
		w.send("GET", path+"?limit=x", nil).problem("bad_request")
		w.send("GET", path+"?colour=red", nil).problem("invalid_request")
		if path != "/v1/events" {
			w.send("GET", path+"?after=x", nil).problem("bad_request")
		}
	}
}

// Surfaces 5: 304 is said of what has not changed. By an age a list changes with the clock alone, and is sent again.
func TestAListByAgeIsNeverUnchanged(t *testing.T) {
	var passed atomic.Int64
	w := start(t, oneDay, func(c *setup) {
		c.idle = true
		c.node.Now = func() time.Time { return before.Add(time.Duration(passed.Load())) }
		c.node.Monotonic = func() time.Duration { return time.Duration(passed.Load()) }
	})
	run := w.plan(1)
	const old = "?where=age%3E10m"
	paths := []string{"/v1/runs", "/v1/units", "/v1/runs/" + run.Alias + "/units", "/v1/outbox", "/v1/jobs", "/v1/events"}
	for _, path := range paths {
		require.Contains(t, string(w.send("GET", path+old, nil).is(http.StatusOK, nil).body), `"items":[]`, path)
	}
	passed.Store(int64(time.Hour))
	tag := w.send("GET", "/v1/runs", nil).header.Get("ETag")
	require.NotEmpty(t, tag)
	for _, path := range paths {
		require.NotContains(t, string(w.send("GET", path+old, nil, "If-None-Match", tag).is(http.StatusOK, nil).body), `"items":[]`, path)
		require.Equal(t, http.StatusNotModified, w.send("GET", path, nil, "If-None-Match", tag).status, path)
	}
	at := old + "&at_seq=" + strings.Trim(tag, `"`)
	require.Equal(t, http.StatusNotModified, w.send("GET", "/v1/runs"+at, nil, "If-None-Match", tag).status, "of a past it is counted back from its event")
}

// AS-1, surfaces 5: every read of runs, units, outbox and coverage can be asked of the past; what has not happened is not
// found; and an answer that has not changed is not sent again.
func TestEveryReadCanBeAskedOfThePast(t *testing.T) {
	w := start(t, oneDay)
	var months httpapi.Run
	w.send("POST", "/v1/runs", map[string]any{"sync": "days", "datasets": []string{"months"}, "sources": []string{"north"}}).is(http.StatusAccepted, &months)
	planned := w.send("GET", "/v1/runs/"+months.ID.String(), nil)
	w.wait(months.ID)
	run := w.plan(3)
	w.wait(run.ID)
	var log httpapi.Events
	w.send("GET", "/v1/events?limit=1000&where="+url.QueryEscape("type:JobLinked run:"+run.Alias), nil).is(http.StatusOK, &log)
	at := fmt.Sprint("at_seq=", log.Items[0].Seq)

	var then httpapi.Run
	r := w.send("GET", "/v1/runs/"+run.Alias+"?"+at, nil)
	r.is(http.StatusOK, &then)
	require.Equal(t, "planned", string(then.State))
	require.Equal(t, log.Items[0].Seq.String(), r.header.Get("Towline-Seq"))
	require.Equal(t, `"`+log.Items[0].Seq.String()+`"`, r.header.Get("ETag"))
	var units httpapi.List[httpapi.Unit]
	w.send("GET", "/v1/units?where=state:planned&"+at, nil).is(http.StatusOK, &units)
	require.Len(t, units.Items, 3)
	w.send("GET", "/v1/runs/"+run.Alias+"/units?limit=2&"+at, nil).is(http.StatusOK, &units)
	require.Len(t, units.Items, 2)
	var unit httpapi.Unit
	w.send("GET", "/v1/units/"+units.Items[0].ID.String()+"?"+at, nil).is(http.StatusOK, &unit)
	require.Equal(t, units.Items[0], unit)
	var entry httpapi.Entry
	w.send("GET", "/v1/outbox/"+run.ID.String()+".dispatch_sync_run?"+at, nil).is(http.StatusOK, &entry)
	require.Equal(t, "pending", entry.State)
	var state httpapi.State
	w.send("GET", "/v1/state?"+at, nil).is(http.StatusOK, &state)
	require.Len(t, state.Runs, 1)
	var coverage httpapi.Coverage
	w.send("GET", "/v1/coverage?source=north&dataset=months&"+at, nil).is(http.StatusOK, &coverage)
	require.NotEmpty(t, coverage.Done)
	w.send("GET", "/v1/coverage?source=north&dataset=months&at_seq=3", nil).is(http.StatusOK, &coverage)
	require.Empty(t, coverage.Done)
	w.send("GET", "/v1/coverage?source=north&dataset=none", nil).problem("invalid_request")
	w.send("GET", "/v1/runs/"+run.Alias+"?at_seq=3", nil).problem("not_found")
	for _, path := range []string{"/v1/runs", "/v1/state", "/v1/units/" + unit.ID.String(), "/v1/outbox"} {
		w.send("GET", path+"?at_seq=999999", nil).problem("not_found")
		w.send("GET", path+"?at_seq=9223372036854775808", nil).problem("bad_request")
	}
	w.send("GET", "/v1/state?at_time="+url.QueryEscape(log.Items[0].At.Format("2006-01-02T15:04:05.999999Z07:00")), nil).is(http.StatusOK, &state)
	require.Equal(t, log.Items[0].Tx, state.Seq-(log.Items[0].Seq-log.Items[0].Tx), "the end of the transaction")
	w.send("GET", "/v1/state?at_time=2001-01-01T00:00:00Z", nil).problem("not_found")
	w.send("GET", "/v1/units/"+unit.ID.String()+"/why?"+at, nil).problem("invalid_request")

	now := w.send("GET", "/v1/runs/"+run.Alias, nil)
	require.Equal(t, http.StatusNotModified, w.send("GET", "/v1/runs/"+run.Alias, nil, "If-None-Match", now.header.Get("ETag")).status)
	require.Equal(t, http.StatusOK, w.send("GET", "/v1/runs/"+run.Alias, nil, "If-None-Match", planned.header.Get("ETag")).status)
}
