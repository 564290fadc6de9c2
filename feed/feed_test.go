package feed_test

import (
	"encoding/json"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/feed"
	"github.com/towline-dev/towline/store/storetest"
)

// E-4, WMILL-2: no message of any event shows a token, and each can be read again.
func TestNoMessageShowsAToken(t *testing.T) {
	tokens := 0
	for _, e := range storetest.Samples() {
		m, err := feed.Message("id", "/towline/x", events.Envelope{Position: 1, Tx: 1, Version: 1, Event: e})
		require.NoError(t, err)
		stored, err := events.Encode(e)
		require.NoError(t, err)
		if string(m.Payload) != string(stored.Data) {
			tokens++
		}
		for _, text := range []string{string(m.Payload), m.UUID} {
			require.NotContains(t, text, storetest.Secret)
		}
		for _, text := range m.Metadata {
			require.NotContains(t, text, storetest.Secret)
		}
		again, err := feed.Event(m)
		require.NoError(t, err)
		require.IsType(t, e, again)
		read, err := events.Encode(again)
		require.NoError(t, err)
		require.JSONEq(t, string(m.Payload), string(read.Data))
	}
	require.Equal(t, 9, tokens, "events with a token")
}

// E-4: masking changes the message, not the event that it was made of.
func TestMaskingLeavesTheEvent(t *testing.T) {
	e := events.UnitClaimed{Token: storetest.Secret}
	_, err := feed.Message("id", "", events.Envelope{Event: e})
	require.NoError(t, err)
	require.EqualValues(t, storetest.Secret, e.Token)
}

// WMILL-2: a message of something else is an error, and so is one of a newer release.
func TestMessagesThatAreNoEvents(t *testing.T) {
	of := func(kind, schema, payload string) *message.Message {
		m := message.NewMessage("7", message.Payload(payload))
		m.Metadata.Set(feed.Type, kind)
		m.Metadata.Set(feed.Schema, schema)
		return m
	}
	_, err := feed.Event(of("RunFinalized", "", "{}"))
	require.ErrorContains(t, err, "message 7: schema")
	_, err = feed.Event(of("RunMelted", "1", "{}"))
	require.ErrorIs(t, err, events.ErrUnknownType)
	_, err = feed.Event(of("RunFinalized", "9", "{}"))
	require.ErrorIs(t, err, events.ErrNewerSchema)
	_, err = feed.Event(of("RunFinalized", "1", "{"))
	var syntax *json.SyntaxError
	require.ErrorAs(t, err, &syntax)
	_, err = feed.PositionOf(of("RunFinalized", "1", "{}"))
	require.ErrorContains(t, err, "message 7: position")
}
