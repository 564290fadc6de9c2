package projections

import (
	"fmt"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// clock is one row, once a wall clock has stepped or was confirmed: what decisions must know of it (CLK-7, CLK-8). The
// grace of a step stands beside the leases that it covers, in units.
type clock struct{}

func (clock) Name() string    { return "clock" }
func (clock) Revision() int   { return 1 }
func (clock) Tables() []Table { return []Table{{"clock", "one"}} }

func (clock) Schema() []string {
	return []string{`
CREATE TABLE clock (
  one        INTEGER PRIMARY KEY CHECK (one = 1),
  stepped_at INTEGER,                   -- when a clock was last set forward
  behind     INTEGER NOT NULL DEFAULT 0 -- how far the wall clock is confirmed to lie before engine time
) STRICT`,
		`CREATE VIEW clock_view AS SELECT ` + timeText("stepped_at") + ` AS stepped_at, behind / 1000 AS behind_ms FROM clock`,
	}
}

func (clock) Apply(tx Writer, env events.Envelope, _, _ decider.State) error {
	switch e := env.Event.(type) {
	case events.NodeStarted:
		return tx.Exec(`UPDATE clock SET behind = min(behind, $1)`, int64(e.Behind))
	case events.ClockStepped:
		if e.Actor != "" {
			return tx.Exec(`INSERT INTO clock (one, behind) VALUES (1, $1) ON CONFLICT (one) DO UPDATE SET behind = excluded.behind`,
				int64(e.Before.Sub(e.After)))
		}
		return applyStep(tx, env, e)
	}
	return nil
}

func applyStep(tx Writer, env events.Envelope, e events.ClockStepped) error {
	if stepLength(e) > 0 {
		return tx.Exec(`INSERT INTO clock (one, stepped_at) VALUES (1, $1)
			ON CONFLICT (one) DO UPDATE SET stepped_at = excluded.stepped_at, behind = 0`, int64(env.At))
	}
	return tx.Exec(`UPDATE clock SET behind = min(behind, $1)`, int64(e.Before.Sub(e.After)))
}

// graceLeases writes what a step of the wall clock leaves to the attempts whose lease it would have ended (CLK-4): once
// per attempt. A lease whose incarnation is gone is none, whatever stands here. only narrows it to some units.
func graceLeases(tx Writer, e events.ClockStepped, only string, args ...any) error {
	if e.GraceUntil == 0 {
		return nil
	}
	return tx.Exec(`UPDATE units SET grace_until = $1, lease_expires_at = max(lease_expires_at, $1), lease_ends_at = max(lease_ends_at + $2, $1)
		WHERE status = 'running' AND lease_expires_at > $3 AND grace_until IS NULL`+only,
		append([]any{int64(e.GraceUntil), int64(stepLength(e)), int64(e.Before)}, args...)...)
}

// stepLength is how far a clock was set forward: by so much the lifetime of an attempt ends later (CLK-4).
func stepLength(e events.ClockStepped) events.Span { return max(e.After.Sub(e.Before), 0) }

// clockFacts are the same facts in memory, for decisions. What was confirmed holds until something says that the wall clock
// lies less far behind: a clock that has caught up and is set back again is in doubt again.
type clockFacts struct {
	stepped events.Micros // when a clock was last set forward; 0: never
	behind  events.Span   // how far an operator has confirmed the wall clock to lie before engine time; 0: not at all
}

func (c *clockFacts) apply(env events.Envelope) {
	switch e := env.Event.(type) {
	case events.NodeStarted:
		c.behind = min(c.behind, e.Behind)
	case events.ClockStepped:
		switch {
		case e.Actor != "":
			c.behind = e.Before.Sub(e.After)
		case stepLength(e) > 0:
			c.stepped, c.behind = env.At, 0
		default:
			c.behind = min(c.behind, e.Before.Sub(e.After))
		}
	}
}

// ClockBehind is how far an operator has confirmed the wall clock to lie before engine time; 0: not at all (CLK-7).
func (v View) ClockBehind() (events.Span, error) {
	c, err := readClock(v.tx)
	return c.behind, err
}

func readClock(tx store.ReadTx) (c clockFacts, err error) {
	err = tx.Query(func(r store.Row) error {
		var stepped *int64
		var behind int64
		if err := r.Scan(&stepped, &behind); err != nil {
			return err
		}
		c = clockFacts{events.Micros(derefInt(stepped)), events.Span(behind)}
		return nil
	}, `SELECT stepped_at, behind FROM clock`)
	if err != nil {
		return c, fmt.Errorf("read what is known of the clock: %w", err)
	}
	return c, nil
}
