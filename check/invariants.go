package check

// Invariant is one statement of section 23 that this package checks.
type Invariant struct {
	Number    string
	Statement string
	By        string // what finds a breach: Log (Apply and Finish), or the method that is handed what the log cannot show
}

// Where a breach is found.
const (
	ByLog        = "Log"
	ByBroker     = "Broker"
	ByProviders  = "Providers"
	ByStandstill = "Standstills"
)

// Invariants lists what is checked. The statements of section 23 that are missing here are no statements about one
// log: I-26 compares folds (the accessors of Checker are one side), I-28 is about a pass that appends nothing, I-31
// about two copies of one store.
var Invariants = [...]Invariant{
	{"I-1", "Positions are dense, versions are dense per stream, time never decreases, and a transaction has one now.", ByLog},
	{"I-2", "Every event is allowed by the state before it.", ByLog},
	{"I-3", "After a terminal unit event only a late result follows, after a terminal run event only post_sync events.", ByLog},
	{"I-4", "Attempts rise by exactly one; between two claims of a unit lie a retry and a dispatch.", ByLog},
	{"I-5", "Every settle and renewal of a worker has the token and attempt of the latest claim, and comes before the lease ends.", ByLog},
	{"I-6", "No lease end lies after the claim plus its lifetime, but for one clock step, whose grace is one lease.", ByLog},
	{"I-7", "A run ends at most once, and at that position all its units have ended.", ByLog},
	{"I-8", "The transaction that ends a run closes its job, and arms post_sync 1 exactly if it is owed.", ByLog},
	{"I-9", "The transaction that ends the last open unit of a run leaves a finalize wakeup that no broker can know.", ByLog},
	{"I-10", "Every dispatch leaves the run_sync_unit wakeup that it names, and every retry a dispatch wakeup in time, that no broker can know.", ByLog},
	{"I-11", "Wakeup numbers rise by one, are claimed in order, close once, and are marked, released or dropped by the live claim only.", ByLog},
	{"I-12", "Counted attempts of a publish_first wakeup stay within the maximum, and a parked number is never claimed.", ByLog},
	{"I-13", "An at-most-once post_sync register has one wakeup number, one mark and one outcome per target.", ByLog},
	{"I-14", "The broker has at most one publish of an at-most-once post_sync per run and target, and its mark is earlier.", ByBroker},
	{"I-15", "Every mark of a publish_first wakeup has a broker record for each of its message ids.", ByBroker},
	{"I-16", "Every broker record belongs to a wakeup that was claimed at an earlier position.", ByBroker},
	{"I-17", "Slots in use stay within the caps at every dispatch, and no claim raises them above.", ByLog},
	{"I-18", "Watermarks strictly rise, up to the window end and to now at most, and never from a backfill.", ByLog},
	{"I-19", "Only eligible units are tried again after a lost lease, and an expired lease and its decision stand together.", ByLog},
	{"I-20", "Rate-limit deferrals stay within the count and time of their episode.", ByLog},
	{"I-21", "No work_item unit is dispatched before all reference units of its source in its run have succeeded.", ByLog},
	{"I-22", "An occurrence is triggered at most once, in the transaction of its run.", ByLog},
	{"I-23", "An idempotency key opens at most one job per sync within its time to live.", ByLog},
	{"I-24", "In exclusive mode no event of an incarnation follows the start of a later one.", ByLog},
	{"I-25", "Every submitted message is armed in the next engine transaction.", ByLog},
	{"I-27", "Once faults stop and time moves on, every run has ended or shows what it waits for.", ByStandstill},
	{"I-29", "Providers are called at most once per claim, and a lower attempt writes no more once a higher one has written.", ByProviders},
	{"I-30", "No state of a unit or register is one that no scan selects and no surface shows as held.", ByLog},
}
