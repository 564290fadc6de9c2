package events

// Numbers of the unit family. A number is never reused.
const (
	TypeUnitPlanned Type = iota + 20
	TypeUnitDispatched
	TypeUnitClaimed
	TypeUnitLeaseRenewed
	TypeUnitSucceeded
	TypeUnitLeaseExpired
	TypeUnitFailed
	TypeUnitRetryScheduled
	TypeUnitCancelled
	TypeUnitLateResult
)

type (
	// UnitPlanned opens a unit (U-1). Everything here is frozen.
	UnitPlanned struct {
		Run         RunID    `json:"run_id"`
		Ordinal     int      `json:"ordinal"` // place in the run, from 1 (P-2)
		Source      string   `json:"source"`
		Provider    string   `json:"provider"`
		Dataset     string   `json:"dataset"`
		Members     []string `json:"members,omitempty"` // of a family; nil: the dataset alone
		Tier        Tier     `json:"tier"`
		Cost        Cost     `json:"cost_class"`
		Mode        Mode     `json:"mode"`
		Window      Window   `json:"window"`
		Surfaces    []string `json:"surfaces,omitempty"`
		Fingerprint string   `json:"fingerprint,omitzero"` // of the listed period (W-8)
		Watermark   bool     `json:"watermark,omitzero"`   // success moves the watermark (WM-4)
		Calendar    Calendar `json:"calendar,omitzero"`    // kind of period the window is (W-8)
	}

	// UnitDispatched gives a unit a slot (U-2, U-3, U-4).
	UnitDispatched struct {
		Dispatch int           `json:"dispatch"` // times dispatched, this one included
		Wakeup   int           `json:"wakeup"`   // of run_sync_unit, which announces it (K-1)
		Attempt  int           `json:"attempt"`  // that it invites
		Cause    DispatchCause `json:"cause"`
		Bucket   Bucket        `json:"bucket"`
	}

	// UnitClaimed opens an attempt (U-5). Its position, behind the store epoch, is the fence.
	UnitClaimed struct {
		Attempt        int    `json:"attempt"`
		Token          Token  `json:"token"`
		LeaseExpiresAt Micros `json:"lease_expires_at"`
		LeaseEndsAt    Micros `json:"lease_ends_at"`   // absolute; no renewal goes beyond it
		Remote         bool   `json:"remote,omitzero"` // claimed over the API: the lease belongs to no incarnation (N-5)
		Worker         string `json:"worker,omitzero"`
	}

	// UnitLeaseRenewed moves the end of the lease (U-6).
	UnitLeaseRenewed struct {
		Attempt        int    `json:"attempt"`
		Token          Token  `json:"token"`
		LeaseExpiresAt Micros `json:"lease_expires_at"`
	}

	// UnitSucceeded ends a unit well, and moves its watermarks with it (U-7, WM-1).
	UnitSucceeded struct {
		Attempt    int         `json:"attempt"`
		Token      Token       `json:"token"`
		Result     Result      `json:"result,omitzero"`
		Duration   Span        `json:"duration_us,omitzero"` // since the claim
		Watermarks []Watermark `json:"watermarks,omitempty"`
	}

	// UnitLeaseExpired says that a lease ended without a settle; the decision follows with the same tx (I-19).
	UnitLeaseExpired struct {
		Attempt        int         `json:"attempt"`
		LeaseExpiresAt Micros      `json:"lease_expires_at,omitzero"`
		LastRenewedAt  Micros      `json:"last_renewed_at,omitzero"`
		Cause          ExpiryCause `json:"cause"`
		LeaseNode      NodeID      `json:"lease_node,omitzero"`
		Reason         string      `json:"reason,omitzero"` // what the operator said who released it
	}

	// UnitFailed ends a unit badly (U-8, U-12, U-13, U-14).
	UnitFailed struct {
		Attempt  int      `json:"attempt,omitzero"` // 0: it was never claimed
		Token    Token    `json:"token,omitzero"`
		Category Category `json:"category"`
		Text     string   `json:"text,omitzero"`
		By       Settler  `json:"by"`
		Retries  int      `json:"retries,omitzero"` // attempts that were tried again before
		Result   Result   `json:"result,omitzero"`
	}

	// UnitRetryScheduled ends an attempt and says when the next may begin (U-9, U-10, U-11, U-16).
	UnitRetryScheduled struct {
		Attempt             int      `json:"attempt"`
		Token               Token    `json:"token,omitzero"`
		Cause               Category `json:"cause"` // rate_limit, expired_lease, handed_back, or a declared category
		Text                string   `json:"text,omitzero"`
		AvailableAt         Micros   `json:"available_at"`
		ExpiredLeaseRetries int      `json:"expired_lease_retries,omitzero"`
		RateLimitDeferrals  int      `json:"rate_limit_deferrals,omitzero"`
		RateLimitFirstAt    Micros   `json:"rate_limit_first_at,omitzero"`
		HandBacks           int      `json:"hand_backs,omitzero"`
		CategoryRetries     int      `json:"category_retries,omitzero"` // of the declared category in Cause, this one included
		Suspect             bool     `json:"suspect,omitzero"`          // it was at work when its process died, and this is its last retry (RW-8)
		CooldownKey         string   `json:"cooldown_key,omitzero"`
		CooldownUntil       Micros   `json:"cooldown_until,omitzero"`
		Result              Result   `json:"result,omitzero"`
	}

	// UnitCancelled ends a unit by an operator, or by the cascade of one (U-15).
	UnitCancelled struct {
		Actor  string       `json:"actor,omitzero"`
		Reason CancelReason `json:"reason"`
		Text   string       `json:"text,omitzero"` // what the operator said; of unit_cancelled, for RunCancelled has its own
	}

	// UnitLateResult records a settle that came too late, once per attempt. It changes nothing (U-19).
	UnitLateResult struct {
		Attempt int        `json:"attempt"`
		Outcome string     `json:"outcome"` // what the worker offered: succeeded, failed, handed_back
		Reason  LateReason `json:"reason"`
		Text    string     `json:"text"`
	}
)

// Datasets are the members of a family, else the dataset alone.
func (u UnitPlanned) Datasets() []string {
	if len(u.Members) > 0 {
		return u.Members
	}
	return []string{u.Dataset}
}

// LateResultText is the text of every UnitLateResult.
const LateResultText = "late result, refused"

func (UnitPlanned) EventType() Type        { return TypeUnitPlanned }
func (UnitDispatched) EventType() Type     { return TypeUnitDispatched }
func (UnitClaimed) EventType() Type        { return TypeUnitClaimed }
func (UnitLeaseRenewed) EventType() Type   { return TypeUnitLeaseRenewed }
func (UnitSucceeded) EventType() Type      { return TypeUnitSucceeded }
func (UnitLeaseExpired) EventType() Type   { return TypeUnitLeaseExpired }
func (UnitFailed) EventType() Type         { return TypeUnitFailed }
func (UnitRetryScheduled) EventType() Type { return TypeUnitRetryScheduled }
func (UnitCancelled) EventType() Type      { return TypeUnitCancelled }
func (UnitLateResult) EventType() Type     { return TypeUnitLateResult }

func (UnitPlanned) event()        {}
func (UnitDispatched) event()     {}
func (UnitClaimed) event()        {}
func (UnitLeaseRenewed) event()   {}
func (UnitSucceeded) event()      {}
func (UnitLeaseExpired) event()   {}
func (UnitFailed) event()         {}
func (UnitRetryScheduled) event() {}
func (UnitCancelled) event()      {}
func (UnitLateResult) event()     {}
