package crash

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/towline-dev/towline/events"
)

// The form of a case file. It is a file format: a case that was written by any release is read by every later one.
//
//	towline case 1            the first line, with the version of the form
//	release v1.4.0            of Towline, that has made it
//	from position 57, …       where it was found, for people
//	verdict stranded          of the recovery
//	problem …                 of the recovery, none or several
//	log 3f0a…                 hash of the log behind it
//	seed 1                    of the world
//	kill 14                   boundary at which the next incarnation of the recovery dies, 0 for one that lives
//	config {…}                as NodeStarted records it
//	sync {…}                  what is configured, one line for each
//	unit 01M8… […]            what its provider says to its attempts
//	message 01M8… […]         what its consumer says to its wakeups
//	effect {…}                that fails
//	call {…}                  that was made, and is not on record
//	event {…}                 the history, in its order; position and version follow from that
//	end 57                    how many events there were
//
// Lines that begin with # and empty lines are skipped.
const caseHead = "towline case 1"

// storedEvent is an event in a case file.
type storedEvent struct {
	Tx      events.Position `json:"tx"`
	At      events.Micros   `json:"at"`
	Stream  string          `json:"stream"`
	Type    string          `json:"type"`
	Schema  events.Schema   `json:"schema"`
	Actor   string          `json:"actor,omitzero"`
	Command string          `json:"command,omitzero"`
	Cause   events.Position `json:"cause,omitzero"`
	Node    events.NodeID   `json:"node,omitzero"`
	Data    json.RawMessage `json:"data"`
}

// Write writes the case as a text file.
func (c Case) Write(w io.Writer) error {
	out := bufio.NewWriter(w)
	line := func(word string, rest any) {
		text, ok := rest.(string)
		if !ok {
			b, err := json.Marshal(rest)
			if err != nil {
				panic(fmt.Sprintf("crash: encode a case: %v", err))
			}
			text = string(b)
		}
		fmt.Fprintln(out, strings.TrimRight(word+" "+oneLine(text), " ")) // its error stays with the writer
	}
	fmt.Fprintln(out, caseHead)
	line("release", c.Release)
	line("from", c.From)
	line("verdict", string(c.Verdict))
	for _, p := range c.Problems {
		line("problem", p)
	}
	line("log", c.Log)
	line("seed", fmt.Sprint(c.scene.seed))
	for _, k := range c.scene.kills {
		line("kill", fmt.Sprint(k))
	}
	if len(c.scene.knobs) > 0 {
		line("config", c.scene.knobs)
	}
	for _, s := range c.scene.syncs {
		line("sync", s)
	}
	for _, id := range slices.SortedFunc(maps.Keys(c.scene.says), events.UnitID.Compare) {
		line("unit "+id.String(), c.scene.says[id])
	}
	for _, id := range slices.SortedFunc(maps.Keys(c.scene.replies), events.MessageID.Compare) {
		line("message "+id.String(), c.scene.replies[id])
	}
	for _, f := range c.scene.failures {
		line("effect", f)
	}
	for _, call := range c.scene.calls {
		line("call", call)
	}
	for _, env := range c.events {
		record, err := events.Encode(env.Event)
		if err != nil {
			return err
		}
		line("event", storedEvent{
			Tx: env.Tx, At: env.At, Stream: streamName(env.Stream), Type: record.Type.String(), Schema: record.Schema,
			Actor: env.Actor, Command: env.Command, Cause: env.Cause, Node: env.Node, Data: record.Data,
		})
	}
	line("end", fmt.Sprint(len(c.events)))
	return out.Flush()
}

// oneLine keeps a text in its line.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
}
