package storetest

import (
	"encoding/json"
	"reflect"
	"time"

	"github.com/towline-dev/towline/events"
)

// Secret is the value of every token in Samples. It must be seen nowhere but in the stored data (E-4).
const Secret = "5ec2e7"

// Samples is one event of every type that this release knows, with every field set.
func Samples() []events.Event {
	var out []events.Event
	for _, t := range events.Types() {
		e, err := events.Decode(events.Record{Type: t, Schema: events.SchemaOf(t), Data: []byte("{}")})
		if err != nil {
			panic(err)
		}
		v := reflect.New(reflect.TypeOf(e)).Elem()
		fill(v)
		out = append(out, v.Interface().(events.Event))
	}
	return out
}

// fill sets every field to something that is not its zero value and that survives JSON.
func fill(v reflect.Value) {
	switch x := v.Addr().Interface().(type) {
	case *events.Token:
		*x = Secret
		return
	case *events.Window:
		*x = events.NewWindow(time.UnixMicro(1_700_000_000_000_000), time.UnixMicro(1_700_086_400_000_000))
		return
	case *json.RawMessage:
		*x = json.RawMessage(`{"a":[1,"b"]}`)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Array:
		v.Index(v.Len() - 1).SetUint(9)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0))
		fill(v.Index(1))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("é 'quoted' \"twice\"")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1_700_000_000_123_456)
	default:
		panic("storetest: no sample value for a " + v.Type().String())
	}
}

// Streams is one stream of every family, and of every kind of register.
func Streams() []events.StreamID {
	id := [16]byte{0x01, 0x8f, 0x3a, 0xff, 0x80, 0x7f, 0x10, 0x01, 0xfe, 0xdc, 0xba, 0x98, 0x76, 0x54, 0x32, 0x10}
	out := []events.StreamID{
		events.RunStream(id), events.UnitStream(id), events.JobStream(id), events.NodeStream(id),
		events.ScheduleStream("nightly"), events.OccurrenceStream("nightly", "2026-10-25T02:30+01:00"),
		events.EngineControlStream(), events.SourceControlStream("a/b é"), events.AppStream("booking.made"),
		events.MessageStream(id),
	}
	for _, k := range events.Kinds {
		if k != events.KindMessage {
			out = append(out, events.RegisterStream(id, k))
		}
	}
	return out
}
