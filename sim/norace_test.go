//go:build !race

package sim_test

const sample = 1 // every window
