//! Samples where threads spend their CPU time, with their whole Java stacks: what the exact probes cannot afford to
//! measure.
//!
//! ```text
//! engine_choice what interrupts threads: perf_events, timers, or the process_timer
//! signals  installs the handlers
//! threads  which threads there are, and what interrupts each
//! rings    where the kernel says what threads do in it
//! off_cpu  where threads wait
//! waiting  what threads wait for, by the JVM's states
//! thread_now  what threads do now, for commands
//! thread_names  their names, and those of threads that start
//! debug_info  which method and line an instruction belongs to
//! native    native code, the kernel's too: which function it belongs to, and how its frames are laid out
//! cost     what sampling costs, and the cap on it
//! walker_test  whether the stack walker finds what the JVM says
//! interval  how far samples are apart, to keep to the cap
//! sampler  starts, stops, takes samples out of the queue
//! ```
//! What HotSpot's own tables say, and the stack of the calling thread, are in `hotspot`. The handler itself is the
//! crate `sampling-handler`, which may use nothing that is not async-signal-safe.

pub(crate) mod cost;
pub(crate) mod debug_info;
pub(crate) mod engine_choice;
mod events;
mod interval;
mod lock_brake;
pub(crate) mod native;
pub(crate) mod off_cpu;
mod owners;
mod paused_waits;
mod perf_events;
mod process_timer;
mod random_walks;
mod rings;
pub(crate) mod sampler;
mod signals;
mod thread_names;
pub(crate) mod thread_now;
pub(crate) mod threads;
mod timers;
mod unfinished_statements;
pub(crate) mod waiting;
mod walker_test;

use std::ptr::NonNull;

use crate::error::JvmError;
use crate::hotspot::NotSaid;
use crate::sys::mapped_memory::MappedMemory;
use crate::sys::memory::Account;

/// The memory of samples on their way and of what is known about threads. It stays, because handlers may run.
static MEMORY: Account = Account::new();

/// Zeroed memory that stays; `None` beyond the ceiling of the agent's memory, or if the kernel refuses.
fn map_for_good(bytes: usize) -> Option<NonNull<u8>> {
    MEMORY.map(bytes).map(MappedMemory::into_raw)
}

/// Why there are no samples, or only some without Java stacks.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum NoSamples {
    #[error("this JVM has no tables of its structures")]
    NoTables,
    #[error("with -Xcheck:jni the JVM would complain of the sampler's handlers on stdout")]
    CheckJni,
    #[error(transparent)]
    NotSaid(#[from] NotSaid),
    #[error("max_memory has no room for CPU samples")]
    NoMemory,
    #[error("no free signal (tried SIGSTKFLT, SIGVTALRM, SIGPROF, SIGPWR)")]
    NoSignal,
    #[error("the program handles {0}, which engine=itimer needs")]
    SignalTaken(&'static str),
    #[error("something else uses the process's timer (ITIMER_PROF)")]
    TimerTaken,
    #[error("the kernel refuses the process's timer")]
    NoTimer,
    #[error("the kernel refuses a handler of signal {0}")]
    NoHandler(i32),
    #[error("the program has replaced the handler of {0}")]
    HandlerGone(&'static str),
    #[error("the stack walker finds other frames than the JVM")]
    WalkerDiffers,
    #[error(transparent)]
    Jvm(#[from] JvmError),
}
