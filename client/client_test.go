package client_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/client"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/httpapi"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/wire"
)

func backfill(units int) wire.StartRun {
	return wire.StartRun{Sync: "days", Mode: events.Backfill, Sources: &[]string{"north"}, Since: before.AddDate(0, 0, -units), Before: before}
}

// C-1, TRG-1: a run is started, found, listed with its units, explained and ended, over the socket and over a port, by every
// form of its name.
func TestARunFromItsStartToItsEnd(t *testing.T) {
	w := start(t)
	for name, c := range map[string]*client.Client{
		"socket": w.client(client.Config{Actor: "somebody"}),
		"port":   w.client(client.Config{Address: "http://" + w.port + "/", Token: token}),
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			started, err := c.StartRun(ctx, backfill(3), client.StartOptions{Key: name, Wait: time.Minute})
			require.NoError(t, err)
			run := started.Run
			require.Equal(t, events.RunSucceeded, run.State)
			require.Equal(t, 3, run.Succeeded)
			require.Positive(t, started.Seq)
			again, err := c.StartRun(ctx, backfill(3), client.StartOptions{Key: name})
			require.NoError(t, err)
			require.True(t, again.Replayed)
			require.Equal(t, run.ID, again.Run.ID)

			for _, id := range []string{run.ID.String(), strings.ToLower(run.ID.String()), "run/" + run.ID.String(), run.Alias} {
				got, err := c.Run(ctx, id, client.Now)
				require.NoError(t, err, id)
				require.Equal(t, run.ID, got.Value.ID)
			}
			var units []wire.Unit
			list := c.UnitsOf(run.Alias, client.Query{Page: 2})
			for u, err := range list.All(ctx) {
				require.NoError(t, err)
				units = append(units, u)
			}
			require.Len(t, units, 3)
			require.Positive(t, list.Seq())
			for _, id := range []string{units[0].ID.String(), units[0].Alias} {
				got, err := c.Unit(ctx, id, client.Now)
				require.NoError(t, err, id)
				require.Equal(t, units[0].ID, got.Value.ID)
			}
			entry, err := c.Entry(ctx, run.Alias+"/dispatch_sync_run#1", client.Now)
			require.NoError(t, err)
			require.Equal(t, "idle", entry.Value.State)
			why, err := c.Why(ctx, "unit/"+units[0].ID.String())
			require.NoError(t, err)
			require.Empty(t, why.Value.Reason)
			job, err := c.Job(ctx, run.Job.String(), client.Now)
			require.NoError(t, err)
			require.Equal(t, run.ID, job.Value.Result.Run)
			then, err := c.PositionAt(ctx, run.PlannedAt)
			require.NoError(t, err)
			past, err := c.Run(ctx, run.Alias, then)
			require.NoError(t, err)
			require.Equal(t, events.RunIsPlanned, past.Value.State)
			n := 0
			for e, err := range c.Events(ctx, client.EventQuery{Where: "run:" + run.Alias}) {
				require.NoError(t, err)
				if e.Type == "UnitSucceeded" {
					n++
				}
			}
			require.Equal(t, 3, n)
		})
	}
}

// D-17: what an operator does, with its reason; done twice it changes nothing.
func TestWhatAnOperatorDoes(t *testing.T) {
	w := start(t)
	c, ctx := w.client(client.Config{Actor: "somebody"}), t.Context()
	run, err := c.StartRun(ctx, wire.StartRun{Sync: "stuck"}, client.StartOptions{})
	require.NoError(t, err)
	paused, err := c.Pause(ctx, wire.PauseRequest{Source: "west", Reason: "too hot"})
	require.NoError(t, err)
	require.Len(t, paused.Value.Items, 1)
	paused, err = c.Resume(ctx, wire.ResumeRequest{Source: "west", Reason: "cool again"})
	require.NoError(t, err)
	require.Empty(t, paused.Value.Items)
	for range 2 {
		got, err := c.CancelRun(ctx, run.Run.ID.String(), "enough")
		require.NoError(t, err)
		require.Equal(t, events.RunIsCancelled, got.Value.State)
	}
	retried, err := c.RetryRun(ctx, run.Run.Alias, wire.RetryRun{Cancelled: true, Reason: "again"}, client.StartOptions{})
	require.NoError(t, err)
	require.Equal(t, run.Run.ID, retried.Run.RetryOf)
	for e, err := range c.Events(ctx, client.EventQuery{Where: "type:RunCancelled"}) {
		require.NoError(t, err)
		require.Equal(t, "somebody", e.Actor)
	}
	_, err = c.CancelRun(ctx, retried.Run.Alias, "enough")
	require.NoError(t, err)
}

// RFC 9457: what a node refuses is an error with its code, and says what to do.
func TestWhatANodeRefuses(t *testing.T) {
	w := start(t)
	c, ctx := w.client(client.Config{}), t.Context()
	open, err := c.StartRun(ctx, wire.StartRun{Sync: "stuck"}, client.StartOptions{})
	require.NoError(t, err)
	ended, err := c.StartRun(ctx, backfill(1), client.StartOptions{Wait: time.Minute})
	require.NoError(t, err)
	for name, tt := range map[string]struct {
		ask  func() error
		code string
	}{
		"unknown run": {func() error { _, err := c.Run(ctx, "01M8KSP2PGV3T0X6J2BD7Q4ZKD", client.Now); return err }, client.CodeNotFound},
		"no id":       {func() error { _, err := c.Run(ctx, "7Q4", client.Now); return err }, "bad_request"},
		"an open one": {func() error {
			_, err := c.StartRun(ctx, wire.StartRun{Sync: "stuck"}, client.StartOptions{})
			return err
		}, client.CodeRunExists},
		"ended already": {func() error { _, err := c.CancelRun(ctx, ended.Run.Alias, "x"); return err }, client.CodeAlreadyEnded},
		"no such query": {func() error {
			for _, err := range c.Runs(client.Query{Where: "nope:1"}).All(ctx) {
				return err
			}
			return nil
		}, "invalid_request"},
		"unknown token": {func() error {
			_, err := w.client(client.Config{Token: "another"}).Head(ctx)
			return err
		}, "unauthenticated"},
	} {
		t.Run(name, func(t *testing.T) {
			var refused *client.Error
			require.ErrorAs(t, tt.ask(), &refused)
			require.Equal(t, tt.code, refused.Code)
			require.NotEmpty(t, refused.Fix)
			require.NotEmpty(t, refused.Error())
			if tt.code == client.CodeRunExists {
				require.Equal(t, open.Run.ID, refused.Holder.ID)
			}
		})
	}
	_, err = c.CancelRun(ctx, open.Run.Alias, "enough")
	require.NoError(t, err)
}

// RFC 9457: no field of a problem is lost on the way.
func TestEveryFieldOfAProblemArrives(t *testing.T) {
	names := func(of reflect.Type) (out []string) {
		for i := range of.NumField() {
			name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
			out = append(out, name)
		}
		return out
	}
	require.ElementsMatch(t, names(reflect.TypeFor[httpapi.Problem]()), names(reflect.TypeFor[client.Error]()))
	require.ElementsMatch(t, names(reflect.TypeFor[httpapi.Holder]()), names(reflect.TypeFor[client.Holder]()))
}

// A node that works, one that is degraded, and a store that is read: none of them is an error.
func TestWhetherANodeIsReady(t *testing.T) {
	w := start(t)
	c := w.client(client.Config{})
	var ready wire.Readiness
	require.Eventually(t, func() bool { // its loops begin when they do
		var err error
		ready, err = c.Ready(t.Context())
		require.NoError(t, err)
		return ready.Status == "ok"
	}, time.Minute, time.Millisecond)
	require.NotEmpty(t, ready.Loops)

	r, err := node.OpenReader(t.Context(), node.ReaderConfig{Store: w.store})
	require.NoError(t, err)
	s, err := httpapi.New(httpapi.Config{Node: r})
	require.NoError(t, err)
	inside, err := client.New(client.Config{Address: "http://localhost", Transport: s.Inside()})
	require.NoError(t, err)
	ready, err = inside.Ready(t.Context())
	require.NoError(t, err)
	require.Equal(t, "unavailable", ready.Status)
	require.Equal(t, "not_running", ready.Reasons[0].What)
	require.NoError(t, s.Close())
	require.NoError(t, r.Close())
}

// Whoever does not reach a node hears which one, and what is no node's answer is not taken for one.
func TestWhereNoNodeAnswers(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/runs/moved" {
			http.Redirect(w, r, "/v1/runs/x", http.StatusFound)
			return
		}
		http.Error(w, "nginx", http.StatusBadGateway)
	}))
	defer other.Close()
	for name, address := range map[string]string{"no socket": "unix:/nope/api.sock", "no port": "http://127.0.0.1:1"} {
		c, err := client.New(client.Config{Address: address})
		require.NoError(t, err)
		_, err = c.Head(t.Context())
		require.ErrorIs(t, err, client.ErrUnreachable, name)
		require.ErrorContains(t, err, address, name)
		for _, err := range c.Tail(t.Context(), client.TailOptions{}) {
			require.ErrorIs(t, err, client.ErrUnreachable, name)
		}
		c.Close()
	}
	c, err := client.New(client.Config{Address: other.URL})
	require.NoError(t, err)
	defer c.Close()
	var refused *client.Error
	_, err = c.Head(t.Context())
	require.ErrorAs(t, err, &refused)
	require.ErrorContains(t, err, "no answer of Towline")
	_, err = c.Run(t.Context(), "moved", client.Now)
	require.ErrorAs(t, err, &refused)
	require.Equal(t, http.StatusFound, refused.Status, "no token goes elsewhere")
	for _, address := range []string{"", "unix:", "localhost:7480", "ftp://x", "http://"} {
		_, err := client.New(client.Config{Address: address})
		require.Error(t, err, address)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	own := errors.New("its own reason")
	cancel(own)
	_, err = c.Head(ctx)
	require.ErrorIs(t, err, own)
}
