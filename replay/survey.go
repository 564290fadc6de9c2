package replay

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

// survey is what a picture needs to know of a history before its first line: how far it goes, and what each thing in it was
// when. It is some ten numbers for each change of a state.
type survey struct {
	words
	o HTMLOptions

	run, job  *lane
	units     []*lane // by ordinal
	registers []*lane // in the order of their first event
	byStream  map[events.StreamID]*lane

	steps     int
	last      Step
	times     []events.Micros // at which something happened, but for renewals
	from, to  events.Micros
	shifts    []shift
	processes []*tenure
	deaths    []death
	shared    bool // processes take turns: none of them is the one

	scale         scale
	told          map[int]bool // units, by ordinal
	foldRegisters bool         // what is routine of them
}

// lane is what one thing was over time.
type lane struct {
	Subject
	label   string
	spans   []span
	marks   []mark
	steps   int // without renewals
	routine int // of those, for a register
	attempt string
	worst   severity
}

// span is a time in one state. Lost is from when its process was gone.
type span struct {
	state    string
	note     string
	from, to events.Micros
	lost     events.Micros
	position events.Position
	node     events.NodeID
}

// mark is something that happened at once.
type mark struct {
	at       events.Micros
	position events.Position
	sign     sign
	text     string
}

// sign is the form of a mark.
type sign string

const (
	signGood sign = "good" // it ended well
	signBad  sign = "bad"  // it ended badly, or waits for a person
	signLost sign = "lost" // whoever had it was gone
	signNote sign = "note" // it goes on, but not as planned
	signCut  sign = "cut"  // somebody ended it
)

// severity orders units for the page.
type severity int

const (
	asPlanned  severity = iota // one attempt, which succeeded; or its turn has not come
	unfinished                 // at work at the end of the history
	cutOff
	triedAgain
	lostLease
	cameLate
	endedBadly
)

// shift is a change of how many units are in which state.
type shift struct {
	at      events.Micros
	was, is string
}

// tenure is a process and how long there were signs of its life.
type tenure struct {
	Process
	until Mark
	how   Change // what became of it; "": it lives, or nothing is known
}

// death is the end of a process between two steps.
type death struct {
	Restart
	before events.Position // the step that tells it; 0: behind the last
}

func look(ctx context.Context, h *History, o HTMLOptions) (*survey, error) {
	v := &survey{words: words{h: h}, o: o, byStream: map[events.StreamID]*lane{}, told: map[int]bool{}, from: h.PlannedAt, to: h.PlannedAt}
	for s, err := range h.Steps(ctx) {
		if err != nil {
			return nil, err
		}
		v.step(s)
	}
	return v, nil
}

func (v *survey) step(s Step) {
	env := s.Event
	v.steps++
	v.last = s
	v.from, v.to = min(v.from, env.At), max(v.to, env.At)
	if len(v.processes) == 0 {
		v.processes = append(v.processes, &tenure{Process: v.h.Planner})
	}
	v.restart(s.Restarts, env.Position)
	l := v.lane(s)
	if _, ok := env.Event.(events.UnitLeaseRenewed); !ok {
		v.times = append(v.times, env.At)
		l.steps++
	}
	if isRoutine(s) {
		l.routine++
	}
	own, _ := v.split(s)
	for _, c := range own {
		if c.Op == projections.RowGone {
			continue
		}
		for _, name := range []string{"attempt", status} { // a state is entered with its number
			i := slices.IndexFunc(c.Columns, func(x projections.ColumnChange) bool { return x.Name == name })
			switch {
			case i < 0:
			case name == status:
				v.enter(l, s, v.value(status, c.Columns[i].After))
			default:
				l.attempt = v.value(name, c.Columns[i].After)
			}
		}
	}
	v.note(l, s)
}

// lane finds what an event happened to.
func (v *survey) lane(s Step) *lane {
	l := v.byStream[s.Subject.Stream]
	if l != nil {
		return l
	}
	l = &lane{Subject: s.Subject, label: labelOf(s)}
	v.byStream[s.Subject.Stream] = l
	switch s.Subject.Stream.Family() {
	case events.FamilyRun:
		v.run = l
	case events.FamilyJob:
		v.job = l
	case events.FamilyUnit:
		v.units = append(v.units, l)
		v.remember(s.Subject)
	default:
		v.registers = append(v.registers, l)
	}
	return l
}

// labelOf tells units of one dataset apart by their windows. An incremental run has one for each dataset, of any length.
func labelOf(s Step) string {
	label := s.Subject.Name
	e, ok := s.Event.Event.(events.UnitPlanned)
	if ok && !(e.Mode == events.Incremental && e.Calendar == "") && e.Window.Name() != noWindow {
		label += " " + e.Window.Name()
	}
	return printable(label)
}

// noWindow is the name of the window of a unit that has none.
const noWindow = "-"

func (v *survey) enter(l *lane, s Step, state string) {
	was := ""
	if n := len(l.spans); n > 0 {
		was = l.spans[n-1].state
		if was == state { // the number of its wakeup has changed
			return
		}
		l.spans[n-1].to = s.Event.At
	}
	next := span{state: state, from: s.Event.At, position: s.Event.Position, node: s.Event.Node}
	if s.Subject.Ordinal > 0 {
		v.shifts = append(v.shifts, shift{s.Event.At, was, state})
		if state == string(events.UnitIsRunning) {
			next.note = "attempt " + l.attempt
		}
	}
	l.spans = append(l.spans, next)
}

// note keeps what is not as planned, and how things ended.
func (v *survey) note(l *lane, s Step) {
	add := func(sign sign, worst severity, format string, args ...any) {
		l.worst = max(l.worst, worst)
		l.marks = append(l.marks, mark{s.Event.At, s.Event.Position, sign, fmt.Sprintf(format, args...)})
	}
	switch e := s.Event.Event.(type) {
	case events.UnitSucceeded:
		add(signGood, asPlanned, "succeeded")
	case events.UnitFailed:
		add(signBad, endedBadly, "failed: %s", said(e.Category, e.Text))
	case events.UnitCancelled:
		add(signCut, cutOff, "cancelled: %s", spaced(e.Reason))
	case events.UnitLeaseExpired:
		add(signLost, lostLease, "lost its lease: %s", spaced(e.Cause))
	case events.UnitRetryScheduled:
		if n := len(l.marks) - 1; e.Cause == events.ExpiredLease && n >= 0 && l.marks[n].sign == signLost && l.marks[n].at == s.Event.At {
			l.marks[n].text += fmt.Sprintf("; attempt %d is tried again", e.Attempt)
			break
		}
		add(signNote, triedAgain, "attempt %d is tried again: %s", e.Attempt, said(e.Cause, e.Text))
	case events.UnitLateResult:
		add(signNote, cameLate, "late result of attempt %d refused: %s", e.Attempt, spaced(e.Reason))
	case events.UnitDispatched:
		if e.Cause != events.DispatchPlanned && e.Cause != events.DispatchRetry {
			add(signNote, triedAgain, "dispatched again: %s", spaced(e.Cause))
		}
	case events.OutboxReleased:
		add(signNote, triedAgain, "wakeup %d released: %s", e.N, said(e.Cause, e.Text))
	case events.OutboxParked:
		add(signBad, endedBadly, "wakeup %d parked: %s", e.N, said(e.Cause, e.Text))
	case events.OutboxOutcome:
		if e.Outcome != events.Accepted {
			add(signBad, endedBadly, "publish of wakeup %d is %s%s", e.N, e.Outcome, behind(e.Target))
		}
	case events.OutboxResolved:
		add(signNote, triedAgain, "wakeup %d resolved as %s by %s", e.N, spaced(e.Outcome), word(e.Actor))
	case events.RunFinalized:
		switch e.Status {
		case events.RunSucceeded:
			add(signGood, asPlanned, "succeeded")
		case events.RunIsCancelled:
			add(signCut, cutOff, "cancelled")
		default:
			add(signBad, endedBadly, "ended: %s", spaced(e.Status))
		}
	case events.RunCancelled:
		add(signCut, cutOff, "cancelled by %s", word(e.Actor))
	case events.PostSyncCompleted:
		add(signGood, asPlanned, "post_sync done%s", behind(e.Target))
	case events.PostSyncFailed:
		add(signBad, endedBadly, "post_sync failed%s: %s", behind(e.Target), said(e.Category, e.Text))
	}
}

// behind names a target.
func behind(target string) string {
	if target == "" {
		return ""
	}
	return " (" + word(target) + ")"
}

// spaced is a stored word for people.
func spaced[S ~string](s S) string { return strings.ReplaceAll(string(s), "_", " ") }

// said is a cause with the beginning of its text.
func said[S ~string](cause S, text string) string {
	if text == "" {
		return spaced(cause)
	}
	return spaced(cause) + ": " + shortened(printable(strings.TrimPrefix(text, string(cause)+": ")), textInStory)
}

// printable is a text where it stands alone: quoted only if something in it could hide, or turn the line around.
func printable(s string) string {
	if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

// textInStory is how much of a text stands where the whole of it is one click away.
const textInStory = 120

func shortened(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}

// isRoutine is what a register does for each wakeup.
func isRoutine(s Step) bool {
	switch s.Event.Event.(type) {
	case events.OutboxArmed, events.OutboxClaimed, events.OutboxDispatched, events.OutboxDropped:
		return true
	}
	return false
}

// restart ends what was at work in a process that is gone. A step before which it is told, or 0.
func (v *survey) restart(list []Restart, before events.Position) {
	for _, r := range list {
		v.times = append(v.times, r.To.Started.At)
		v.to = max(v.to, r.To.Started.At)
		v.processes = append(v.processes, &tenure{Process: r.To})
		if r.How == Joined {
			v.shared = true
			continue
		}
		v.deaths = append(v.deaths, death{r, before})
		end := r.Last
		if end.Position == 0 { // of a store that has no events around
			end = r.To.Started
		}
		v.times = append(v.times, end.At)
		for _, p := range v.processes {
			if p.Node == r.From.Node {
				p.until, p.how = end, r.How
			}
		}
		for _, l := range v.byStream { // each on its own, so the order does not matter
			if n := len(l.spans); n > 0 && l.spans[n-1].node == r.From.Node && l.spans[n-1].lost == 0 && isHeld(l.spans[n-1].state) {
				l.spans[n-1].lost = end.At
			}
		}
	}
}

// isHeld reports a state in which a process has something at work.
func isHeld(state string) bool { return state == "running" || state == "claimed" }

// end closes what is open, and chooses what is told.
func (v *survey) end(over bool) {
	if !over {
		v.to = max(v.to, v.h.At)
		v.times = append(v.times, v.h.At)
	}
	for _, l := range v.byStream {
		if n := len(l.spans); n > 0 {
			l.spans[n-1].to = v.to
			if state := l.spans[n-1].state; l.Ordinal > 0 && state != "planned" && !isEnd(state) {
				l.worst = max(l.worst, unfinished)
			}
		}
	}
	slices.Sort(v.times)
	v.times = slices.Compact(v.times)
	slices.SortFunc(v.units, func(a, b *lane) int { return a.Ordinal - b.Ordinal })
	v.choose()
	v.scale = newScale(v.times, v.from, v.to, plotFrom, plotTo)
}

// isEnd reports a state that is drawn as a mark, for nothing follows it.
func isEnd(state string) bool {
	switch state {
	case "succeeded", "failed", "partial_failed", "cancelled":
		return true
	}
	return false
}

// choose shares the room. Whoever comes first has it; the registers' routine is the first to go.
func (v *survey) choose() {
	room := v.o.Steps
	for _, l := range []*lane{v.run, v.job} {
		if l != nil {
			room -= l.steps
		}
	}
	routine := 0
	for _, l := range v.registers {
		room -= l.steps - l.routine
		routine += l.routine
	}
	most, samples := v.o.Units, len(v.units)
	if most <= 0 {
		most = usualUnits
		if len(v.units) > most {
			samples = usualSamples
		}
	}
	for _, l := range v.ranked() {
		if len(v.told) == most {
			break
		}
		asked := l.worst > asPlanned || slices.Contains(v.o.First, l.Ordinal)
		if l.steps > room || !asked && samples == 0 {
			continue
		}
		if !asked {
			samples--
		}
		v.told[l.Ordinal] = true
		room -= l.steps
	}
	v.foldRegisters = routine > room || len(v.told) < len(v.units)
}

// ranked are the units as they come to the page.
func (v *survey) ranked() []*lane {
	first := func(l *lane) int {
		if i := slices.Index(v.o.First, l.Ordinal); i >= 0 {
			return i
		}
		return len(v.o.First)
	}
	out := slices.Clone(v.units)
	slices.SortStableFunc(out, func(a, b *lane) int {
		return cmp.Or(cmp.Compare(first(a), first(b)), cmp.Compare(b.worst, a.worst))
	})
	return out
}

// folded reports a step that the page only counts.
func (v *survey) folded(s Step) bool {
	switch s.Subject.Stream.Family() {
	case events.FamilyUnit:
		return !v.told[s.Subject.Ordinal]
	case events.FamilyRun, events.FamilyJob:
		return false
	}
	return v.foldRegisters && isRoutine(s)
}
