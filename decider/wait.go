package decider

import "github.com/towline-dev/towline/events"

// WaitReason is why a unit that has not ended is no further (spec 11.1). The words are shown on every surface.
type WaitReason string

const (
	WaitEnginePaused WaitReason = "engine_paused"
	WaitSourcePaused WaitReason = "source_paused"
	WaitUnconfigured WaitReason = "unconfigured"
	WaitReference    WaitReason = "waiting_for_reference"
	WaitCooldown     WaitReason = "cooldown"
	WaitRetryAt      WaitReason = "retry_at"
	WaitCrashSuspect WaitReason = "crash_suspect"
	WaitCapped       WaitReason = "capped"
	WaitPublish      WaitReason = "publish_pending"
	WaitForWorker    WaitReason = "waiting_for_worker"
	WaitRunning      WaitReason = "running"
)

// Wait is the first reason that holds, with its evidence. The zero Wait is that of a unit which has ended. What a wakeup
// of the run waits for, a broker or an operator, is the register's to say: see WaitPublish.
type Wait struct {
	Reason WaitReason
	// At is the end of a cooldown, the time of a retry, the end of a lease, or since when a worker is waited for.
	At events.Micros
	// On is what is missing from the configuration, the key of a cooldown, the paused source, or the cap that is full:
	// run, engine, or the name of a bucket.
	On string
	// Behind is the crash suspect at work, or a reference unit that has not succeeded.
	Behind events.UnitID
	// Kind is the register of the run whose wakeup a WaitPublish is for.
	Kind events.Kind
}

// The caps that are no bucket, as Wait.On names them.
const (
	CapRun    = "run"
	CapEngine = "engine"
)
