package towlinetest

import (
	"context"

	"github.com/towline-dev/towline/sim"
)

// Point names a place between two effects of your own, and so makes it a window: in a world its node may be killed there,
// and it returns sim.ErrDead, upon which the provider must return at once; in a process of CrashProcesses the process is
// killed there. Anywhere else it is nil. ctx is that of the call of the provider, or of run.
//
// It is for code under test, so hand it in as a function, for this package is nothing for a production program:
//
//	type Uploader struct {
//		point func(context.Context, string) error // nil in production
//	}
func Point(ctx context.Context, name string) error {
	if err := sim.Point(ctx, name); err != nil {
		return err
	}
	killAtPoint(name)
	return nil
}
