package main

import (
	"context"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/provider/git"
	"github.com/towline-dev/towline/sink"
	"github.com/towline-dev/towline/transport"
	"github.com/towline-dev/towline/transport/local"
)

// A gate lets everything pass until a process has come to the window in which it shall die. Then it says so, and never
// goes on: the parent has all the time it needs, and the process dies exactly there.

// point is a place between the engine and the world.
type point string

const (
	never         point = ""
	beforeClaim   point = "before_claim"   // a relay is about to claim a wakeup
	beforePublish point = "before_publish" // it has claimed, and for post_sync marked; nothing was sent
	afterPublish  point = "after_publish"  // the bus has the message, and the relay has noted nothing
	inUnit        point = "in_unit"        // a worker has put some rows, and its provider has not returned
)

// halt says where a child stops.
type halt struct {
	At   point       `json:"at,omitzero"`
	Kind events.Kind `json:"kind,omitzero"` // of the wakeup
	Unit string      `json:"unit,omitzero"` // dataset/window; of inUnit
	Rows int         `json:"rows,omitzero"` // that the unit puts before
	// Absorbed: not before a duplicate was absorbed, so that one crash is over when the next one comes.
	Absorbed bool `json:"absorbed,omitzero"`
	// HoldUnits keeps the messages of units in the queue, as if all workers were busy, so that the slots of a capped run
	// stay taken.
	HoldUnits bool `json:"hold_units,omitzero"`
}

// gates are those of one child.
type gates struct {
	halt   halt
	say    func(word)
	engine *towline.Engine // nil until the node is open; set before anything passes
	once   sync.Once
}

// reach tells the parent, once, and blocks whoever has come here.
func (g *gates) reach(w word) {
	g.once.Do(func() {
		w.Word = wordWindow
		g.say(w)
	})
	select {}
}

// routes puts a gate between the relay and the bus, for every kind.
func (g *gates) routes(bus *local.Bus) map[events.Kind]transport.Publisher {
	out := map[events.Kind]transport.Publisher{}
	for _, k := range events.Kinds {
		out[k] = &gatedBus{gates: g, bus: bus, kind: k}
	}
	return out
}

// gatedBus is the in-process bus, as the relay sees it.
type gatedBus struct {
	*gates
	bus  *local.Bus
	kind events.Kind
}

// Name is asked in the transaction of every claim, since it is recorded with the mark. That makes it the last place
// before a claim is committed. It is asked while the node is opened, too, when there is nothing to claim.
func (b *gatedBus) Name() string {
	if b.halt.At == beforeClaim && b.halt.Kind == b.kind && b.claiming() {
		b.reach(word{Kind: b.kind})
	}
	return b.bus.Name()
}

func (b *gatedBus) claiming() bool {
	return b.engine != nil && (!b.halt.Absorbed || b.engine.Tally().Absorbed > 0)
}

func (b *gatedBus) Send(ctx context.Context, topic string, m *message.Message) transport.Receipt {
	here := b.halt.Kind == b.kind
	if here && b.halt.At == beforePublish {
		b.reach(word{Kind: b.kind, Message: m.UUID})
	}
	if b.kind == events.KindUnit && b.halt.HoldUnits {
		topic = "held" // which nobody reads
	}
	receipt := b.bus.Send(ctx, topic, m)
	if b.kind != events.KindUnit { // there are many of these, and nobody asks for them
		b.say(word{Word: wordSent, Kind: b.kind, Message: m.UUID})
	}
	if here && b.halt.At == afterPublish {
		b.reach(word{Kind: b.kind, Message: m.UUID})
	}
	return receipt
}

// gatedGit is the git provider behind a gate. What is embedded lists the periods.
type gatedGit struct {
	*git.Provider
	*gates
}

func (p gatedGit) Sync(ctx context.Context, u provider.Unit, s sink.Sink) (provider.Result, error) {
	if p.halt.At == inUnit && p.halt.Unit == unitName(u.Dataset, u.Window) {
		s = &gatedSink{Sink: s, gates: p.gates, unit: u}
	}
	return p.Provider.Sync(ctx, u, s)
}

// unitName is the part of a unit's alias that is known before its run is.
func unitName(dataset string, w events.Window) string { return dataset + "/" + w.Name() }

// gatedSink counts the rows of one unit.
type gatedSink struct {
	sink.Sink
	*gates
	unit provider.Unit
	rows int
}

func (s *gatedSink) Put(ctx context.Context, surface, key string, row any) error {
	if err := s.Sink.Put(ctx, surface, key, row); err != nil {
		return err
	}
	if s.rows++; s.rows == s.halt.Rows {
		s.reach(word{Unit: s.unit.ID, Rows: s.rows})
	}
	return nil
}
