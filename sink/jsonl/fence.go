package jsonl

import (
	"fmt"
	"path/filepath"

	"github.com/towline-dev/towline/sink"
)

// A fence orders the attempts of one store. What another store wrote is neither older nor newer: its positions count
// another log.
//
//	what is there is of         the attempt commits if
//	nobody yet                  always
//	its own store               its fence is not lower than that of its window, and of every window around it
//	a store not known           the same
//	another store               never: ErrForeign, at whatever window of the dataset; with TakeOver always
//
// A record of another store than the one that owns the dataset is from before a take-over, and counts for nothing.

// standing is what checkFence found.
type standing struct {
	dataset datasetRecord
	related []found
}

// checkFence compares an attempt with what was committed. An equal fence is this attempt itself.
func (d *Destination) checkFence(s sink.Scope) (standing, error) {
	var now standing
	if _, err := read(filepath.Join(d.datasetFolder(s), datasetFile), &now.dataset); err != nil {
		return now, fmt.Errorf("read the owner of the dataset: %w", err)
	}
	owner := now.dataset.Store
	if now.dataset.Source != "" && (now.dataset.Source != s.Source || now.dataset.Dataset != s.Dataset) {
		return now, fmt.Errorf("the records of %s/%s are those of %s/%s: this file system takes the names for one; choose another name",
			s.Source, s.Dataset, now.dataset.Source, now.dataset.Dataset)
	}
	if foreign(owner, s.Store) && !d.takeOver {
		return now, fmt.Errorf("%s/%s: %w: store %s, at %s: go on with that store, or, if it is gone for good, open the folder with jsonl.TakeOver()",
			s.Source, s.Dataset, sink.ErrForeign, owner, now.dataset.CommittedAt)
	}
	var err error
	if now.related, err = d.related(s); err != nil {
		return now, fmt.Errorf("read the fences: %w", err)
	}
	own := spanOf(s.Window)
	for _, f := range now.related {
		if !f.span.covers(own) || f.Fence <= s.Fence || d.void(f.windowRecord, now.dataset, s) {
			continue
		}
		err := fmt.Errorf("%s/%s/%s: %w: window %s, fence %s, unit %s, attempt %d, at %s",
			s.Source, s.Dataset, s.Window.Name(), sink.ErrFenced, f.Window, f.Fence, f.Unit, f.Attempt, f.CommittedAt)
		if f.Store == "" && s.Store != "" {
			err = fmt.Errorf("%w; its store is not known: if that is gone for good, open the folder with jsonl.TakeOver()", err)
		}
		return now, err
	}
	return now, nil
}

// void reports a record whose fence says nothing: with TakeOver that of any other store, and else that of a store from
// which the dataset was taken over.
func (d *Destination) void(r windowRecord, dataset datasetRecord, s sink.Scope) bool {
	return d.takeOver && r.Store != s.Store || foreign(r.Store, dataset.Store)
}

// foreign reports two stores whose fences cannot be compared.
func foreign(a, b string) bool { return a != "" && b != "" && a != b }

// owned is the record of the dataset behind a commit. Two windows may commit in any order, so the state is that of the
// newest attempt.
func (w *writer) owned(now datasetRecord, at string) datasetRecord {
	s := w.scope
	next := now
	next.Source, next.Dataset, next.CommittedAt = s.Source, s.Dataset, at
	if s.Store != "" {
		next.Store = s.Store
	}
	newest := s.Fence >= now.StateFence || w.d.takeOver && now.StateStore != s.Store || foreign(now.StateStore, s.Store)
	if len(w.state) > 0 && newest {
		next.State, next.StateFence, next.StateStore = w.state, s.Fence, s.Store
	}
	return next
}
