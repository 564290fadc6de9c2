package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// script is a random transaction: what it appends, and how it ends.
type script struct {
	appends []scriptAppend
	end     string // keep, fail or panic
}

type scriptAppend struct {
	stream byte
	off    int // of the expectation from the truth
	count  int
}

func drawScript(t *rapid.T) script {
	return script{
		appends: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) scriptAppend {
			return scriptAppend{
				stream: rapid.ByteRange(1, 6).Draw(t, "stream"),
				off:    rapid.SampledFrom([]int{0, 0, 0, 0, 0, 0, -1, 1}).Draw(t, "off"),
				count:  rapid.SampledFrom([]int{1, 2, 9, 33}).Draw(t, "count"),
			}
		}), 0, 4).Draw(t, "appends"),
		end: rapid.SampledFrom([]string{"keep", "keep", "keep", "fail", "panic"}).Draw(t, "end"),
	}
}

// model is the log as a slice.
type model struct{ log []events.Envelope }

func (m *model) version(id events.StreamID) (v events.Version) {
	for _, e := range m.log {
		if e.Stream == id {
			v = e.Version
		}
	}
	return v
}

// apply does to the model what a store must do, and returns whether the script is kept.
func (m *model) apply(s script) bool {
	before := len(m.log)
	for _, a := range s.appends {
		id := unit(a.stream)
		v := m.version(id)
		if a.off != 0 && (a.off > 0 || v > 0) {
			m.log = m.log[:before]
			return false
		}
		for i := range a.count {
			m.log = append(m.log, events.Envelope{
				Position: events.Position(len(m.log) + 1), Tx: events.Position(before + 1),
				Stream: id, Version: v + events.Version(i) + 1, Event: renewed(len(m.log)),
			})
		}
	}
	if s.end != "keep" {
		m.log = m.log[:before]
		return false
	}
	return true
}

// transaction is the script for a store. Its expectations are wrong by their offset, but never below nothing.
func (s script) transaction(tx store.Tx) error {
	for _, a := range s.appends {
		id := unit(a.stream)
		history, err := tx.Stream(id)
		if err != nil {
			return err
		}
		head, _, err := tx.Head()
		if err != nil {
			return err
		}
		evs := make([]events.Event, a.count)
		for i := range evs {
			evs[i] = renewed(int(head) + i)
		}
		expected := max(0, events.Version(len(history)+a.off))
		if _, err := tx.Append(id, expected, events.Meta{}, evs...); err != nil {
			return err
		}
	}
	switch s.end {
	case "fail":
		return errUndo
	case "panic":
		panic(errUndo)
	}
	return nil
}

// L-2, L-6, L-9: groups of random transactions, with wrong expectations, failures, panics and restarts among them,
// leave the log that a slice in memory has.
func testRandom(t *testing.T, open opener) {
	rapid.Check(t, func(rt *rapid.T) {
		dir := t.TempDir()
		s := open.at(t, Options{Dir: dir})
		var m model
		for range rapid.IntRange(1, 4).Draw(rt, "groups") {
			scripts := rapid.SliceOfN(rapid.Custom(drawScript), 1, 6).Draw(rt, "group")
			fns := make([]func(store.Tx) error, len(scripts))
			for i, script := range scripts {
				fns[i] = script.transaction
			}
			for i, end := range group(t, s, fns...) {
				kept := m.apply(scripts[i])
				require.Equal(rt, kept, end == ended{}, "%+v ended as %+v", scripts[i], end)
			}
			if rapid.Bool().Draw(rt, "restart") {
				require.NoError(rt, s.Close())
				s = open.at(t, Options{Dir: dir})
			}
			require.NoError(rt, m.compare(readLog(t, s)))
		}
		require.NoError(rt, s.Close())
	})
}

func (m *model) compare(log []events.Envelope) error {
	log = slices.Clone(log)
	for i := range log {
		log[i].At = 0
	}
	if !slices.Equal(m.log, log) {
		return errors.Join(fmt.Errorf("the log has %d events, the model %d", len(log), len(m.log)), fmt.Errorf("%v\n%v", log, m.log))
	}
	return nil
}
