package model

// Bug is a rule that is written wrong on purpose. The exploration must find each of them: that is the measure of what it
// can see.
//
// Some rules are beyond it, because another one mends what they spare: without the countdown (HD-6), the arm of a resume
// or the early end of what died with its process (N-3), work is only late, and a model without lengths of time does
// not see that.
type Bug uint8

// The planted bugs. The zero value is none.
const (
	NoBug Bug = iota

	ArmBesideMaybe       // O-6: a wish gets a number that a broker may know
	ArmSwallowedByClaim  // O-6: a wish during a claim is lost
	ParkedStaysDeaf      // O-S8: nothing opens what is parked
	MarkDropsWaiting     // O-S5: the number that waits is closed with the other
	MarkWithoutToken     // O-9
	UnknownIsSafe        // O-6: an unknown publish is taken for a refused one
	ExpiredClaimIsSafe   // O-6: so is that of a claim that has ended
	ParkTakesWaiting     // O-S7: the number that waits is parked with the other
	NothingIsParked      // O-15
	DropForgetsLater     // O-8: the time of a retry is lost with an early wakeup
	ClaimsAreNotReleased // REC-13

	TierIsAlwaysOpen          // P-9
	NoCascade                 // U-13
	AnybodyMayClaim           // U-5
	StaleClaimNeedsNoSlot     // U-5
	SettleWithoutToken        // U-19
	SettleWithoutLease        // U-17
	SettleDoesNotArmFinalize  // U-21
	RetryDoesNotArm           // U-11
	RetriesAreNotCounted      // U-11
	LeasesAreNotExpired       // REC-5
	StaleIsNotReclaimed       // U-4
	DispatchIgnoresCap        // HD-4
	DispatchDoesNotAnnounce   // HD-5
	NoRefill                  // B-6
	SuspectsGoTogether        // RW-8
	EndedRunsGoOn             // NT(run)
	FinalizedTwice
	FinalizeIsNotMaterialized // REC-9
	CancelLeavesUnits
	CancelDoesNotArmPost

	PostArmedAgain       // K table: wakeup 1 is the only one
	PublishedUnmarked    // O-12
	PublishedHoweverLate // O-12: half of the claim time has passed
	OutcomeIsOverwritten // O-12
	PostStartedTwice     // HP-2
	LedgerIsIgnored      // HP-3
)
