package model

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The configurations in which the bugs are looked for are as small as they can be.
var (
	one = usual.with("one unit", func(c *Config) { c.Units, c.MaxReturns = []Unit{{}}, 0 })
	two = usual.with("two units", func(c *Config) { c.Units, c.MaxReturns = []Unit{{}, {}}, 0 })

	relays = one.with("two relays", func(c *Config) { c.Relays = 2 })
	spent  = one.with("one attempt", func(c *Config) { c.MaxAttempts = 1 })
	acts   = usual.with("two acts", func(c *Config) {
		c.Units, c.Targets, c.Faults, c.Acts, c.MaxActs = []Unit{{Reference: true}, {}}, 1, 0, allActs, 2
	})
	loose  = one.with("not reduced", func(c *Config) { c.Reduced = false })
	shared = one.with("two runs", func(c *Config) { c.Units, c.Runs, c.Faults = []Unit{{}, {Run: 1}}, 2, 0 })
	killed = two.with("suspects", func(c *Config) { c.Cap, c.Exclusive, c.InProcess = 2, true, true })
	amo    = one.with("at most once", func(c *Config) { c.Targets = 1 })
	eo     = one.with("exactly once", func(c *Config) { c.Targets, c.Mode = 1, ExactlyOnce })
)

// A model that finds nothing may be blind. It finds each of these, and for the reason that it should.
func TestTheModelFindsPlantedBugs(t *testing.T) {
	for _, p := range []struct {
		bug    Bug
		name   string
		in     Config
		breaks string
	}{
		{ArmBesideMaybe, "a wish gets a number that a broker may know", one, "I-10"},
		{ArmSwallowedByClaim, "a wish during a claim is swallowed", one, "I-10"},
		{ParkedStaysDeaf, "nothing opens a parked register", acts, "I-27"},
		{MarkDropsWaiting, "a mark closes the number that waits", one, "I-27"},
		{MarkWithoutToken, "a relay marks the claim of another", relays, "I-11"},
		{UnknownIsSafe, "an unknown publish is taken for a refused one", one, "O-6"},
		{ExpiredClaimIsSafe, "the publish of a dead relay is taken for none", one, "O-6"},
		{ParkTakesWaiting, "a park takes the number that waits", acts, "K-1"},
		{NothingIsParked, "a wakeup is tried for ever", spent, "I-12"},
		{DropForgetsLater, "a drop forgets the time of a retry", one, "HD-6"},
		{ClaimsAreNotReleased, "the claim of a dead relay stays", one, "I-27"},

		{TierIsAlwaysOpen, "a work item does not wait for its reference unit", acts, "I-21"},
		{NoCascade, "a work item outlives its reference unit", acts, "I-27"},
		{AnybodyMayClaim, "a late message starts a unit", one, "I-4"},
		{StaleClaimNeedsNoSlot, "a stale unit starts without a slot", shared, "I-17"},
		{SettleWithoutToken, "an old attempt settles the new one", one, "I-5"},
		{SettleWithoutLease, "a settle comes behind its lease", one, "I-5"},
		{SettleDoesNotArmFinalize, "the last settle arms no finalize", one, "I-9"},
		{RetryDoesNotArm, "a retry arms no dispatch", one, "I-10"},
		{RetriesAreNotCounted, "lost leases are not counted", one.with("no retries", func(c *Config) { c.MaxRetries = 0 }), "I-19"},
		{LeasesAreNotExpired, "nobody looks for lost leases", one, "I-27"},
		{StaleIsNotReclaimed, "nobody looks for lost messages", one, "I-27"},
		{DispatchIgnoresCap, "dispatch ignores the cap", two, "I-17"},
		{DispatchDoesNotAnnounce, "a dispatch announces nothing", one, "I-27"},
		{NoRefill, "a freed slot stays free", two, "B-6"},
		{SuspectsGoTogether, "two crash suspects are at work", killed, "RW-8"},
		{EndedRunsGoOn, "a run that has ended goes on", acts, "I-"},
		{FinalizedTwice, "a run is finalized twice", loose, "I-7"},
		{FinalizeIsNotMaterialized, "nobody looks for a lost finalize", one, "I-27"},
		{CancelLeavesUnits, "a cancelled run leaves units open", acts, "I-7"},
		{CancelDoesNotArmPost, "a cancelled run is followed by nothing", acts, "I-8"},

		{PostArmedAgain, "post_sync is armed again", amo, "I-13"},
		{PublishedUnmarked, "post_sync is published without its mark", amo, "I-14"},
		{PublishedHoweverLate, "post_sync is published however late", amo, "O-12"},
		{OutcomeIsOverwritten, "an outcome of post_sync is overwritten", amo, "I-13"},
		{PostStartedTwice, "an effect is begun twice", amo, "HP-2"},
		{LedgerIsIgnored, "an effect is committed twice", eo, "K-6"},
	} {
		t.Run(p.name, func(t *testing.T) {
			const bound = 100_000
			report := Explore(p.in, p.bug, bound)
			require.NotEmpty(t, report.Violation, "nothing is found in %d states", report.States)
			require.True(t, strings.HasPrefix(report.Violation, p.breaks), "it breaks %s, and %s is found", p.breaks, report.Violation)
			t.Logf("%6d states, %2d transitions: %s", report.States, len(report.Trace)-1, report.Violation)
		})
	}
}
