package crash

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"slices"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/sim"
)

// Case is one crash, with all that decides how the recovery from it goes: a piece of a log, what its processes were
// configured with, what its providers have said, which calls were made and are not on record, and a seed. It plays alike on
// every machine. It holds no secret and nothing that anybody has written: tokens, hosts, workers, keys, accounts, operators
// and their reasons, texts of errors, payloads, fingerprints, and what providers have left for themselves are taken out, or
// stand-ins are there that are equal where they were (E-4). Names of what is configured stay: syncs, providers, sources,
// datasets, surfaces, targets, topics, transports and schedules.
type Case struct {
	Release  string   // of Towline, that has made it
	From     string   // where in the log it was found, for people
	Verdict  Verdict  // of the recovery
	Problems []string // of it
	Log      string   // hash of the whole log behind the recovery

	scene  scene
	events []events.Envelope
}

// Played is what playing a case has come to.
type Played struct {
	Row
	Log string // hash of the whole log behind the recovery
}

// MakeCase writes down a crash of a matrix. The options are those of the matrix; its log may have grown since.
//
// Errors: as MakeMatrix; that the case does not come to the verdict of the row.
func MakeCase(ctx context.Context, o Options, row Row) (c Case, err error) {
	dir, remove, err := scratch(o.Scratch)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	o.Run = events.RunID{}
	p, err := load(ctx, o, dir)
	if err != nil {
		return c, err
	}
	if row.crash >= len(p.boundaries) || p.boundaries[row.crash].position() != row.Position {
		return c, fmt.Errorf("%s: its log has no transaction that ends at %d: it is not the one of the matrix", o.Store, row.Position)
	}
	h := newHistory()
	for _, b := range p.boundaries[:row.crash+1] {
		h.add(b.tx)
	}
	prefix := p.log[:row.Position]
	at := p.moment(h, crash{row.crash, row.calls}, o)
	if o.damage != nil {
		o.damage(&at)
	}
	// What the slice leaves out should make no difference. If it does, that is worth more than a short file.
	for _, part := range [][]events.Envelope{slice(prefix, h), prefix} {
		c = redacted(at.scene, part)
		c.Release, c.From = release(), c.from(row.Position)
		played, err := c.Play(ctx, dir)
		if err != nil {
			return c, err
		}
		c.Verdict, c.Problems, c.Log = played.Verdict, played.Problems, played.Log
		if played.Verdict == row.Verdict || played.differs && !row.compared { // then the case has found more than its row
			return c, nil
		}
	}
	return c, fmt.Errorf("position %d: it was %s in the matrix and is %s in a case: it depends on more than the log", row.Position, row.Verdict, c.Verdict)
}

// redacted is a case of a log and its world, in which nobody has a name and nothing has a text.
func redacted(s scene, log []events.Envelope) Case {
	r := newRedactor(log)
	c := Case{scene: s, events: r.log(log)}
	c.scene.says = r.says(s.says)
	return c
}

// from says where the crash was, in the names that are left: those of a matrix hold the keys of messages.
func (c Case) from(position events.Position) string {
	boundaries := boundariesOf(c.events)
	text := fmt.Sprintf("position %d, behind %s", position, boundaries[len(boundaries)-1].what)
	if len(c.scene.calls) > 0 {
		text += ", with " + callNames(c.scene.calls, namesOf(boundaries)) + " not on record"
	}
	return cut(text)
}

// Play lets the recovery go on in a folder, in which it makes and removes a folder of its own.
//
// Errors: ctx's; those of the folder; that the history of the case is none, which only somebody who has written it by hand
// can see. What the recovery comes to is in Played.
func (c Case) Play(ctx context.Context, dir string) (out Played, err error) {
	dir, remove, err := scratch(dir)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	boundaries := boundariesOf(c.events)
	h := newHistory()
	path := filepath.Join(dir, "towline.db")
	if err := c.restore(ctx, path, boundaries, h); err != nil {
		return out, err
	}
	var m moment
	if err := guarded(func() error { m = h.moment(c.scene, nil); return nil }); err != nil {
		return out, fmt.Errorf("the history of the case contradicts itself: %w", err)
	}
	m.compares = true
	e, err := play(ctx, path, m)
	if err != nil {
		return out, err
	}
	out.Row = m.judge(e)
	if m.broken > 0 {
		out.Notes = append(out.Notes, "the history of the case itself holds "+several(m.broken, "contradiction", "contradictions"))
	}
	last := boundaries[len(boundaries)-1]
	out.Since, out.What, out.Window = last.at().Sub(c.events[0].At).Std(), last.what, last.window
	if len(c.scene.calls) > 0 {
		out.Called = callNames(c.scene.calls, namesOf(boundaries))
	}
	out.Log = sim.HashLog(e.log)
	return out, nil
}

// restore makes the store of a case.
func (c Case) restore(ctx context.Context, path string, boundaries []boundary, h *history) error {
	if len(boundaries) == 0 {
		return errors.New("the case has no history")
	}
	g, err := newGrower(ctx, path)
	if err != nil {
		return err
	}
	for _, b := range boundaries {
		err = guarded(func() error {
			h.add(b.tx)
			return g.add(ctx, b.tx)
		})
		if err != nil {
			err = fmt.Errorf("the history of the case contradicts itself: %w", err)
			break
		}
	}
	return errors.Join(err, g.close())
}

// Reproduces says in what the outcome differs from the one on record; nil: in nothing.
func (c Case) Reproduces(p Played) error {
	switch {
	case p.Verdict != c.Verdict:
		return fmt.Errorf("the verdict is %s, and was %s in release %s", p.Verdict, c.Verdict, c.Release)
	case p.Log != c.Log:
		return fmt.Errorf("the verdict is %s, as in release %s, and the recovery has taken another way: this is release %s", p.Verdict, c.Release, release())
	}
	return nil
}

const module = "github.com/towline-dev/towline"

// release is that of Towline in this program, as far as it knows.
func release() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if info.Main.Path == module && info.Main.Version != "" {
		return info.Main.Version
	}
	i := slices.IndexFunc(info.Deps, func(d *debug.Module) bool { return d.Path == module })
	if i < 0 {
		return "unknown"
	}
	return info.Deps[i].Version
}
