//! Where threads wait: looks at each Java thread in turn, without a signal and without stopping it.
//!
//! A thread's CPU clock says how long the thread has not run since the last look. While that clock stands still, so
//! does the stack: the agent thread walks it from the thread's last Java frame, and believes the walk if the clock has
//! not moved meanwhile.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

use jvmti_bindings::env::{JniEnv, Jvmti};
use jvmti_bindings::prelude::jni;
use log_format::ids::{JavaThreadId, OsThreadId};
use sampling_handler::load;
use sampling_handler::memory::{Memory, Process};
use sampling_handler::vm_layout::Layout;
use sampling_handler::walk::{End, Frame, Frames, MAX_FRAMES, Walk};

use super::paused_waits::PausedWaits;
use super::random_walks::RandomWalks;
use super::thread_now::ThreadNow;
use super::threads;
use super::waiting::Waiting;
use crate::hotspot::NotSaid;
use crate::hotspot::thread_list::{ListedThread, ThreadList};
use crate::jvm::java_threads;
use crate::jvm::thread_key::ThreadKey;
use crate::locks::{self, InProgress};
use crate::probe::thread::ThreadName;
use crate::statements::{self, Execution};
use crate::sys::clock;

/// How often the list of threads is read, if none has started. Else it is read at once. It takes no more than one part
/// in so many of a processor's time.
const LIST: Duration = Duration::from_secs(1);
const LIST_PART: u32 = 400;
/// But it is read once in so long.
const LIST_AT_LEAST: Duration = Duration::from_secs(10);
/// Looks take at most one part in so many of a processor's time: with many threads, each is looked at less often.
const PART: u32 = 200;
/// The least time for looks in a round.
const LEAST: Duration = Duration::from_micros(50);

/// A thread's share of a processor is that of so long.
const SHARE_NS: u64 = 1_000_000_000;

/// Where a thread stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    pub waiting: Waiting,
    /// How the walk of its stack ended; `None` if it runs Java code and waits for a processor.
    pub end: Option<End>,
    /// From the innermost.
    pub frames: Vec<Frame>,
}

/// A time in which a thread did not run.
pub(crate) struct OffCpuTime {
    /// The kernel's number of the thread.
    pub os_id: OsThreadId,
    pub ns: u64,
    /// Where the thread stands now; `None` as at the last look: it has not run since.
    pub standing: Option<Standing>,
}

/// A thread that is looked at.
struct Watched {
    /// A global reference.
    object: jni::jthread,
    java_thread: usize,
    os_id: OsThreadId,
    name: ThreadName,
    /// The CPU clock at the last look, and when that was.
    cpu_ns: u64,
    at_ns: u64,
    /// Time in which it did not run, while it ran whenever it was looked at.
    pending_ns: u64,
    /// Where it stands has been told, and it has not run since.
    is_reported: bool,
    /// What it waits for; `None` if it ran when it was looked at.
    waiting: Option<Waiting>,
    /// The CPU clock and the time when the list was last read, and its share of a processor before that.
    share_from: (u64, u64),
    cpu_share: f64,
}

/// A thread that has ended.
#[derive(Clone, Copy)]
pub(crate) struct GoneThread {
    pub os_id: OsThreadId,
    /// Its number in Java: it may have detached from the JVM, and be another Java thread by now. `None` if the kernel
    /// does not have it any more.
    pub java_id: Option<JavaThreadId>,
}

/// Looks at threads, on the agent thread.
pub(super) struct OffCpu<'j> {
    jvmti: &'j Jvmti,
    jni: &'j JniEnv,
    list: ThreadList<'j>,
    layout: &'static Layout,
    every: Duration,
    threads: Vec<Watched>,
    /// The next to look at in this pass.
    next: usize,
    /// When the pass began, and when looks last ended.
    passed: Option<Instant>,
    looked: Instant,
    listed: Option<Instant>,
    /// How long that took, and how many threads had started then.
    listing: Duration,
    started: u64,
    /// Threads that have ended since this was taken.
    gone: Vec<GoneThread>,
    looks: u64,
}

impl<'j> OffCpu<'j> {
    pub(super) fn new(
        list: ThreadList<'j>,
        layout: &'static Layout,
        every: Duration,
        jvmti: &'j Jvmti,
        jni: &'j JniEnv,
    ) -> Self {
        Self {
            jvmti,
            jni,
            list,
            layout,
            every,
            threads: Vec::new(),
            next: 0,
            passed: None,
            looked: Instant::now(),
            listed: None,
            listing: Duration::ZERO,
            started: 0,
            gone: Vec::new(),
            looks: 0,
        }
    }

    /// Looks at threads, as many as there is time for. Call it in each round.
    pub(super) fn round(&mut self) -> Vec<OffCpuTime> {
        let now = Instant::now();
        let time = ((now - self.looked) / PART).max(LEAST);
        self.looked = now;
        if self.next >= self.threads.len() {
            if self.passed.is_some_and(|began| now - began < self.every) {
                return Vec::new();
            }
            self.passed = Some(now);
            self.next = 0;
        }
        // Somebody may have replaced the handlers of faults.
        if !load::is_guarded() {
            return Vec::new();
        }
        let started = threads::started_so_far();
        let least = if started == self.started { LIST } else { Duration::ZERO };
        let wait = least.max(self.listing * LIST_PART).min(LIST_AT_LEAST);
        if self.listed.is_none_or(|listed| now - listed >= wait) {
            (self.listed, self.started) = (Some(now), started);
            // Without a list, the threads stay as they are.
            let began_ns = clock::thread_cpu_ns();
            let _ = self.read_list();
            let took_ns = clock::thread_cpu_ns() - began_ns;
            self.listing = Duration::from_nanos(took_ns);
        }
        let Self { jvmti, layout, threads, .. } = self;
        let mut times = Vec::new();
        for thread in threads.iter_mut().skip(self.next) {
            self.next += 1;
            self.looks += 1;
            times.extend(thread.look(jvmti, layout));
            if now.elapsed() >= time {
                break;
            }
        }
        times
    }

    /// Finds threads that have started and ended.
    fn read_list(&mut self) -> Result<(), NotSaid> {
        let Self { jvmti, jni, list, threads, gone, .. } = self;
        let mut known: HashMap<(usize, OsThreadId), Watched> =
            threads.drain(..).map(|thread| ((thread.java_thread, thread.os_id), thread)).collect();
        let listed = list.for_each(|thread| {
            let ListedThread { java_thread, os_id, .. } = *thread;
            let mut watched = known.remove(&(java_thread, os_id));
            // A thread that detaches from the JVM and attaches again may get the same structure.
            // SAFETY: live references of this thread.
            let is_same = |w: &mut Watched| unsafe { jni.is_same_object(w.object, thread.object) };
            if let Some(before) = watched.take_if(|watched| !is_same(watched)) {
                gone.push(before.forget(jni));
            }
            watched.iter_mut().for_each(Watched::renew_share);
            // SAFETY: a live reference of this thread.
            let watched = watched.or_else(|| unsafe { Watched::new(thread, jvmti, jni) });
            threads.extend(watched);
        });
        if listed.is_err() {
            threads.extend(known.into_values());
            return listed;
        }
        for ended in known.into_values() {
            gone.push(ended.forget(jni));
        }
        listed
    }

    /// The name of a thread that is looked at.
    pub(super) fn name(&self, os_id: OsThreadId) -> Option<&ThreadName> {
        self.threads.iter().find(|thread| thread.os_id == os_id).map(|thread| &thread.name)
    }

    /// What threads do now, those that use most CPU time first.
    pub(super) fn now(&self, paused: &PausedWaits) -> Vec<ThreadNow> {
        let cpu_times = if paused.is_empty() { HashMap::new() } else { self.cpu_times() };
        let still_waits =
            |java_thread: &usize| paused.is_empty() || paused.still_waits(*java_thread, &cpu_times);
        let waits: HashMap<usize, InProgress> = locks::all()
            .into_iter()
            .filter(|(key, _)| key.virtual_thread().is_none())
            .map(|(_, wait)| (wait.java_thread, wait))
            .filter(|(java_thread, _)| still_waits(java_thread))
            .collect();
        let executions: HashMap<ThreadKey, Execution> =
            statements::in_progress().into_iter().map(|of| (of.thread, of)).collect();
        let environment = self.list.environment();
        let now = |thread: &Watched| {
            let key = ThreadKey::of_environment(thread.java_thread.wrapping_add(environment));
            let waiting = thread.waits_now(self.jvmti, self.layout);
            thread.now(waiting, waits.get(&thread.java_thread), executions.get(&key))
        };
        let mut threads: Vec<ThreadNow> = self.threads.iter().map(now).collect();
        threads.sort_by(|one, other| {
            let by_share = other.cpu_share.total_cmp(&one.cpu_share);
            by_share.then_with(|| one.name.name.cmp(&other.name.name))
        });
        threads
    }

    /// For a test. Returns how many walks that were.
    pub(super) fn walk_at_random(&self, random: &mut RandomWalks) -> u32 {
        let java_threads: Vec<usize> = self.threads.iter().map(|t| t.java_thread).collect();
        random.round(self.layout, &java_threads)
    }

    /// The CPU time of each thread so far, by its `JavaThread`.
    pub(super) fn cpu_times(&self) -> HashMap<usize, u64> {
        let of = |thread: &Watched| (thread.java_thread, clock::cpu_ns_of_thread(thread.os_id));
        self.threads.iter().map(of).collect()
    }

    /// Says of all threads again where they stand.
    pub(super) fn tell_again(&mut self) {
        self.threads.iter_mut().for_each(|thread| thread.is_reported = false);
    }

    /// Threads that have ended since the last call.
    pub(super) fn take_gone(&mut self) -> Vec<GoneThread> {
        std::mem::take(&mut self.gone)
    }

    /// Looks so far, and how many threads there are.
    pub(super) fn looks(&self) -> (u64, usize) {
        (self.looks, self.threads.len())
    }

    /// Looks at all threads once more, and forgets them. Returns what it found, and threads that have ended.
    pub(super) fn end(mut self) -> (Vec<OffCpuTime>, Vec<GoneThread>) {
        let is_guarded = load::is_guarded();
        if is_guarded && threads::started_so_far() != self.started {
            let _ = self.read_list();
        }
        let Self { jvmti, layout, threads, .. } = &mut self;
        let looked = threads.iter_mut().filter_map(|thread| thread.look(jvmti, layout));
        let times = if is_guarded { looked.collect() } else { Vec::new() };
        for thread in self.threads.drain(..) {
            thread.forget(self.jni);
        }
        (times, self.gone)
    }
}

impl Watched {
    /// # Safety
    /// The thread is being listed.
    unsafe fn new(thread: &ListedThread<'_, '_>, jvmti: &Jvmti, jni: &JniEnv) -> Option<Self> {
        let ListedThread { java_thread, os_id, .. } = *thread;
        // SAFETY: a live reference of this thread.
        let (object, name) = unsafe {
            (jni.new_global_ref(thread.object), java_threads::name(jvmti, jni, thread.object))
        };
        // It began some time ago, and waits since, perhaps.
        let now = || (clock::monotonic_ns(), clock::cpu_ns_of_thread(os_id));
        let (at_ns, cpu_ns) = threads::began(os_id).unwrap_or_else(now);
        (!object.is_null()).then_some(Self {
            object,
            java_thread,
            os_id,
            name,
            cpu_ns,
            at_ns,
            pending_ns: 0,
            is_reported: false,
            waiting: None,
            share_from: (cpu_ns, at_ns),
            cpu_share: 0.0,
        })
    }

    fn forget(self, jni: &JniEnv) -> GoneThread {
        // SAFETY: a global reference of this, which is not used any more.
        unsafe { jni.delete_global_ref(self.object) };
        GoneThread { os_id: self.os_id, java_id: Some(self.name.java_id) }
    }

    /// Finds which share of a processor it used since the last call.
    #[allow(clippy::cast_precision_loss)] // Nanoseconds of some years are exact.
    fn renew_share(&mut self) {
        let (cpu_ns, at_ns) = self.share_from;
        let ran_ns = self.cpu_ns.saturating_sub(cpu_ns);
        let since_ns = self.at_ns.saturating_sub(at_ns);
        if since_ns >= SHARE_NS {
            self.cpu_share = ran_ns as f64 / since_ns as f64;
            self.share_from = (self.cpu_ns, self.at_ns);
        }
    }

    /// What it waits for now; `None` if it runs.
    fn waits_now(&self, jvmti: &Jvmti, layout: &Layout) -> Option<Waiting> {
        let cpu_ns = || clock::cpu_ns_of_thread(self.os_id);
        let before_ns = cpu_ns();
        if self.is_reported && before_ns == self.cpu_ns {
            // It has not run since the last look.
            return self.waiting;
        }
        let waiting = self.state(jvmti, layout)?;
        (cpu_ns() == before_ns).then_some(waiting)
    }

    fn now(
        &self,
        waiting: Option<Waiting>,
        wait: Option<&InProgress>,
        execution: Option<&Execution>,
    ) -> ThreadNow {
        let Self { name, os_id, cpu_share, .. } = self;
        let now = ThreadNow::of(name.clone(), *os_id, wait, execution);
        ThreadNow { waiting: now.waiting.or(waiting), cpu_share: *cpu_share, ..now }
    }

    /// The time since the last look in which it did not run, and where it stands.
    fn look(&mut self, jvmti: &Jvmti, layout: &Layout) -> Option<OffCpuTime> {
        let cpu_ns = clock::cpu_ns_of_thread(self.os_id);
        // It has ended.
        if cpu_ns == 0 {
            return None;
        }
        let now_ns = clock::monotonic_ns();
        let ran_ns = cpu_ns.saturating_sub(self.cpu_ns);
        let since_ns = now_ns.saturating_sub(self.at_ns).saturating_sub(ran_ns);
        (self.cpu_ns, self.at_ns) = (cpu_ns, now_ns);
        let (os_id, ns) = (self.os_id, since_ns + self.pending_ns);
        self.is_reported &= ran_ns == 0;
        self.pending_ns = 0;
        if self.is_reported {
            return Some(OffCpuTime { os_id, ns, standing: None });
        }
        let standing = self.standing(jvmti, layout);
        self.is_reported = standing.is_some() && clock::cpu_ns_of_thread(os_id) == cpu_ns;
        if !self.is_reported {
            self.pending_ns = ns;
            self.waiting = None;
            return None;
        }
        self.waiting = standing.as_ref().map(|standing| standing.waiting);
        Some(OffCpuTime { os_id, ns, standing })
    }

    /// What it waits for, if it does not run meanwhile.
    fn state(&self, jvmti: &Jvmti, layout: &Layout) -> Option<Waiting> {
        // SAFETY: a global reference.
        let state = unsafe { jvmti.get_thread_state(self.object) }.ok()?;
        let hotspot = Process.byte(self.java_thread + layout.thread_state)?;
        Some(match Waiting::of(state, hotspot) {
            // Native code that computes, and threads of the JVM's, may wait for a processor too.
            Waiting::Native | Waiting::Vm if is_runnable(self.os_id) => Waiting::Runnable,
            waiting => waiting,
        })
    }

    /// Where it stands, if it does not run meanwhile.
    fn standing(&self, jvmti: &Jvmti, layout: &Layout) -> Option<Standing> {
        let waiting = self.state(jvmti, layout)?;
        let walked = walk(layout, self.java_thread);
        let (end, frames) = walked.map_or((None, Vec::new()), |(end, frames)| (Some(end), frames));
        Some(Standing { waiting, end, frames })
    }
}

/// Whether a thread runs or waits for a processor, as the kernel says.
fn is_runnable(os_id: OsThreadId) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{os_id}/stat"));
    // The name before it may contain anything.
    let state =
        stat.ok().and_then(|stat| Some(stat.rsplit_once(')')?.1.trim_start().starts_with('R')));
    state.unwrap_or(false)
}

/// The stack of a thread that stands still outside of Java code; `None` if it runs Java code.
pub(super) fn walk(layout: &Layout, java_thread: usize) -> Option<(End, Vec<Frame>)> {
    let mut slots = [const { MaybeUninit::uninit() }; MAX_FRAMES];
    let mut frames = Frames::new(&mut slots);
    let end = Walk::of_waiting(Process, layout, java_thread)?.run(&mut frames);
    Some((end, frames.words().iter().copied().map(Frame::from_word).collect()))
}
