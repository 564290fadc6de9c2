//go:build !linux

package exec

import (
	"context"
	"log/slog"
)

// Processes cannot be told apart here once their numbers are used again, so none is ended.

func startOf(int) uint64 { return 0 }
func bootID() string     { return "" }

func endOrphans(_ context.Context, found []*attemptPlace, logger *slog.Logger) map[string]int {
	for _, at := range found {
		if at.record.Group != 0 {
			logger.Warn("a killed engine may have left a program at work: look at its process group", "unit", at.record.Unit, "group", at.record.Group)
		}
	}
	return nil
}
