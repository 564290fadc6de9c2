package httpapi

import (
	"encoding/json"

	"github.com/danielgtaylor/huma/v2"
)

// AnyJSON is JSON that passes through as it is, with every digit; nil is null.
type AnyJSON json.RawMessage

// MarshalJSON writes what it holds.
func (j AnyJSON) MarshalJSON() ([]byte, error) { return json.RawMessage(j).MarshalJSON() }

// UnmarshalJSON keeps what it is given.
func (j *AnyJSON) UnmarshalJSON(b []byte) error { return (*json.RawMessage)(j).UnmarshalJSON(b) }

// Schema says that it may be anything, and null.
func (AnyJSON) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{AnyOf: []*huma.Schema{{}, {Type: "null"}}}
}
