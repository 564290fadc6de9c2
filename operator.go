package towline

import (
	"fmt"
	"strings"

	"github.com/towline-dev/towline/decider"
)

// Actor is who asks, and why. An operator's action needs a name, at most 200 bytes, and where its method says so a reason;
// secrets in a reason are masked, and it is cut at error.max_bytes.
type Actor struct{ Name, Reason string }

// asker checks who asks, if anybody is named. The name is taken as it is or refused, for people look for it; the reason is
// made fit to be stored.
func (e *Engine) asker(by Actor) (Actor, error) {
	if err := checkText("by.name", by.Name, maxActorBytes); err != nil {
		return by, err
	}
	by.Reason = CleanText(strings.TrimSpace(by.Reason), e.inForce.Load().ErrorMaxBytes)
	return by, nil
}

// operator is the same for an action, which somebody must answer for.
func (e *Engine) operator(by Actor) (Actor, error) {
	if strings.TrimSpace(by.Name) == "" {
		return by, invalid("by.name", "it is empty", "say who acts")
	}
	return e.asker(by)
}

// operatorWithReason is the same for an action that must say why.
func (e *Engine) operatorWithReason(by Actor) (Actor, error) {
	by, err := e.operator(by)
	if err == nil && by.Reason == "" {
		err = invalid("by.reason", "it is empty", "say why")
	}
	return by, err
}

// refused turns a rejection that says that something is not in a state for the request into the caller's error. Nothing
// was written.
func refused(field string, r Result, fix string) error {
	if r.Rejection == nil {
		return nil
	}
	return &RequestError{Field: field, Problem: r.Rejection.Reason, Fix: fix, Kind: r.Rejection.Err}
}

func unknown(field string, id fmt.Stringer) error {
	return &RequestError{Field: field, Problem: fmt.Sprintf("there is no %s %s", field, id), Kind: ErrNotFound}
}

// act executes the one command of an operator's action.
func (t *Tx) act(field string, c decider.Command, fix string) error {
	results, err := t.Execute(c)
	if err != nil {
		return err
	}
	return refused(field, results[0], fix)
}
