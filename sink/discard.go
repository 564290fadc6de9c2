package sink

import (
	"context"
	"encoding/json"
)

type discard struct{}

func (discard) Open(_ context.Context, s Scope) (Writer, error) { return &discardWriter{scope: s}, nil }

// guarded is discard for those who call Guard.
type guarded struct{ discard }

// Fenced is true by Guard, which the provider has promised to call.
func (guarded) Fenced() bool { return true }

type discardWriter struct {
	scope     Scope
	rows      int
	state     json.RawMessage
	committed bool
}

func (w *discardWriter) Put(_ context.Context, surface, _ string, _ any) error {
	if err := w.scope.Declares(surface); err != nil {
		return err
	}
	w.rows++
	return nil
}

func (w *discardWriter) Progress(int64, int64)        {}
func (w *discardWriter) State(s json.RawMessage)      { w.state = s }
func (w *discardWriter) Commit(context.Context) error { w.committed = true; return nil }
func (w *discardWriter) Abort() error                 { return nil }
func (w *discardWriter) Rows() int                    { return w.rows }
func (w *discardWriter) Left() json.RawMessage        { return w.state }
func (w *discardWriter) Committed() bool              { return w.committed }
