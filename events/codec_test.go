package events

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// L-7: whatever can be written can be read back, every field of every type.
func TestEveryEventSurvivesTheLogWithAllFieldsSet(t *testing.T) {
	for _, typ := range Types() {
		t.Run(typ.String(), func(t *testing.T) {
			want := filled(t, typ)
			r, err := Encode(want)
			require.NoError(t, err)
			require.Equal(t, Record{Type: typ, Schema: SchemaOf(typ), Data: r.Data}, r)

			got, err := Decode(r)
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
}

// L-12: readable names, each once, and nothing without a name.
func TestEveryPayloadFieldHasAReadableName(t *testing.T) {
	readable := regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	for _, typ := range Types() {
		seen := map[string]bool{}
		for _, name := range payloadNames(zeroOf(t, typ).Type()) {
			require.Regexp(t, readable, name, "a field of %s", typ)
			require.False(t, seen[name], "%s has %s twice", typ, name)
			seen[name] = true
		}
	}
}

// L-12, P-1: a list that is absent and one that is empty mean different things, and stay different.
func TestAnEmptySelectionIsNotAnAbsentOne(t *testing.T) {
	for _, sources := range [][]string{nil, {}} {
		want := RunPlanned{Selection: Selection{Sources: sources}}
		r, err := Encode(want)
		require.NoError(t, err)
		got, err := Decode(r)
		require.NoError(t, err)
		require.Equal(t, sources == nil, got.(RunPlanned).Selection.Sources == nil, string(r.Data))
	}
}

// L-7, HC-49: a raw payload keeps every digit.
func TestLargeNumbersKeepTheirDigits(t *testing.T) {
	payload := json.RawMessage(`{"id":1234567890123456789,"max":9223372036854775807,"dec":0.1,"neg":-9007199254740993}`)
	r, err := Encode(MessageSubmitted{Message: msgID, Payload: payload})
	require.NoError(t, err)
	got, err := Decode(r)
	require.NoError(t, err)
	require.Equal(t, string(payload), string(got.(MessageSubmitted).Payload))
}

// L-7: an unknown field of a known schema is an optional field of a newer release.
func TestAnUnknownFieldIsIgnored(t *testing.T) {
	got, err := Decode(Record{Type: TypeJobLinked, Schema: 1, Data: []byte(`{"run_id":"01KJPJ9D80V6C3Q8WYKX0ZB4RM","later":{"x":1}}`)})
	require.NoError(t, err)
	require.Equal(t, JobLinked{Run: runID}, got)
}

// L-7: an unknown type, a newer schema and a broken payload stop the reader, each by its own error.
func TestWhatCannotBeReadIsADecodeError(t *testing.T) {
	for name, tt := range map[string]struct {
		record Record
		is     error
		says   string
	}{
		"unknown type":   {Record{Type: 9999, Schema: 1, Data: []byte(`{}`)}, ErrUnknownType, "type 9999 (unknown) schema 1"},
		"newer schema":   {Record{Type: TypeRunPlanned, Schema: SchemaOf(TypeRunPlanned) + 1, Data: []byte(`{}`)}, ErrNewerSchema, "RunPlanned"},
		"schema zero":    {Record{Type: TypeRunPlanned, Data: []byte(`{}`)}, nil, "no upcaster from schema 0"},
		"broken payload": {Record{Type: TypeRunPlanned, Schema: 1, Data: []byte(`{"job_id":`)}, nil, "unexpected end of JSON input"},
		"wrong shape":    {Record{Type: TypeOutboxArmed, Schema: 1, Data: []byte(`{"n":"two"}`)}, nil, "OutboxArmed"},
		"empty payload":  {Record{Type: TypeOutboxArmed, Schema: 1}, nil, "unexpected end of JSON input"},
		"null payload":   {Record{Type: TypeOutboxArmed, Schema: 1, Data: []byte(`null`)}, nil, "want an object"},
		"list payload":   {Record{Type: TypeOutboxArmed, Schema: 1, Data: []byte(`[]`)}, nil, "OutboxArmed"},
		"bad identifier": {Record{Type: TypeJobLinked, Schema: 1, Data: []byte(`{"run_id":"null"}`)}, nil, `run id "null"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Decode(tt.record)
			var decodeErr *DecodeError
			require.ErrorAs(t, err, &decodeErr)
			require.Equal(t, tt.record.Type, decodeErr.Type)
			require.Equal(t, tt.record.Schema, decodeErr.Schema)
			require.Contains(t, err.Error(), tt.says)
			if tt.is != nil {
				require.ErrorIs(t, err, tt.is)
			}
		})
	}
}

// L-7: the store adds the position, and the error shows it.
func TestADecodeErrorNamesItsPosition(t *testing.T) {
	err := &DecodeError{Position: 1187, Type: TypeUnitClaimed, Schema: 2, Err: ErrNewerSchema}
	require.EqualError(t, err, "event at position 1187: type 22 (UnitClaimed) schema 2: event schema is newer than this release")
}

// L-12, HC-12: what a provider said stands in the log as it was said, so that grep finds it.
func TestTextStaysReadable(t *testing.T) {
	r, err := Encode(UnitFailed{Category: Network, Text: "GET <https://a/?b=1&c>: 502"})
	require.NoError(t, err)
	require.Contains(t, string(r.Data), `"GET <https://a/?b=1&c>: 502"`)
	require.True(t, json.Valid(r.Data))
	require.NotContains(t, string(r.Data), "\n")
}

// L-7: no release writes a type that it does not know.
func TestATypeOutsideTheRegistryIsNotWritten(t *testing.T) {
	_, err := Encode(parcel{})
	require.ErrorIs(t, err, ErrUnknownType)
}

// D-22: a payload that is no JSON is refused before it reaches the log.
func TestABrokenRawPayloadIsNotWritten(t *testing.T) {
	_, err := Encode(MessageSubmitted{Payload: json.RawMessage(`{"a":`)})
	require.ErrorContains(t, err, "encode MessageSubmitted")
}

// parcel is a type of the tests, at its third schema.
type parcel struct {
	Grams int    `json:"grams"`
	To    string `json:"to"`
}

const typeParcel Type = 60000

func (parcel) EventType() Type { return typeParcel }
func (parcel) event()          {}

// kilogramsToGrams and addressToTo are the two steps from schema 1 to 3.
func kilogramsToGrams(data []byte) ([]byte, error) {
	var old struct {
		Kilograms int    `json:"kilograms"`
		Address   string `json:"address"`
	}
	if err := json.Unmarshal(data, &old); err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{"grams": old.Kilograms * 1000, "address": old.Address})
}

func addressToTo(data []byte) ([]byte, error) {
	return []byte(strings.Replace(string(data), `"address"`, `"to"`, 1)), nil
}

// L-7: an old payload passes through every step between its schema and today's.
func TestOldSchemasAreUpcastStepByStep(t *testing.T) {
	c := newCodec(map[upcastKey]upcast{{typeParcel, 1}: kilogramsToGrams, {typeParcel, 2}: addressToTo}, defineAt[parcel]("Parcel", 3))
	for schema, data := range map[Schema]string{
		1: `{"kilograms":2,"address":"quay 4"}`,
		2: `{"grams":2000,"address":"quay 4"}`,
		3: `{"grams":2000,"to":"quay 4"}`,
	} {
		got, err := c.decode(Record{Type: typeParcel, Schema: schema, Data: []byte(data)})
		require.NoError(t, err, "schema %d", schema)
		require.Equal(t, parcel{Grams: 2000, To: "quay 4"}, got, "schema %d", schema)
	}
	r, err := c.encode(parcel{Grams: 1, To: "x"})
	require.NoError(t, err)
	require.Equal(t, Record{Type: typeParcel, Schema: 3, Data: []byte(`{"grams":1,"to":"x"}`)}, r)
}

// L-7: a step that is missing or fails stops the reader and names the schema at which it stopped.
func TestABrokenChainOfUpcastersIsADecodeError(t *testing.T) {
	boom := errors.New("boom")
	fails := func([]byte) ([]byte, error) { return nil, boom }
	old := Record{Type: typeParcel, Schema: 1, Data: []byte(`{"kilograms":2}`)}
	for name, tt := range map[string]struct {
		steps  map[upcastKey]upcast
		record Record
		is     error
		says   string
	}{
		"first step is missing":  {map[upcastKey]upcast{{typeParcel, 2}: addressToTo}, old, nil, "no upcaster from schema 1"},
		"second step is missing": {map[upcastKey]upcast{{typeParcel, 1}: kilogramsToGrams}, old, nil, "no upcaster from schema 2"},
		"second step fails":      {map[upcastKey]upcast{{typeParcel, 1}: kilogramsToGrams, {typeParcel, 2}: fails}, old, boom, "upcast from schema 2: boom"},
		"newer schema":           {nil, Record{Type: typeParcel, Schema: 4, Data: []byte(`{}`)}, ErrNewerSchema, "newer"},
		"unknown type":           {nil, Record{Type: typeParcel + 1, Schema: 1, Data: []byte(`{}`)}, ErrUnknownType, "unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newCodec(tt.steps, defineAt[parcel]("Parcel", 3)).decode(tt.record)
			var decodeErr *DecodeError
			require.ErrorAs(t, err, &decodeErr)
			require.Equal(t, tt.record.Schema, decodeErr.Schema)
			require.ErrorContains(t, err, tt.says)
			if tt.is != nil {
				require.ErrorIs(t, err, tt.is)
			}
		})
	}
}

// L-7: one number is one name, and one name is one number.
func TestATypeIsRegisteredOnce(t *testing.T) {
	twice := define[parcel]("Parcel")
	require.PanicsWithValue(t, "events: Parcel (number 60000) is registered twice", func() { newCodec(nil, twice, twice) })
	other := twice
	other.Type++
	require.PanicsWithValue(t, "events: Parcel (number 60001) is registered twice", func() { newCodec(nil, twice, other) })
	other = twice
	other.Name = "Letter"
	require.PanicsWithValue(t, "events: Letter (number 60000) is registered twice", func() { newCodec(nil, twice, other) })
}

// L-7: every upcaster belongs to a type and a step that exist, and every old schema has its steps.
func TestEveryOldSchemaHasItsUpcasters(t *testing.T) {
	steps := 0
	for _, typ := range Types() {
		for s := Schema(1); s < SchemaOf(typ); s++ {
			require.Contains(t, upcasts, upcastKey{typ, s}, "%s", typ)
			steps++
		}
	}
	require.Len(t, upcasts, steps, "an upcaster that no reader ever takes")
}

// L-7: whatever bytes a log holds, reading is an error or an event, and an event is stable once it was written.
func FuzzDecode(f *testing.F) {
	for _, e := range samples {
		r, err := Encode(e)
		require.NoError(f, err)
		f.Add(uint16(r.Type), uint16(r.Schema), r.Data)
	}
	f.Add(uint16(9999), uint16(1), []byte(`{}`))
	f.Add(uint16(TypeUnitPlanned), uint16(1), []byte(`{"window":{"from":-62135596800000000,"to":9223372036854775807}}`))
	f.Add(uint16(TypeJobLinked), uint16(1), []byte(`{"run_id":null}`))
	f.Add(uint16(TypeMessageSubmitted), uint16(1), []byte("{\"payload\":{ \"a\": \"<\\u0000>\" },\"metadata\":{\"\":\"\xff\"}}"))
	f.Add(uint16(TypeRunPlanned), uint16(1), []byte(`null`))
	f.Fuzz(func(t *testing.T, typ, schema uint16, data []byte) {
		e, err := Decode(Record{Type: Type(typ), Schema: Schema(schema), Data: data})
		if err != nil {
			var decodeErr *DecodeError
			require.ErrorAs(t, err, &decodeErr)
			return
		}
		require.NotContains(t, Describe(e), "\n")
		first, err := Encode(e)
		require.NoError(t, err)
		again, err := Decode(first)
		require.NoError(t, err)
		second, err := Encode(again)
		require.NoError(t, err)
		require.Equal(t, string(first.Data), string(second.Data))
	})
}

// zeroOf is an event of a type without any field, as a settable value.
func zeroOf(t testing.TB, typ Type) reflect.Value {
	t.Helper()
	e, err := Decode(Record{Type: typ, Schema: SchemaOf(typ), Data: []byte(`{}`)})
	require.NoError(t, err)
	return reflect.New(reflect.TypeOf(e)).Elem()
}

// filled is an event of a type with every field set, at any depth, by reflection: a new field cannot be forgotten.
func filled(t testing.TB, typ Type) Event {
	t.Helper()
	v, n := zeroOf(t, typ), 0
	fill(t, v, &n)
	requireAllSet(t, v, typ.String())
	return v.Interface().(Event)
}

func fill(t testing.TB, v reflect.Value, n *int) {
	t.Helper()
	*n++
	switch v.Interface().(type) {
	case json.RawMessage:
		v.SetBytes(fmt.Appendf(nil, `{"n":%d}`, *n))
		return
	case Window:
		from := time.Date(2026, 1, *n, 0, 0, 0, 1000, time.UTC)
		v.Set(reflect.ValueOf(NewWindow(from, from.Add(time.Hour))))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.String:
		v.SetString(fmt.Sprintf("text %d", *n))
	case reflect.Array:
		for i := range v.Len() {
			v.Index(i).SetUint(uint64(*n))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(t, v.Index(0), n)
		fill(t, v.Index(1), n)
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"a": fmt.Sprint(*n), "b": ""}))
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i), n)
		}
	default:
		require.FailNow(t, "fill knows no kind", "%s: teach it here", v.Type())
	}
}

func requireAllSet(t testing.TB, v reflect.Value, path string) {
	t.Helper()
	if _, ok := v.Interface().(Window); ok || v.Kind() != reflect.Struct {
		require.False(t, v.IsZero(), path)
		return
	}
	for i := range v.NumField() {
		requireAllSet(t, v.Field(i), path+"."+v.Type().Field(i).Name)
	}
}

// payloadNames are the stored names of the fields of a struct, those of embedded structs included.
func payloadNames(t reflect.Type) []string {
	var names []string
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			names = append(names, payloadNames(f.Type)...)
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}
