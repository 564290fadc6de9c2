package events

import "encoding/json"

// Numbers of the app family. A number is never reused.
const (
	TypeMessageSubmitted Type = iota + 120
	TypeMessageHandled
	TypeMessageRejected
)

type (
	// MessageSubmitted is an application's message; it commits with the application's own rows (M-1).
	MessageSubmitted struct {
		Message     MessageID         `json:"message_id"`
		Payload     json.RawMessage   `json:"payload"`
		Encoding    Encoding          `json:"encoding,omitzero"` // of the payload's bytes
		Metadata    map[string]string `json:"metadata,omitempty"`
		Key         string            `json:"key,omitzero"` // the producer's own; makes adding idempotent (M-2)
		AvailableAt Micros            `json:"available_at,omitzero"`
	}

	// MessageHandled commits with the consumer's effect (M-12).
	MessageHandled struct {
		Message           MessageID       `json:"message_id"`
		DeliveryMessageID string          `json:"delivery_message_id"`
		Result            json.RawMessage `json:"result,omitzero"`
	}

	// MessageRejected says that the payload can never be handled (M-8).
	MessageRejected struct {
		Message  MessageID `json:"message_id"`
		Category Category  `json:"category"`
		Text     string    `json:"text,omitzero"`
	}
)

func (MessageSubmitted) EventType() Type { return TypeMessageSubmitted }
func (MessageHandled) EventType() Type   { return TypeMessageHandled }
func (MessageRejected) EventType() Type  { return TypeMessageRejected }

func (MessageSubmitted) event() {}
func (MessageHandled) event()   {}
func (MessageRejected) event()  {}
