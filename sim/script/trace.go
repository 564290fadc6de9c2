package script

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/sim"
)

// trace makes lines of what happens. Identifiers and tokens never show: runs, units and jobs have names, and times are
// counted from the start of the world.
//
//	1m5.2s  OutboxReleased weather dispatch_sync_run.1: claim_expired, due 1m10.4s
//	        the next event of the same transaction
//	1m5.2s  ! publish weather dispatch_sync_run.1
//	1m5.2s  x node 1 dies before publish weather dispatch_sync_run.1
type trace struct {
	start   events.Micros
	nodes   int
	runs    map[events.RunID]string // and messages
	units   map[events.UnitID]string
	windows map[string]string // of units, by their names
	jobs    map[events.JobID]string
	planned map[string]int
	ids     []string // that were learned, each followed by its name

	lines  []string
	tx     events.Position // of the last line
	call   *sim.Boundary   // that the last line tells, before it was made
	folded fold
}

// fold is a row of events of one transaction and type that say the same of units one behind the other.
type fold struct {
	tx                events.Position
	kind, run, detail string
	first, last       int
	at                int // its line
}

func newTrace(start time.Time) *trace {
	return &trace{
		start: events.MicrosOf(start), runs: map[events.RunID]string{}, units: map[events.UnitID]string{},
		windows: map[string]string{}, jobs: map[events.JobID]string{}, planned: map[string]int{},
	}
}

// take hands the lines out, once.
func (t *trace) take() string {
	if len(t.lines) == 0 {
		return ""
	}
	text := strings.Join(t.lines, "\n") + "\n"
	t.lines, t.tx, t.call, t.folded = nil, 0, nil, fold{}
	return text
}

func (t *trace) say(format string, args ...any) {
	t.lines = append(t.lines, t.named(fmt.Sprintf(format, args...)))
	t.tx, t.call, t.folded = 0, nil, fold{}
}

// entry tells what has happened in a world.
func (t *trace) entry(e sim.Entry, now events.Micros) {
	who := ""
	if t.nodes > 1 {
		who = fmt.Sprintf("%d: ", e.Node)
	}
	if e.Crash != nil {
		who = ""
	}
	head := column(t.time(now)) + who
	switch {
	case e.Event != nil:
		t.event(who, *e.Event)
	case e.Crash != nil:
		if t.call != nil && !e.Crash.Behind && *t.call == *e.Crash {
			t.lines = t.lines[:len(t.lines)-1] // it was not made
		}
		if e.Crash.Port == sim.PortNone {
			t.say("%sx node %d dies", head, e.Node)
			return
		}
		t.say("%sx node %d dies %s", head, e.Node, place(*e.Crash))
	case e.Refused != nil: // who was refused says so, or nobody need know
	case e.Call.Port == sim.PortCommit:
		t.say("%s! %s: %s", head, strings.TrimRight("commit "+e.Call.What, " "), e.Fault.How)
	case !e.Call.Behind:
		fault := ""
		if e.Fault.How != "" {
			fault = ": " + string(e.Fault.How)
		}
		t.say("%s! %s %s%s", head, e.Call.Port, e.Call.What, fault)
		t.call = e.Call
	}
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// place is where a boundary lies, in the words of the places of tasks.
func place(b sim.Boundary) string {
	side := "before"
	if b.Behind {
		side = "behind"
	}
	return side + " " + string(b.Port) + " " + b.What
}

func (t *trace) event(who string, env events.Envelope) {
	t.learn(env)
	subject, detail := t.tell(env)
	detail = t.named(detail)
	kind := env.Event.EventType().String()
	if t.fold(env, kind, subject, detail) {
		return
	}
	head := column("")
	if env.Tx != t.tx {
		head = column(t.time(env.At))
	}
	text := strings.TrimRight(kind+" "+subject, " ")
	if detail != "" {
		text += ": " + detail
	}
	was := t.folded
	t.say("%s%s%s", head, who, text)
	t.tx, t.folded = env.Tx, was
	if t.folded.tx == env.Tx && t.folded.kind == kind && t.folded.at == -1 {
		t.folded.at = len(t.lines) - 1
	} else {
		t.folded = fold{}
	}
}

// fold joins an event to the line before it: UnitDispatched weather 1 to 8.
func (t *trace) fold(env events.Envelope, kind, subject, detail string) bool {
	_, isUnit := env.Stream.Unit()
	var run, place string
	number := 0
	if n, _ := fmt.Sscan(subject, &run, &number, &place); !isUnit || n < 3 {
		t.folded = fold{}
		return false
	}
	f := &t.folded
	if f.tx == env.Tx && f.kind == kind && f.run == run && f.detail == detail && number == f.last+1 {
		f.last = number
		head, _, _ := strings.Cut(t.lines[f.at], kind)
		t.lines[f.at] = head + fmt.Sprintf("%s %s %d to %d", kind, run, f.first, f.last)
		if detail != "" {
			t.lines[f.at] += ": " + detail
		}
		return true
	}
	*f = fold{tx: env.Tx, kind: kind, run: run, detail: detail, first: number, last: number, at: -1}
	return false
}

// column is the first of a line.
func column(text string) string {
	if len(text) < len("0m00.0s ") {
		return fmt.Sprintf("%-8s", text)
	}
	return text + " "
}

// time is a moment, counted from the start of the world, to a tenth of a second.
func (t *trace) time(at events.Micros) string {
	const precision = 100 * time.Millisecond
	return durationText(at.Sub(t.start).Std().Round(precision))
}

func (t *trace) learn(env events.Envelope) {
	switch e := env.Event.(type) {
	case events.RunPlanned:
		id, _ := env.Stream.Run()
		t.planned[e.Sync]++
		t.runs[id] = sim.RunName(e.Sync, t.planned[e.Sync])
		t.jobs[e.Job] = t.runs[id]
		t.ids = append(t.ids, id.String(), t.runs[id], e.Job.String(), "job of "+t.runs[id])
	case events.UnitPlanned:
		id, _ := env.Stream.Unit()
		name := fmt.Sprintf("%s %d %s/%s", t.runs[e.Run], e.Ordinal, e.Source, e.Dataset)
		t.units[id] = name
		t.windows[name] = strings.TrimPrefix(e.Window.Name(), "-")
		t.ids = append(t.ids, id.String(), name)
	case events.MessageSubmitted:
		topic, _ := env.Stream.Topic()
		name := strings.TrimSpace(topic + " " + e.Key)
		t.planned[name]++
		name = sim.RunName(name, t.planned[name])
		t.runs[events.RunID(e.Message)] = name
		t.ids = append(t.ids, e.Message.String(), name)
	}
}

// unitName is the name of a unit, with its window.
func (t *trace) unitName(id events.UnitID) string { return t.withWindow(t.units[id]) }

func (t *trace) withWindow(unit string) string {
	return strings.TrimRight(unit+" "+t.windows[unit], " ")
}

var ulid = regexp.MustCompile(`\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b`)

// named puts names into the place of identifiers.
func (t *trace) named(text string) string {
	if !ulid.MatchString(text) {
		return text
	}
	return ulid.ReplaceAllString(strings.NewReplacer(t.ids...).Replace(text), "(id)")
}

// tell says of an event what it is about, and the rest.
func (t *trace) tell(env events.Envelope) (subject, detail string) {
	if owner, k, ok := env.Stream.Register(); ok {
		return t.register(t.runs[owner]+" "+string(k), env.Event)
	}
	if id, ok := env.Stream.Unit(); ok {
		return t.units[id], t.unit(env)
	}
	if id, ok := env.Stream.Run(); ok {
		return t.run(t.runs[id], env.Event)
	}
	if name, ok := env.Stream.Schedule(); ok {
		return name, t.schedule(env.Event)
	}
	if name, civil, ok := env.Stream.Occurrence(); ok {
		return name + " " + civil, occurrence(env.Event)
	}
	return t.rest(env)
}

func (t *trace) register(name string, e events.Event) (subject, detail string) {
	numbered := func(n int) string { return fmt.Sprintf("%s.%d", name, n) }
	switch e := e.(type) {
	case events.OutboxArmed:
		died := ""
		if e.Died {
			died = ", its process died"
		}
		return numbered(e.N), fmt.Sprintf("%s, due %s%s%s", e.Cause, t.time(e.AvailableAt), died, quoted(e.Reason))
	case events.OutboxClaimed:
		messages := ""
		if e.MessageCount > 1 {
			messages = fmt.Sprintf(", %d messages", e.MessageCount)
		}
		return numbered(e.N), fmt.Sprintf("attempt %d, until %s%s", e.Attempt, t.time(e.ClaimExpiresAt), messages)
	case events.OutboxDispatched:
		if e.Order == events.MarkFirst {
			return numbered(e.N), string(e.Order)
		}
		return numbered(e.N), ""
	case events.OutboxReleased:
		detail := fmt.Sprintf("%s, due %s", e.Cause, t.time(e.AvailableAt))
		if !e.Counted {
			detail += ", not counted"
		}
		if e.MaybePublished {
			detail += ", may be published"
		}
		return numbered(e.N), detail
	case events.OutboxDropped:
		return numbered(e.N), string(e.Reason)
	case events.OutboxParked:
		return numbered(e.N), fmt.Sprintf("%s, behind %d attempts%s", e.Cause, e.Attempts, quoted(e.Text))
	case events.OutboxOutcome:
		return numbered(e.N), fmt.Sprintf("%s %s%s", e.Target, e.Outcome, parens(e.Cause))
	case events.OutboxResolved:
		return numbered(e.N), fmt.Sprintf("%s %s by %s%s", e.Target, e.Outcome, e.Actor, quoted(e.Reason))
	}
	return name, events.Describe(e)
}

func quoted(text string) string {
	if text == "" {
		return ""
	}
	return fmt.Sprintf(", %q", text)
}

func (t *trace) unit(env events.Envelope) string {
	attempt := func(n int) string { return fmt.Sprintf("attempt %d", n) }
	switch e := env.Event.(type) {
	case events.UnitPlanned:
		text := ""
		if name := e.Window.Name(); name != "-" {
			text = ", " + name
		}
		if e.Tier == events.TierReference {
			text += ", reference"
		}
		return strings.TrimPrefix(text, ", ")
	case events.UnitDispatched:
		return fmt.Sprintf("%s, invites attempt %d", e.Cause, e.Attempt)
	case events.UnitClaimed:
		by := ""
		if e.Remote {
			by = " by " + e.Worker
		}
		return fmt.Sprintf("%s%s, lease until %s", attempt(e.Attempt), by, t.time(e.LeaseExpiresAt))
	case events.UnitLeaseRenewed:
		return fmt.Sprintf("%s, lease until %s", attempt(e.Attempt), t.time(e.LeaseExpiresAt))
	case events.UnitSucceeded:
		text := attempt(e.Attempt)
		for _, w := range e.Watermarks {
			text += fmt.Sprintf(", watermark of %s %s", w.Dataset, w.At.Time().Format("2006-01-02T15:04"))
		}
		return text
	case events.UnitLeaseExpired:
		return fmt.Sprintf("%s, %s%s", attempt(e.Attempt), e.Cause, quoted(e.Reason))
	case events.UnitFailed:
		return fmt.Sprintf("%s by %s%s", e.Category, e.By, quoted(e.Text))
	case events.UnitRetryScheduled:
		text := fmt.Sprintf("%s, due %s", e.Cause, t.time(e.AvailableAt))
		for _, count := range []struct {
			n    int
			what string
		}{{e.ExpiredLeaseRetries, "lost leases"}, {e.RateLimitDeferrals, "deferrals"}, {e.HandBacks, "hand-backs"}} {
			if count.n > 0 {
				text += fmt.Sprintf(", %s %d", count.what, count.n)
			}
		}
		if e.Suspect {
			text += ", a suspect"
		}
		return text
	case events.UnitCancelled:
		return string(e.Reason) + quoted(e.Text)
	case events.UnitLateResult:
		return fmt.Sprintf("%s offers %s, but %s", attempt(e.Attempt), e.Outcome, e.Reason)
	}
	return ""
}

func (t *trace) run(name string, e events.Event) (subject, detail string) {
	switch e := e.(type) {
	case events.RunPlanned:
		detail := fmt.Sprintf("%s, %s", e.Mode, units(e.TotalUnits))
		if !e.RetryOf.IsZero() {
			detail += ", a retry of " + t.runs[e.RetryOf]
		}
		if e.Occurrence != "" {
			detail += ", for " + e.Occurrence
		}
		for _, l := range e.LeftOut {
			detail += fmt.Sprintf(", without %s (%s)", l.Source, l.Reason)
		}
		return name, detail
	case events.RunFinalized:
		return name, string(e.Status) + parens(e.Reason) + counts(e.Counts)
	case events.RunCancelled:
		return name, "by " + e.Actor + quoted(e.Reason) + counts(e.Counts)
	case events.PostSyncStarted:
		return name, e.Target
	case events.PostSyncCompleted:
		return name, e.Target
	case events.PostSyncFailed:
		return name, fmt.Sprintf("%s %s%s", e.Target, e.Category, quoted(e.Text))
	}
	return name, ""
}

func units(n int) string {
	if n == 1 {
		return "1 unit"
	}
	return fmt.Sprintf("%d units", n)
}

func parens(text string) string {
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}

func counts(c events.Counts) (text string) {
	for _, n := range []struct {
		n    int
		what string
	}{{c.Succeeded, "succeeded"}, {c.Failed, "failed"}, {c.Cancelled, "cancelled"}} {
		if n.n > 0 {
			text += fmt.Sprintf(", %d %s", n.n, n.what)
		}
	}
	return text
}

// rest are jobs, controls, nodes and messages.
func (t *trace) rest(env events.Envelope) (subject, detail string) {
	switch e := env.Event.(type) {
	case events.JobOpened:
		detail := string(e.Trigger)
		if e.Actor != "" {
			detail += " by " + e.Actor
		}
		if e.IdempotencyKey != "" {
			detail += ", key " + e.IdempotencyKey
		}
		return e.Sync, detail
	case events.JobLinked:
		return t.runs[e.Run], ""
	case events.JobClosed:
		id, _ := env.Stream.Job()
		return t.jobs[id], string(e.Status)
	case events.EnginePaused:
		return "", "by " + e.Actor + quoted(e.Reason)
	case events.EngineResumed:
		return "", "by " + e.Actor + quoted(e.Reason)
	case events.SourcePaused:
		source, _ := env.Stream.Control()
		return source, "by " + e.Actor + quoted(e.Reason)
	case events.SourceResumed:
		source, _ := env.Stream.Control()
		return source, "by " + e.Actor + quoted(e.Reason)
	case events.NodeStarted:
		return "", ""
	case events.NodeRecovered:
		for _, n := range []struct {
			n    int
			what string
		}{{e.GoneIncarnations, "gone incarnations"}, {e.Leases, "leases"}, {e.Claims, "claims"}, {e.Dispatches, "dispatches"}} {
			if n.n > 0 {
				detail += fmt.Sprintf(", %s %d", n.what, n.n)
			}
		}
		return "", strings.TrimPrefix(detail, ", ")
	case events.NodeStopped:
		return "", e.Reason
	case events.StoreRestored:
		return "", fmt.Sprintf("epoch %d", e.Epoch)
	case events.RestoreHoldReleased:
		return "", "by " + e.Actor + quoted(e.Reason)
	case events.ClockStepped:
		detail := fmt.Sprintf("from %s to %s", t.time(e.Before), t.time(e.After))
		if e.GraceUntil != 0 {
			detail += ", grace until " + t.time(e.GraceUntil)
		}
		if e.Actor != "" {
			detail += ", confirmed by " + e.Actor
		}
		return "", detail
	case events.BreakerOpened:
		detail := "until " + t.time(e.Until)
		if e.Only != "" {
			detail += ", for " + e.Only
		}
		return e.Transport, detail
	case events.BreakerClosed:
		return e.Transport, ""
	case events.MessageSubmitted:
		return t.runs[events.RunID(e.Message)], t.due(e.AvailableAt)
	case events.MessageHandled:
		return t.runs[events.RunID(e.Message)], ""
	case events.MessageRejected:
		return t.runs[events.RunID(e.Message)], string(e.Category) + quoted(e.Text)
	}
	return "", events.Describe(env.Event)
}

func (t *trace) due(at events.Micros) string {
	if at == 0 {
		return ""
	}
	return "due " + t.time(at)
}
