//! Answers on methods, calls and threads.

use std::borrow::Cow;

use log_format::human;
use log_format::method_state::MethodState;
use log_format::writer::one_line;
use serde_json::{Map, Value, json};

use super::answer::{Answer, SHOWN};
use super::blocked;
use crate::drain::hot_methods::{Hottest, Sum};
use crate::drain::hot_samples::{HotSampled, SampledName};
use crate::drain::hot_sums::{EventSum, HotEvent, HotEvents};
use crate::drain::in_flight::{BusyThread, InFlight, OUTERMOST, RunningCall};
use crate::instrument::method_states::MethodStates;
use crate::instrument::methods::Method;
use crate::request::TopMethod;
use crate::sampling::thread_now::{StatementNow, ThreadNow};
use crate::sampling::waiting::Waiting;
use crate::sys::clock;

/// A method as JSON shows it.
pub(super) fn name_value(method: &Method) -> Value {
    json!({
        "loader": method.class.loader,
        "class": method.class.name,
        "method": method.name,
        "descriptor": method.descriptor,
    })
}

/// The names of a method and further values, in one object.
pub(super) fn with_name(method: &Method, values: Value) -> Value {
    match (name_value(method), values) {
        (Value::Object(mut all), Value::Object(values)) => {
            all.extend(values);
            Value::Object(all)
        }
        (name, _) => name,
    }
}

pub(super) fn add_top(answer: &mut Answer, top: &Hottest, names: &[TopMethod]) {
    answer.add_moment("since", top.since_ns);
    let covers = human::duration(top.covers_ns);
    let why = if top.is_short { ", less than a minute: all since the run began" } else { "" };
    answer.line("covers", format!("{covers}{why}"));
    answer.value("covers_ns", top.covers_ns);
    answer.add("methods called", top.called as u64);
    let mut methods = Vec::new();
    for (rank, ((_, sum), named)) in (1..).zip(top.methods.iter().zip(names)) {
        let TopMethod { method, was_throttled, was_muted } = named;
        let Sum { calls, throws, total_ticks, self_ticks, max_ticks } = *sum;
        let [self_ns, total_ns, max_ns] =
            [self_ticks, total_ticks, max_ticks].map(clock::ticks_to_ns);
        let line = format!(
            "self {}, total {}, longest {}, calls {calls}{}, throws {throws}, {}",
            human::duration(self_ns),
            human::duration(total_ns),
            human::duration(max_ns),
            if *was_throttled || *was_muted { "+" } else { "" },
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
                "was_muted": was_muted,
            }),
        ));
    }
    if names.iter().any(|method| method.was_throttled || method.was_muted) {
        let why =
            "more calls, not counted: the method was throttled or muted for a time in this run";
        answer.line("+", why);
    }
    answer.value("methods", methods);
    if let Some(sampled) = &top.sampled {
        add_sampled(answer, sampled);
    }
    add_events(answer, &top.events);
}

/// The most characters of a statement in a line.
const LONGEST_STATEMENT: usize = 200;

/// Adds lock waits, statements, allocations and exceptions.
fn add_events(answer: &mut Answer, events: &HotEvents) {
    let HotEvents { locks, lock_seconds_skipped, statements, allocations, exceptions } = events;
    let mut rows = Vec::new();
    for event in locks {
        let (waits, ns) = sums(event);
        answer.line("lock", format!("{} in {waits} waits, {}", human::duration(ns), named(event)));
        rows.push(event_value(event, "lock", json!({ "waits": waits, "total_ns": ns })));
    }
    answer.value("locks", std::mem::take(&mut rows));
    if *lock_seconds_skipped > 0 {
        answer.line("lock waits not counted", format!("in {lock_seconds_skipped} s of the run"));
    }
    answer.value("lock_seconds_skipped", *lock_seconds_skipped);
    for event in statements {
        let (executions, ns) = sums(event);
        let throws = event.sum.throws.max(0);
        let threw = if throws > 0 { format!(", {throws} threw") } else { String::new() };
        let plural = if executions == 1 { "" } else { "s" };
        let method = event.method.as_ref().map(|method| format!(", {}", method.line_name()));
        let line = format!(
            "{} in {executions} execution{plural}{threw}{}, {}",
            human::duration(ns),
            method.unwrap_or_default(),
            short(&event.class),
        );
        answer.line("sql", line);
        let values = json!({ "executions": executions, "throws": throws, "total_ns": ns });
        rows.push(event_value(event, "statement", values));
    }
    answer.value("statements", std::mem::take(&mut rows));
    for event in allocations {
        let (objects, bytes) = sums(event);
        let line = format!("{} in {objects} objects, {}", human::bytes(bytes), named(event));
        answer.line("allocated", line);
        rows.push(json!({ "class": event.class, "objects": objects, "bytes": bytes }));
    }
    answer.value("allocations", std::mem::take(&mut rows));
    for event in exceptions {
        let (thrown, began) = sums(event);
        let line = format!("{began} began, {thrown} calls ended, {}", named(event));
        answer.line("exceptions", line);
        rows.push(event_value(event, "exception", json!({ "began": began, "thrown": thrown })));
    }
    answer.value("exceptions", rows);
}

fn sums(event: &HotEvent) -> (u64, u64) {
    let EventSum { count, amount, .. } = event.sum;
    (count.max(0).unsigned_abs(), amount.max(0).unsigned_abs())
}

/// The beginning of a statement.
fn short(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(LONGEST_STATEMENT) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()).into(),
        None => text.into(),
    }
}

/// The class, and the method if it is known.
fn named(event: &HotEvent) -> String {
    let method = event.method.as_ref().map(|method| format!(", {}", method.line_name()));
    one_line(&event.class) + &method.unwrap_or_default()
}

/// An object with the class under `key`, the method, which is `null` if it is not known, and values.
fn event_value(event: &HotEvent, key: &str, values: Value) -> Value {
    let method = event.method.as_ref().map_or(Value::Null, name_value);
    let mut all = Map::from_iter([(key.to_owned(), json!(event.class)), ("method".into(), method)]);
    if let Value::Object(values) = values {
        all.extend(values);
    }
    Value::Object(all)
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
pub(super) fn add_states(answer: &mut Answer, states: &MethodStates) {
    for (method, state) in states.methods.iter().take(SHOWN) {
        answer.line(state.name(), method.line_name());
    }
    let more = states.methods.len().saturating_sub(SHOWN) + states.more_methods;
    if more > 0 {
        answer.line("more methods", more);
    }
    for (method, state, why) in states.named.iter().take(SHOWN) {
        let why = why.map_or_else(String::new, |why| format!("; {why}"));
        answer.line(state.name(), format!("{method}{why}"));
    }
    for (class, others) in states.others.iter().take(SHOWN) {
        answer.line("without probes", format!("{class}{others}"));
    }
    let more = states.others.len().saturating_sub(SHOWN) + states.more_others;
    if more > 0 {
        answer.line("more classes", more);
    }
    for postponed in states.postponed.iter().take(SHOWN) {
        answer.line(MethodState::Postponed.name(), postponed);
    }
    let methods = states.methods.iter();
    let methods =
        methods.map(|(method, state)| with_name(method, json!({ "state": state.name() })));
    answer.value("methods", methods.collect::<Vec<Value>>());
    answer.value("more_methods", states.more_methods as u64);
    let named = states.named.iter();
    let named = named.map(|(method, state, why)| match why {
        Some(why) => json!({ "method": method, "state": state.name(), "reason": why }),
        None => json!({ "method": method, "state": state.name() }),
    });
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

/// Calls in progress, and what their threads wait for. `threads` has platform threads, and virtual ones that wait for a
/// lock or execute a statement.
pub(super) fn add_in_flight(answer: &mut Answer, in_flight: &InFlight, threads: &[ThreadNow]) {
    // The carrier of a virtual thread does not wait for it.
    let now = |busy: &BusyThread| {
        let is_it = |thread: &&ThreadNow| match busy.is_virtual {
            true => thread.is_virtual && thread.name.java_id == busy.java_id,
            false => !thread.is_virtual && thread.os_id == busy.os_id,
        };
        // A pool's thread may have waited for its next task when it was looked at.
        let began_in_call = |thread: &&ThreadNow| {
            let (wait, call) = (thread.lock.as_ref(), busy.calls.first());
            wait.zip(call).is_none_or(|(wait, call)| wait.start_ticks >= call.start_ticks)
        };
        threads.iter().find(is_it).filter(began_in_call)
    };
    blocked::add_deadlocks(answer, threads);
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
        let Some(now) = now(thread) else { continue };
        if now.lock.is_some() {
            answer.line("waits", format!("{}{}", doing(now), blocked::text(now, threads)));
        }
        if let Some(StatementNow { text, ns }) = &now.statement {
            answer.line("sql", format!("for {}, {}", human::duration(*ns), short(text)));
        }
    }
    let value = |busy: &BusyThread| {
        let now = now(busy);
        let blocked_on = now.map_or(Value::Null, |thread| blocked::value(thread, threads));
        thread_value(busy, blocked_on, now.map_or(Value::Null, statement_value))
    };
    answer.value("threads", in_flight.threads.iter().map(value).collect::<Vec<Value>>());
    if in_flight.more_threads > 0 {
        answer.line("more threads", in_flight.more_threads);
    }
    answer.value("more_threads", in_flight.more_threads as u64);
}

/// What a thread does, as the log has it.
fn doing(thread: &ThreadNow) -> &'static str {
    thread.waiting.map_or("running", Waiting::name)
}

pub(super) fn add_threads(answer: &mut Answer, threads: &[ThreadNow], calls: &InFlight) {
    let entry = |thread: &ThreadNow| {
        let busy = calls.threads.iter().find(|busy| busy.os_id == thread.os_id);
        busy.and_then(|busy| busy.calls.first())
    };
    blocked::add_deadlocks(answer, threads);
    for thread in threads.iter().take(SHOWN) {
        let entry = entry(thread).map_or_else(String::new, |call| {
            format!(", {} for {}", call.method.line_name(), human::duration(call.ns))
        });
        let statement =
            thread.statement.as_ref().map_or_else(String::new, |StatementNow { text, ns }| {
                format!(", SQL for {}, {}", human::duration(*ns), short(text))
            });
        answer.line(
            "thread",
            format!(
                "{} (java id {}, os id {}) {}{}, {:.1}% of a processor{entry}{statement}",
                one_line(&thread.name.name),
                thread.name.java_id,
                thread.os_id,
                doing(thread).replace('_', " "),
                blocked::text(thread, threads),
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
            "blocked_on": blocked::value(thread, threads),
            "entry": entry,
            "statement": statement_value(thread),
        })
    };
    answer.value("threads", threads.iter().map(value).collect::<Vec<_>>());
}

/// The SQL statement that a thread executes, or null.
fn statement_value(thread: &ThreadNow) -> Value {
    let value = |now: &StatementNow| json!({ "text": now.text, "running_ns": now.ns });
    thread.statement.as_ref().map_or(Value::Null, value)
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

fn thread_value(thread: &BusyThread, blocked_on: Value, statement: Value) -> Value {
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
        "blocked_on": blocked_on,
        "statement": statement,
    })
}
