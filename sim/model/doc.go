// Package model is an explicit-state model of the specification: its rules once more, small enough that every order of
// events can be tried.
//
// A state is a value of a few hundred bytes. [Explore] begins with planned runs and tries in each state, breadth first, every
// transition that the rules and the world allow: a message is delivered, lost or doubled, a worker dies or wakes up too
// late, a relay stalls between its transactions, a process restarts, an operator acts, time passes for one thing and not
// yet for another. In each state it checks the invariants, and that the faults could stop here: some fair schedules of what
// is left must lead to the end of every run (I-27).
//
// It covers sections 6 to 8, 10, 11, 14 and 18: units, registers with their wakeup numbers, the relay and its breaker,
// brokers that lose, double and suppress messages, the slots of a bucket that two runs share, the post_sync fan-out in both
// modes, crash suspects, boot recovery, cancel, pause, park, redrive, release, resolve. It does not cover times (now, soon
// and far are all that it knows), steps of the clock, configuration, declared retries (U-10), budgets and cooldowns of rate limits,
// application messages (M-1 to M-16), schedules, and restores. When a rule changes, change the model first.
//
// A function that holds one rule, or a few that belong together, begins its comment with the number. The rules of the
// engine are another text, in package decider; a test walks both at random, hand in hand, and compares their states.
//
// A trace is the shortest way to a violation, one transition a line, and the state that it has led to. Of the registers
// only those are shown that were ever armed; "next@far" is a number that waits, "maybe" one that a broker may know.
package model
