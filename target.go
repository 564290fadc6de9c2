package towline

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/towline-dev/towline/events"
)

// PostSync is what follows a run that had a success. The zero value is nothing.
//
// The mode says what a crash may do to an effect. AtMostOnce: it may be lost, visibly, and never happens twice. ExactlyOnce:
// it is delivered until it is done, under one generation, and the once-ledger makes the second delivery do nothing (K-6).
type PostSync struct {
	Mode    events.DeliveryMode // AtMostOnce (zero) or ExactlyOnce
	Targets []Target            // in order (K-8)
}

// Target is one named action of a post_sync fan-out. Exactly one of SQL, Func, Exec and Transport says what it does; none of
// them leaves it to whoever consumes the route of post_sync, who reports with Engine.StartPost, CompletePost and FailPost.
//
//	action     its effect                         exactly_once
//	SQL        in the sink, one transaction       ledger row and effect commit together
//	Func       in a database, one transaction     ledger row and effect commit together
//	Exec       whatever the command does          at least once, keyed by the generation: needs Idempotent
//	Transport  a message at a broker              at least once, keyed by the generation: needs Idempotent
type Target struct {
	Name string // unique in the sync; part of message ids

	// SQL is a script that the sync's sink runs in one transaction, with :run and :generation. It needs a sink that can run
	// scripts (sink.Scripter, and sink.OnceScripter for ExactlyOnce), as sink/sqlite does: with another one node.Open refuses
	// it.
	SQL string

	// Func runs in one transaction of DB: a SQLite, PostgreSQL, CockroachDB, MySQL or MariaDB (InnoDB) database. In mode
	// ExactlyOnce its once-ledger, the table _towline_once, is made there where it is missing. nil: the store's own file, for
	// tables of your own beside those of Towline. There it must be short and call no port: nothing else
	// is written to the store meanwhile, and after 4 seconds it is rolled back and has failed as a timeout. What needs the
	// engine, to start another run for example, waits until it has committed: with the context of the function the engine
	// refuses it there (ErrInTransaction).
	Func PostFunc
	DB   *sql.DB

	// Exec is a program and its arguments. It gets the Post as JSON on its standard input, see PostInput, and as TOWLINE_
	// variables. Exit status 0 is success, and what it writes to its standard output is kept as the result; of a failure the
	// end of its standard error is. It is killed with all that it started when Timeout is over, or the grace of a stop.
	Exec    []string
	Env     []string      // name=value, beside the environment of this process
	Secrets []string      // the same; their values are masked in all that is kept or logged of the program, if they have at least 4 bytes
	Dir     string        // it starts there; empty: where this process runs
	Timeout time.Duration // of Exec; zero: 5 min

	// Transport names a publisher of this process (node.Config.Transports). The post_sync message goes straight to it, and
	// an accepted publish is the end of the target: nobody reports on it.
	Transport string
	Topic     string // of Transport; empty: post_sync

	// Idempotent declares that doing it again under the same generation is the same as doing it once: the command or the
	// consumer looks at the generation, or does not mind. ExactlyOnce needs it where no ledger row can commit with the effect.
	Idempotent bool
}

// PostFunc is an action in Go. What it writes through tx commits when it returns nil, and is undone when it returns an
// error or panics; it must not end tx. ctx ends with the transaction's time, and with the grace of a stop.
type PostFunc func(ctx context.Context, tx *sql.Tx, p Post) error

const defaultExecTimeout = 5 * time.Minute

func (p PostSync) check() error {
	switch p.Mode {
	case "", events.AtMostOnce, events.ExactlyOnce:
	default:
		return fmt.Errorf("post_sync mode %q: want at_most_once or exactly_once", p.Mode)
	}
	names := make([]string, len(p.Targets))
	for i, t := range p.Targets {
		names[i] = t.Name
		if err := t.check(p.Mode); err != nil {
			return fmt.Errorf("post_sync target %q: %w", t.Name, err)
		}
	}
	return distinct("post_sync target", names)
}

func (t Target) check(mode events.DeliveryMode) error {
	actions := t.actions()
	switch {
	case len(actions) > 1:
		return fmt.Errorf("it has %s: want one of them", strings.Join(actions, " and "))
	case len(t.Exec) > 0 && t.Exec[0] == "":
		return errors.New("exec is empty: name the program")
	case len(t.Exec) == 0 && (len(t.Env) > 0 || len(t.Secrets) > 0 || t.Dir != "" || t.Timeout != 0):
		return errors.New("env, secrets, dir and timeout are those of exec: set exec, or leave them out")
	case t.Timeout < 0:
		return fmt.Errorf("timeout %s: want 0 or more", t.Timeout)
	case t.Func == nil && t.DB != nil:
		return errors.New("db is that of func: set func, or leave it out")
	case t.Transport == "" && t.Topic != "":
		return errors.New("topic is that of transport: set transport, or leave it out")
	case mode == events.ExactlyOnce && !t.Idempotent && (len(t.Exec) > 0 || t.Transport != ""):
		return fmt.Errorf("%s cannot commit with the once-ledger: set idempotent if doing it again under the same generation does no harm, or use at_most_once", actions[0])
	}
	for _, e := range t.Env {
		if name, _, ok := strings.Cut(e, "="); !ok || name == "" {
			return fmt.Errorf("env %q: want name=value", e)
		}
	}
	for _, e := range t.Secrets {
		if name, _, ok := strings.Cut(e, "="); !ok || name == "" {
			return errors.New("a secret is not written as name=value") // and not shown: it may be the value
		}
	}
	return nil
}

// actions are the names of those that are set.
func (t Target) actions() (names []string) {
	for _, a := range []struct {
		name string
		set  bool
	}{{"sql", t.SQL != ""}, {"func", t.Func != nil}, {"exec", len(t.Exec) > 0}, {"transport", t.Transport != ""}} {
		if a.set {
			names = append(names, a.name)
		}
	}
	return names
}

// HasAction reports that this process knows what to do.
func (t Target) HasAction() bool { return len(t.actions()) > 0 }

// normal fills in what a zero value means.
func (t Target) normal() Target {
	if t.Transport != "" {
		t.Topic = cmp.Or(t.Topic, string(events.KindPostSync))
	}
	if len(t.Exec) > 0 {
		t.Timeout = cmp.Or(t.Timeout, defaultExecTimeout)
	}
	return t
}

// normal fills in what a zero value means.
func (p PostSync) normal() PostSync {
	out := PostSync{Mode: cmp.Or(p.Mode, events.AtMostOnce)}
	for _, t := range p.Targets {
		out.Targets = append(out.Targets, t.normal())
	}
	return out
}

// freeze says in a run's policy what follows it (CFG-2). What a target does is not frozen, only that it is one.
func (p PostSync) freeze(policy *events.Policy, k Knobs) {
	policy.PostSync = p.Mode
	if p.Mode == events.ExactlyOnce {
		policy.MaxDeliveries = k.MaxDeliveries
	}
	for _, t := range p.Targets {
		policy.Targets = append(policy.Targets, t.Name)
		if t.Transport != "" {
			policy.Sent = append(policy.Sent, t.Name)
		}
	}
}
