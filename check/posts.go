package check

import (
	"strconv"
	"strings"

	"github.com/towline-dev/towline/events"
)

// checkPost is HP-1 and the names of K-4 and K-8.
func (c *Checker) checkPost(e events.Envelope, r *run, generation, target, message string) {
	reg := r.regs[postSync]
	switch {
	case reg == nil || r.mode() == events.AtMostOnce && reg.marks == 0:
		c.wrong("I-2", e, "the post_sync wakeup of the run was not marked before it (HP-1)")
	case reg.claims == 0:
		c.wrong("I-2", e, "the post_sync wakeup of the run was never claimed (HP-1)")
	default:
		if n, ok := postNumber(r, target, message); !ok || n > reg.topClaimed {
			c.wrong("I-2", e, "message %q is that of no claimed post_sync wakeup of the run for target %q (K-8)", message, target)
		}
	}
	if want := r.ID.String() + ".1"; generation != want {
		c.wrong("I-2", e, "its generation is %q, that of the run is %q (K-4)", generation, want)
	}
	if !r.hasTarget(target) {
		c.wrong("I-2", e, "the run declares no post_sync target %q (K-8)", target)
	}
}

// postNumber reads the wakeup number out of <run>.post_sync.<n>.<target> (K-3, K-8).
func postNumber(r *run, target, message string) (int, bool) {
	rest, ok := strings.CutPrefix(message, r.ID.String()+"."+string(events.KindPostSync)+".")
	number, name, _ := strings.Cut(rest, ".")
	n, err := strconv.Atoi(number)
	if base, epoch, restored := strings.Cut(name, target+".e"); restored && base == "" && epoch != "" {
		name = target
	}
	return n, ok && err == nil && n > 0 && name == target
}

// checkEffect: in at_most_once mode an effect ends once, after it was started (HP-2).
func (c *Checker) checkEffect(e events.Envelope, r *run, p *Post) {
	if r.mode() != events.AtMostOnce {
		return
	}
	switch {
	case p.Started == 0:
		c.wrong("I-2", e, "the effect of target %q ends without PostSyncStarted (HP-2)", p.Target)
	case p.Completed+p.Failed > 0:
		c.wrong("I-2", e, "the effect of target %q has ended already (HP-2)", p.Target)
	}
}
