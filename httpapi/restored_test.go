package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/httpapi"
	"github.com/towline-dev/towline/node"
)

// restored is a store that was put in the place of another.
func restored(t *testing.T) func(*setup) {
	return func(c *setup) {
		old := *c
		n, err := node.Open(context.Background(), old.node)
		require.NoError(t, err)
		require.NoError(t, n.Close())
		copied := filepath.Join(filepath.Dir(old.node.Store), "copy.db")
		_, err = node.Backup(context.Background(), old.node.Store, copied, node.BackupOptions{})
		require.NoError(t, err)
		_, err = node.Restore(context.Background(), copied, old.node.Store, node.RestoreOptions{})
		require.NoError(t, err)
	}
}

// DUR-5, WHY-2: a restored store accepts triggers, hands no unit out (409 restored_hold), and says so wherever somebody asks,
// until an operator ends the hold with a reason.
func TestARestoredStoreIsReleased(t *testing.T) {
	w := start(t, oneDay, byWorkers, restored(t))
	var ready httpapi.Readiness
	w.send("GET", "/readyz", nil).is(http.StatusOK, &ready)
	require.Equal(t, "degraded", ready.Status)
	require.Equal(t, "restored_hold", ready.Reasons[0].What)
	run := w.plan(1)
	var units httpapi.List[httpapi.Unit]
	w.send("GET", "/v1/runs/"+run.Alias+"/units", nil).is(http.StatusOK, &units)
	w.send("POST", "/v1/units/"+units.Items[0].ID.String()+"/claim", map[string]any{"worker": "w"}).problem("restored_hold")
	var why httpapi.Explanation
	w.send("GET", "/v1/runs/"+run.Alias+"/why", nil).is(http.StatusOK, &why)
	require.Equal(t, "restored_hold", why.Reason)
	require.True(t, why.NeedsPerson)
	require.Equal(t, "towline resume --after-restore", why.Fix)

	var state httpapi.State
	w.send("GET", "/v1/state", nil).is(http.StatusOK, &state)
	require.NotNil(t, state.Hold)
	require.Equal(t, 2, state.Hold.Epoch)
	require.True(t, state.Hold.Held)
	require.Positive(t, state.Hold.Head)
	held := state.Seq

	var p httpapi.Paused
	require.Equal(t, "source", w.send("POST", "/v1/resume", map[string]any{"reason": "r", "source": "north", "after_restore": true}).
		problem("invalid_request").Field)
	w.send("POST", "/v1/resume", map[string]any{"reason": "not that"}).is(http.StatusOK, &p)
	w.send("POST", "/v1/units/"+units.Items[0].ID.String()+"/claim", map[string]any{"worker": "w"}).problem("restored_hold")
	w.send("POST", "/v1/resume", map[string]any{"reason": "looked", "after_restore": true}, "Towline-Actor", "ann").is(http.StatusOK, &p)
	state = httpapi.State{}
	w.send("GET", "/v1/state", nil).is(http.StatusOK, &state)
	require.Nil(t, state.Hold)
	w.send("GET", fmt.Sprintf("/v1/state?at_seq=%d", held), nil).is(http.StatusOK, &state)
	require.NotNil(t, state.Hold, "it was held then")
	w.eventually(func() bool {
		return w.send("POST", "/v1/units/"+units.Items[0].ID.String()+"/claim", map[string]any{"worker": "w"}).status == http.StatusOK
	})
}

// DUR-6, T-2: at its size budget a store answers 507 to whoever asks for a run, and nothing was accepted; readiness says so.
func TestAStoreAtItsSizeBudgetAnswers507(t *testing.T) {
	w := start(t, oneDay, func(c *setup) { c.node.MaxBytes = 1 << 17 })
	require.Contains(t, w.send("POST", "/v1/runs", map[string]any{"sync": "days"}).problem("disk_budget").Detail, "store.max_bytes")
	var ready httpapi.Readiness
	w.send("GET", "/readyz", nil).is(http.StatusOK, &ready)
	require.Equal(t, "disk_budget", ready.Reasons[0].What)
	var runs httpapi.List[httpapi.Run]
	w.send("GET", "/v1/runs", nil).is(http.StatusOK, &runs)
	require.Empty(t, runs.Items)
}

// S-8, DUR-6: a schedule whose run has no room is tried for ever, so it is named where somebody looks.
func TestAScheduleWithoutRoomIsNamed(t *testing.T) {
	w := start(t, oneDay, func(c *setup) {
		c.node.MaxBytes = 1 << 17
		c.node.Schedules = []towline.Schedule{{Name: "often", Sync: "days", Cron: "@every 1s"}}
	})
	var one httpapi.Schedule
	w.eventually(func() bool {
		w.send("GET", "/v1/schedules/often", nil).is(http.StatusOK, &one)
		return one.Waits != nil
	})
	require.Equal(t, "disk_budget", one.Waits.Code)
	require.Contains(t, one.Waits.Text, "store.max_bytes")
	var ready httpapi.Readiness
	w.send("GET", "/readyz", nil).is(http.StatusOK, &ready)
	require.Equal(t, "degraded", ready.Status)
	require.Equal(t, "schedule_waits", ready.Reasons[1].What)
	require.Equal(t, "often", ready.Reasons[1].ID)
	require.False(t, ready.Reasons[1].Since.IsZero())
	require.Empty(t, one.History, "its due time is undecided")
}

// A regular backup that could not be made for long is named, with what hinders it.
func TestABackupThatIsOverdueIsNamed(t *testing.T) {
	w := start(t, oneDay, func(c *setup) {
		c.node.Backups = node.Backups{Every: time.Millisecond, Dir: filepath.Join(c.node.Store, "no folder")}
	})
	var ready httpapi.Readiness
	w.eventually(func() bool {
		w.send("GET", "/readyz", nil).is(http.StatusOK, &ready)
		return len(ready.Reasons) > 0
	})
	require.Equal(t, "backup", ready.Reasons[0].What)
	require.Contains(t, ready.Reasons[0].Text, "none was made yet: ")
}
