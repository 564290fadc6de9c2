// Package crash takes the log of a real run and lets the process die at every durable boundary of it.
//
// A durable boundary is the end of a transaction: what the log holds then is all that a dead process leaves. For each of
// them a store is made that ends there, an engine of production starts on it in package sim, under virtual time, and goes
// on to the end. What was in the memory of the process is gone. Where a port was called behind the boundary, and what came
// of it is on record only behind the next, the process dies once more: with the call made, and not on record.
//
// Around it stands the world as the log has recorded it. A provider answers what it has answered, a sink holds what it has
// committed, a consumer handles, refuses or gives up a message as it has, and an effect that happens at most once fails if
// it has. What the log does not tell goes well: single deliveries of a message that failed, effects in exactly_once mode
// that failed before they were done, and whatever lies behind the end of the log.
//
// The result is a Matrix: what became of each death, which rows of the crash table (docs/SPEC.md, 12) apply to it, and how
// long it took. Behind every third recovery, and behind each that is played from a case, the views are compared with the
// fold of its log, too (I-26). A row can be written down as a Case, a text file that plays it again on any machine, byte for byte.
//
// The store that is looked at is only read, also while a process works on it.
package crash
