package httpapi

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// input is how a request becomes the struct of a handler. It is found out once, from the tags of the struct; huma makes the
// schemas of them, and holds against the schemas what a request gives.
type input struct {
	of       reflect.Type
	schemas  huma.Registry
	params   []param
	body     []int // index of the field; nil: it has none
	schema   *huma.Schema
	defaults []param // of the fields of the body
}

// param is a field that a request gives as text.
type param struct {
	in       string // path, query or header; empty: body
	name     string
	index    []int
	required bool
	absent   string // what it is if a request does not give it; empty: its zero value
	schema   *huma.Schema
}

// inputOf finds out how a struct is read.
func inputOf(t reflect.Type, schemas huma.Registry) input {
	in := input{of: t, schemas: schemas}
	for _, f := range fieldsOf(t) {
		switch p, ok := paramOf(f); {
		case ok && readable(f.Type):
			p.schema = huma.SchemaFromField(schemas, f, "")
			in.params = append(in.params, p)
		case f.Name == "Body" && f.Type.Kind() == reflect.Struct:
			in.body, in.schema = f.Index, huma.SchemaFromField(schemas, f, t.Name()+f.Name)
			in.defaults = defaultsOf(f.Type)
		default:
			panic("httpapi: nothing reads the field " + t.String() + "." + f.Name)
		}
	}
	return in
}

// fieldsOf are the fields of a struct and of those that it embeds, with their indices. One that a name hides from Go code is
// among them.
func fieldsOf(t reflect.Type, within ...int) (out []reflect.StructField) {
	for i := range t.NumField() {
		f := t.Field(i)
		f.Index = append(slices.Clone(within), i)
		if f.Anonymous && f.Type.Kind() == reflect.Struct {
			out = append(out, fieldsOf(f.Type, f.Index...)...)
		} else {
			out = append(out, f)
		}
	}
	return out
}

func paramOf(f reflect.StructField) (param, bool) {
	for _, in := range []string{"path", "query", "header"} {
		if name := f.Tag.Get(in); name != "" {
			required := in == "path" || f.Tag.Get("required") == "true"
			return param{in: in, name: name, index: f.Index, required: required, absent: f.Tag.Get("default")}, true
		}
	}
	return param{}, false
}

func defaultsOf(body reflect.Type) (out []param) {
	for _, f := range fieldsOf(body) {
		if text := f.Tag.Get("default"); text != "" {
			out = append(out, param{index: f.Index, absent: text})
		}
	}
	return out
}

// document is what the document says of the input.
func (in input) document(method string) (params []*huma.Param, body *huma.RequestBody) {
	for _, p := range in.params {
		said := &huma.Param{Name: p.name, Description: p.schema.Description, In: p.in, Required: p.required, Schema: p.schema}
		if p.in == "query" {
			said.Explode = new(bool) // a list would be one text
		}
		params = append(params, said)
	}
	if in.body == nil {
		return params, nil
	}
	if method != http.MethodPost {
		panic("httpapi: " + in.of.String() + " has a body, which is read of a POST only")
	}
	return params, &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: in.schema}}}
}

// read fills the struct of a handler. The first thing that does not fit is the problem.
func (in input) read(r *http.Request, into reflect.Value) error {
	query := r.URL.Query()
	if err := in.checkNames(query); err != nil {
		return err
	}
	for _, p := range in.params {
		text := p.given(r, query)
		switch {
		case text == "" && p.required:
			return misfit(p.name, "required "+p.in+" parameter is missing")
		case text == "":
			continue
		}
		value, err := setText(into.FieldByIndex(p.index), text)
		if err != nil {
			return misfit(p.name, err.Error())
		}
		if err := in.check(p.schema, p.in, p.name, value); err != nil {
			return err
		}
	}
	if in.body == nil {
		return nil
	}
	return in.readBody(r.Body, into.FieldByIndex(in.body))
}

func (in input) checkNames(query url.Values) error {
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if !slices.ContainsFunc(in.params, func(p param) bool { return p.in == "query" && p.name == name }) {
			return misfit(name, "unknown query parameter")
		}
	}
	return nil
}

func (p param) given(r *http.Request, query url.Values) (text string) {
	switch p.in {
	case "path":
		text = r.PathValue(p.name)
	case "query":
		text = query.Get(p.name)
	case "header":
		text = r.Header.Get(p.name)
	}
	if text == "" {
		return p.absent
	}
	return text
}

// readBody reads JSON, which the guard has looked at.
func (in input) readBody(r io.Reader, into reflect.Value) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	var parsed any
	if err := json.Unmarshal(data, &parsed); err != nil {
		return misfit("body", err.Error())
	}
	if err := in.check(in.schema, "body", "", parsed); err != nil {
		return err
	}
	for _, d := range in.defaults {
		if _, err := setText(into.FieldByIndex(d.index), d.absent); err != nil {
			return err
		}
	}
	if err := json.Unmarshal(data, into.Addr().Interface()); err != nil {
		return misfit("body", err.Error())
	}
	return nil
}

// check holds a value against its schema.
func (in input) check(schema *huma.Schema, where, name string, value any) error {
	at := huma.NewPathBuffer(nil, 0)
	at.Push(where)
	if name != "" {
		at.Push(name)
	}
	var found huma.ValidateResult
	huma.Validate(in.schemas, schema, at, huma.ModeWriteToServer, value, &found)
	if len(found.Errors) == 0 {
		return nil
	}
	var first *huma.ErrorDetail
	if !errors.As(found.Errors[0], &first) {
		return found.Errors[0]
	}
	field, _ := strings.CutPrefix(first.Location, where+".")
	return misfit(field, first.Message)
}

// misfit is the problem of a request that does not fit its operation.
func misfit(field, message string) *Problem {
	if name, ok := missingProperty(message); ok {
		return newProblem(CodeInvalidRequest, name+": it is missing").withField(name)
	}
	return newProblem(CodeInvalidRequest, field+": "+message).withField(field)
}

// missingProperty is the name in what huma says of an object that lacks one: it locates the object only.
func missingProperty(message string) (string, bool) {
	name, ok := strings.CutPrefix(message, "expected required property ")
	name, hasEnd := strings.CutSuffix(name, " to be present")
	return name, ok && hasEnd
}

var timeType = reflect.TypeFor[time.Time]()

func readable(t reflect.Type) bool {
	return t == timeType || t.Kind() == reflect.String || t.Kind() == reflect.Int || t.Kind() == reflect.Int64
}

// setText sets a field to what a text says, which it gives back as JSON would.
func setText(field reflect.Value, text string) (any, error) {
	switch {
	case field.Type() == timeType:
		t, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return nil, errors.New("invalid date/time for format " + time.RFC3339Nano)
		}
		field.Set(reflect.ValueOf(t))
		return text, nil
	case field.CanInt():
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, errors.New("invalid integer")
		}
		field.SetInt(n)
		return n, nil
	}
	field.SetString(text)
	return text, nil
}
