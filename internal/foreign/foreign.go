// Package foreign calls code of somebody else: providers, sinks, handlers, publishers. Such code may panic, and it may end
// its goroutine, as a test library does with runtime.Goexit. Neither must take the caller with it: a worker that is gone
// gives its slot to nobody, and what it was asked for is never answered.
package foreign

import (
	"errors"
	"fmt"
)

// ErrGone: the code has ended its goroutine.
var ErrGone = errors.New("it ended its goroutine")

// PanicError is a panic of the code.
type PanicError struct{ Value any }

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Call returns what fn returns, or what broken makes of a *PanicError or of ErrGone. fn runs in a goroutine of its own, for
// only that can be ended without ending the caller's, and Call waits for it.
func Call[T any](fn func() T, broken func(error) T) T {
	done := make(chan T, 1)
	go func() {
		err := ErrGone // unless it returns or panics
		var out T
		defer func() {
			if v := recover(); v != nil {
				err = &PanicError{v}
			}
			if err != nil {
				out = broken(err)
			}
			done <- out
		}()
		out = fn()
		err = nil
	}()
	return <-done
}
