//! The agent's answers: lines of `key: value`, or the same as one line of JSON.
//!
//! Every entry is added once, with what each form shows of it. JSON has times in whole nanoseconds, text rounds them.

use std::collections::BTreeMap;

use log_format::file_names::utc_text;
use log_format::pattern::Pattern;
use log_format::{human, units};
use serde_json::{Value, json};

use super::access::Access;
use super::answer::{Answer, SHOWN};
use super::commands::Shows;
use super::method_answers::{add_in_flight, add_states, add_threads, add_top, with_name};
use super::task_answers::add_found_tasks;
use crate::drain::events::Throttling;
use crate::drain::samples::SamplingFigures;
use crate::drain::thresholds_in_force::Thresholds;
use crate::instrument::change_counts::LoadedClassFigures;
use crate::instrument::class_hook::InstrumentedFigures;
use crate::instrument::guards::Muting;
use crate::instrument::methods::Method;
use crate::instrument::postponed::Postponed;
use crate::jvm::service;
use crate::log::LogFigures;
use crate::options::alloc_text;
use crate::options::{CpuShare, megabytes_text, share_text, thresholds_text, traces_text};
use crate::overhead::{OverheadFigures, Spent, Throttled};
use crate::request::{Found, MemoryFigures, Reply, SelfTestFigures, Status};
use crate::sampling::engine_choice::KernelFrames;
use crate::sampling::sampler::TimerFigures;
use crate::sys::memory::limit;

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
        answer.add("service", service::name());
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
        Shows::Allocations => add_allocations(&mut answer, status),
        Shows::Traces => add_traces(&mut answer, status),
        Shows::Tasks => add_found_tasks(&mut answer, found),
        Shows::Options => add_options(&mut answer, status, options),
        Shows::Restored => add_restored(&mut answer, &status.loaded_classes, status.clock.jumps),
        Shows::Found => match found {
            Found::Nothing | Found::Throttled(_) | Found::Task(_) | Found::Tasks(_) => {}
            Found::Top(top, names) => add_top(&mut answer, top, names),
            Found::InFlight(in_flight, threads) => add_in_flight(&mut answer, in_flight, threads),
            Found::Threads(threads, calls) => add_threads(&mut answer, threads, calls),
            Found::Methods(states) => add_states(&mut answer, states),
        },
    }
    if names && has_hints(shows, found) {
        for hint in &status.hints {
            answer.line("hint", hint);
        }
        answer.value("hints", json!(status.hints));
    }
    answer
}

/// Whether hints about what may surprise the user belong to an answer. Not to `options`, where every key is an option.
fn has_hints(shows: Shows, found: &Found) -> bool {
    matches!(
        shows,
        Shows::Status
            | Shows::Thresholds
            | Shows::Muted
            | Shows::Traces
            | Shows::Tasks
            | Shows::Restored
    ) || shows == Shows::Found && !matches!(found, Found::Top(..))
}

fn add_status(answer: &mut Answer, status: &Status, names: bool) {
    answer.add_moment("since", status.recording.since_ns);
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
    answer.add("throws", status.exceptions.throws);
    answer.add("exceptions lost", status.exceptions.lost);
    answer.add("exception examples dropped", status.exceptions.examples_dropped);
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

fn add_allocations(answer: &mut Answer, status: &Status) {
    match &status.sampling {
        Some(sampling) => add_allocation_figures(answer, sampling),
        None => answer.line("alloc", "off"),
    }
}

fn add_allocation_figures(answer: &mut Answer, sampling: &SamplingFigures) {
    answer.line("alloc", alloc_text(sampling.allocations.chosen_bytes));
    answer.value("alloc_bytes", sampling.allocations.chosen_bytes);
    if let Some(bytes) = sampling.allocations.interval_bytes {
        answer.line("allocation interval", human::bytes(bytes));
        answer.value("allocation_interval_bytes", bytes);
    }
    answer.add("allocation samples", sampling.allocations.counts.samples);
    answer.add("allocation samples dropped", sampling.allocations.counts.dropped);
}

/// Adds which methods are traced.
fn add_traces(answer: &mut Answer, status: &Status) {
    let traces = &status.recording.traces;
    for (pattern, every) in traces {
        let every = if *every > 0 { every.to_string() } else { "off".to_owned() };
        answer.line(&format!("trace {pattern}"), every);
    }
    let trace =
        |(pattern, every): &(Pattern, u64)| json!({ "pattern": pattern.as_str(), "every": every });
    answer.value("traces", traces.iter().map(trace).collect::<Vec<_>>());
    if let Some(sampling) = &status.sampling {
        add_trace_figures(answer, sampling);
    }
}

fn add_trace_figures(answer: &mut Answer, sampling: &SamplingFigures) {
    if sampling.trace_factor > 1 {
        answer.line(
            "trace interval",
            format!("{} times as long, to keep to sampler_cap", sampling.trace_factor),
        );
    }
    answer.value("trace_factor", sampling.trace_factor);
    answer.add("trace samples", sampling.traces.samples);
    answer.add("trace samples dropped", sampling.traces.dropped);
}

/// Adds the budget, how much of it is used, and how many methods are throttled.
fn add_overhead(answer: &mut Answer, overhead: &OverheadFigures) {
    let OverheadFigures { budget, spent, throttled_methods, call_ns, is_sampled, .. } = *overhead;
    let Spent { share, probes_share, of_processor, .. } = spent;
    answer.line("overhead budget", share_text(budget));
    answer.value("overhead_budget", budget.map(CpuShare::of_one));
    answer.line("overhead estimated", format!("{:.2}%", share * 100.0));
    answer.value("overhead_estimated", share);
    answer.line("overhead of probes", format!("{:.2}%", probes_share * 100.0));
    answer.value("overhead_of_probes", probes_share);
    answer.line("overhead of a processor", format!("{:.2}%", of_processor * 100.0));
    answer.value("overhead_of_a_processor", of_processor);
    let by = if is_sampled { "by samples" } else { "assumed" };
    answer.line("probes of a call", format!("{call_ns:.0} ns, {by}"));
    answer.value("probe_call_ns", call_ns);
    answer.value("probe_call_sampled", is_sampled);
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

/// CPU time after which `status` says how much of it samples cover.
const LEAST_CPU_NS: u64 = 1_000_000_000;

#[allow(clippy::cast_precision_loss)] // Nanoseconds of some years are exact.
fn add_sampling(answer: &mut Answer, sampling: &SamplingFigures) {
    let cpu = &sampling.cpu;
    let TimerFigures { engine, interval_ns, signal, refused, kernel_refused } = &sampling.timers;
    let (interval_ns, signal, refused) = (*interval_ns, *signal, *refused);
    let name = engine.engine.name();
    let interval = units::duration_text(interval_ns);
    let by = signal.map_or_else(String::new, |signal| format!(" by {signal}"));
    answer.line("cpu samples", format!("{} ({name}{by}, every {interval})", cpu.samples));
    answer.value("cpu_samples", cpu.samples);
    answer.value("cpu_engine", name);
    if let Some(reason) = &engine.reason {
        answer.line("cpu engine", format!("{name}, because {reason}"));
    }
    answer.value("cpu_engine_reason", engine.reason.clone());
    add_kernel_frames(answer, &engine.kernel, *kernel_refused);
    answer.value("cpu_signal", signal);
    answer.value("walker_stacks_compared", sampling.compared as u64);
    if sampling.random_walks > 0 {
        answer.add("random walks", sampling.random_walks);
    }
    if let (looks, threads @ 1..) = sampling.looks {
        answer.line("waiting", format!("{looks} looks at {threads} threads"));
    }
    answer.value("off_cpu_looks", sampling.looks.0);
    let (waits, parks) = (sampling.lock_waits.waits, sampling.lock_waits.other_parks);
    answer.line("lock waits", format!("{waits}, {parks} of them other parks"));
    answer.value("lock_waits", waits);
    answer.value("other_parks", parks);
    answer.add("parks counted", sampling.counts_parks);
    answer.add("lock waits dropped", sampling.lock_waits.dropped);
    answer.add("lock waits lost", sampling.lock_waits.lost);
    answer.add("lock seconds skipped", sampling.lock_waits.seconds_skipped);
    if let Some(statements) = sampling.statements {
        answer.add("sql executions", statements.executions);
        answer.add("slow sql dropped", statements.dropped);
        answer.add("sql lost", statements.lost);
    }
    add_allocation_figures(answer, sampling);
    add_trace_figures(answer, sampling);
    if let Some(why) = &sampling.stopped {
        answer.line("cpu samples stopped", why);
    }
    answer.value("cpu_samples_stopped", sampling.stopped.as_ref().map(ToString::to_string));
    answer.value("cpu_interval_ns", interval_ns);
    answer.add("cpu samples truncated", cpu.truncated);
    answer.add("cpu samples without stack", cpu.without_stack);
    answer.add("cpu samples dropped", cpu.dropped);
    // A little time says little.
    let covered = (cpu.cpu_ns >= LEAST_CPU_NS).then(|| cpu.taken_ns as f64 / cpu.cpu_ns as f64);
    if let Some(share) = covered {
        answer.line("cpu samples cover", format!("{:.1}% of CPU time", share * 100.0));
    }
    answer.value("cpu_samples_cover", covered);
    answer.line("cpu samples took", format!("{:.2}%", cpu.cost_share * 100.0));
    answer.value("cpu_samples_took", cpu.cost_share);
    if refused > 0 {
        let why = format!(
            "{refused} (ulimit -i), so some threads are not sampled; engine=itimer needs none"
        );
        answer.line("cpu timers refused", why);
    }
    answer.value("cpu_timers_refused", refused);
}

fn add_kernel_frames(answer: &mut Answer, kernel: &KernelFrames, refused: u64) {
    let without = match refused {
        0 => String::new(),
        _ => format!(", not of {refused} threads (perf_event_mlock_kb, max_memory)"),
    };
    answer.line("kernel frames", format!("{kernel}{without}"));
    answer.value("cpu_kernel_frames", kernel.are_there);
    answer.value("cpu_kernel_reason", kernel.reason.clone());
    answer.value("cpu_kernel_refused", refused);
}

fn add_throttled(answer: &mut Answer, throttled: &[(Method, Throttled)]) {
    for (method, left) in throttled.iter().take(SHOWN) {
        let Throttling { since_unix_ns, calls_per_s, mean_ns } = &left.why;
        let since = utc_text(*since_unix_ns);
        // Those do not come back by themselves.
        let compiled_out = if left.is_compiled_out { "compiled out, " } else { "" };
        let why = format!(
            "since {since}, {} calls/s, average {}, {compiled_out}{}",
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
        let Throttling { since_unix_ns, calls_per_s, mean_ns } = &left.why;
        let why = json!({
            "since_ns": since_unix_ns, "calls_per_s": calls_per_s, "mean_ns": mean_ns,
            "is_compiled_out": left.is_compiled_out,
        });
        with_name(method, why)
    });
    answer.value("throttled", all.collect::<Vec<Value>>());
}

/// Adds classes that wait or were given up, with the reasons; text shows the first ones.
fn add_postponed(answer: &mut Answer, postponed: &[Postponed], one: &str) {
    let with_next = |postponed: &Postponed| {
        let next = if postponed.is_given_up { "given up" } else { "tried again for a minute" };
        format!("{postponed}; {next}")
    };
    let reasons: Vec<String> = postponed.iter().map(with_next).collect();
    for reason in reasons.iter().take(POSTPONED) {
        answer.line(one, reason);
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
fn add_self_tests(answer: &mut Answer, results: &SelfTestFigures) {
    answer.line("compiled-out probes", results.compiled_out());
    answer.value("compiled_out_probes", results.compiled_out());
    answer.add("probe call site", results.call_site());
    answer.add("thread word", results.thread_word());
    answer.add("virtual thread events", results.events.text());
    answer.add("allocated bytes of calls", results.allocated_bytes());
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
    set("trace", traces_text(&status.recording.traces));
    set("overhead", share_text(status.overhead.budget));
    set("max_memory", limit::text(status.memory.max_bytes));
    set("max_mb_per_hour", megabytes_text(status.log.hour_budget));
    if status.clock.source == "monotonic" {
        set("clock", status.clock.source.to_owned());
    }
    if status.self_tests.compiled_out() == "plain" {
        set("probe", "plain".to_owned());
    }
    if let Some(sampling) = &status.sampling {
        set("alloc", alloc_text(sampling.allocations.chosen_bytes));
    }
    for (key, value) in &options {
        answer.line(key, value);
    }
    answer.value("options", json!(options));
}
