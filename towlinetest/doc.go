// Package towlinetest tests a provider of your own against crashes.
//
// A provider may be called again for a unit that it has already worked on: its process was killed behind the work and
// before the record of it. What it writes through its sink is replaced then, under a fence. What it does beside its sink, it
// must be able to do again. Whether it is, this package finds out, in three ways:
//
//   - CrashMatrix is the first thing to write, for it asks for nothing but the provider and an oracle, which says how things
//     must be in the end. It plays a run once, counts the calls of every port, and plays it again for each of them, killed
//     before it and behind it: all the ways in which one crash can go, each named, each to be repeated alone. Matrix is the
//     same with settings.
//   - NewWorld is for property tests. You draw what goes wrong, drive the world as far as you like, and state your own
//     invariant. Finish brings it to its end, and adds everything that must be true of any world.
//   - CrashProcesses starts the test binary itself as another process, and kills it for real, again and again. It is slower,
//     and finds a window by luck only. It sees what the others cannot: your files, your locks, your deferred functions.
//
// The first two run the production code of the engine on a real store in one goroutine at a time, with virtual time. Who
// moves next and all identifiers depend on the seed alone, so a window that has failed once fails again. See package sim.
//
// # What a kill is
//
// At the call of a port the node is dead: the call has no effect, or has had its effect and nobody has learned of it. From
// then on every port of that node returns sim.ErrDead and has no effect. The code of a provider is still there, since a
// goroutine cannot be ended from outside, and so its deferred functions run, which no killed process would have allowed.
// What they do to a sink is refused. What they do to your own files or maps happens, as does whatever a provider does that
// has got sim.ErrDead and goes on all the same. So return each error of a Put at once, as is right in production, too; and
// name the steps between your own effects by Point, which makes each of them a window.
//
// # Determinism
//
// Production asks for no determinism of a provider. To repeat a failure does: a provider that walks a map, or starts
// goroutines that put in any order, takes another way each time. So each window that has failed is played a second time, and
// if the two logs differ, the report is "handler not deterministic", with the first step in which they do.
//
// # Time
//
// An attempt takes one second of virtual time, see Matrix.Takes. A provider that sleeps, or waits for a timer of its own,
// does so in real time, in every window. One that waits for the end of its context alone waits for ever: nothing else moves
// while it has the turn.
package towlinetest
