package httpapi

import (
	"context"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

// Register adds an operation whose errors become problems. codes are those that it may answer with, beside those that every
// operation may.
//
// I is what it reads: fields with a tag path, query or header, of the types string, int, int64 and time.Time (RFC 3339), and
// for a POST a field Body. What a request does not give has the tag default, which of a body its own fields may have, and
// those in it not. O is what it answers: text fields with a tag header, which is not sent if it is empty; Status, if it is not
// always op.DefaultStatus (zero: 200); and Body, which is not sent with 204. Both may embed structs. It panics about a type
// that it cannot serve.
func Register[I, O any](s *Server, op huma.Operation, codes []string, handle func(context.Context, *I) (*O, error)) {
	// Nothing else stands here: what is generic is compiled for each operation.
	s.register(&op, codes, reflect.TypeFor[I](), reflect.TypeFor[O](), func(ctx context.Context, in any) (any, error) {
		return handle(ctx, in.(*I))
	})
}

// Answer is the frame of every answer about a view: the body, and as of when it is.
type Answer[T any] struct {
	Seq  string `header:"Towline-Seq" doc:"position of the newest event that the answer knows"`
	ETag string `header:"ETag" doc:"the same, for If-None-Match"`
	Body T
}

// AtSeq is the parameter of every read of a view.
type AtSeq struct {
	AtSeq int64 `query:"at_seq" minimum:"1" doc:"as it was behind this event; not given: now"`
}

// Page is the parameter of every list.
type Page struct {
	Where string `query:"where" doc:"a query, such as state:failed -sync:code age>10m"`
	Limit int    `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"how many at most"`
	After string `query:"after" doc:"next of the page before"`
}

// view answers from one state of the log: the present one, or that behind an event.
func view[T any](ctx context.Context, s *Server, at AtSeq, read func(projections.View) (T, error)) (*Answer[T], error) {
	out := &Answer[T]{}
	seq, err := s.look(ctx, at, func(v projections.View) (err error) {
		out.Body, err = read(v)
		return err
	})
	out.Seq, out.ETag = seq.String(), etagOf(seq)
	return out, err
}

// look reads one state of the log, and says which.
func (s *Server) look(ctx context.Context, at AtSeq, read func(projections.View) error) (seq events.Position, err error) {
	look := func(v projections.View) (err error) {
		if seq, _, err = v.Head(); err != nil {
			return err
		}
		return read(v)
	}
	if at.AtSeq == 0 {
		err = s.engine().View(ctx, look)
	} else {
		err = s.pasts.view(ctx, events.Position(at.AtSeq), look)
	}
	return seq, err
}
