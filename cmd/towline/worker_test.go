package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/worker"
)

// HU-7: of a result that the engine cannot store a failure is reported in its place, and that is how the attempt has ended. Only
// what nobody has heard is unreported.
func TestHowAnAttemptIsSaidToHaveEnded(t *testing.T) {
	done := towline.Completed{Result: events.Result{Rows: 3}}
	for _, c := range []struct {
		how      towline.Settle
		err      error
		ended    string
		category events.Category
		rows     int
	}{
		{done, nil, "succeeded", "", 3},
		{done, fmt.Errorf("%w: body.state: it is too long", towline.ErrInvalid), "failed", events.ProviderError, 0},
		{done, fmt.Errorf("%w: gone", towline.ErrLeaseLost), "late", "", 3},
		{done, errors.Join(towline.ErrUnavailable), "unreported", "", 3},
		{towline.Failed{Category: events.Network, Text: "no line"}, nil, "failed", events.Network, 0},
		{towline.HandedBack{Reason: "stop"}, nil, "handed_back", "", 0},
		{nil, nil, "stopped", "", 0},
	} {
		d := doneOf(worker.Ended{How: c.how, Err: c.err})
		require.Equal(t, c.ended, d.Ended)
		require.Equal(t, c.category, d.Category)
		require.Equal(t, c.rows, d.Rows)
	}
}
