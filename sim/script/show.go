package script

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/towline-dev/towline/check"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/store/sqlite"
)

// The commands that look, and change nothing.
type (
	// Show shows runs, units, jobs, outbox, broker, sink, effects, watermarks, messages, schedules, occurrences OF, next OF (of a
	// schedule), counts, tasks, moves, why OF or log.
	// OF is a run, a unit by its run and number, a register by its run and kind, or a message by its topic and key. log OF: only the events of a type.
	Show struct {
		What string `line:"arg"`
		Of   string `line:"rest"`
	}

	// Check holds the log, the views, the broker and the providers against all invariants, and asks of everything that waits
	// why. Every file is checked behind its last command.
	Check struct {
		Expects []string `line:"key=expects"` // invariants that are broken, and are to be: what somebody has planted
	}
)

func (c Show) String() string  { return line(c) }
func (c Check) String() string { return line(c) }

// What can be shown as a whole, and what of something; the log is both.
var (
	showsAll = []string{
		"runs", "units", "jobs", "outbox", "watermarks", "messages", "schedules", "broker", "sink", "effects", "counts", "tasks", "moves",
	}
	showsOf = []string{"occurrences", "next", "why", "log"}
)

func (c Show) check() error {
	types := typeNames(events.Types())
	switch {
	case slices.Contains(showsAll, c.What) && c.Of != "":
		return fmt.Errorf("%s are shown as a whole: what is %s?", c.What, c.Of)
	case slices.Contains(showsOf, c.What) && c.What != "log" && c.Of == "":
		return fmt.Errorf("it does not say of what %s is to be shown", c.What)
	case c.What == "log" && c.Of != "" && !slices.Contains(types, c.Of):
		return noSuch("event", c.Of, types)
	}
	return nil
}

func typeNames(types []events.Type) (out []string) {
	for _, t := range types {
		out = append(out, t.String())
	}
	return out
}

func (c Show) play(ctx context.Context, p *Player) error {
	if err := p.begin(ctx); err != nil {
		return err
	}
	show, known := map[string]func(context.Context) error{
		"runs": p.showRuns, "units": p.showUnits, "jobs": p.showJobs, "outbox": p.showOutbox, "watermarks": p.showWatermarks,
		"messages":    p.showMessages,
		"schedules":   p.showSchedules,
		"occurrences": func(ctx context.Context) error { return p.showOccurrences(ctx, c.Of) },
		"next":        func(ctx context.Context) error { return p.showNext(ctx, c.Of) },
		"broker":      p.showBroker,
		"sink":        p.showSink,
		"effects":     p.showEffects,
		"counts":      p.showCounts,
		"tasks":       p.showTasks,
		"moves":       p.showMoves,
		"log":         func(ctx context.Context) error { return p.showLog(ctx, c.Of) },
		"why":         func(ctx context.Context) error { return p.showWhy(ctx, c.Of) },
	}[c.What]
	if !known {
		return fmt.Errorf("what is %q?%s", c.What, instead(c.What, slices.Concat(showsAll, showsOf)))
	}
	before := len(p.trace.lines)
	if err := show(ctx); err != nil {
		return err
	}
	if len(p.trace.lines) == before {
		p.trace.say("none")
	}
	return nil
}

// moment is a time of a view, counted from the start of the world.
func (p *Player) moment(t time.Time) string { return p.trace.time(events.MicrosOf(t)) }

func (p *Player) showRuns(ctx context.Context) error {
	runs, err := p.runs(ctx)
	for _, r := range runs {
		p.trace.say("%s: %s%s, %s%s", p.trace.runs[r.Run], r.Status, parens(r.Reason), units(r.Total),
			counts(events.Counts{Succeeded: r.Succeeded, Failed: r.Failed, Cancelled: r.Cancelled}))
	}
	return err
}

func (p *Player) showUnits(ctx context.Context) error {
	runs, err := p.runs(ctx)
	if err != nil {
		return err
	}
	const many = 2000
	return p.view(ctx, func(v projections.View) error {
		for _, r := range runs {
			units, err := v.Units(r.Run, 0, many)
			if err != nil {
				return err
			}
			for _, u := range units {
				text := fmt.Sprintf("%s: %s, attempt %d", p.trace.unitName(u.Unit), u.Status, u.Attempt)
				if u.ErrorCategory != "" {
					text += ", " + string(u.ErrorCategory)
				}
				if !u.AvailableAt.IsZero() {
					text += ", due " + p.moment(u.AvailableAt)
				}
				if !u.LeaseExpiresAt.IsZero() {
					text += ", lease until " + p.moment(u.LeaseExpiresAt)
				}
				if u.LateResults > 0 {
					text += fmt.Sprintf(", late results %d", u.LateResults)
				}
				p.trace.say("%s", text)
			}
		}
		return nil
	})
}

func (p *Player) showJobs(ctx context.Context) error {
	const many = 1000
	return p.view(ctx, func(v projections.View) error {
		jobs, err := v.Jobs(events.JobID{}, many)
		for _, j := range slices.Backward(jobs) {
			p.trace.say("job of %s: %s", p.trace.jobs[j.Job], j.Status)
		}
		return err
	})
}

func (p *Player) showOutbox(ctx context.Context) error {
	return p.view(ctx, func(v projections.View) error {
		var owners []events.RunID
		for id := range p.trace.runs {
			owners = append(owners, id)
		}
		slices.SortFunc(owners, func(a, b events.RunID) int { return cmp.Compare(p.trace.runs[a], p.trace.runs[b]) })
		for _, owner := range owners {
			registers, err := v.RegistersOf(owner)
			if err != nil {
				return err
			}
			for _, r := range registers {
				p.trace.say("%s", p.registerText(r))
			}
		}
		return nil
	})
}

func (p *Player) registerText(r projections.Register) string {
	text := fmt.Sprintf("%s %s.%d: %s", p.trace.runs[r.Owner], r.Kind, r.Current, r.Status)
	if r.Attempts > 0 && r.Status != decider.RegisterIdle {
		text += fmt.Sprintf(", attempts %d", r.Attempts)
	}
	if r.Status == decider.RegisterPending {
		text += ", due " + p.moment(r.AvailableAt)
	}
	if r.Status == decider.RegisterClaimed {
		text += ", until " + p.moment(r.ClaimExpiresAt)
	}
	if r.Next != 0 {
		text += fmt.Sprintf("; %d waits, due %s", r.Next, p.moment(r.NextAt))
	}
	for _, o := range r.Outcomes {
		text += fmt.Sprintf("; %s %s%s", o.Target, o.Outcome, parens(o.Cause))
	}
	for _, x := range r.Resolved {
		text += fmt.Sprintf("; %s resolved as %s", x.Target, x.Outcome)
	}
	return text
}

func (p *Player) showWatermarks(ctx context.Context) error {
	return p.view(ctx, func(v projections.View) error {
		marks, err := v.Watermarks()
		for _, m := range marks {
			p.trace.say("%s/%s: %s, by %s", m.Source, m.Dataset, m.At.UTC().Format("2006-01-02T15:04"), p.trace.units[m.Unit])
		}
		return err
	})
}

func (p *Player) showMessages(ctx context.Context) error {
	const many = 1000
	return p.view(ctx, func(v projections.View) error {
		messages, err := v.Messages(events.MessageID{}, many)
		for _, m := range slices.Backward(messages) {
			text := fmt.Sprintf("%s: %s, attempts %d", p.trace.runs[events.RunID(m.Message)], m.State, m.Attempts)
			if m.Category != "" {
				text += ", " + string(m.Category)
			}
			p.trace.say("%s", text)
		}
		return err
	})
}

func (p *Player) showLog(ctx context.Context, of string) error {
	e, err := p.engine(ctx)
	if err != nil {
		return err
	}
	again := newTrace(p.trace.start.Time())
	err = e.Log(ctx, 0, func(env events.Envelope) error {
		if of == "" || of == env.Event.EventType().String() {
			again.event("", env)
			return nil
		}
		again.learn(env)
		return nil
	})
	p.trace.lines = append(p.trace.lines, again.lines...)
	return err
}

func (p *Player) showBroker(context.Context) error {
	if !p.setup.Broker {
		return errNoBroker
	}
	for _, m := range p.world.Outside().Broker.Waiting() {
		n := m.Notice
		text := fmt.Sprintf("%s %s.%d", p.trace.runs[n.Run], n.Kind, n.Wakeup)
		switch {
		case !n.Unit.IsZero():
			text += fmt.Sprintf(" (%s, attempt %d)", p.trace.units[n.Unit], n.Attempt)
		case n.Target != "":
			text += parens(n.Target)
		}
		p.trace.say("%s", text)
	}
	return nil
}

func (p *Player) showSink(context.Context) error {
	d := p.world.Outside().Destination
	for _, at := range d.Places() {
		for _, r := range d.Rows(at) {
			p.trace.say("%s/%s %s: %s %s", at.Source, at.Dataset, at.Window, r.Key, r.JSON)
		}
	}
	return nil
}

func (p *Player) showEffects(context.Context) error {
	for _, e := range p.world.Outside().Destination.Effects() {
		p.trace.say("%s %s", p.trace.runs[e.Run], e.Script)
	}
	return nil
}

// showCounts shows what the first node has counted since its start, and put nowhere on record.
func (p *Player) showCounts(ctx context.Context) error {
	e, err := p.engine(ctx)
	if err != nil {
		return err
	}
	t := e.Tally()
	for _, n := range []struct {
		n    int64
		what string
	}{
		{t.RefusedMarks, "refused marks"}, {t.LateOutcomes, "late outcomes"}, {t.Absorbed, "absorbed messages"},
		{t.BadMessages, "bad messages"}, {t.UnexpectedPosts, "unexpected post_syncs"}, {t.UnknownMessages, "unknown messages"},
	} {
		if n.n > 0 {
			p.trace.say("%s: %d", n.what, n.n)
		}
	}
	return nil
}

func (p *Player) showTasks(context.Context) error {
	for _, s := range p.world.Tasks() {
		p.trace.say("%s", strings.TrimRight(s.Task+" "+s.At, " "))
	}
	return nil
}

func (p *Player) showMoves(ctx context.Context) error {
	for _, m := range p.world.Moves(ctx) {
		p.trace.say("%s", m)
	}
	return nil
}

func (p *Player) showWhy(ctx context.Context, of string) error {
	id, err := p.identify(of)
	if err != nil {
		return err
	}
	e, err := p.engine(ctx)
	if err != nil {
		return err
	}
	why, err := e.Why(ctx, id)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("%s: %s", of, why.Status)
	if r := why.Reason; r.Why != "" {
		if string(r.Why) != why.Status {
			text += ", " + string(r.Why)
		}
		if r.Kind != "" {
			text += " " + string(r.Kind)
		}
		if r.On != "" {
			text += " " + r.On
		}
		if !r.Behind.IsZero() {
			text += " behind " + p.trace.units[r.Behind]
		}
		if r.Next != 0 {
			text += ", until " + p.trace.time(r.Next)
		}
	}
	for i, n := range why.Counts {
		separator := ", "
		if i == 0 {
			separator = ": "
		}
		text += fmt.Sprintf("%s%s %d", separator, n.Why, n.Units)
	}
	p.trace.say("%s", text)
	return nil
}

// identify is the identifier of a run, of a unit, a register or a message.
func (p *Player) identify(of string) (string, error) {
	name, part, more := strings.Cut(of, " ")
	if !more {
		run, err := p.run(name)
		return run.String(), err
	}
	if number, err := strconv.Atoi(part); err == nil {
		id, err := p.unit(name, number)
		return id.String(), err
	}
	if id, err := p.message(name, part); err == nil {
		return id.String(), nil
	}
	key, err := p.register(name, part)
	if err != nil {
		return "", err
	}
	return events.RegisterStream(key.Owner, key.Kind).String(), nil
}

func (c Check) play(ctx context.Context, p *Player) error {
	if err := p.begin(ctx); err != nil {
		return err
	}
	p.checked = c.Expects
	if err := p.invariants(ctx, false, c.Expects); err != nil {
		return err
	}
	differences, err := p.verify(ctx)
	if err == nil && len(differences) > 0 {
		err = errors.New("I-26: " + strings.Join(differences, "\n"))
	}
	return err
}

// invariants are those of the log, the broker and the providers, and that whatever waits says why. ended: it is the end of
// everything, so nothing waits.
func (p *Player) invariants(ctx context.Context, ended bool, expects []string) error {
	if err := p.bury(); err != nil {
		return err
	}
	if p.world.Engine() == nil {
		if err := p.world.Boot(ctx); err != nil {
			return err
		}
	}
	log, err := p.world.Log(ctx)
	if err != nil {
		return err
	}
	fold := check.New(check.Options{Keep: true, Broker: true, Settings: p.world.Settings()})
	for _, env := range log {
		fold.Apply(env)
	}
	out := p.world.Outside()
	fold.Finish()
	fold.Broker(out.Published)
	fold.Providers(out.Called, out.Written)
	if ended {
		fold.Standstills(p.world.Now())
	}
	var problems []string
	var broken []string
	for _, v := range fold.Violations() {
		broken = append(broken, v.Rule)
		if !slices.Contains(expects, v.Rule) {
			problems = append(problems, p.trace.named(v.String()))
		}
	}
	for _, rule := range expects {
		if !slices.Contains(broken, rule) {
			problems = append(problems, rule+" holds, and was to be broken")
		}
	}
	waits, err := p.unexplained(ctx, fold)
	if err != nil {
		return err
	}
	if problems = slices.Concat(problems, waits); len(problems) > 0 {
		return errors.New(strings.Join(problems, "\n"))
	}
	return nil
}

// verify compares the views with the log (I-26).
func (p *Player) verify(ctx context.Context) ([]string, error) {
	p.scratches++
	path, err := p.newStore(fmt.Sprintf("scratch%d.db", p.scratches))
	if err != nil {
		return nil, err
	}
	scratch, err := sqlite.Open(ctx, path, sqlite.Options{Synchronous: "normal", Inline: true})
	if err != nil {
		return nil, err
	}
	found, err := p.world.Engine().Verify(ctx, scratch)
	return found.Differences, errors.Join(err, scratch.Close())
}

// unexplained are the things that wait and do not say why (WHY-1 to WHY-3).
func (p *Player) unexplained(ctx context.Context, fold *check.Checker) (problems []string, err error) {
	e := p.world.Engine()
	ask := func(id, name string) error {
		why, err := e.Why(ctx, id)
		if err == nil && why.Reason.Why == "" {
			problems = append(problems, name+" waits, and there is no reason")
		}
		return err
	}
	for _, run := range fold.Runs() {
		if run.Status.Terminal() {
			continue
		}
		if err := ask(run.ID.String(), "run "+p.trace.runs[run.ID]); err != nil {
			return nil, err
		}
		for _, u := range fold.Units(run.ID) {
			if u.Status.Terminal() {
				continue
			}
			if err := ask(u.ID.String(), "unit "+p.trace.units[u.ID]); err != nil {
				return nil, err
			}
		}
	}
	for _, r := range fold.Registers() {
		if r.State == check.Idle {
			continue
		}
		id := events.RegisterStream(r.Owner, r.Kind).String()
		if err := ask(id, "register "+p.trace.runs[r.Owner]+" "+string(r.Kind)); err != nil {
			return nil, err
		}
	}
	return problems, nil
}
