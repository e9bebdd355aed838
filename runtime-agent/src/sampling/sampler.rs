//! Starts and stops sampling, and takes samples out of the queue, on the agent thread.
#![allow(unsafe_code)]

use std::collections::HashSet;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use jvmti_bindings::env::{JniEnv, Jvmti};
use jvmti_bindings::prelude::jvmti;
use log_format::ids::{JavaThreadId, OsThreadId};
use sampling_handler::queue::{QUEUE, Sample};
use sampling_handler::signal::{self, Config, Counts};
use sampling_handler::vm_layout::Layout;
use sampling_handler::walk::Frame;

use super::cost::{self, Cap};
use super::engine_choice::Chosen;
use super::events::Events;
use super::native::{Function, NativeCode};
use super::off_cpu::{GoneThread, OffCpu, OffCpuTime};
use super::random_walks::RandomWalks;
use super::thread_names::ThreadNames;
use super::thread_now::{self, ThreadNow};
use super::{NoSamples, debug_info, process_timer, rings, signals, threads, walker_test};
use crate::allocations;
use crate::error::JvmError;
use crate::hotspot::method_names::{Methods, Named};
use crate::hotspot::tables::Tables;
use crate::hotspot::thread_list::ThreadList;
use crate::hotspot::{NotSaid, method_ids, method_names};
use crate::instrument::statement_probes;
use crate::locks;
use crate::options::SamplingOptions;
use crate::options::engine::Engine;
use crate::phase;
use crate::probe;
use crate::probe::thread::ThreadName;
use crate::self_test::jdk;
use crate::statements;
use crate::stderr::message;
use crate::sys::{clock, memory};

/// How often threads are looked for, the handlers are checked, and the cap is kept.
const SECOND: Duration = Duration::from_secs(1);
/// How often the list of libraries is read, and unloaded classes are forgotten.
const LOOK: Duration = Duration::from_secs(30);
/// How long a stop waits for handlers that run.
const AT_WORK: Duration = Duration::from_secs(1);
/// Stacks that the walker's test compares: for each, JDK 11 stops all threads for some microseconds.
const COMPARED: usize = 4;
const MOST_JITTER_NS: u64 = 20_000_000;
/// Words of the queue for each processor: at 10,000 samples a second and 60 words each, 50 ms are 30,000.
const WORDS: usize = 1 << 15;
/// It takes at most one part in so many of the agent's memory, but no fewer words than these.
const QUEUE_PART: u64 = 16;
const LEAST_WORDS: usize = 1 << 14;

/// Names of methods need this one from the first start to the detach.
const CLASS_PREPARE: [jvmti::jvmtiEvent; 1] = [jvmti::JVMTI_EVENT_CLASS_PREPARE];
/// This one only while threads are sampled.
const THREAD_START: [jvmti::jvmtiEvent; 1] = [jvmti::JVMTI_EVENT_THREAD_START];

/// What interrupts threads for samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TimerFigures {
    pub engine: Chosen,
    /// The interval of CPU time in force.
    pub interval_ns: u64,
    /// The signal; `None` while nothing is sampled.
    pub signal: Option<&'static str>,
    /// Timers that the kernel refused.
    pub refused: u64,
    /// Threads whose samples have no frames of the kernel, for lack of memory.
    pub kernel_refused: u64,
}

/// The sampler; it stays on its thread.
pub(crate) struct Sampler<'j> {
    jvmti: &'j Jvmti,
    jni: &'j JniEnv,
    engine: Chosen,
    interval: Duration,
    cap: Cap,
    /// What sampling and the process had taken when it first began.
    began: Option<(u64, u64)>,
    /// The signal, and the process's CPU time when sampling began; `None` while it is off.
    on: Option<(libc::c_int, u64)>,
    /// The clocks when sampling by the process's timer began.
    clocks: Option<process_timer::Clocks>,
    /// CPU time of the process while it was on, up to when it was last switched off.
    sampled_cpu_ns: u64,
    /// Why it ended by itself.
    stopped: Option<NoSamples>,
    scan: threads::Scan,
    scanned: Instant,
    looked: Instant,
    methods: Methods,
    native: NativeCode,
    pub(crate) events: Events<'j>,
    /// How often threads are looked at that wait, and what looks at them while sampling is on.
    wall: Option<Duration>,
    off_cpu: Option<OffCpu<'j>>,
    /// What it found last.
    last_times: Vec<OffCpuTime>,
    /// Its looks before sampling last ended.
    looks: u64,
    /// Walks from random registers, for a test, and how many there were.
    random: Option<RandomWalks>,
    random_walks: u64,
    can_walk: bool,
    /// Stacks that the walker's test compared.
    compared: usize,
    has_stacks: bool,
    /// Threads that have ended since this was taken, and whether there was a scan since.
    gone: Vec<GoneThread>,
    is_scanned: bool,
    names: ThreadNames,
    is_refusal_reported: bool,
}

impl<'j> Sampler<'j> {
    /// A sampler that is off; `None` if the options ask for no samples, and `engine_choice` is what they ask for. Only
    /// tests walk at random, or not at all.
    pub(crate) fn new(
        jvmti: &'j Jvmti,
        jni: &'j JniEnv,
        options: SamplingOptions,
        engine: Option<Chosen>,
        (walks_at_random, can_walk): (bool, bool),
    ) -> Option<Self> {
        let SamplingOptions { cpu, wall, cap, .. } = options;
        let (engine, interval) = engine.zip(cpu)?;
        // Before anything is recorded.
        method_ids::prepare(jvmti, jni);
        method_names::want();
        let mut native = NativeCode::take();
        if walks_at_random {
            native.want();
        }
        Some(Self {
            jvmti,
            jni,
            engine,
            interval,
            cap: Cap::new(cap),
            began: None,
            on: None,
            clocks: None,
            sampled_cpu_ns: 0,
            stopped: None,
            scan: threads::Scan::default(),
            scanned: Instant::now(),
            looked: Instant::now(),
            methods: Methods::default(),
            native,
            events: Events::new(jvmti, jni, options),
            wall,
            off_cpu: None,
            last_times: Vec::new(),
            looks: 0,
            random: walks_at_random.then(RandomWalks::new),
            random_walks: 0,
            can_walk,
            compared: 0,
            has_stacks: false,
            gone: Vec::new(),
            is_scanned: false,
            names: ThreadNames::default(),
            is_refusal_reported: false,
        })
    }

    /// Begins sampling, if it is off.
    ///
    /// # Errors
    /// Why there are no samples.
    pub(crate) fn begin(&mut self) -> Result<(), NoSamples> {
        if self.on.is_some() || phase::is_ending() {
            return Ok(());
        }
        let begun = self.try_begin();
        if begun.is_err() {
            stop_all(self.jvmti);
            self.methods.end(self.jni);
        }
        self.stopped = begun.as_ref().err().cloned();
        begun
    }

    fn try_begin(&mut self) -> Result<(), NoSamples> {
        let tables = Tables::read().ok_or(NoSamples::NoTables)?;
        if tables.is_on("CheckJNICalls") == Some(true) {
            return Err(NoSamples::CheckJni);
        }
        let engine = self.engine.engine;
        let signal = signals::install(engine)?;
        cost::calibrate(engine, signal);
        self.cap.begin();
        let spent = cost::own_and_process_ns();
        self.began.get_or_insert(spent);
        let config = configure(&tables, self.jvmti, self.can_walk)?;
        // Of an earlier attachment.
        while QUEUE.take(|_, _, _| ()) {}
        self.names.clear();
        debug_info::want(&tables);
        for event in [&CLASS_PREPARE, &THREAD_START] {
            self.jvmti.enable_events_global(event).map_err(JvmError::from)?;
        }
        self.methods.begin(self.jvmti, self.jni);
        self.native.look();
        let list = ThreadList::new(&tables, self.jvmti, self.jni)?;
        let layout = self.test_walker(config, &list);
        self.has_stacks = layout.is_some();
        threads::begin(engine, signal, self.interval_ns(), &list)?;
        self.clocks = (engine == Engine::Itimer).then(process_timer::Clocks::now);
        let (jvmti, jni) = (self.jvmti, self.jni);
        let looks = self.wall.zip(layout);
        self.off_cpu = looks.map(|(every, layout)| OffCpu::new(list, layout, every, jvmti, jni));
        signal::begin(clock::is_counter());
        self.events.begin(&tables);
        self.scan.be_due();
        self.scan.run();
        self.on = Some((signal, spent.1));
        Ok(())
    }

    /// Tests the walker against the JVM on threads that wait. Returns where it finds HotSpot's fields; `None` if it is
    /// off.
    fn test_walker(
        &mut self,
        config: &'static Config,
        list: &ThreadList<'_>,
    ) -> Option<&'static Layout> {
        static WITHOUT: OnceLock<Config> = OnceLock::new();
        let layout = config.layout.as_ref()?;
        match walker_test::compare(list, layout, self.jvmti, COMPARED) {
            Ok(compared) => {
                self.compared = compared;
                Some(layout)
            }
            Err(differs) => {
                message!("cpu: {differs}: samples have no Java stacks");
                let shadow = config.shadow;
                signal::configure(WITHOUT.get_or_init(|| Config { layout: None, shadow }));
                None
            }
        }
    }

    /// Ends sampling, if it is on. What was sampled is still in the queue.
    pub(crate) fn end(&mut self) {
        let Some((_, began_ns)) = self.on.take() else { return };
        self.sampled_cpu_ns += cost::own_and_process_ns().1.saturating_sub(began_ns);
        if let Some(off_cpu) = self.off_cpu.take() {
            self.looks += off_cpu.looks().0;
            let (times, gone) = off_cpu.end();
            self.last_times = times;
            self.gone.extend(gone);
        }
        self.events.end();
        signal::end();
        threads::end();
        let _ = self.jvmti.disable_events_global(&THREAD_START);
        let until = Instant::now() + AT_WORK;
        while signal::is_at_work() && Instant::now() < until {
            std::thread::yield_now();
        }
    }

    /// Stops sampling after an internal error, without touching the data.
    pub(crate) fn give_up(&self) {
        stop_all(self.jvmti);
    }

    /// Forgets the names of methods. Nothing is sampled any more, and all samples are taken.
    pub(crate) fn forget(&mut self) {
        debug_info::restore();
        statements::forget();
        let _ = self.jvmti.disable_events_global(&CLASS_PREPARE);
        self.methods.end(self.jni);
        self.native.keep();
    }

    /// Takes the samples since the last round.
    pub(crate) fn round(&mut self, mut take: impl FnMut(&Sample, &[u32], &[Frame])) {
        if let Some((signal, _)) = self.on
            && self.scanned.elapsed() >= SECOND
        {
            self.scanned = Instant::now();
            signals::guard_again();
            let is_ours =
                || threads::has_process_timer().then_some(()).ok_or(NoSamples::TimerTaken);
            match signals::check(signal).and_then(|()| is_ours()) {
                Ok(()) => self.look_at_threads(),
                Err(gone) => {
                    message!("cpu: {gone}; sampling stopped");
                    self.end();
                    self.stopped = Some(gone);
                }
            }
        }
        if self.on.is_some() && self.looked.elapsed() >= LOOK {
            self.looked = Instant::now();
            self.native.look();
            self.methods.purge(self.jni);
        }
        if let (Some(random), Some(off_cpu)) = (&mut self.random, &self.off_cpu) {
            self.random_walks += u64::from(off_cpu.walk_at_random(random));
        }
        self.native.round();
        while QUEUE.take(|sample, shadow, frames| take(&sample, shadow, frames)) {}
        statements::round();
        // After the samples: their classes were prepared before.
        self.methods.take_prepared();
        // Threads note their names before they have samples.
        self.names.take_noted();
    }

    /// Finds threads that started and ended without an event, and keeps to the cap.
    fn look_at_threads(&mut self) {
        self.native.look_again();
        let cpu_times = || self.off_cpu.as_ref().map(OffCpu::cpu_times).unwrap_or_default();
        self.events.second(cpu_times);
        if let Some(gone) = self.scan.run() {
            self.gone.extend(gone.into_iter().map(|os_id| GoneThread { os_id, java_id: None }));
            self.is_scanned = true;
            self.names.scanned(self.scan.present(), threads::is_java);
        }
        if let Some(needed_ns) = self.cap.needed_interval_ns() {
            self.scan.lengthen_interval(needed_ns);
        }
        if threads::refused() > 0 && !std::mem::replace(&mut self.is_refusal_reported, true) {
            message!("cpu: too few timers (ulimit -i): some threads are not sampled");
        }
    }

    /// The times in which threads did not run since the last call.
    pub(crate) fn off_cpu_times(&mut self) -> Vec<OffCpuTime> {
        match &mut self.off_cpu {
            Some(off_cpu) => off_cpu.round(),
            None => std::mem::take(&mut self.last_times),
        }
    }

    /// The name that a Java thread had when it started.
    pub(crate) fn thread_name(&self, os_id: OsThreadId) -> Option<&ThreadName> {
        self.names.get(os_id)
    }

    /// Takes the names of threads that started since the round began: what they note of themselves is taken after the
    /// round's samples.
    pub(crate) fn take_new_names(&mut self) {
        self.names.take_noted();
    }

    /// The name that it had when threads were last listed: it may change its own.
    pub(crate) fn listed_name(&self, os_id: OsThreadId) -> Option<&ThreadName> {
        self.off_cpu.as_ref()?.name(os_id)
    }

    /// Approximate memory of what it keeps of threads and native code.
    pub(crate) fn bytes(&self) -> usize {
        self.names.bytes() + self.native.bytes()
    }

    /// What threads do now; `None` if they are not looked at.
    pub(crate) fn threads_now(&self) -> Option<Vec<ThreadNow>> {
        self.off_cpu.as_ref().map(|off_cpu| off_cpu.now(self.events.paused_waits()))
    }

    /// What these virtual threads wait for or execute, of those that do so.
    pub(crate) fn virtual_threads_now(
        &self,
        numbers: impl Iterator<Item = JavaThreadId>,
    ) -> Vec<ThreadNow> {
        thread_now::of_virtual(numbers, self.events.paused_waits().is_empty())
    }

    /// Whether samples and looks are so seldom that rounds may be, too.
    pub(crate) fn is_seldom(&self) -> bool {
        const CPU: Duration = Duration::from_millis(1);
        const WALL: Duration = Duration::from_millis(100);
        self.interval >= CPU && self.wall.is_none_or(|every| every >= WALL)
    }

    /// What a round takes longer while threads are looked at: another time in each.
    pub(crate) fn jitter(&self) -> Duration {
        let ns = if self.off_cpu.is_some() { threads::random() % MOST_JITTER_NS } else { 0 };
        Duration::from_nanos(ns)
    }

    /// Says of all threads again where they stand.
    pub(crate) fn tell_again(&mut self) {
        self.off_cpu.iter_mut().for_each(OffCpu::tell_again);
    }

    /// Looks at threads so far, and how many threads there are.
    pub(crate) fn looks(&self) -> (u64, usize) {
        let (looks, threads) = self.off_cpu.as_ref().map_or((0, 0), OffCpu::looks);
        (self.looks + looks, threads)
    }

    /// Threads that have ended since the last call.
    pub(crate) fn take_gone(&mut self) -> Vec<GoneThread> {
        let mut gone = std::mem::take(&mut self.gone);
        gone.extend(self.off_cpu.iter_mut().flat_map(OffCpu::take_gone));
        gone
    }

    /// Whether threads are sampled and looked for.
    pub(crate) const fn is_on(&self) -> bool {
        self.on.is_some()
    }

    /// The process's threads, if they were listed since the last call.
    pub(crate) fn take_scanned(&mut self) -> Option<&HashSet<OsThreadId>> {
        std::mem::take(&mut self.is_scanned).then(|| self.scan.present())
    }

    /// Changes whenever a method's id may have got another meaning.
    pub(crate) fn generation(&self) -> u64 {
        self.methods.generation()
    }

    /// The interval of CPU time that the user chose, in nanoseconds.
    fn interval_ns(&self) -> u64 {
        u64::try_from(self.interval.as_nanos()).unwrap_or(u64::MAX)
    }

    /// The CPU time that a sample with a weight of 1 stands for, in nanoseconds.
    pub(crate) fn weight_ns(&self) -> u64 {
        let interval_ns = self.interval_ns();
        self.clocks.map_or(interval_ns, |clocks| clocks.exact_ns(interval_ns))
    }

    /// The function at an address of native code; `None` for code that is of no library.
    pub(crate) fn native_function(&mut self, pc: usize) -> Option<Function> {
        self.native.function(pc)
    }

    /// The function at an address of the kernel.
    pub(crate) fn kernel_function(&self, pc: usize) -> Function {
        self.native.kernel_function(pc)
    }

    /// The name of a native function.
    pub(crate) fn native_name(&mut self, function: Function) -> Named {
        self.native.name(function)
    }

    /// A sample in native code stands for this time.
    pub(crate) fn add_native(&mut self, ns: u64) {
        self.native.add(ns);
    }

    /// A sample in the kernel stands for this time.
    pub(crate) fn add_in_kernel(&mut self, ns: u64) {
        self.native.add_in_kernel(ns);
    }

    /// The method of a frame; `None` if it is not known.
    pub(crate) fn name(&mut self, frame: Frame) -> Option<Named> {
        self.methods.name(frame.id(), self.jvmti, self.jni)
    }

    /// The interval of now, in nanoseconds: the chosen one, or a longer one because of the cap.
    pub(crate) fn current_interval_ns(&self) -> u64 {
        self.interval_ns() << threads::doubled()
    }

    /// What samples took of the process's CPU time since sampling first began.
    #[allow(clippy::cast_precision_loss)] // Nanoseconds of some years are exact.
    pub(crate) fn cost_share(&self) -> f64 {
        let Some((own_ns, cpu_ns)) = self.began else { return 0.0 };
        let (own_now, cpu_now) = cost::own_and_process_ns();
        own_now.saturating_sub(own_ns) as f64 / cpu_now.saturating_sub(cpu_ns).max(1) as f64
    }

    /// CPU time of the process while it was sampled, in nanoseconds.
    pub(crate) fn sampled_cpu_ns(&self) -> u64 {
        let now = self.on.map_or(0, |(_, began_ns)| cost::own_and_process_ns().1 - began_ns);
        self.sampled_cpu_ns + now
    }

    pub(crate) fn timer_figures(&self) -> TimerFigures {
        TimerFigures {
            engine: self.engine.clone(),
            interval_ns: self.current_interval_ns(),
            signal: self.on.map(|(signal, _)| signals::name(signal)),
            refused: threads::refused(),
            kernel_refused: rings::refused(),
        }
    }

    /// Walks from random registers, for a test.
    pub(crate) fn random_walks(&self) -> u64 {
        self.random_walks
    }

    /// Whether samples have Java stacks.
    pub(crate) fn has_stacks(&self) -> bool {
        self.has_stacks
    }

    /// Stacks that the walker's test compared.
    pub(crate) fn compared(&self) -> usize {
        self.compared
    }

    /// Why nothing is sampled, if that is not what was asked for.
    pub(crate) fn stopped(&self) -> Option<&NoSamples> {
        self.stopped.as_ref()
    }

    /// What handlers counted, how many timers were refused, and how many threads have no frames of the kernel.
    pub(crate) fn counts() -> (Counts, u64, u64) {
        (Counts::now(), threads::refused(), rings::refused())
    }
}

/// Stops everything that takes samples, whatever state it is in.
pub(crate) fn stop_all(jvmti: &Jvmti) {
    locks::stop(jvmti);
    statements::stop();
    allocations::end(jvmti);
    signal::end();
    threads::end();
    method_names::stop();
    debug_info::restore();
    let _ = jvmti.disable_events_global(&THREAD_START);
    if !statement_probes::are_wanted() {
        let _ = jvmti.disable_events_global(&CLASS_PREPARE);
    }
}

/// Tells the handler where everything is, once for the life of the process.
fn configure(tables: &Tables, jvmti: &Jvmti, can_walk: bool) -> Result<&'static Config, NoSamples> {
    static CONFIG: OnceLock<Config> = OnceLock::new();
    if !QUEUE.has_memory() {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        // The rest of the agent's memory is for threads and calls.
        let most = usize::try_from(memory::used_and_max().1 / QUEUE_PART).unwrap_or(usize::MAX);
        let words = (WORDS * processors).min(most / 8).max(LEAST_WORDS);
        let words = 1 << words.ilog2();
        let memory = super::map_for_good(words * 8).ok_or(NoSamples::NoMemory)?;
        // SAFETY: mapped memory that nobody else uses, and that stays.
        unsafe { QUEUE.set_memory(memory.as_ptr().cast(), words) };
    }
    let config = CONFIG.get_or_init(|| {
        let not_said = |what: &str| NotSaid(what.to_owned());
        let layout = jdk::version(jvmti).ok_or_else(|| not_said("its version"));
        let layout = layout.and_then(|version| tables.layout(version));
        // The walker knows frames of x86-64 only.
        let layout = layout.and_then(|layout| match can_walk && cfg!(target_arch = "x86_64") {
            true => Ok(layout),
            false => Err(not_said("how its frames look on this processor")),
        });
        let layout = layout.map(|mut layout| {
            layout.method.original_number = method_ids::layout().and_then(|l| l.original_number);
            layout
        });
        if let Err(missing) = &layout {
            message!("cpu: {missing}: samples have no Java stacks");
        }
        Config { layout: layout.ok(), shadow: probe::shadow_layout() }
    });
    signal::configure(config);
    Ok(config)
}
