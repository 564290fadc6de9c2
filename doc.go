// Package towline is a durable dispatch engine for sync pipelines. It plans a run into units, sends the units to workers,
// and brings every committed run to an end, whatever dies on the way: a publish, a worker, a relay, or the process.
//
// Every state change is an event in one append-only log. Views are folds of the log, changed in the same transaction.
// Messages are hints: one may be lost, late or doubled, and only time changes. Recovery is a replay.
//
// # Parts
//
// Most programs need package node, which ties one process together, and the two ports: package provider, where data
// comes from, and package sink, where it goes. This package holds the engine below them: [Engine.Plan] accepts a request,
// [Engine.Wait] returns when its run has ended, [Engine.Claim] and [Engine.Settle] are a worker's verbs,
// [Engine.View] answers questions, and [Engine.Verify] proves the views and the log.
//
// # Guarantees
//
//   - A run that was accepted ends. Nothing is stranded by a crash.
//   - A unit has one live claim. Only its holder settles it; a late result is recorded and changes nothing.
//   - A run is finalized once. Its post_sync is published at most once, and never twice.
//   - Events, views and outbox change together or not at all.
//
// The rules behind these sentences are numbered in docs/SPEC.md. Comments and tests cite them: (U-5), (I-31).
package towline
