package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// endpoint is an operation as it is served: what it reads, what is done with that, and what it answers.
type endpoint struct {
	in     input
	out    output
	handle func(ctx context.Context, in any) (out any, err error)
}

// register adds an operation to the document and to the mux.
func (s *Server) register(op *huma.Operation, codes []string, in, out reflect.Type, handle func(context.Context, any) (any, error)) {
	e := endpoint{in: inputOf(in, s.document.Components.Schemas), out: outputOf(out, s.document.Components.Schemas), handle: handle}
	op.OperationID = op.Method + " " + op.Path
	op.DefaultStatus = cmp.Or(op.DefaultStatus, http.StatusOK)
	op.Parameters, op.RequestBody = e.in.document(op.Method)
	every := []string{CodeBadRequest, CodeUnauthenticated, CodeForbidden, CodeInvalidRequest, CodeStoreUnavailable, CodeInternal}
	op.Responses = map[string]*huma.Response{
		strconv.Itoa(op.DefaultStatus): e.out.document(op.DefaultStatus),
		"default": {
			Description: "A problem, with one of the codes " + strings.Join(slices.Concat(codes, every), ", "),
			Content:     map[string]*huma.MediaType{problemType: {Schema: s.problemSchema()}},
		},
	}
	s.document.AddOperation(op)
	s.mux.HandleFunc(op.Method+" "+op.Path, func(w http.ResponseWriter, r *http.Request) {
		if err := s.serve(w, r, e, op.DefaultStatus); err != nil {
			s.refuse(w, r, s.fault(r.Context(), err))
		}
	})
}

func (s *Server) problemSchema() *huma.Schema {
	return s.document.Components.Schemas.Schema(problemStruct, true, "Problem")
}

// serve answers a request, or writes nothing and says why.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, e endpoint, status int) error {
	in := reflect.New(e.in.of)
	if err := e.in.read(r, in.Elem()); err != nil {
		return err
	}
	out, err := e.handle(r.Context(), in.Interface())
	if err != nil {
		return err
	}
	return e.out.write(w, status, reflect.ValueOf(out).Elem())
}

// output is how the struct of a handler becomes an answer.
type output struct {
	headers []header
	status  []int // index of the field; nil: it has none
	body    []int
	schema  *huma.Schema // of the body
}

type header struct {
	name   string
	index  []int
	schema *huma.Schema
}

// outputOf finds out how a struct is answered.
func outputOf(t reflect.Type, schemas huma.Registry) output {
	var out output
	for _, f := range fieldsOf(t) {
		switch name := f.Tag.Get("header"); {
		case f.Name == "Status" && f.Type.Kind() == reflect.Int:
			out.status = f.Index
		case f.Name == "Body":
			out.body, out.schema = f.Index, huma.SchemaFromField(schemas, f, t.Name()+f.Name)
		case name != "" && f.Type.Kind() == reflect.String:
			out.headers = append(out.headers, header{name, f.Index, huma.SchemaFromField(schemas, f, "")})
		default:
			panic("httpapi: no answer has the field " + t.String() + "." + f.Name)
		}
	}
	if out.body == nil {
		panic("httpapi: " + t.String() + " has no body")
	}
	return out
}

func (o output) document(status int) *huma.Response {
	out := &huma.Response{
		Description: http.StatusText(status),
		Headers:     map[string]*huma.Param{},
		Content:     map[string]*huma.MediaType{"application/json": {Schema: o.schema}},
	}
	for _, h := range o.headers {
		out.Headers[h.name] = &huma.Param{Schema: h.schema}
	}
	return out
}

// write writes an answer. Its body is made first: one that cannot be made is a fault, not half an answer.
func (o output) write(w http.ResponseWriter, status int, out reflect.Value) error {
	if o.status != nil {
		status = int(out.FieldByIndex(o.status).Int())
	}
	var body bytes.Buffer
	if status != http.StatusNoContent {
		if err := encodeJSON(&body, out.FieldByIndex(o.body).Interface()); err != nil {
			return err
		}
		w.Header().Set("Content-Type", "application/json")
	}
	for _, h := range o.headers {
		if text := out.FieldByIndex(h.index).String(); text != "" {
			w.Header().Set(h.name, text)
		}
	}
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // a client that has gone away does not hear it
	return nil
}

// encodeJSON writes JSON that is nobody's HTML.
func encodeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
