package httpapi_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/httpapi"
)

// probeInput has all that an operation can read.
type probeInput struct {
	ID    string    `path:"id" doc:"its name"`
	Token string    `header:"Probe-Token" required:"true"`
	At    time.Time `query:"at_time" doc:"a moment"`
	Next  int       `query:"next" minimum:"0" maximum:"100" default:"5"`
	httpapi.Page
	Body Probe
}

// Probe is the body of a probe.
type Probe struct {
	Name  string      `json:"name" minLength:"1" maxLength:"8"`
	Max   int         `json:"max,omitzero" minimum:"1" maximum:"16" default:"1"`
	Kind  string      `json:"kind,omitzero" enum:"plain,odd"`
	Since *time.Time  `json:"since,omitempty"`
	Parts []ProbePart `json:"parts,omitempty"`
}

// ProbePart is a part of a probe.
type ProbePart struct {
	Rows int64 `json:"rows" minimum:"0"`
}

// probeOutput has all that an operation can answer.
type probeOutput struct {
	Status int
	Seq    string `header:"Towline-Seq" doc:"a position"`
	Extra  string `header:"Probe-Extra"`
	Body   *ProbeRead
}

// ProbeRead is what was read of a probe.
type ProbeRead struct {
	ID    string    `json:"id"`
	Token string    `json:"token"`
	At    time.Time `json:"at"`
	Next  int       `json:"next"`
	Where string    `json:"where"`
	Limit int       `json:"limit"`
	Probe Probe     `json:"probe"`
}

func probe(_ context.Context, in *probeInput) (*probeOutput, error) {
	if in.ID == "nothing" {
		return &probeOutput{Status: http.StatusNoContent}, nil
	}
	return &probeOutput{Status: http.StatusAccepted, Seq: "7", Extra: in.Where, Body: &ProbeRead{in.ID, in.Token, in.At, in.Next, in.Where, in.Limit, in.Body}}, nil
}

var probeOperation = huma.Operation{Method: http.MethodPost, Path: "/v1/probe/{id}", DefaultStatus: http.StatusAccepted, Summary: "A probe", Description: "Of all that there is."}

func withProbe(c *setup) {
	c.idle = true
	c.api.More = func(s *httpapi.Server) {
		httpapi.Register(s, probeOperation, []string{httpapi.CodeNotFound}, probe)
		responses := s.Document().Paths[probeOperation.Path].Post.Responses
		responses["204"] = &huma.Response{Description: "nothing"}
	}
}

// Surfaces 5: a request is read by what the tags of its operation say, and what does not fit is a problem that names its field.
func TestARequestIsReadByTheTagsOfItsOperation(t *testing.T) {
	w := start(t, withProbe)
	send := func(query, body string) reply {
		return w.send("POST", "/v1/probe/a"+query, body, "Probe-Token", "t")
	}
	var got ProbeRead
	r := send("?at_time=2026-03-01T00:00:00.5Z&next=0&where=x&where=y&limit=500&after=", `{"name":"n","max":3,"kind":"odd","parts":[{"rows":1}]}`).is(http.StatusAccepted, &got)
	require.Equal(t, ProbeRead{"a", "t", before.Add(500 * time.Millisecond), 0, "x", 500, Probe{Name: "n", Max: 3, Kind: "odd", Parts: []ProbePart{{1}}}}, got)
	require.Equal(t, []string{"7", "x", "application/json"}, []string{r.header.Get("Towline-Seq"), r.header.Get("Probe-Extra"), r.header.Get("Content-Type")})

	got = ProbeRead{}
	r = send("", `{"name":"<n>","max":null}`).is(http.StatusAccepted, &got)
	require.Equal(t, ProbeRead{ID: "a", Token: "t", Next: 5, Limit: 50, Probe: Probe{Name: "<n>", Max: 1}}, got, "what is not given has its default")
	require.NotContains(t, r.header, "Probe-Extra", "an empty header is not sent")
	require.Contains(t, string(r.body), "<n>")

	r = w.send("POST", "/v1/probe/nothing", `{"name":"n"}`, "Probe-Token", "t").is(http.StatusNoContent, nil)
	require.Empty(t, r.body)

	for _, c := range []struct{ query, body, code, field, detail string }{
		{"?colour=red&next=x", `{}`, "invalid_request", "colour", "colour: unknown query parameter"},
		{"?at_time=yesterday", `{"name":"n"}`, "invalid_request", "at_time", "at_time: invalid date/time for format 2006-01-02T15:04:05.999999999Z07:00"},
		{"?next=x", `{"name":"n"}`, "invalid_request", "next", "next: invalid integer"},
		{"?next=101", `{"name":"n"}`, "invalid_request", "next", "next: expected number <= 100"},
		{"?limit=0", `{"name":""}`, "invalid_request", "limit", "limit: expected number >= 1"},
		{"", ``, "invalid_request", "name", "name: it is missing"},
		{"", `{"name":"n","colour":1}`, "invalid_request", "colour", "colour: unexpected property"},
		{"", `{"name":""}`, "invalid_request", "name", "name: expected length >= 1"},
		{"", `{"name":"n","kind":"even"}`, "invalid_request", "kind", `kind: expected value to be one of "plain, odd"`},
		{"", `{"name":"n","max":0}`, "invalid_request", "max", "max: expected number >= 1"},
		{"", `{"name":"n","max":1.5}`, "invalid_request", "max", "max: expected integer"},
		{"", `{"name":"n","since":"yesterday"}`, "invalid_request", "since", "since: expected string to be RFC 3339 date-time"},
		{"", `{"name":"n","parts":[{"rows":1},{"rows":-1}]}`, "invalid_request", "parts[1].rows", "parts[1].rows: expected number >= 0"},
		{"", `{"name":"n","parts":[{}]}`, "invalid_request", "rows", "rows: it is missing"},
		{"", `[]`, "invalid_request", "body", "body: expected object"},
	} {
		p := send(c.query, c.body).problem(c.code)
		require.Equal(t, []string{c.field, c.detail}, []string{p.Field, p.Detail}, "%s %s", c.query, c.body)
	}
	p := w.send("POST", "/v1/probe/a", `{"name":"n"}`).problem("invalid_request")
	require.Equal(t, []string{"Probe-Token", "Probe-Token: required header parameter is missing"}, []string{p.Field, p.Detail})
}

// Decision 0021: the document says of an operation what huma would, had the operation been registered with it.
func TestTheDocumentIsThatOfHuma(t *testing.T) {
	w := start(t, withProbe)
	response, err := w.client.Get("http://towline/openapi.json")
	require.NoError(t, err)
	defer response.Body.Close()
	var ours map[string]any
	require.NoError(t, json.NewDecoder(response.Body).Decode(&ours))

	config := huma.DefaultConfig("", "")
	config.CreateHooks = nil
	api := humago.New(http.NewServeMux(), config)
	op := probeOperation
	op.OperationID = op.Method + " " + op.Path
	huma.Register(api, op, probe)
	data, err := json.Marshal(api.OpenAPI())
	require.NoError(t, err)
	var theirs map[string]any
	require.NoError(t, json.Unmarshal(data, &theirs))

	operation := func(document map[string]any) map[string]any {
		found := document["paths"].(map[string]any)[op.Path].(map[string]any)["post"].(map[string]any)
		delete(found["responses"].(map[string]any), "default") // a problem is ours
		delete(found["responses"].(map[string]any), "204")     // added by hand
		return found
	}
	require.Equal(t, operation(theirs), operation(ours))
	schemas := func(document map[string]any) map[string]any {
		return document["components"].(map[string]any)["schemas"].(map[string]any)
	}
	compared := 0
	for name, schema := range schemas(theirs) {
		if strings.HasPrefix(name, "Probe") {
			require.Equal(t, schema, schemas(ours)[name], name)
			compared++
		}
	}
	require.Equal(t, 3, compared)
}
