package httpapi

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
)

// WHY-1: a fix names the outbox entry as commands take it, whatever was asked about.
func TestTheEntryOfAFix(t *testing.T) {
	const run = "01M8KSP2PGV3T0X6J2BD7Q4ZKD"
	for want, w := range map[string]towline.Why{
		"7Q4ZKD/dispatch_sync_run": {Of: "run", ID: run, Reason: decider.Reason{Kind: events.KindDispatch}},
		"7Q4ZKD/run_sync_unit":     {Of: "unit", ID: "7Q4ZKD:orders/commits/2024-03", Reason: decider.Reason{Kind: events.KindUnit}},
		"7Q4ZKD/post_sync":         {Of: "register", ID: "outbox/" + run + "/post_sync"},
		run + "/message":           {Of: "register", ID: "outbox/" + run + "/message"},
		"something":                {Of: "job", ID: "something"},
	} {
		require.Equal(t, want, entryOfWhy(w))
	}
}
