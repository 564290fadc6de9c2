package pull_test

import (
	"context"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/transport"
	"github.com/towline-dev/towline/transport/pull"
)

// O-10: what a worker will ask for has arrived, for it is in the store; behind the deadline nothing is begun. N-3: a restart
// loses none of it.
func TestPullAcceptsWhatIsAskedFor(t *testing.T) {
	var p transport.Publisher = pull.Publisher{}
	m := message.NewMessage("id", nil)
	require.Equal(t, events.Accepted, p.Send(t.Context(), "run_sync_unit", m).Outcome)
	require.True(t, transport.Confirms(p))
	require.False(t, events.InProcess(p.Name()))
	over, cancel := context.WithCancel(t.Context())
	cancel()
	r := p.Send(over, "run_sync_unit", m)
	require.Equal(t, events.Refused, r.Outcome)
	require.True(t, r.Uncounted)
}
