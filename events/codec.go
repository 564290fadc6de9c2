package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Type is the stored number of an event type. Numbers and names are a file format: none is ever reused.
type Type uint16

// Schema is the version of an event type's payload. A new optional field keeps it; any other change raises it and
// adds an upcaster (L-7).
type Schema uint16

// Record is an event as it is stored: JSON with readable names, zero values left out (L-12).
type Record struct {
	Type   Type
	Schema Schema
	Data   []byte
}

// ErrUnknownType and ErrNewerSchema stop a reader: the log was written by a newer release (L-7).
var (
	ErrUnknownType = errors.New("unknown event type")
	ErrNewerSchema = errors.New("event schema is newer than this release")
)

// DecodeError names the stored event that could not be read. Position is 0 while no store has added it.
type DecodeError struct {
	Position Position
	Stream   []byte // the key of its stream, as it is stored (StreamID.Key); nil outside of a store
	Type     Type
	Schema   Schema
	Err      error
}

func (e *DecodeError) Error() string {
	return fmt.Sprintf("event at position %d: type %d (%s) schema %d: %v", e.Position, e.Type, e.Type, e.Schema, e.Err)
}

func (e *DecodeError) Unwrap() error { return e.Err }

// definition is one row of the registry.
type definition struct {
	Type   Type
	Name   string
	Schema Schema // the one that this release writes
	decode func([]byte) (Event, error)
}

func define[E Event](name string) definition { return defineAt[E](name, 1) }

func defineAt[E Event](name string, s Schema) definition {
	var e E
	return definition{e.EventType(), name, s, func(data []byte) (Event, error) {
		var e E
		if err := json.Unmarshal(data, &e); err != nil {
			return nil, err
		}
		if bytes.Equal(bytes.TrimSpace(data), []byte("null")) {
			return nil, errNull
		}
		return e, nil
	}}
}

// errNull: to the JSON package null is an event without fields. To a log it is a payload that was lost.
var errNull = errors.New("payload is null, want an object")

// codec maps (number, name, schema) to Go types and back.
type codec struct {
	definitions []definition
	byType      map[Type]definition
	upcasts     map[upcastKey]upcast
}

func newCodec(upcasts map[upcastKey]upcast, defs ...definition) *codec {
	c := &codec{definitions: defs, byType: make(map[Type]definition, len(defs)), upcasts: upcasts}
	names := make(map[string]bool, len(defs))
	for _, d := range defs {
		if _, twice := c.byType[d.Type]; twice || names[d.Name] {
			panic(fmt.Sprintf("events: %s (number %d) is registered twice", d.Name, d.Type))
		}
		c.byType[d.Type], names[d.Name] = d, true
	}
	return c
}

var registry = newCodec(upcasts,
	define[RunPlanned]("RunPlanned"),
	define[RunDispatchStarted]("RunDispatchStarted"),
	define[RunFinalized]("RunFinalized"),
	define[RunCancelled]("RunCancelled"),
	define[PostSyncStarted]("PostSyncStarted"),
	define[PostSyncCompleted]("PostSyncCompleted"),
	define[PostSyncFailed]("PostSyncFailed"),

	define[UnitPlanned]("UnitPlanned"),
	define[UnitDispatched]("UnitDispatched"),
	define[UnitClaimed]("UnitClaimed"),
	define[UnitLeaseRenewed]("UnitLeaseRenewed"),
	define[UnitSucceeded]("UnitSucceeded"),
	define[UnitLeaseExpired]("UnitLeaseExpired"),
	define[UnitFailed]("UnitFailed"),
	define[UnitRetryScheduled]("UnitRetryScheduled"),
	define[UnitCancelled]("UnitCancelled"),
	define[UnitLateResult]("UnitLateResult"),

	define[OutboxArmed]("OutboxArmed"),
	define[OutboxClaimed]("OutboxClaimed"),
	define[OutboxDispatched]("OutboxDispatched"),
	define[OutboxReleased]("OutboxReleased"),
	define[OutboxDropped]("OutboxDropped"),
	define[OutboxParked]("OutboxParked"),
	define[OutboxOutcome]("OutboxOutcome"),
	define[OutboxResolved]("OutboxResolved"),

	define[JobOpened]("JobOpened"),
	define[JobLinked]("JobLinked"),
	define[JobClosed]("JobClosed"),

	define[ScheduleDefined]("ScheduleDefined"),
	define[SchedulePaused]("SchedulePaused"),
	define[ScheduleResumed]("ScheduleResumed"),
	define[ScheduleRemoved]("ScheduleRemoved"),
	define[OccurrencesMissed]("OccurrencesMissed"),
	define[OccurrenceQueued]("OccurrenceQueued"),
	define[OccurrenceTriggered]("OccurrenceTriggered"),
	define[OccurrenceSkipped]("OccurrenceSkipped"),
	define[OccurrenceRejected]("OccurrenceRejected"),

	define[EnginePaused]("EnginePaused"),
	define[EngineResumed]("EngineResumed"),
	define[RestoreHoldReleased]("RestoreHoldReleased"),
	define[SourcePaused]("SourcePaused"),
	define[SourceResumed]("SourceResumed"),

	define[NodeStarted]("NodeStarted"),
	define[NodeRecovered]("NodeRecovered"),
	define[NodeConfigChanged]("NodeConfigChanged"),
	define[ClockStepped]("ClockStepped"),
	define[BreakerOpened]("BreakerOpened"),
	define[BreakerClosed]("BreakerClosed"),
	define[RunsArchived]("RunsArchived"),
	define[SegmentPurged]("SegmentPurged"),
	define[StoreRestored]("StoreRestored"),
	define[NodeStopped]("NodeStopped"),

	define[MessageSubmitted]("MessageSubmitted"),
	define[MessageHandled]("MessageHandled"),
	define[MessageRejected]("MessageRejected"),
)

// String is the name of the type, or "unknown".
func (t Type) String() string {
	if d, ok := registry.byType[t]; ok {
		return d.Name
	}
	return "unknown"
}

// Types lists every type that this release knows, in the order of the catalogue.
func Types() []Type {
	ts := make([]Type, len(registry.definitions))
	for i, d := range registry.definitions {
		ts[i] = d.Type
	}
	return ts
}

// SchemaOf is the schema that this release writes for a type; 0 for a type that it does not know.
func SchemaOf(t Type) Schema { return registry.byType[t].Schema }

// Encode writes e with the current schema of its type.
func Encode(e Event) (Record, error) { return registry.encode(e) }

// Decode reads a record of any schema up to the current one. An unknown type is ErrUnknownType, a schema that is
// newer than this release ErrNewerSchema, both inside a *DecodeError.
func Decode(r Record) (Event, error) { return registry.decode(r) }

func (c *codec) encode(e Event) (Record, error) {
	d, ok := c.byType[e.EventType()]
	if !ok {
		return Record{}, &DecodeError{Type: e.EventType(), Err: ErrUnknownType}
	}
	var data bytes.Buffer
	enc := json.NewEncoder(&data)
	enc.SetEscapeHTML(false) // the log is read by people: what a provider said stays as it was
	if err := enc.Encode(e); err != nil {
		return Record{}, fmt.Errorf("encode %s: %w", d.Name, err)
	}
	return Record{Type: d.Type, Schema: d.Schema, Data: bytes.TrimSuffix(data.Bytes(), []byte("\n"))}, nil
}

func (c *codec) decode(r Record) (Event, error) {
	d, ok := c.byType[r.Type]
	if !ok {
		return nil, &DecodeError{Type: r.Type, Schema: r.Schema, Err: ErrUnknownType}
	}
	if r.Schema > d.Schema {
		return nil, &DecodeError{Type: r.Type, Schema: r.Schema, Err: ErrNewerSchema}
	}
	data, err := c.upcast(r, d.Schema)
	if err != nil {
		return nil, &DecodeError{Type: r.Type, Schema: r.Schema, Err: err}
	}
	e, err := d.decode(data)
	if err != nil {
		return nil, &DecodeError{Type: r.Type, Schema: r.Schema, Err: err}
	}
	return e, nil
}
