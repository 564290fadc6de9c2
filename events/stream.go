package events

import (
	"fmt"
	"strings"
)

// Family is the first byte of a stream key. For a register it includes the kind, so that a key needs no more than
// this byte and a ULID (L-12). The numbers are a file format.
type Family byte

const (
	FamilyRun        Family = 1
	FamilyUnit       Family = 2
	FamilyJob        Family = 3
	FamilyNode       Family = 4
	familyRegister   Family = 16 // + the number of the kind
	FamilySchedule   Family = 32
	FamilyOccurrence Family = 33
	FamilyControl    Family = 48
	FamilyApp        Family = 64
)

// Kind names what a register wakes (spec 7).
type Kind string

const (
	KindDispatch Kind = "dispatch_sync_run"
	KindUnit     Kind = "run_sync_unit"
	KindFinalize Kind = "finalize_sync_run"
	KindPostSync Kind = "post_sync"
	KindMessage  Kind = "message"
)

// Kinds lists every kind, in the order of the table of section 7. The position is part of a stream key.
var Kinds = [...]Kind{KindDispatch, KindUnit, KindFinalize, KindPostSync, KindMessage}

func (k Kind) family() Family {
	for i, known := range Kinds {
		if k == known {
			return familyRegister + Family(i)
		}
	}
	panic(fmt.Sprintf("events: unknown kind %q", string(k)))
}

// StreamID names a stream. It is comparable; the zero value names none.
type StreamID struct {
	family Family
	id     [16]byte
	text   string // schedule, occurrence, control and app only
}

func RunStream(id RunID) StreamID   { return StreamID{family: FamilyRun, id: id} }
func UnitStream(id UnitID) StreamID { return StreamID{family: FamilyUnit, id: id} }
func JobStream(id JobID) StreamID   { return StreamID{family: FamilyJob, id: id} }
func NodeStream(id NodeID) StreamID { return StreamID{family: FamilyNode, id: id} }

// RegisterStream is the register of a run for one of the four engine kinds.
func RegisterStream(owner RunID, k Kind) StreamID { return StreamID{family: k.family(), id: owner} }

// MessageStream is the register of an application message.
func MessageStream(owner MessageID) StreamID {
	return StreamID{family: KindMessage.family(), id: owner}
}

func ScheduleStream(name string) StreamID { return StreamID{family: FamilySchedule, text: name} }

// OccurrenceStream is one occurrence of a schedule; civil is local date, time and UTC offset.
func OccurrenceStream(schedule, civil string) StreamID {
	return StreamID{family: FamilyOccurrence, text: OccurrenceName(schedule, civil)}
}

func EngineControlStream() StreamID { return StreamID{family: FamilyControl, text: "engine"} }
func SourceControlStream(source string) StreamID {
	return StreamID{family: FamilyControl, text: controlOfSource + source}
}
func AppStream(topic string) StreamID { return StreamID{family: FamilyApp, text: topic} }

func (s StreamID) Family() Family { return s.family }
func (s StreamID) IsZero() bool   { return s == StreamID{} }

// Run, Unit, Job and Node return the ID in the key, and false for a stream of another family.
func (s StreamID) Run() (RunID, bool)   { return RunID(s.id), s.family == FamilyRun }
func (s StreamID) Unit() (UnitID, bool) { return UnitID(s.id), s.family == FamilyUnit }
func (s StreamID) Job() (JobID, bool)   { return JobID(s.id), s.family == FamilyJob }
func (s StreamID) Node() (NodeID, bool) { return NodeID(s.id), s.family == FamilyNode }

// controlOfSource is what the text of a source's control stream begins with.
const controlOfSource = "source/"

// Control returns the source whose pause a stream holds, empty for the engine, and false for a stream of another family.
func (s StreamID) Control() (source string, ok bool) {
	source, _ = strings.CutPrefix(s.text, controlOfSource)
	if s.text == "engine" {
		source = ""
	}
	return source, s.family == FamilyControl
}

// Topic is that of application messages, and false for a stream of another family.
func (s StreamID) Topic() (string, bool) { return s.text, s.family == FamilyApp }

// Register returns the owner's 16 bytes and the kind, and false for a stream that is no register.
func (s StreamID) Register() (owner [16]byte, k Kind, ok bool) {
	i := int(s.family) - int(familyRegister)
	if i < 0 || i >= len(Kinds) {
		return owner, "", false
	}
	return s.id, Kinds[i], true
}

// named families carry text behind the byte, all others a ULID.
func (f Family) named() bool {
	switch f {
	case FamilySchedule, FamilyOccurrence, FamilyControl, FamilyApp:
		return true
	}
	return false
}

func (f Family) known() bool {
	switch f {
	case FamilyRun, FamilyUnit, FamilyJob, FamilyNode:
		return true
	}
	return f.named() || f >= familyRegister && int(f-familyRegister) < len(Kinds)
}

// Key is the stored form: the family byte, then the ULID or the text.
func (s StreamID) Key() []byte {
	if s.family.named() {
		return append([]byte{byte(s.family)}, s.text...)
	}
	return append([]byte{byte(s.family)}, s.id[:]...)
}

// ParseStreamKey reads what Key wrote.
func ParseStreamKey(key []byte) (StreamID, error) {
	if len(key) == 0 {
		return StreamID{}, fmt.Errorf("empty stream key")
	}
	f := Family(key[0])
	switch {
	case !f.known():
		return StreamID{}, fmt.Errorf("stream key %x: unknown family %d", key, f)
	case f.named():
		return StreamID{family: f, text: string(key[1:])}, nil
	case len(key) != 17:
		return StreamID{}, fmt.Errorf("stream key %x: want 17 bytes, got %d", key, len(key))
	}
	s := StreamID{family: f}
	copy(s.id[:], key[1:])
	return s, nil
}

// String is the readable form: run/<ulid>, unit/<ulid>, outbox/<owner>/<kind>, control/engine, …
func (s StreamID) String() string {
	id := RunID(s.id).String()
	switch s.family {
	case 0:
		return ""
	case FamilyRun:
		return "run/" + id
	case FamilyUnit:
		return "unit/" + id
	case FamilyJob:
		return "job/" + id
	case FamilyNode:
		return "node/" + id
	case FamilySchedule, FamilyOccurrence:
		return "schedule/" + s.text
	case FamilyControl:
		return "control/" + s.text
	case FamilyApp:
		return "app/" + s.text
	}
	_, k, ok := s.Register()
	if !ok {
		return fmt.Sprintf("unknown(%d)/%s", s.family, id)
	}
	return "outbox/" + id + "/" + string(k)
}

// Schedule is the name of a schedule, and false for a stream of another family.
func (s StreamID) Schedule() (name string, ok bool) { return s.text, s.family == FamilySchedule }

// OccurrenceName names an occurrence where a run says for which it was planned: its schedule and its civil time.
func OccurrenceName(schedule, civil string) string { return schedule + "/" + civil }

// ScheduleOf is the schedule of an occurrence's name; false: it is none.
func ScheduleOf(occurrence string) (schedule string, ok bool) {
	i := strings.LastIndexByte(occurrence, '/')
	return occurrence[:max(i, 0)], i > 0
}

// Occurrence splits the text of an occurrence stream; civil times hold no slash.
func (s StreamID) Occurrence() (schedule, civil string, ok bool) {
	if s.family != FamilyOccurrence {
		return "", "", false
	}
	i := strings.LastIndexByte(s.text, '/')
	if i < 0 {
		return "", "", false
	}
	return s.text[:i], s.text[i+1:], true
}
