package httpapi_test

import (
	"context"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

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
	run := w.plan(1)
	var units httpapi.List[httpapi.Unit]
	w.send("GET", "/v1/runs/"+run.Alias+"/units", nil).is(http.StatusOK, &units)
	w.send("POST", "/v1/units/"+units.Items[0].ID.String()+"/claim", map[string]any{"worker": "w"}).problem("restored_hold")
	var why httpapi.Explanation
	w.send("GET", "/v1/runs/"+run.Alias+"/why", nil).is(http.StatusOK, &why)
	require.Equal(t, "restored_hold", why.Reason)
	require.True(t, why.NeedsPerson)
	require.Equal(t, "towline resume --after-restore", why.Fix)

	var p httpapi.Paused
	require.Equal(t, "source", w.send("POST", "/v1/resume", map[string]any{"reason": "r", "source": "north", "after_restore": true}).
		problem("invalid_request").Field)
	w.send("POST", "/v1/resume", map[string]any{"reason": "not that"}).is(http.StatusOK, &p)
	w.send("POST", "/v1/units/"+units.Items[0].ID.String()+"/claim", map[string]any{"worker": "w"}).problem("restored_hold")
	w.send("POST", "/v1/resume", map[string]any{"reason": "looked", "after_restore": true}, "Towline-Actor", "ann").is(http.StatusOK, &p)
	w.eventually(func() bool {
		return w.send("POST", "/v1/units/"+units.Items[0].ID.String()+"/claim", map[string]any{"worker": "w"}).status == http.StatusOK
	})
}
