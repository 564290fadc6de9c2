package feed

import (
	"reflect"

	"github.com/towline-dev/towline/events"
)

// secret is the type of all tokens.
var secret = reflect.TypeFor[events.Token]()

// masked is a copy of an event with *** for every token that it holds (E-4). It goes by their type, so that a field that
// is added later is masked, too.
func masked(e events.Event) events.Event {
	v := reflect.New(reflect.TypeOf(e)).Elem()
	v.Set(reflect.ValueOf(e))
	maskFields(v)
	return v.Interface().(events.Event)
}

func maskFields(v reflect.Value) {
	for i := range v.NumField() {
		switch f := v.Field(i); {
		case f.Type() == secret && !f.IsZero():
			f.SetString(events.Token(f.String()).String())
		case f.Kind() == reflect.Struct && f.CanSet():
			maskFields(f)
		}
	}
}
