// Package towline is a durable dispatch engine for sync pipelines. It plans a run into units, sends the units to workers,
// and brings every committed run to an end, whatever dies on the way: a publish, a worker, a relay, or the process.
//
// Every state change is an event in one append-only log. Views are folds of the log, changed in the same transaction.
// Messages are hints: one may be lost, late or doubled, and only time changes. Recovery is a replay.
//
// # What you call
//
// Most programs open a node with package node, write a provider (package provider) for a sink (package sink), and call
// these methods of [Engine], which Node.Engine returns:
//
//   - to run something: [Engine.Plan]; to see before what that would be: [Engine.Preview]; to wait for its end: [Engine.Wait],
//     or [Engine.WaitPostSync] for what follows it
//   - to ask: [Engine.View] with the queries of package projections, [Engine.Why] for what a thing waits for,
//     [Engine.Health], and of the past [Engine.PositionAt] and Node.AsOf
//   - to run what failed again: [Engine.RetryFailed]
//   - to end it: [Engine.CancelRun], [Engine.CancelUnit]; to give a lost worker's unit back: [Engine.ReleaseUnit]
//   - to put other limits in force while it runs: [Engine.Reload]
//   - a store that was restored: [Engine.Hold], [Engine.ReleaseHold];
//   - to hold everything, or a source: [Engine.PauseEngine], [Engine.ResumeEngine], [Engine.PauseSource],
//     [Engine.ResumeSource]; a schedule: [Engine.PauseSchedule], [Engine.ResumeSchedule]; to run one now:
//     [Engine.RunSchedule]; to see when it is due: [Engine.Schedules]
//   - what waits for a person: [Engine.Redrive] and [Engine.Resolve]; to hold a wakeup that a broker does not take:
//     [Engine.Park]
//   - to send a message of your own: [Engine.Submit], or store/sqlite.Outbox in your transaction; to take an old outbox
//     table over: Node.Import
//   - to consume post_sync outside of the process: [Engine.StartPost], [Engine.CompletePost], [Engine.FailPost] and [Once]
//   - to prove the views and the log: Node.Verify; to confirm a clock that is right: [Engine.ConfirmClock]
//
// The other methods are for package node and the shells below it: the relay (as [Engine.Nudged], [Engine.ExpireLeases],
// [Engine.ReleaseClaims], [Engine.CheckWaiters]), the handlers and workers (as [Engine.Claim], [Engine.Renew],
// [Engine.Settle]), and whoever builds a shell of his own ([Engine.Transact], [Tx]). An application needs none of them.
// docs/OPERATING.md has the answers to an operator's questions.
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
