//go:build race

package sim_test

// The race detector makes SQLite ten times slower, and each world has one goroutine: a sample is enough to see what worlds
// share by mistake. Nine is odd, so that windows before and behind a call are both in it.
const sample = 9
