package query

import (
	"slices"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
)

// Subject is what is chosen from.
type Subject string

const (
	Runs   Subject = "runs"
	Units  Subject = "units"
	Outbox Subject = "outbox"
	Jobs   Subject = "jobs"
	Events Subject = "events"
)

// sort says what the values of a field are.
type sort int

const (
	text   sort = iota // any text, compared as a whole
	word               // one of a closed list
	name               // a ULID, or at least six characters of its end
	window             // a period
	age                // a duration
)

// Field is one word that may stand before a colon.
type Field struct {
	Name  string
	Help  string   // for people, without a full stop
	Words []string // the values that it may have; nil: any

	sort sort
}

// Ordered reports a field that may be compared with <, <=, > and >=.
func (f Field) Ordered() bool { return f.sort == window || f.sort == age }

// Fields are those of a subject, in the order in which documents list them.
func Fields(s Subject) []Field { return slices.Clone(fields[s]) }

func words[S ~string](list ...S) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = string(s)
	}
	return out
}

var (
	runStates = words(events.RunIsPlanned, events.RunIsDispatching, events.RunIsRunning, events.RunSucceeded,
		events.RunPartialFailed, events.RunFailed, events.RunIsCancelled)
	unitStates = words(events.UnitIsPlanned, events.UnitIsDispatching, events.UnitIsRunning, events.UnitIsRetrying,
		events.UnitHasSucceeded, events.UnitHasFailed, events.UnitIsCancelled)
	entryStates = words(decider.RegisterIdle, decider.RegisterPending, decider.RegisterClaimed, decider.RegisterMarked,
		decider.RegisterParked, decider.RegisterUnresolved)
	modes    = words(events.Incremental, events.Backfill, events.FullResync)
	triggers = words(events.TriggerManual, events.TriggerSchedule, events.TriggerBackfill, events.TriggerRetry)
	kinds    = words(events.Kinds[:]...)
	outcomes = words(events.Accepted, events.Refused, events.Unknown)
	// categories are those of a unit's failure, and of the wait behind one.
	categories = append(words(events.Reported...), words(events.RateLimitExhausted, events.WorkerLost, events.WorkerLostExhausted,
		events.ReferenceFailed, events.NeverStarted, events.ExpiredLease, events.HandedBack)...)
)

var fields = map[Subject][]Field{
	Runs: {
		{Name: "run", Help: "the run, or the end of its id", sort: name},
		{Name: "sync", Help: "the configured sync"},
		{Name: "state", Help: "the state of the run", sort: word, Words: runStates},
		{Name: "mode", Help: "how windows were chosen", sort: word, Words: modes},
		{Name: "trigger", Help: "what started it", sort: word, Words: triggers},
		{Name: "reason", Help: "why it ended so"},
		{Name: "source", Help: "a source of one of its units"},
		{Name: "dataset", Help: "a dataset of one of its units"},
		{Name: "error", Help: "the error category of one of its units", sort: word, Words: categories},
		{Name: "window", Help: "the window of one of its units", sort: window},
		{Name: "age", Help: "since it was planned", sort: age},
	},
	Units: {
		{Name: "unit", Help: "the unit, or the end of its id", sort: name},
		{Name: "run", Help: "its run, or the end of the id", sort: name},
		{Name: "sync", Help: "the sync of its run"},
		{Name: "source", Help: "where it reads"},
		{Name: "dataset", Help: "what it reads"},
		{Name: "provider", Help: "the provider that reads"},
		{Name: "tier", Help: "reference units of a source go first", sort: word, Words: words(events.TierReference, events.TierWorkItem)},
		{Name: "mode", Help: "how windows were chosen", sort: word, Words: modes},
		{Name: "state", Help: "the state of the unit", sort: word, Words: unitStates},
		{Name: "error", Help: "the category of its newest failure", sort: word, Words: categories},
		{Name: "worker", Help: "who holds its lease"},
		{Name: "window", Help: "its window", sort: window},
		{Name: "age", Help: "since it was planned", sort: age},
	},
	Outbox: {
		{Name: "run", Help: "the owner, or the end of its id", sort: name},
		{Name: "kind", Help: "what it wakes", sort: word, Words: kinds},
		{Name: "state", Help: "the state of the register", sort: word, Words: entryStates},
		{Name: "outcome", Help: "of the last publish", sort: word, Words: outcomes},
		{Name: "transport", Help: "through which it went last"},
		{Name: "cause", Help: "why its last claim ended without a mark"},
		{Name: "sync", Help: "the sync of its run"},
		{Name: "age", Help: "since it is due, or was sent", sort: age},
	},
	Jobs: {
		{Name: "job", Help: "the job, or the end of its id", sort: name},
		{Name: "run", Help: "its run, or the end of the id", sort: name},
		{Name: "sync", Help: "the configured sync"},
		{Name: "state", Help: "that of its run", sort: word, Words: runStates},
		{Name: "trigger", Help: "what started it", sort: word, Words: triggers},
		{Name: "actor", Help: "who asked for it"},
		{Name: "age", Help: "since it was opened", sort: age},
	},
	Events: {
		{Name: "type", Help: "the name of the event", sort: word, Words: eventTypes()},
		{Name: "run", Help: "everything of a run: its job, its units and its outbox entries", sort: name},
		{Name: "unit", Help: "the unit, or the end of its id", sort: name},
		{Name: "job", Help: "the job, or the end of its id", sort: name},
		{Name: "kind", Help: "of the outbox entry", sort: word, Words: kinds},
		{Name: "stream", Help: "the whole name of the stream"},
		{Name: "family", Help: "the first word of the stream", sort: word, Words: []string{"run", "unit", "job", "outbox", "schedule", "control", "node", "app"}},
		{Name: "actor", Help: "who asked for it"},
		{Name: "command", Help: "that decided it"},
		{Name: "age", Help: "since it happened", sort: age},
	},
}

func eventTypes() []string {
	var out []string
	for _, t := range events.Types() {
		out = append(out, t.String())
	}
	return out
}
