package events

import "encoding/json"

// Numbers of the node family. A number is never reused.
const (
	TypeNodeStarted Type = iota + 100
	TypeNodeRecovered
	TypeNodeConfigChanged
	TypeClockStepped
	TypeBreakerOpened
	TypeBreakerClosed
	TypeRunsArchived
	TypeSegmentPurged
	TypeStoreRestored
	TypeNodeStopped
)

type (
	// NodeStarted is one start of one process; it comes before anything else of that incarnation (N-1).
	NodeStarted struct {
		Host      string          `json:"host,omitzero"`
		PID       int             `json:"pid,omitzero"`
		Version   string          `json:"version,omitzero"`
		StoreMode StoreMode       `json:"store_mode"`
		Config    json.RawMessage `json:"config,omitzero"` // effective values, secrets masked
		Syncs     []Configured    `json:"syncs,omitzero"`  // what it is configured for; nil: not recorded
	}

	// Configured is a sync as a node knows it: what is not named here is held at that node.
	Configured struct {
		Sync     string   `json:"sync"`
		Provider string   `json:"provider"`
		Sources  []string `json:"sources,omitempty"`
		Datasets []string `json:"datasets,omitempty"`
	}

	// NodeRecovered says that boot recovery has ended, and what it found (N-4).
	NodeRecovered struct {
		GoneIncarnations int `json:"gone_incarnations,omitzero"`
		Leases           int `json:"leases,omitzero"`
		Claims           int `json:"claims,omitzero"`
		Dispatches       int `json:"dispatches,omitzero"`
	}

	// NodeConfigChanged is a reload that was applied (CFG-3).
	NodeConfigChanged struct {
		Changed json.RawMessage `json:"changed"`
		Actor   string          `json:"actor,omitzero"`
	}

	// ClockStepped is a wall-clock step above the bound, or an operator's word on the clock (CLK-3, CLK-7).
	ClockStepped struct {
		Before     Micros `json:"before"`
		After      Micros `json:"after"`
		GraceUntil Micros `json:"grace_until,omitzero"`
		Actor      string `json:"confirmed_by,omitzero"`
	}

	// BreakerOpened and BreakerClosed are the breaker of a transport at one node (O-16).
	BreakerOpened struct {
		Transport string `json:"transport"`
		Cause     string `json:"cause,omitzero"`
	}
	BreakerClosed struct {
		Transport string `json:"transport"`
		Cause     string `json:"cause,omitzero"`
	}

	// RunsArchived says that finished streams moved to a sealed segment (L-1).
	RunsArchived struct {
		Segment string   `json:"segment"`
		Hash    string   `json:"hash"`
		Streams []string `json:"streams"`
	}

	// SegmentPurged says that a sealed segment was deleted; one summary per run stays (L-1).
	SegmentPurged struct {
		Segment   string          `json:"segment"`
		Hash      string          `json:"hash"`
		Positions []Position      `json:"positions"`
		Summaries json.RawMessage `json:"summaries"`
	}

	// StoreRestored begins a new epoch (DUR-5).
	StoreRestored struct {
		Epoch int      `json:"epoch"`
		Head  Position `json:"head"`
	}

	// NodeStopped is a clean stop (N-6).
	NodeStopped struct {
		Reason string `json:"reason,omitzero"`
	}
)

func (NodeStarted) EventType() Type       { return TypeNodeStarted }
func (NodeRecovered) EventType() Type     { return TypeNodeRecovered }
func (NodeConfigChanged) EventType() Type { return TypeNodeConfigChanged }
func (ClockStepped) EventType() Type      { return TypeClockStepped }
func (BreakerOpened) EventType() Type     { return TypeBreakerOpened }
func (BreakerClosed) EventType() Type     { return TypeBreakerClosed }
func (RunsArchived) EventType() Type      { return TypeRunsArchived }
func (SegmentPurged) EventType() Type     { return TypeSegmentPurged }
func (StoreRestored) EventType() Type     { return TypeStoreRestored }
func (NodeStopped) EventType() Type       { return TypeNodeStopped }

func (NodeStarted) event()       {}
func (NodeRecovered) event()     {}
func (NodeConfigChanged) event() {}
func (ClockStepped) event()      {}
func (BreakerOpened) event()     {}
func (BreakerClosed) event()     {}
func (RunsArchived) event()      {}
func (SegmentPurged) event()     {}
func (StoreRestored) event()     {}
func (NodeStopped) event()       {}
