package decider

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/towline-dev/towline/events"
)

// ChangeConfig puts other values in force at a node that runs (CFG-3). It holds all of them, and the event holds those that
// differ from the ones on record: a reload that changes nothing is none.
type ChangeConfig struct {
	Node   events.NodeID
	Config json.RawMessage // one flat object, as NodeStarted has it
	Actor  string
}

func (ChangeConfig) Name() string              { return "change_config" }
func (c ChangeConfig) Stream() events.StreamID { return events.NodeStream(c.Node) }
func (ChangeConfig) Fresh() bool               { return false }

func (c ChangeConfig) decide(s State) ([]events.Event, *Rejection) {
	n := s.(Node)
	if !n.up() {
		return nil, nil
	}
	before := valuesOf(n.Config)
	changed := slices.DeleteFunc(valuesOf(c.Config), func(v configValue) bool {
		i, known := before.find(v.key)
		return known && bytes.Equal(before[i].value, v.value)
	})
	if len(changed) == 0 {
		return nil, nil
	}
	return []events.Event{events.NodeConfigChanged{Changed: changed.object(), Actor: c.Actor}}, nil
}

// configChanged puts what has changed over what was in force.
func (n Node) configChanged(e events.NodeConfigChanged) Node {
	values := valuesOf(n.Config)
	for _, v := range valuesOf(e.Changed) {
		values = values.with(v)
	}
	n.Config = values.object()
	return n
}

// configValues are the values of a configuration by key, in order: a map has none, and what is recorded must not depend on
// the machine.
type configValues []configValue

type configValue struct {
	key   string
	value json.RawMessage
}

// valuesOf reads one flat object; what is none has no values.
func valuesOf(object json.RawMessage) (values configValues) {
	d := json.NewDecoder(bytes.NewReader(object))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil
		}
		values = values.with(configValue{key.(string), value}) // the key of an object is a text
	}
	return values
}

func (values configValues) find(key string) (int, bool) {
	return slices.BinarySearchFunc(values, key, func(v configValue, key string) int { return strings.Compare(v.key, key) })
}

// with sets one; of two with one key the last counts.
func (values configValues) with(v configValue) configValues {
	i, known := values.find(v.key)
	if known {
		values[i] = v
		return values
	}
	return slices.Insert(values, i, v)
}

func (values configValues) object() json.RawMessage {
	var out bytes.Buffer
	for i, v := range values {
		key, err := json.Marshal(v.key)
		if err != nil {
			panic(fmt.Sprintf("decider: encode the key %q: %v", v.key, err)) // a text always has a form in JSON
		}
		out.WriteByte("{,"[min(i, 1)])
		out.Write(key)
		out.WriteByte(':')
		out.Write(v.value)
	}
	if len(values) == 0 {
		out.WriteByte('{')
	}
	out.WriteByte('}')
	return out.Bytes()
}
