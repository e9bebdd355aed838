//! Names of counters.

/// Recorded calls dropped because their thread's ring was full.
pub const RECORDED_CALLS_DROPPED: &str = "recorded_calls_dropped";
/// Calls not counted for lack of memory.
pub const LOST_CALLS: &str = "lost_calls";
/// Frames whose end was never seen; see docs/architecture.md.
pub const UNSEEN_ENDS: &str = "unseen_ends";
/// Calls in progress when their method was muted or unmuted; they are neither recorded nor counted.
pub const MUTED_CALLS: &str = "muted_calls";
/// Calls in progress when their method was throttled or unthrottled.
pub const THROTTLED_CALLS: &str = "throttled_calls";
/// A gauge: how many methods are muted.
pub const MUTED_METHODS: &str = "muted_methods";
/// How long recording was on, in nanoseconds.
pub const RECORDED_NS: &str = "recorded_ns";
/// Time spent in probes, in nanoseconds: an estimate.
pub const PROBE_NS: &str = "probe_ns";
/// A gauge: the cost of the probes of a short call, in nanoseconds: an estimate.
pub const PROBE_CALL_NS: &str = "probe_call_ns";
/// CPU time of the process, in nanoseconds.
pub const CPU_NS: &str = "cpu_ns";
/// How often the processor's counter and CLOCK_MONOTONIC diverged.
pub const CLOCK_JUMPS: &str = "clock_jumps";
/// Classes that were instrumented.
pub const CLASSES: &str = "classes_instrumented";
/// Methods that were instrumented.
pub const METHODS: &str = "methods_instrumented";
/// Selected methods that could not be instrumented.
pub const NOT_INSTRUMENTED: &str = "methods_not_instrumented";
/// Selected methods that are trivial leaves.
pub const LEAVES: &str = "methods_leaves";
/// Classes that were selected but could not be read.
pub const UNREADABLE: &str = "classes_unreadable";
/// Rows written to calls.csv.
pub const RECORDED_CALLS: &str = "recorded_calls";
/// Bytes written to this run.
pub const BYTES: &str = "bytes";
/// Writes that failed.
pub const IO_ERRORS: &str = "io_errors";
/// Rows dropped because more than 16 MB waited for the disk.
pub const ROWS_DROPPED: &str = "rows_dropped";
/// Calls over the threshold that were not recorded, to stay within the hour's log budget.
pub const RECORDED_CALLS_OVER_BUDGET: &str = "recorded_calls_over_budget";
/// A gauge: hours of the run that were deleted since it began.
pub const DELETED_HOURS: &str = "deleted_hours";
/// Samples that were taken.
pub const SAMPLES: &str = "samples";
/// Samples of whose stack outer frames are missing.
pub const SAMPLES_TRUNCATED: &str = "samples_truncated";
/// Samples without a Java stack although their thread runs Java code.
pub const SAMPLES_WITHOUT_STACK: &str = "samples_without_stack";
/// Samples dropped because too many waited for the agent thread.
pub const SAMPLES_DROPPED: &str = "samples_dropped";
/// Samples that were not written, to leave the hour's budget to recorded calls.
pub const SAMPLES_OVER_BUDGET: &str = "samples_over_budget";
/// Samples without stacks, because loads of the stack walker were not guarded.
pub const SAMPLES_UNGUARDED: &str = "samples_unguarded";
/// CPU time that samples took of the service's threads, in nanoseconds.
pub const SAMPLING_NS: &str = "sampling_ns";
/// Looks at threads that may wait.
pub const OFF_CPU_LOOKS: &str = "off_cpu_looks";
/// A gauge: the interval of CPU time between samples, in nanoseconds.
pub const SAMPLE_INTERVAL_NS: &str = "sample_interval_ns";
/// Sampled allocations.
pub const ALLOCATION_SAMPLES: &str = "allocation_samples";
/// Of them, those that were not written: too many at once, or the hour's log budget.
pub const ALLOCATION_SAMPLES_DROPPED: &str = "allocation_samples_dropped";
/// How long allocations were sampled, in nanoseconds.
pub const ALLOCATION_NS: &str = "allocation_ns";
/// A gauge: how many bytes are between two sampled allocations.
pub const ALLOCATION_INTERVAL: &str = "allocation_interval_bytes";
/// Sampled calls of traced methods.
pub const TRACE_SAMPLES: &str = "trace_samples";
/// Of them, those that were not written: too many at once, or the hour's log budget.
pub const TRACE_SAMPLES_DROPPED: &str = "trace_samples_dropped";
/// Exceptions that left methods and are counted in no class, for lack of memory.
pub const EXCEPTIONS_LOST: &str = "exceptions_lost";
/// Examples of exceptions that were not written: too many at once, or the hour's log budget.
pub const EXCEPTION_EXAMPLES_DROPPED: &str = "exception_examples_dropped";
/// Waits for monitors that ended.
pub const LOCK_WAITS: &str = "lock_waits";
/// Those of them over the threshold that were not written, because too many waited for the agent thread or to leave
/// the hour's budget to recorded calls.
pub const LOCK_WAITS_DROPPED: &str = "lock_waits_dropped";
/// Waits for monitors that are counted nowhere, for lack of memory.
pub const LOCK_WAITS_LOST: &str = "lock_waits_lost";
/// Seconds in which waits for monitors were not counted, because there were too many.
pub const LOCK_SECONDS_SKIPPED: &str = "lock_seconds_skipped";
/// Executions of SQL statements that ended.
pub const SQL_EXECUTIONS: &str = "sql_executions";
/// Slow executions not written: too many at once, or the hour's budget.
pub const SLOW_SQL_DROPPED: &str = "slow_sql_dropped";
/// Executions of SQL statements not counted for lack of memory.
pub const SQL_LOST: &str = "sql_lost";
/// Signals that looked like the sampler's, and that somebody else sent.
pub const FOREIGN_SIGNALS: &str = "foreign_signals";
/// Loads of the stack walker that would have been a crash.
pub const GUARDED_FAULTS: &str = "guarded_faults";
/// Timers of threads that the kernel refused.
pub const TIMERS_REFUSED: &str = "timers_refused";
/// Threads whose samples have no frames of the kernel, for lack of memory.
pub const KERNEL_FRAMES_REFUSED: &str = "kernel_frames_refused";
/// A gauge: the threshold in force, in nanoseconds.
pub const THRESHOLD_NS: &str = "threshold_ns";
/// A gauge: the value to which the hour's budget raised all thresholds, in nanoseconds; 0 for none.
pub const RAISED_TO_NS: &str = "raised_to_ns";
