//go:build race

package enginetest

// Fewer is n, or a fifth of it under the race detector, which makes SQLite ten times slower: for how often a test of one
// goroutine does the same thing.
func Fewer(n int) int { return max(n/5, 1) }

// Race reports that the race detector is at work.
const Race = true
