package httpapi

import (
	"net/http"
	"strconv"
	"time"

	"github.com/towline-dev/towline/events"
)

// Problem is an RFC 9457 answer. Code is what a program looks at; Fix is what a person does.
type Problem struct {
	Type         string          `json:"type" doc:"path of the page about the code"`
	Title        string          `json:"title"`
	Status       int             `json:"status"`
	Detail       string          `json:"detail,omitzero" doc:"what is wrong with this request"`
	Instance     string          `json:"instance,omitzero" doc:"path of the request"`
	Code         string          `json:"code" doc:"what a program looks at; its page is /problems/{code}"`
	Field        string          `json:"field,omitzero" doc:"of the request"`
	Seq          events.Position `json:"seq,omitzero" doc:"position of the newest event when it was answered"`
	RetryAfterMS int64           `json:"retry_after_ms,omitzero" doc:"when the same request may succeed"`
	Fix          string          `json:"fix,omitzero" doc:"what to do, or the command to run"`
	Reason       string          `json:"reason,omitzero" enum:"expired,taken_over,cancelled,run_ended" doc:"of lease_lost: why"`
	State        string          `json:"state,omitzero" doc:"in which the thing is"`
	Holder       *Holder         `json:"holder,omitempty" doc:"of run_exists: the open run"`
	Candidates   []string        `json:"candidates,omitempty" nullable:"false" doc:"of an ambiguous id: what it may mean"`
}

// Holder is the run that keeps another from being accepted.
type Holder struct {
	ID    events.RunID `json:"id"`
	Alias string       `json:"alias"`
	Self  string       `json:"self"`
}

func (p *Problem) Error() string { return p.Code + ": " + p.Detail }

// GetStatus, ContentType and GetHeaders make it the answer of a huma handler.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType is that of RFC 9457.
func (p *Problem) ContentType(string) string { return problemType }

// GetHeaders says in the header, too, when to come again.
func (p *Problem) GetHeaders() http.Header {
	h := http.Header{}
	if p.RetryAfterMS > 0 {
		seconds := (p.RetryAfterMS + 999) / 1000
		h.Set("Retry-After", strconv.FormatInt(seconds, 10))
	}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	return h
}

const problemType = "application/problem+json"

// newProblem is a problem of a code, whose status and title its page has.
func newProblem(code, detail string) *Problem {
	page := mustPage(code)
	return &Problem{Type: "/problems/" + code, Title: page.Title, Status: page.Status, Detail: detail, Code: code, Fix: page.Fix}
}

func (p *Problem) withFix(fix string) *Problem {
	if fix != "" {
		p.Fix = fix
	}
	return p
}

func (p *Problem) withField(field string) *Problem { p.Field = field; return p }

func (p *Problem) after(d time.Duration) *Problem {
	p.RetryAfterMS = max(d.Milliseconds(), 1)
	return p
}

// Codes of problems. Each has a page in docs/handbook.
const (
	CodeBadRequest       = "bad_request"
	CodeUnauthenticated  = "unauthenticated"
	CodeForbidden        = "forbidden"
	CodeNotFound         = "not_found"
	CodeMethodNotAllowed = "method_not_allowed"
	CodeRunExists        = "run_exists"
	CodeSourcePaused     = "source_paused"
	CodeAlreadyEnded     = "already_ended"
	CodeConflict         = "conflict"
	CodeNotClaimable     = "not_claimable"
	CodeTooEarly         = "too_early"
	CodeLeaseLost        = "lease_lost"
	CodeFenced           = "fenced"
	CodePrecondition     = "precondition_failed"
	CodePayloadTooLarge  = "payload_too_large"
	CodeUnsupportedMedia = "unsupported_media_type"
	CodeInvalidRequest   = "invalid_request"
	CodePlanTooLarge     = "plan_too_large"
	CodeKeyReused        = "key_reused"
	CodeRateLimited      = "rate_limited"
	CodeStoreUnavailable = "store_unavailable"
	CodeDiskBudget       = "disk_budget"
	CodeCompacted        = "compacted"
	CodeReadOnly         = "read_only"
	CodeRestoredHold     = "restored_hold"
	CodeInternal         = "internal"
)
