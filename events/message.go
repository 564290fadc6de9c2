package events

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// Bounds of an application message. A broker's own limit may be lower; what it refuses for its size is parked.
const (
	MaxTopicBytes      = 200
	MaxPayloadBytes    = 256 << 10
	MaxMetadataBytes   = 16 << 10 // keys and values together
	MaxMessageKeyBytes = 200
)

// Metadata of Towline's own. MetadataKey and MetadataAvailableAt may be set on a message that is submitted through a
// Watermill publisher, and are not part of what is stored as its metadata; MetadataMessageID and MetadataKey stand on each
// message that is delivered (K-4). Any other name with this prefix is refused.
const (
	MetadataPrefix      = "towline-"
	MetadataMessageID   = MetadataPrefix + "message-id"
	MetadataKey         = MetadataPrefix + "key"          // the producer's own; makes submitting idempotent (M-2)
	MetadataAvailableAt = MetadataPrefix + "available-at" // RFC 3339; not published before
)

// Encoding says how the bytes of a payload stand in the JSON of the log. The words are a file format.
type Encoding string

const (
	EncodingJSON   Encoding = ""       // the payload is JSON and stands there as it is, byte for byte
	EncodingText   Encoding = "text"   // a JSON string of it: text, and JSON with spaces, which the log would take out
	EncodingBase64 Encoding = "base64" // a JSON string of its base64 form: bytes that are no text
)

// EncodePayload writes bytes in the form that Body gives back unchanged. What can be read in the log, can be read there.
func EncodePayload(b []byte) (json.RawMessage, Encoding) {
	switch {
	case isPlainJSON(b):
		return bytes.Clone(b), EncodingJSON
	case utf8.Valid(b):
		return quoted(string(b)), EncodingText
	}
	return quoted(base64.StdEncoding.EncodeToString(b)), EncodingBase64
}

// quoted is a JSON string; unlike json.Marshal it escapes nothing for HTML, so that people can read it.
func quoted(s string) json.RawMessage {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic(fmt.Sprintf("events: encode a text: %v", err)) // a text can always be encoded
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// isPlainJSON reports JSON that the codec stores as it is, and that SQLite, whose JSON is less deep, can read.
func isPlainJSON(b []byte) bool {
	const deepest = 500
	if !json.Valid(b) || !utf8.Valid(b) || string(b) == "null" || depth(b) > deepest {
		return false
	}
	var compact bytes.Buffer
	return json.Compact(&compact, b) == nil && bytes.Equal(compact.Bytes(), b)
}

// depth is how deep valid JSON is nested.
func depth(b []byte) (deepest int) {
	now, inText, escaped := 0, false, false
	for _, c := range b {
		switch {
		case escaped:
			escaped = false
		case inText && c == '\\':
			escaped = true
		case c == '"':
			inText = !inText
		case inText:
		case c == '[', c == '{':
			now++
			deepest = max(deepest, now)
		case c == ']', c == '}':
			now--
		}
	}
	return deepest
}

// Body is the payload, byte for byte as it was submitted.
func (m MessageSubmitted) Body() ([]byte, error) {
	if m.Encoding == EncodingJSON {
		return m.Payload, nil
	}
	var text string
	if err := json.Unmarshal(m.Payload, &text); err != nil {
		return nil, fmt.Errorf("payload of message %s: %w", m.Message, err)
	}
	switch m.Encoding {
	case EncodingText:
		return []byte(text), nil
	case EncodingBase64:
		b, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, fmt.Errorf("payload of message %s: %w", m.Message, err)
		}
		return b, nil
	}
	return nil, fmt.Errorf("payload of message %s: encoding %q is not known", m.Message, m.Encoding)
}

// SamePayload reports that two messages carry the same bytes (M-2).
func (m MessageSubmitted) SamePayload(o MessageSubmitted) bool {
	return m.Encoding == o.Encoding && bytes.Equal(m.Payload, o.Payload)
}

// MessageError says what is wrong with a message that is to be submitted. Nothing was written.
type MessageError struct {
	Field   string // topic, message_id, payload, metadata, key or available_at
	Problem string
	Fix     string
}

func (e *MessageError) Error() string {
	s := e.Field + ": " + e.Problem
	if e.Fix != "" {
		s += "; " + e.Fix
	}
	return s
}

// CheckTopic refuses what is no topic. The characters are those that Watermill's SQL publisher allows. The error is a
// *MessageError.
func CheckTopic(topic string) error {
	const fix = "use letters, digits and - $ : . _"
	switch {
	case topic == "":
		return &MessageError{"topic", "it is empty", fix}
	case len(topic) > MaxTopicBytes:
		return &MessageError{"topic", fmt.Sprintf("%d bytes are too many", len(topic)), fmt.Sprintf("use at most %d", MaxTopicBytes)}
	case strings.ContainsFunc(topic, notInTopic):
		return &MessageError{"topic", fmt.Sprintf("%q holds another character than a topic may", topic), fix}
	}
	return nil
}

func notInTopic(r rune) bool {
	isLetter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
	isDigit := '0' <= r && r <= '9'
	return !isLetter && !isDigit && !strings.ContainsRune("-$:._", r)
}

// NewMessage makes what is appended of a message, or says as a *MessageError why it cannot be taken. The zero id is not
// refused: who makes ids knows better.
func NewMessage(id MessageID, topic string, payload []byte, metadata map[string]string, key string, at Micros) (MessageSubmitted, error) {
	m := MessageSubmitted{Message: id, Metadata: metadata, Key: key, AvailableAt: at}
	if err := CheckTopic(topic); err != nil {
		return m, err
	}
	if len(payload) > MaxPayloadBytes {
		return m, &MessageError{"payload", fmt.Sprintf("%d bytes are too many", len(payload)), fmt.Sprintf("send at most %d, or a reference", MaxPayloadBytes)}
	}
	if len(key) > MaxMessageKeyBytes {
		return m, &MessageError{"key", fmt.Sprintf("%d bytes are too many", len(key)), fmt.Sprintf("use at most %d", MaxMessageKeyBytes)}
	}
	if !utf8.ValidString(key) {
		return m, &MessageError{"key", "it is not valid UTF-8", ""}
	}
	if !at.Sayable() {
		return m, &MessageError{"available_at", "it is out of range", "give a time from 1970 to 9999"}
	}
	if err := checkMetadata(metadata); err != nil {
		return m, err
	}
	m.Payload, m.Encoding = EncodePayload(payload)
	return m, nil
}

func checkMetadata(metadata map[string]string) error {
	total := 0
	for _, name := range metadataNames(metadata) {
		total += len(name) + len(metadata[name])
		switch {
		case strings.HasPrefix(name, MetadataPrefix):
			return &MessageError{"metadata", fmt.Sprintf("%.64q is a name of Towline's own", name), "use another name"}
		case !utf8.ValidString(name), !utf8.ValidString(metadata[name]):
			return &MessageError{"metadata", fmt.Sprintf("%.64q is not valid UTF-8", name), "encode it"}
		}
	}
	if total > MaxMetadataBytes {
		return &MessageError{"metadata", fmt.Sprintf("%d bytes are too many", total), fmt.Sprintf("use at most %d, names and values together", MaxMetadataBytes)}
	}
	return nil
}

// metadataNames are sorted, so that of several faults the same one is named every time.
func metadataNames(metadata map[string]string) []string {
	keys := reflect.ValueOf(metadata).MapKeys()
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.String()
	}
	slices.Sort(names)
	return names
}
