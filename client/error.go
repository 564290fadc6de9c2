package client

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/towline-dev/towline/events"
)

// Error is what a node has refused, an RFC 9457 problem. Nothing was written, unless Detail says so.
type Error struct {
	Type       string          `json:"type"` // path of the page about Code, on the node
	Title      string          `json:"title"`
	Status     int             `json:"status"`
	Detail     string          `json:"detail"`
	Instance   string          `json:"instance"`
	Code       string          `json:"code"`  // what a program looks at; empty: the answer was none of a node's
	Field      string          `json:"field"` // of the request
	Seq        events.Position `json:"seq"`
	RetryAfter int64           `json:"retry_after_ms"` // 0: the same request will not succeed later
	Fix        string          `json:"fix"`            // what to do, or the command to run
	Reason     string          `json:"reason"`         // of lease_lost
	State      string          `json:"state"`          // in which the thing is
	Holder     *Holder         `json:"holder"`         // of run_exists
	Candidates []string        `json:"candidates"`     // of an ambiguous id
}

// Holder is the run that keeps another from being accepted.
type Holder struct {
	ID    events.RunID `json:"id"`
	Alias string       `json:"alias"`
	Self  string       `json:"self"`
}

// Error is the detail in one sentence. What to do is in Fix.
func (e *Error) Error() string {
	if e.Detail == "" {
		return e.Title
	}
	return e.Detail
}

// Codes of problems that callers decide by. Each has a page at /problems/CODE of the node.
const (
	CodeBadRequest   = "bad_request"
	CodeNotFound     = "not_found"
	CodeRunExists    = "run_exists"
	CodeAlreadyEnded = "already_ended"
	CodeConflict     = "conflict"
	CodeReadOnly     = "read_only"
	CodeLeaseLost    = "lease_lost"
	CodeRestoredHold = "restored_hold"
)

// Retry is after how long the same request may succeed; false: it will not.
func (e *Error) Retry() (time.Duration, bool) {
	return time.Duration(e.RetryAfter) * time.Millisecond, e.RetryAfter > 0
}

const maxProblem = 1 << 20

func (c *Client) problemOf(frame *http.Response) error {
	e := &Error{}
	body, err := io.ReadAll(io.LimitReader(frame.Body, maxProblem))
	isProblem := strings.HasPrefix(frame.Header.Get("Content-Type"), "application/problem+json")
	if err == nil && isProblem {
		err = json.Unmarshal(body, e)
	}
	if err != nil || !isProblem || e.Code == "" {
		return &Error{
			Status: frame.StatusCode, Title: frame.Status,
			Detail: fmt.Sprintf("%s answers %s, which is no answer of Towline", c.c.Address, frame.Status),
			Fix:    "look whether something else, or a proxy, listens there",
		}
	}
	return e
}
