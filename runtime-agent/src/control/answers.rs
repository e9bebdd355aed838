//! The agent's answers: lines of `key: value`, or the same as one line of JSON.
//!
//! Every entry is added once, with what each form shows of it. JSON has times in whole nanoseconds, text rounds them.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};

use log_format::method_state::MethodState;
use log_format::names::utc_text;
use log_format::writer::one_line;
use log_format::{human, units};
use serde_json::{Map, Value, json};

use super::access::Access;
use super::commands::Shows;
use crate::drain::hot_methods::{Hottest, Sum};
use crate::drain::hot_samples::{HotSampled, SampledName};
use crate::drain::in_flight::{BusyThread, InFlight, OUTERMOST, RunningCall};
use crate::drain::samples::SamplingFigures;
use crate::drain::thresholds::Thresholds;
use crate::instrument::change_counts::LoadedClassFigures;
use crate::instrument::class_hook::InstrumentedFigures;
use crate::instrument::guards::Muting;
use crate::instrument::method_states::MethodStates;
use crate::instrument::methods::Method;
use crate::instrument::postponed::Postponed;
use crate::log::LogFigures;
use crate::options::{megabytes_text, overhead_text, thresholds_text};
use crate::overhead::{OverheadFigures, Throttled};
use crate::request::{Found, MemoryFigures, Reply, Status};
use crate::sampling::off_cpu::{ThreadNow, Waiting};
use crate::sampling::sampler::TimerFigures;
use crate::self_test::Results;
use crate::session::run_info;
use crate::sys::clock;
use crate::sys::memory::limit;

/// An answer in both forms.
#[derive(Debug, Default)]
pub(super) struct Answer {
    text: String,
    json: Map<String, Value>,
}

impl Answer {
    /// Lines that end with `ok`.
    pub(super) fn text(self) -> String {
        self.text + "ok\n"
    }

    /// A line of JSON, and the line `ok`.
    pub(super) fn json(self) -> String {
        format!("{}\nok\n", Value::Object(self.json))
    }

    fn line(&mut self, key: &str, text: impl Display) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "{key}: {text}");
    }

    fn value(&mut self, name: &str, value: impl Into<Value>) {
        self.json.insert(name.to_owned(), value.into());
    }

    /// Adds a value that is the same in both forms. In JSON, the key has no spaces.
    fn add(&mut self, key: &str, value: impl Display + Into<Value>) {
        self.line(key, &value);
        self.value(&key.replace(' ', "_"), value);
    }
}

/// The answer to a command that was carried out. A client without the token sees no path, and no name of the service
/// or its classes.
pub(super) fn answer(
    reply: &Reply,
    shows: Shows,
    access: Access,
    options: &BTreeMap<String, String>,
) -> Answer {
    let Reply { status, found } = reply;
    let mut answer = Answer::default();
    let names = access == Access::Everything;
    // With several JVMs on a machine, a port alone does not tell which one answered.
    if names {
        answer.add("service", run_info::service_name());
    }
    answer.add("pid", std::process::id());
    let is_on = status.recording.is_on;
    answer.line("profiling", if is_on { "on" } else { "off" });
    answer.value("profiling", is_on);
    match shows {
        Shows::Nothing => {}
        Shows::Status => add_status(&mut answer, status, names),
        Shows::Thresholds => add_thresholds(&mut answer, &status.recording.thresholds),
        Shows::Muted => add_muted(&mut answer, &status.muting),
        Shows::Overhead => {
            add_overhead(&mut answer, &status.overhead);
            if let Found::Throttled(throttled) = found {
                add_throttled(&mut answer, throttled);
            }
        }
        Shows::Options => add_options(&mut answer, status, options),
        Shows::Restored => add_restored(&mut answer, &status.loaded_classes, status.clock.jumps),
        Shows::Found => match found {
            Found::Nothing | Found::Throttled(_) => {}
            Found::Top(top, names) => add_top(&mut answer, top, names),
            Found::InFlight(in_flight) => add_in_flight(&mut answer, in_flight),
            Found::Threads(threads, calls) => add_threads(&mut answer, threads, calls),
            Found::Methods(states) => add_states(&mut answer, states),
        },
    }
    if names && has_hints(shows, found) {
        for hint in &status.hints {
            answer.line("hint", one_line(hint));
        }
        answer.value("hints", json!(status.hints));
    }
    answer
}

/// Whether hints about what may surprise the user belong to an answer. Not to `options`, where every key is an option.
fn has_hints(shows: Shows, found: &Found) -> bool {
    matches!(shows, Shows::Status | Shows::Thresholds | Shows::Muted | Shows::Restored)
        || matches!(found, Found::Methods(_))
}

fn add_status(answer: &mut Answer, status: &Status, names: bool) {
    add_moment(answer, "since", status.recording.since_ns);
    let InstrumentedFigures { classes, methods, methods_not_instrumented, leaves } =
        status.instrumented;
    answer.add("classes instrumented", classes);
    answer.add("methods instrumented", methods);
    answer.add("methods not instrumented", methods_not_instrumented);
    answer.add("trivial leaves", leaves);
    let loaded = &status.loaded_classes;
    answer.add("classes retransformed", loaded.retransformed);
    answer.add("classes postponed", loaded.postponed.len() as u64);
    if names {
        add_postponed(answer, &loaded.postponed, "postponed");
    }
    answer.add("loops possibly caught", loaded.caught_loops);
    add_pauses(answer, loaded);
    let calls = status.calls;
    answer.add("calls seen", calls.ended);
    answer.add("recorded calls", calls.recorded);
    answer.add("recorded calls dropped", calls.recorded_dropped);
    answer.add("recorded calls over budget", calls.recorded_over_budget);
    answer.add("calls lost", calls.lost);
    add_memory(answer, status.memory);
    answer.add("ends unseen", calls.unseen_ends);
    answer.add("clock", status.clock.source);
    answer.add("clock jumps", status.clock.jumps);
    answer.add("methods muted", status.muting.methods);
    answer.add("calls muted", status.muting.dropped_calls);
    answer.add("calls throttled", status.overhead.dropped_calls);
    add_overhead(answer, &status.overhead);
    if let Some(sampling) = &status.sampling {
        add_sampling(answer, sampling);
    }
    add_self_tests(answer, &status.self_tests);
    add_log(answer, &status.log, names);
    let thresholds = &status.recording.thresholds;
    if names {
        add_thresholds(answer, thresholds);
    } else {
        add_threshold(answer, thresholds);
    }
}

fn add_memory(answer: &mut Answer, memory: MemoryFigures) {
    let MemoryFigures { used_bytes, max_bytes, threads_not_measured } = memory;
    answer.add("threads not measured", threads_not_measured);
    answer.line("memory", format!("{} of {}", binary(used_bytes), binary(max_bytes)));
    answer.value("memory_bytes", used_bytes);
    answer.value("max_memory_bytes", max_bytes);
}

/// Adds the budget, how much of it is used, and how many methods are throttled.
fn add_overhead(answer: &mut Answer, overhead: &OverheadFigures) {
    let OverheadFigures { budget, share, throttled_methods, .. } = *overhead;
    answer.line("overhead budget", overhead_text(budget));
    answer.value("overhead_budget", budget.map(|millionths| f64::from(millionths) / 1e6));
    answer.line("overhead estimated", format!("{:.2}%", share * 100.0));
    answer.value("overhead_estimated", share);
    answer.add("methods throttled", throttled_methods);
}

fn add_log(answer: &mut Answer, log: &LogFigures, names: bool) {
    answer.add("write errors", log.io_errors);
    if names {
        answer.add("logs", &*log.folder);
    }
    answer.line("log of this hour", human::bytes(log.bytes_this_hour));
    answer.value("bytes_this_hour", log.bytes_this_hour);
    answer.line("budget of the hour", budget(log));
    answer.value("hour_budget", log.hour_budget);
    answer.add("hours deleted", log.deleted_hours);
}

/// CPU time after which it is said how much of it samples cover.
const LEAST_CPU_NS: u64 = 1_000_000_000;

#[allow(clippy::cast_precision_loss)] // Nanoseconds of some years are exact.
fn add_sampling(answer: &mut Answer, sampling: &SamplingFigures) {
    let TimerFigures { engine, interval_ns, signal, refused } = &sampling.timers;
    let (interval_ns, signal, refused) = (*interval_ns, *signal, *refused);
    let name = engine.engine.name();
    let interval = units::duration_text(interval_ns);
    let by = signal.map_or_else(String::new, |signal| format!(" by {signal}"));
    answer.line("cpu samples", format!("{} ({name}{by}, every {interval})", sampling.samples));
    answer.value("cpu_samples", sampling.samples);
    answer.value("cpu_engine", name);
    if let Some(reason) = &engine.reason {
        answer.line("cpu engine", format!("{name}, because {reason}"));
    }
    answer.value("cpu_engine_reason", engine.reason.clone());
    answer.value("cpu_signal", signal);
    answer.value("walker_stacks_compared", sampling.compared as u64);
    if sampling.random_walks > 0 {
        answer.add("random walks", sampling.random_walks);
    }
    if let (looks, threads @ 1..) = sampling.looks {
        answer.line("waiting", format!("{looks} looks at {threads} threads"));
    }
    answer.value("off_cpu_looks", sampling.looks.0);
    if let Some(why) = &sampling.stopped {
        answer.line("cpu samples stopped", why);
    }
    answer.value("cpu_samples_stopped", sampling.stopped.clone());
    answer.value("cpu_interval_ns", interval_ns);
    answer.add("cpu samples truncated", sampling.truncated);
    answer.add("cpu samples without stack", sampling.without_stack);
    answer.add("cpu samples dropped", sampling.dropped);
    // A little time says little.
    let covered = (sampling.cpu_ns >= LEAST_CPU_NS)
        .then(|| sampling.taken_ns as f64 / sampling.cpu_ns as f64);
    if let Some(share) = covered {
        answer.line("cpu samples cover", format!("{:.1}% of CPU time", share * 100.0));
    }
    answer.value("cpu_samples_cover", covered);
    answer.line("cpu samples took", format!("{:.2}%", sampling.cost_share * 100.0));
    answer.value("cpu_samples_took", sampling.cost_share);
    if refused > 0 {
        let why = format!(
            "{refused} (ulimit -i), so some threads are not sampled; engine=itimer needs none"
        );
        answer.line("cpu timers refused", why);
    }
    answer.value("cpu_timers_refused", refused);
}

/// Methods shown in text; JSON shows all.
const SHOWN: usize = 50;

fn add_throttled(answer: &mut Answer, throttled: &[(Method, Throttled)]) {
    for (method, left) in throttled.iter().take(SHOWN) {
        let Throttled { since_unix_ns, calls_per_s, mean_ns, .. } = left;
        let since = utc_text(*since_unix_ns);
        let why = format!(
            "since {since}, {} calls/s, average {}, {}",
            human::count(u128::from(*calls_per_s)),
            human::duration(*mean_ns),
            method.line_name()
        );
        answer.line("throttled", why);
    }
    if throttled.len() > SHOWN {
        answer.line("more throttled", throttled.len() - SHOWN);
    }
    let all = throttled.iter().map(|(method, left)| {
        let Throttled { since_unix_ns, calls_per_s, mean_ns, .. } = left;
        let why =
            json!({ "since_ns": since_unix_ns, "calls_per_s": calls_per_s, "mean_ns": mean_ns });
        with_name(method, why)
    });
    answer.value("throttled", all.collect::<Vec<Value>>());
}

fn add_moment(answer: &mut Answer, key: &str, unix_ns: u64) {
    answer.line(key, utc_text(unix_ns));
    answer.value(&format!("{key}_ns"), unix_ns);
}

/// Adds classes that wait or were given up, with the reasons; text shows the first ones.
fn add_postponed(answer: &mut Answer, postponed: &[Postponed], one: &str) {
    let told = |postponed: &Postponed| {
        let next = if postponed.is_given_up { "given up" } else { "tried again for a minute" };
        format!("{postponed}; {next}")
    };
    let reasons: Vec<String> = postponed.iter().map(told).collect();
    for reason in reasons.iter().take(POSTPONED) {
        answer.line(one, one_line(reason));
    }
    answer.value(&one.replace(' ', "_"), reasons);
}

/// Classes named in text; JSON names all.
const POSTPONED: usize = 20;

fn add_pauses(answer: &mut Answer, loaded: &LoadedClassFigures) {
    let LoadedClassFigures { pauses, stack_looks: looks, .. } = loaded;
    answer.line("longest pause", human::duration(pauses.longest_ns));
    answer.value("longest_pause_ns", pauses.longest_ns);
    answer.line("pauses over 50 ms", format!("{} of {}", pauses.long, pauses.count));
    answer.value("pauses", pauses.count);
    answer.value("pauses_over_50_ms", pauses.long);
    answer.value("paused_ns", pauses.total_ns);
    let longest = human::duration(looks.longest_ns);
    answer.line("stack looks", format!("{}, the longest {longest}", looks.count));
    answer.value("stack_looks", looks.count);
    answer.value("longest_stack_look_ns", looks.longest_ns);
}

/// Adds which HotSpot features work in this JVM.
fn add_self_tests(answer: &mut Answer, results: &Results) {
    answer.line("compiled-out probes", results.compiled_out());
    answer.value("compiled_out_probes", results.compiled_out());
    answer.add("probe call site", results.call_site());
    answer.add("thread word", results.thread_word());
    answer.add("virtual thread events", results.events.text());
    answer.line("self-tests", human::duration(results.cpu_ns));
    answer.value("self_tests_ns", results.cpu_ns);
}

/// A size of memory, in the units of `max_memory`.
fn binary(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// How much of the hour's budget is spent.
fn budget(log: &LogFigures) -> String {
    log.hour_budget.map_or_else(
        || "off".to_owned(),
        |bytes| {
            let percent = u128::from(log.bytes_this_hour) * 100 / u128::from(bytes.max(1));
            format!("{percent}% of {}", human::bytes(bytes))
        },
    )
}

/// Adds what only `detach` reports.
fn add_restored(answer: &mut Answer, loaded: &LoadedClassFigures, clock_jumps: u64) {
    answer.add("classes restored", loaded.retransformed);
    answer.add("classes not restored", loaded.not_retransformed);
    answer.add("classes not seen loaded", loaded.not_seen_loaded);
    answer.add("classes left running", loaded.postponed.len() as u64);
    add_postponed(answer, &loaded.postponed, "left running");
    add_pauses(answer, loaded);
    answer.add("clock jumps", clock_jumps);
}

/// Adds the threshold of all methods.
fn add_threshold(answer: &mut Answer, thresholds: &Thresholds) {
    answer.line("threshold", units::duration_text(thresholds.all_ns));
    answer.value("threshold_ns", thresholds.all_ns);
}

/// Adds the thresholds in force.
fn add_thresholds(answer: &mut Answer, thresholds: &Thresholds) {
    add_threshold(answer, thresholds);
    let mut own = Vec::new();
    for (pattern, ns) in &thresholds.own {
        answer.line(&format!("threshold {pattern}"), units::duration_text(*ns));
        own.push(json!({ "pattern": pattern.as_str(), "threshold_ns": ns }));
    }
    answer.value("own_thresholds", own);
    if thresholds.raised_to_ns > 0 {
        answer.line("thresholds raised to", units::duration_text(thresholds.raised_to_ns));
    }
    answer.value("raised_to_ns", thresholds.raised_to_ns);
}

/// Adds what is muted; if several patterns name a method, the last counts.
fn add_muted(answer: &mut Answer, muting: &Muting) {
    answer.add("methods muted", muting.methods);
    let mut rules = Vec::new();
    for rule in &muting.rules {
        answer.line(if rule.mutes { "muted" } else { "not muted" }, &rule.pattern);
        rules.push(json!({ "pattern": rule.pattern.as_str(), "muted": rule.mutes }));
    }
    answer.value("muted", rules);
}

/// Adds the options in force: as they were given, except those that the agent chose or that changed since.
fn add_options(answer: &mut Answer, status: &Status, options: &BTreeMap<String, String>) {
    let Thresholds { all_ns, own, .. } = &status.recording.thresholds;
    let own = own.iter().map(|(pattern, ns)| (pattern, *ns));
    let mut options = options.clone();
    let mut set = |key: &str, value: String| options.insert(key.to_owned(), value);
    set("threshold", thresholds_text(*all_ns, own));
    set("overhead", overhead_text(status.overhead.budget));
    set("max_memory", limit::text(status.memory.max_bytes));
    set("max_mb_per_hour", megabytes_text(status.log.hour_budget));
    if status.clock.source == "monotonic" {
        set("clock", status.clock.source.to_owned());
    }
    if status.self_tests.compiled_out() == "plain" {
        set("probe", "plain".to_owned());
    }
    for (key, value) in &options {
        answer.line(key, one_line(value));
    }
    answer.value("options", json!(options));
}

/// A method as JSON shows it.
fn name_value(method: &Method) -> Value {
    json!({
        "loader": method.class.loader,
        "class": method.class.name,
        "method": method.name,
        "descriptor": method.descriptor,
    })
}

/// The names of a method and further values, in one object.
fn with_name(method: &Method, values: Value) -> Value {
    match (name_value(method), values) {
        (Value::Object(mut all), Value::Object(values)) => {
            all.extend(values);
            Value::Object(all)
        }
        (name, _) => name,
    }
}

fn add_top(answer: &mut Answer, top: &Hottest, names: &[(Method, bool)]) {
    add_moment(answer, "since", top.since_ns);
    let covers = human::duration(top.covers_ns);
    let why = if top.is_short { ", less than a minute: all since the run began" } else { "" };
    answer.line("covers", format!("{covers}{why}"));
    answer.value("covers_ns", top.covers_ns);
    answer.add("methods called", top.called as u64);
    let mut methods = Vec::new();
    for (rank, ((_, sum), (method, was_throttled))) in (1..).zip(top.methods.iter().zip(names)) {
        let Sum { calls, throws, total_ticks, self_ticks, max_ticks } = *sum;
        let [self_ns, total_ns, max_ns] =
            [self_ticks, total_ticks, max_ticks].map(clock::ticks_to_ns);
        let line = format!(
            "self {}, total {}, longest {}, calls {calls}{}, throws {throws}, {}",
            human::duration(self_ns),
            human::duration(total_ns),
            human::duration(max_ns),
            if *was_throttled { "+" } else { "" },
            method.line_name()
        );
        answer.line(&rank.to_string(), line);
        methods.push(with_name(
            method,
            json!({
                "calls": calls,
                "throws": throws,
                "self_ns": self_ns,
                "total_ns": total_ns,
                "max_ns": max_ns,
                "was_throttled": was_throttled,
            }),
        ));
    }
    answer.value("methods", methods);
    if let Some(sampled) = &top.sampled {
        add_sampled(answer, sampled);
    }
}

/// Adds CPU time and waiting by samples.
#[allow(clippy::cast_precision_loss)] // Nanoseconds of some years are exact.
fn add_sampled(answer: &mut Answer, sampled: &HotSampled) {
    let HotSampled { cpu_ns, methods, waiting } = sampled;
    let mut rows = Vec::new();
    for (name, ns) in methods {
        let SampledName { class, method, descriptor } = &**name;
        let share = *ns as f64 * 100.0 / (*cpu_ns).max(1) as f64;
        let dot = if class.is_empty() { "" } else { "." };
        let name = one_line(&format!("{class}{dot}{method}{descriptor}"));
        answer.line("cpu", format!("{} ({share:.1}%), {name}", human::duration(*ns)));
        rows.push(json!({
            "class": class, "method": method, "descriptor": descriptor, "cpu_self_ns": ns,
        }));
    }
    answer.value("cpu_ns", *cpu_ns);
    answer.value("cpu_methods", rows);
    for (state, ns) in waiting {
        answer.line("waiting", format!("{} {state}", human::duration(*ns)));
    }
    let waiting: Map<String, Value> =
        waiting.iter().map(|(state, ns)| ((*state).to_owned(), (*ns).into())).collect();
    answer.value("waiting_ns", waiting);
}

/// Adds the methods with their states, then what there is of others.
fn add_states(answer: &mut Answer, states: &MethodStates) {
    for (method, state) in states.methods.iter().take(SHOWN) {
        answer.line(state.name(), method.line_name());
    }
    let more = states.methods.len().saturating_sub(SHOWN) + states.more_methods;
    if more > 0 {
        answer.line("more methods", more);
    }
    for (method, state) in states.named.iter().take(SHOWN) {
        answer.line(state.name(), one_line(method));
    }
    for (class, others) in states.others.iter().take(SHOWN) {
        answer.line("without probes", format!("{}{others}", one_line(class)));
    }
    let more = states.others.len().saturating_sub(SHOWN) + states.more_others;
    if more > 0 {
        answer.line("more classes", more);
    }
    for postponed in states.postponed.iter().take(SHOWN) {
        answer.line(MethodState::Postponed.name(), one_line(&postponed.to_string()));
    }
    let methods = states.methods.iter();
    let methods =
        methods.map(|(method, state)| with_name(method, json!({ "state": state.name() })));
    answer.value("methods", methods.collect::<Vec<Value>>());
    answer.value("more_methods", states.more_methods as u64);
    let named = states.named.iter();
    let named = named.map(|(method, state)| json!({ "method": method, "state": state.name() }));
    answer.value("named", named.collect::<Vec<Value>>());
    let others = states.others.iter().map(|(class, others)| {
        let counts = others.counts().map(|(state, count)| (state.name().to_owned(), count.into()));
        json!({ "class": class, "methods": counts.collect::<Map<String, Value>>() })
    });
    answer.value("without_probes", others.collect::<Vec<Value>>());
    answer.value("more_without_probes", states.more_others as u64);
    let postponed = states.postponed.iter().map(ToString::to_string);
    answer.value("postponed", postponed.collect::<Vec<String>>());
}

fn add_in_flight(answer: &mut Answer, in_flight: &InFlight) {
    if in_flight.threads.is_empty() {
        answer.line("calls in progress", 0);
    }
    for thread in &in_flight.threads {
        let kind = if thread.is_virtual { ", virtual" } else { "" };
        let name = one_line(&thread.name);
        answer.line(
            "thread",
            format!("{name} (java id {}, os id {}{kind})", thread.java_id, thread.os_id),
        );
        add_calls(answer, thread);
    }
    let threads: Vec<Value> = in_flight.threads.iter().map(thread_value).collect();
    answer.value("threads", threads);
    if in_flight.more_threads > 0 {
        answer.line("more threads", in_flight.more_threads);
    }
    answer.value("more_threads", in_flight.more_threads as u64);
}

fn add_threads(answer: &mut Answer, threads: &[ThreadNow], calls: &InFlight) {
    let entry = |thread: &ThreadNow| {
        let busy = calls.threads.iter().find(|busy| busy.os_id == thread.os_id);
        busy.and_then(|busy| busy.calls.first())
    };
    let doing = |thread: &ThreadNow| thread.waiting.map_or("running", Waiting::name);
    for thread in threads.iter().take(SHOWN) {
        let entry = entry(thread).map_or_else(String::new, |call| {
            format!(", {} for {}", call.method.line_name(), human::duration(call.ns))
        });
        answer.line(
            "thread",
            format!(
                "{} (java id {}, os id {}) {}, {:.1}% of a processor{entry}",
                one_line(&thread.name.name),
                thread.name.java_id,
                thread.os_id,
                doing(thread).replace('_', " "),
                thread.cpu_share * 100.0,
            ),
        );
    }
    if threads.len() > SHOWN {
        answer.line("more threads", threads.len() - SHOWN);
    }
    let value = |thread: &ThreadNow| {
        let entry = entry(thread);
        let entry = entry.map(|call| with_name(&call.method, json!({ "running_ns": call.ns })));
        json!({
            "name": thread.name.name,
            "java_id": thread.name.java_id,
            "os_id": thread.os_id,
            "state": doing(thread),
            "cpu_share": thread.cpu_share,
            "entry": entry,
        })
    };
    answer.value("threads", threads.iter().map(value).collect::<Vec<_>>());
}

fn add_calls(answer: &mut Answer, thread: &BusyThread) {
    for (at, call) in thread.calls.iter().enumerate() {
        if thread.more_calls > 0 && at == OUTERMOST {
            answer.line("more calls", thread.more_calls);
        }
        let key = if call.is_long { "runs" } else { "below" };
        answer.line(key, format!("{} {}", human::duration(call.ns), call.method.line_name()));
    }
}

fn thread_value(thread: &BusyThread) -> Value {
    let call = |call: &RunningCall| {
        with_name(&call.method, json!({ "running_ns": call.ns, "is_long": call.is_long }))
    };
    json!({
        "name": thread.name,
        "java_id": thread.java_id,
        "os_id": thread.os_id,
        "virtual": thread.is_virtual,
        "calls": thread.calls.iter().map(call).collect::<Vec<_>>(),
        "more_calls": thread.more_calls,
    })
}
