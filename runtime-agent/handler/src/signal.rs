//! The handler of the sampling signal. It is installed once and stays: a timer's signal may still be on its way when
//! sampling has ended.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};

use crate::kernel_stacks::{self, KernelStack, NewSamples};
use crate::load;
use crate::memory::{Memory, Process};
use crate::queue::{MAX_SHADOW, QUEUE, Sample};
pub use crate::sys::KernelAction;
use crate::sys::{self, Context, Info};
use crate::threads::{self, Slot, Source};
use crate::vm_layout::Layout;
use crate::walk::{End, Frames, MAX_FRAMES, Registers, Walk};

/// The upper half of the value that the agent's timers send.
const COOKIE: u64 = 0x7470_726f;
/// Bits of a thread's number, which is below 4,194,304, in the lower half; above them is how often the interval was
/// doubled.
const THREAD_BITS: u32 = 22;
/// How often it can be doubled.
pub const MOST_DOUBLED: u32 = 15;

/// Ticks after which a handler counts as interrupted itself: some 100 us, far more than any walk takes.
const MOST_WORKED: u64 = 1 << 18;

/// The value that a timer of a thread sends, whose interval was doubled so often.
#[must_use]
pub const fn timer_value(thread: u32, doubled: u32) -> u64 {
    COOKIE << 32 | (doubled as u64) << THREAD_BITS | thread as u64
}

/// What the agent tells the handler. It stays as it is for ever.
#[derive(Debug)]
pub struct Config {
    /// HotSpot's fields; without them Java stacks are not walked.
    pub layout: Option<Layout>,
    /// The probes' shadow stack, if it can be found.
    pub shadow: Option<Shadow>,
}

/// Where a thread's shadow stack is: offsets in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Shadow {
    /// The thread word's distance from the thread pointer. The word is the address of the thread's data, or 0.
    pub word: isize,
    /// In the thread's data: the address of the frames.
    pub frames: usize,
    /// In the thread's data: their number.
    pub depth: usize,
    /// In the thread's data: the state that has the recording's number in its lower half.
    pub state: usize,
    /// In the thread's data: the number of the virtual thread that it runs.
    pub runs: usize,
    /// Size of a frame.
    pub frame_size: usize,
    /// In a frame: the method's id.
    pub id: usize,
    /// The state of all threads, whose lower half is the recording's number.
    pub now: &'static AtomicU64,
}

/// The signals that wait while the handler runs: it has little stack, and no other handler needs any of it. Faults
/// cannot wait.
pub const ALL_BUT_FAULTS: u64 = !sys::FAULTS;

static CONFIG: AtomicPtr<Config> = AtomicPtr::new(core::ptr::null_mut());
static IS_ON: AtomicBool = AtomicBool::new(false);
/// How many handlers run.
static AT_WORK: AtomicU32 = AtomicU32::new(0);
/// How often the interval of the process's timer was doubled.
static DOUBLED: AtomicU32 = AtomicU32::new(0);
/// Whether there ever were perf events, or the process's timer.
static HAS_EVENTS: AtomicBool = AtomicBool::new(false);
/// The descriptor of the event that is counted, or -1; how many signals it has sent, and after how many it is stopped.
static COUNTED_EVENT: AtomicI32 = AtomicI32::new(-1);
static COUNTED: AtomicU32 = AtomicU32::new(0);
static MOST_COUNTED: AtomicU32 = AtomicU32::new(0);
static HAS_PROCESS_TIMER: AtomicBool = AtomicBool::new(false);
/// Signals are below this number.
const SIGNAL_NUMBERS: usize = 32;
/// The handler of each signal before ours; 0 is the default, 1 ignores.
static BEFORE: [AtomicUsize; SIGNAL_NUMBERS] = [const { AtomicUsize::new(0) }; SIGNAL_NUMBERS];
static BEFORE_FLAGS: [AtomicUsize; SIGNAL_NUMBERS] =
    [const { AtomicUsize::new(0) }; SIGNAL_NUMBERS];

static FOREIGN: AtomicU64 = AtomicU64::new(0);
/// Signals that came while a sample of the thread was being taken, or before there was a configuration.
static NOT_TAKEN: AtomicU64 = AtomicU64::new(0);
static UNGUARDED: AtomicU64 = AtomicU64::new(0);
/// The agent's signals, and how long handlers worked for them.
static SIGNALS: AtomicU64 = AtomicU64::new(0);
static WORKED: AtomicU64 = AtomicU64::new(0);
/// Times are of the processor's counter, else of CLOCK_MONOTONIC.
static IS_COUNTER: AtomicBool = AtomicBool::new(true);

/// What the handler counted since the process began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Signals that somebody else sent.
    pub foreign: u64,
    /// Samples without stacks, because somebody has replaced the handlers of faults, the thread blocks them, or it has
    /// a small stack for handlers.
    pub unguarded: u64,
    /// Samples that were not taken, or for which the queue had no room.
    pub dropped: u64,
    /// Loads that would have been a crash.
    pub faults: u64,
    /// Signals of the agent's timers.
    pub signals: u64,
    /// How long handlers worked for them, in ticks of the clock that samples have.
    pub worked: u64,
}

impl Counts {
    /// The counts up to now.
    #[must_use]
    pub fn now() -> Self {
        Self {
            foreign: FOREIGN.load(Ordering::Relaxed),
            unguarded: UNGUARDED.load(Ordering::Relaxed),
            dropped: QUEUE.dropped() + NOT_TAKEN.load(Ordering::Relaxed),
            faults: load::faults(),
            signals: SIGNALS.load(Ordering::Relaxed),
            worked: WORKED.load(Ordering::Relaxed),
        }
    }
}

/// Replaces the action of a signal, and returns the one before; `None` if the kernel refuses.
#[must_use]
pub fn replace_action(signal: c_int, new: &KernelAction) -> Option<KernelAction> {
    sys::sigaction(signal, Some(new))
}

/// The action of a signal; `None` if the kernel refuses.
#[must_use]
pub fn action(signal: c_int) -> Option<KernelAction> {
    sys::sigaction(signal, None)
}

/// Sets where foreign signals go: to the handler that ours replaced.
pub fn set_before(signal: c_int, handler: usize, flags: usize) {
    let index = signal as usize % SIGNAL_NUMBERS;
    if let (Some(before), Some(before_flags)) = (BEFORE.get(index), BEFORE_FLAGS.get(index)) {
        before_flags.store(flags, Ordering::Relaxed);
        before.store(handler, Ordering::Release);
    }
}

/// Signals of perf events are the agent's from now on.
pub fn expect_events() {
    HAS_EVENTS.store(true, Ordering::Relaxed);
}

/// Signals of the process's timer are the agent's from now on.
pub fn expect_process_timer() {
    HAS_PROCESS_TIMER.store(true, Ordering::Relaxed);
}

/// Sets how often the interval of the process's timer was doubled.
pub fn set_doubled(doubled: u32) {
    DOUBLED.store(doubled.min(MOST_DOUBLED), Ordering::Relaxed);
}

/// Tells the handler what it needs to know.
pub fn configure(config: &'static Config) {
    CONFIG.store((config as *const Config).cast_mut(), Ordering::Release);
}

/// Where HotSpot has its fields; `None` if Java stacks are not walked.
#[must_use]
pub fn layout() -> Option<&'static Layout> {
    config()?.layout.as_ref()
}

fn config() -> Option<&'static Config> {
    // SAFETY: null, or what `configure` got, which stays for ever.
    unsafe { CONFIG.load(Ordering::Acquire).as_ref() }
}

/// Copies the method ids of the calling thread's shadow stack, the outermost first, and returns how many there are.
#[must_use]
pub fn own_shadow(ids: &mut [u32; MAX_SHADOW]) -> usize {
    let Some(shadow) = ShadowStack::own() else { return 0 };
    let depth = shadow.depth.min(MAX_SHADOW);
    for (index, id) in ids.iter_mut().enumerate().take(depth) {
        *id = shadow.id(index);
    }
    depth
}

/// The id of the innermost method of the calling thread's shadow stack, or 0.
#[must_use]
pub fn own_innermost() -> u32 {
    let innermost = |shadow: ShadowStack| Some(shadow.id(shadow.depth.checked_sub(1)?));
    ShadowStack::own().and_then(innermost).unwrap_or(0)
}

/// Samples are taken from now on, with times of the processor's counter or else of CLOCK_MONOTONIC.
pub fn begin(is_counter: bool) {
    IS_COUNTER.store(is_counter, Ordering::Relaxed);
    IS_ON.store(true, Ordering::SeqCst);
}

/// No more samples are taken. Handlers may still run.
pub fn end() {
    IS_ON.store(false, Ordering::SeqCst);
}

/// Whether a handler runs.
#[must_use]
pub fn is_at_work() -> bool {
    AT_WORK.load(Ordering::SeqCst) != 0
}

/// The handler.
///
/// # Safety
/// Only the kernel calls it, as a handler installed with SA_SIGINFO.
pub unsafe extern "C" fn on_signal(signal: c_int, info: *mut c_void, context: *mut c_void) {
    // SAFETY: what the kernel gave this handler.
    let (of, interrupted) = unsafe { (Info::new(info), Context::new(context)) };
    AT_WORK.fetch_add(1, Ordering::SeqCst);
    match Sent::of(signal, of) {
        Sent::Agent(origin) => {
            if IS_ON.load(Ordering::SeqCst) {
                let began = now();
                sample(&origin, &interrupted, began);
                SIGNALS.fetch_add(1, Ordering::Relaxed);
                let worked = now().saturating_sub(began).min(MOST_WORKED);
                WORKED.fetch_add(worked, Ordering::Relaxed);
            }
            AT_WORK.fetch_sub(1, Ordering::SeqCst);
        }
        Sent::Late => {
            count_event(of.descriptor());
            AT_WORK.fetch_sub(1, Ordering::SeqCst);
        }
        Sent::Foreign => {
            FOREIGN.fetch_add(1, Ordering::Relaxed);
            AT_WORK.fetch_sub(1, Ordering::SeqCst);
            // SAFETY: the arguments are as they came.
            unsafe { pass_on(signal, info, context) };
        }
    }
}

/// Counts the signals of an event that is no thread's, from now on, and stops it after so many: its thread may take
/// longer for each than the event's interval, and would not get on. The kernel's own limit must not do it: Linux 6.16
/// and 6.17 freeze when an event ends in its timer's interrupt.
pub fn count_events_of(descriptor: c_int, most: u32) {
    COUNTED.store(0, Ordering::SeqCst);
    MOST_COUNTED.store(most, Ordering::SeqCst);
    COUNTED_EVENT.store(descriptor, Ordering::SeqCst);
}

/// Counts no more. Returns how many signals there were.
pub fn counted_events() -> u32 {
    COUNTED_EVENT.store(-1, Ordering::SeqCst);
    COUNTED.load(Ordering::SeqCst)
}

fn count_event(descriptor: c_int) {
    if COUNTED_EVENT.load(Ordering::SeqCst) == descriptor
        && COUNTED.fetch_add(1, Ordering::SeqCst) + 1 >= MOST_COUNTED.load(Ordering::SeqCst)
    {
        sys::stop_event(descriptor);
    }
}

/// The time, by the clock that samples have.
fn now() -> u64 {
    if IS_COUNTER.load(Ordering::Relaxed) { sys::counter() } else { sys::monotonic_ns() }
}

/// What one of the agent's signals says.
struct Origin {
    thread: u32,
    weight: u32,
    /// The ring of its event, or 0.
    ring: usize,
}

/// Who sent a signal.
enum Sent {
    /// The agent's timer or event.
    Agent(Origin),
    /// An event of the agent's that is no more.
    Late,
    Foreign,
}

impl Sent {
    fn of(signal: c_int, info: Info) -> Self {
        const TIMER: c_int = -2;
        const KERNEL: c_int = 0x80;
        // What can happen to a descriptor.
        const READY: c_int = 1;
        const HANGUP: c_int = 6;
        match info.code() {
            TIMER => Self::of_timer(info),
            READY..=HANGUP if HAS_EVENTS.load(Ordering::Relaxed) => Self::of_event(info),
            KERNEL if signal == sys::SIGPROF && HAS_PROCESS_TIMER.load(Ordering::Relaxed) => {
                Self::Agent(Origin::new(sys::gettid(), DOUBLED.load(Ordering::Relaxed), 0))
            }
            _ => Self::Foreign,
        }
    }

    fn of_timer(info: Info) -> Self {
        let value = info.value();
        let missed = u32::try_from(info.overrun()).unwrap_or(0);
        let thread = value as u32 & ((1 << THREAD_BITS) - 1);
        let doubled = (value as u32 >> THREAD_BITS).min(MOST_DOUBLED);
        let weight = missed.saturating_add(1).saturating_mul(1 << doubled);
        match value >> 32 == COOKIE {
            true => Self::Agent(Origin { thread, weight, ring: 0 }),
            false => Self::Foreign,
        }
    }

    /// Events send their signals to the thread whose time they measure.
    fn of_event(info: Info) -> Self {
        let thread = sys::gettid();
        match threads::slot(thread).map(|slot| (slot.source(), slot)) {
            Some((Source::Event(event), slot)) if event.descriptor() == info.descriptor() => {
                Self::Agent(Origin::new(thread, slot.doubled(), event.ring()))
            }
            _ => Self::Late,
        }
    }
}

impl Origin {
    fn new(thread: u32, doubled: u32, ring: usize) -> Self {
        Self { thread, weight: 1 << doubled.min(MOST_DOUBLED), ring }
    }
}

/// Calls the handler that was there before, if there was one.
///
/// # Safety
/// The arguments are those of a signal's handler.
unsafe fn pass_on(signal: c_int, info: *mut c_void, context: *mut c_void) {
    let index = signal as usize % SIGNAL_NUMBERS;
    let (Some(before), Some(flags)) = (BEFORE.get(index), BEFORE_FLAGS.get(index)) else { return };
    let handler = before.load(Ordering::Acquire);
    if handler <= 1 {
        return;
    }
    if flags.load(Ordering::Relaxed) & sys::SA_SIGINFO != 0 {
        // SAFETY: the handler was installed with SA_SIGINFO, so it has these parameters.
        let handler: extern "C" fn(c_int, *mut c_void, *mut c_void) =
            unsafe { core::mem::transmute(handler) };
        handler(signal, info, context);
    } else {
        // SAFETY: the handler was installed without SA_SIGINFO, so it has this parameter.
        let handler: extern "C" fn(c_int) = unsafe { core::mem::transmute(handler) };
        handler(signal);
    }
}

/// Takes a sample of the interrupted thread.
fn sample(origin: &Origin, interrupted: &Context, ticks: u64) {
    // The process's timer may interrupt a thread that nobody has seen yet. Its number may be in a page of its own.
    let slot = threads::slot(origin.thread);
    // Only with a configuration: what begins must end.
    let Some(config) = config().filter(|_| slot.is_none_or(Slot::begin)) else {
        NOT_TAKEN.fetch_add(1, Ordering::Relaxed);
        return;
    };
    let registers = interrupted.registers();
    let mut thread = Interrupted {
        config,
        slot,
        java_thread: slot.map_or(0, Slot::java_thread),
        ring: origin.ring,
        sample: Sample {
            ticks,
            thread: origin.thread,
            weight: origin.weight,
            pc: registers.pc,
            virtual_thread: 0,
            end: End::NoJava,
            state: 0,
        },
    };
    if interrupted.blocks_faults() || interrupted.has_small_stack() || !load::is_guarded() {
        thread.put_unguarded();
    } else {
        thread.put_walked(registers);
    }
    if let Some(slot) = slot {
        slot.end();
    }
}

/// The interrupted thread, and the sample of it.
struct Interrupted {
    config: &'static Config,
    slot: Option<&'static Slot>,
    java_thread: usize,
    /// The ring of its event, or 0.
    ring: usize,
    sample: Sample,
}

impl Interrupted {
    /// Adds the sample without stacks.
    fn put_unguarded(&mut self) {
        if self.java_thread != 0 {
            UNGUARDED.fetch_add(1, Ordering::Relaxed);
            self.sample.end = End::Off;
        }
        // It cannot read the ring either.
        if let Some(slot) = self.slot.filter(|_| self.ring != 0) {
            slot.set_seen(kernel_stacks::UNREAD);
        }
        let in_kernel = KernelStack::<Process>::none();
        QUEUE.put(&self.sample, 0, |_| 0, &in_kernel, &Frames::new(&mut []));
    }

    /// Adds the sample with its stacks. Loads are guarded. Only here is much of the stack used.
    #[inline(never)]
    fn put_walked(&mut self, registers: Registers) {
        let mut slots = [const { MaybeUninit::<u64>::uninit() }; MAX_FRAMES];
        let mut frames = Frames::new(&mut slots);
        let java_thread = self.java_thread;
        if let Some(layout) = &self.config.layout {
            if java_thread == 0 {
                // However it ends, there is no Java code.
                let _ = Walk::new(Process, layout, registers, 0, usize::MAX).run(&mut frames);
            } else {
                let state = Process.byte(java_thread + layout.thread_state);
                self.sample.state = state.unwrap_or(0);
                let stack_end = Process.word(java_thread + layout.stack_base).unwrap_or(0);
                let walk = Walk::new(Process, layout, registers, java_thread, stack_end);
                self.sample.end = walk.run(&mut frames);
            }
        } else {
            self.sample.end = if java_thread == 0 { End::NoJava } else { End::Off };
        }
        self.put_with_shadow(&frames);
    }

    /// Adds the sample with the thread's shadow stack, if it runs Java code; once for each of the kernel's samples. The
    /// signal waits while the thread is in the kernel, so there may be several, all from the same place outside of it.
    /// There is none if the handler of an earlier signal has read it already.
    fn put_with_shadow(&mut self, frames: &Frames<'_>) {
        let shadow = self.config.shadow.filter(|_| self.java_thread != 0).and_then(ShadowStack::of);
        self.sample.virtual_thread = shadow.as_ref().map_or(0, |shadow| shadow.runs);
        let depth = shadow.as_ref().map_or(0, |shadow| shadow.depth);
        let id = |index: usize| shadow.as_ref().map_or(0, |shadow| shadow.id(index));
        let seen = self.slot.map_or(0, Slot::seen);
        let samples = NewSamples::of(Process, self.ring, seen);
        if let (Some(samples), Some(slot)) = (samples, self.slot) {
            slot.set_seen(samples.head());
            for in_kernel in samples {
                QUEUE.put(&self.sample, depth, id, &in_kernel, frames);
            }
        } else {
            QUEUE.put(&self.sample, depth, id, &KernelStack::<Process>::none(), frames);
        }
    }
}

/// The interrupted thread's shadow stack.
struct ShadowStack {
    offsets: Shadow,
    frames: usize,
    depth: usize,
    runs: u64,
}

impl ShadowStack {
    /// The calling thread's, outside of a handler.
    fn own() -> Option<Self> {
        config()?.shadow.and_then(Self::of)
    }

    fn of(offsets: Shadow) -> Option<Self> {
        // SAFETY: the agent tested that the word is there, in all threads.
        let thread = unsafe { sys::thread_word(offsets.word) };
        if thread == 0 {
            return None;
        }
        let runs = Process.word(thread + offsets.runs)? as u64;
        let state = Process.word(thread + offsets.state)? as u64;
        // Frames of an earlier recording are no calls in progress.
        let is_current = state as u32 == offsets.now.load(Ordering::Acquire) as u32;
        let depth = usize::try_from(Process.int(thread + offsets.depth)?).ok()?;
        let frames = Process.word(thread + offsets.frames)?;
        let depth = if is_current { depth } else { 0 };
        Some(Self { offsets, frames, depth, runs })
    }

    /// The id of the method at `index`, from the outermost.
    fn id(&self, index: usize) -> u32 {
        let at = self.frames + index * self.offsets.frame_size + self.offsets.id;
        Process.int(at).unwrap_or(0).cast_unsigned()
    }
}
