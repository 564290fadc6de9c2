//go:build !linux

package main

// monotonicMicros: no manager that wants to know it runs here.
func monotonicMicros() (int64, bool) { return 0, false }
