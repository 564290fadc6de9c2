package events

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// stored is a message as the log gives it back.
func stored(t require.TestingT, m MessageSubmitted) MessageSubmitted {
	r, err := Encode(m)
	require.NoError(t, err)
	e, err := Decode(r)
	require.NoError(t, err)
	return e.(MessageSubmitted)
}

// L-12, HC-49: a payload comes back byte for byte, whatever it is; JSON and text can be read in the log.
func TestAPayloadComesBackByteForByte(t *testing.T) {
	deep := strings.Repeat("[", 600) + strings.Repeat("]", 600)
	for payload, want := range map[string]Encoding{
		`{"id":1234567890123456789,"dec":0.1,"neg":-9007199254740993}`: EncodingJSON,
		`{"html":"<a href=\"x\">&"}`:                                   EncodingJSON,
		`{"twice":1,"twice":2}`:                                        EncodingJSON,
		`[]`:                                                           EncodingJSON,
		`"text"`:                                                       EncodingJSON,
		`17`:                                                           EncodingJSON,
		`{"a": 1}`:                                                     EncodingText,
		"{}\n":                                                         EncodingText,
		`null`:                                                         EncodingText,
		`{"open":`:                                                     EncodingText,
		``:                                                             EncodingText,
		"naïve <b>\u2028":                                              EncodingText,
		deep:                                                           EncodingText,
		"\x00\xff":                                                     EncodingBase64,
		"{\"a\":\"\xff\"}":                                             EncodingBase64,
	} {
		m, err := NewMessage(MessageID{15: 1}, "t", []byte(payload), nil, "", 0)
		require.NoError(t, err)
		require.Equal(t, want, m.Encoding, "%.40q", payload)
		body, err := stored(t, m).Body()
		require.NoError(t, err)
		require.Equal(t, payload, string(body))
	}
	rapid.Check(t, func(t *rapid.T) {
		payload := rapid.OneOf(rapid.SliceOf(rapid.Byte()), rapid.Map(rapid.String(), func(s string) []byte { return []byte(s) })).Draw(t, "payload")
		raw, encoding := EncodePayload(payload)
		body, err := stored(t, MessageSubmitted{Payload: raw, Encoding: encoding}).Body()
		require.NoError(t, err)
		require.True(t, bytes.Equal(payload, body))
	})
}

// L-12: what was planted into a log is an error of its message, not a panic.
func TestAPayloadThatCannotBeReadIsAnError(t *testing.T) {
	for _, m := range []MessageSubmitted{
		{Payload: []byte(`1`), Encoding: EncodingText},
		{Payload: []byte(`"%"`), Encoding: EncodingBase64},
		{Payload: []byte(`"a"`), Encoding: "rot13"},
	} {
		_, err := m.Body()
		require.Error(t, err)
	}
}

// HC-45, M-2: what no broker should carry, and what the log would not give back, is refused with its field and a remedy.
func TestAMessageThatCannotBeTakenIsRefused(t *testing.T) {
	good := func() (string, []byte, map[string]string, string, Micros) {
		return "booking.made", []byte(`{}`), map[string]string{"trace": "1"}, "k", 5
	}
	for _, tt := range []struct {
		field  string
		change func(topic *string, payload *[]byte, metadata map[string]string, key *string, at *Micros)
	}{
		{"topic", func(topic *string, _ *[]byte, _ map[string]string, _ *string, _ *Micros) { *topic = "" }},
		{"topic", func(topic *string, _ *[]byte, _ map[string]string, _ *string, _ *Micros) { *topic = "a b" }},
		{"topic", func(topic *string, _ *[]byte, _ map[string]string, _ *string, _ *Micros) { *topic = "bücher" }},
		{"topic", func(topic *string, _ *[]byte, _ map[string]string, _ *string, _ *Micros) {
			*topic = strings.Repeat("t", MaxTopicBytes+1)
		}},
		{"payload", func(_ *string, payload *[]byte, _ map[string]string, _ *string, _ *Micros) {
			*payload = make([]byte, MaxPayloadBytes+1)
		}},
		{"key", func(_ *string, _ *[]byte, _ map[string]string, key *string, _ *Micros) {
			*key = strings.Repeat("k", MaxMessageKeyBytes+1)
		}},
		{"key", func(_ *string, _ *[]byte, _ map[string]string, key *string, _ *Micros) { *key = "\xff" }},
		{"metadata", func(_ *string, _ *[]byte, metadata map[string]string, _ *string, _ *Micros) {
			metadata[MetadataMessageID] = "1"
		}},
		{"metadata", func(_ *string, _ *[]byte, metadata map[string]string, _ *string, _ *Micros) { metadata["a"] = "\xff" }},
		{"metadata", func(_ *string, _ *[]byte, metadata map[string]string, _ *string, _ *Micros) {
			metadata["a"] = strings.Repeat("a", MaxMetadataBytes)
		}},
		{"available_at", func(_ *string, _ *[]byte, _ map[string]string, _ *string, at *Micros) { *at = -1 }},
		{"available_at", func(_ *string, _ *[]byte, _ map[string]string, _ *string, at *Micros) {
			*at = MicrosOf(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)) // no view could show it
		}},
		{"available_at", func(_ *string, _ *[]byte, _ map[string]string, _ *string, at *Micros) {
			*at = MicrosOf(time.Unix(math.MinInt64/2, 0))
		}},
	} {
		topic, payload, metadata, key, at := good()
		_, err := NewMessage(MessageID{}, topic, payload, metadata, key, at)
		require.NoError(t, err)
		tt.change(&topic, &payload, metadata, &key, &at)
		_, err = NewMessage(MessageID{}, topic, payload, metadata, key, at)
		refused, ok := errors.AsType[*MessageError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, tt.field, refused.Field)
		require.Less(t, len(fmt.Sprint(err)), 400, "the text is short, whatever was given")
	}
}
