//! Cuts a request into snapshots of its stack.
//!
//! The calls of a request are nested, and their rows are in the order of their ends. So of the calls in progress at a
//! moment, the innermost is the first in the rows:
//!
//! ```text
//! moments       0   1   2   3   4   5          rows: query, pay
//! pay           |=======================|
//! query               |=======|
//! innermost     p   p   q   q   p   p
//! ```
//!
//! Each row takes the moments within its time that no row before has taken. Its call path from the endpoint on is the
//! stack.

use std::collections::HashMap;
use std::sync::Arc;

use log_format::ids::{MethodId, StackId};

use crate::tasks::code_names::CodeNames;
use crate::tasks::samples::{Moment, ThreadSamples};
use crate::tasks::task::{Call, Request};

/// Most frames of a snapshot, as of SkyWalking's agent. The outermost are kept, so that trees have one root.
pub const MOST_FRAMES: usize = 500;

/// Most snapshots of a request: a quarter of an hour has 90,000 of 10 ms.
pub const MOST_SNAPSHOTS: u64 = 100_000;

/// The stack of a request at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The moment, in unix nanoseconds.
    pub time_ns: u64,
    /// Its number in the request, from 0.
    pub sequence: u32,
    /// Code signatures, the endpoint first. Equal stacks that follow each other share one.
    pub stack: Arc<[String]>,
}

/// The stacks of a request at its start and each `dump_period_ns` after it, before its end. Without `samples`, they
/// have the recorded calls alone.
#[must_use]
pub fn snapshots(
    request: &Request,
    dump_period_ns: u64,
    names: &CodeNames,
    samples: &ThreadSamples,
) -> Vec<Snapshot> {
    let period_ns = dump_period_ns.max(1);
    let count = request.total_ns.div_ceil(period_ns).min(MOST_SNAPSHOTS);
    let mut stacks = Stacks::new(request, names);
    let innermost = innermost(request, period_ns, usize::try_from(count).unwrap_or(0));
    let moments: Vec<Moment> = (0..)
        .zip(&innermost)
        .map(|(number, call)| Moment {
            at_ns: request.start_ns.saturating_add(period_ns.saturating_mul(number)),
            stack: stacks.id(*call),
            call: *call,
        })
        .collect();
    let deeper = samples.at(&moments, period_ns, &unrecorded_ns(&request.calls, &stacks.callers));
    let mut last: Option<Last> = None;
    let cut = (0..).zip(moments).zip(innermost.into_iter().zip(deeper));
    cut.map(|((sequence, moment), (call, deeper))| {
        let stack = match &last {
            Some(last) if last.call == call && last.deeper == deeper => Arc::clone(&last.stack),
            _ => stacks.with(call, deeper.as_deref().unwrap_or_default()),
        };
        last = Some(Last { call, deeper, stack: Arc::clone(&stack) });
        Snapshot { time_ns: moment.at_ns, sequence, stack }
    })
    .collect()
}

/// The stack of the snapshot before, and what it is made of.
struct Last {
    call: Option<usize>,
    deeper: Option<Arc<[String]>>,
    stack: Arc<[String]>,
}

/// The innermost call in progress at each moment, as an index of the request's calls.
fn innermost(request: &Request, period_ns: u64, count: usize) -> Vec<Option<usize>> {
    let place = |ns: u64| {
        let moment = ns.saturating_sub(request.start_ns).div_ceil(period_ns);
        usize::try_from(moment).unwrap_or(count).min(count)
    };
    let mut innermost = vec![None; count];
    // From each moment, the way to the next one that is not taken.
    let mut next: Vec<usize> = (0..=count).collect();
    for (index, call) in request.calls.iter().enumerate() {
        let end = place(call.start_ns.saturating_add(call.total_ns));
        let mut at = free(&mut next, place(call.start_ns));
        while at < end {
            if let Some(taken) = innermost.get_mut(at) {
                *taken = Some(index);
            }
            if let Some(step) = next.get_mut(at) {
                *step = at + 1;
            }
            at = free(&mut next, at + 1);
        }
    }
    innermost
}

/// The first free moment from `at` on. Shortens the way for the next search.
fn free(next: &mut [usize], at: usize) -> usize {
    let step = |next: &[usize], at: usize| next.get(at).copied().unwrap_or(at);
    let mut end = at;
    while step(next, end) != end {
        end = step(next, end);
    }
    let mut from = at;
    while step(next, from) != end {
        let after = step(next, from);
        if let Some(way) = next.get_mut(from) {
            *way = end;
        }
        from = after;
    }
    end
}

/// Makes the stacks of a request.
struct Stacks<'r> {
    request: &'r Request,
    names: &'r CodeNames,
    /// Methods of a call path before the endpoint.
    before: usize,
    /// For each call, the one around it.
    callers: Vec<Option<usize>>,
    exact: HashMap<Option<usize>, Vec<String>>,
}

impl<'r> Stacks<'r> {
    fn new(request: &'r Request, names: &'r CodeNames) -> Self {
        let before = names.path(request.stack).map_or(0, |path| path.len().saturating_sub(1));
        let callers = callers(&request.calls);
        Self { request, names, before, callers, exact: HashMap::new() }
    }

    /// The id of the call path in which this call is the innermost.
    fn id(&self, call: Option<usize>) -> StackId {
        call.and_then(|call| self.request.calls.get(call)).map_or(self.request.stack, |c| c.stack)
    }

    /// The stack in which this call is the innermost, with deeper frames.
    fn with(&mut self, call: Option<usize>, deeper: &[String]) -> Arc<[String]> {
        let Self { request, names, before, callers, exact } = self;
        let exact = exact.entry(call).or_insert_with(|| {
            let mut frames = frames(request, names, *before, callers, call);
            frames.truncate(MOST_FRAMES);
            frames
        });
        exact.iter().chain(deeper).take(MOST_FRAMES).cloned().collect()
    }
}

/// The frames of a call from the endpoint on. A call whose path was not kept is below the call around it.
fn frames(
    request: &Request,
    names: &CodeNames,
    before: usize,
    callers: &[Option<usize>],
    call: Option<usize>,
) -> Vec<String> {
    let kept = |stack| names.path(stack).filter(|path| path.len() > before);
    let mut without_path = Vec::new();
    let mut next = call;
    let path = loop {
        let index = next;
        let Some(call) = index.and_then(|index| request.calls.get(index)) else {
            break kept(request.stack).filter(|_| without_path.is_empty());
        };
        if let Some(path) = kept(call.stack) {
            break Some(path);
        }
        without_path.push(call.method);
        next = index.and_then(|index| callers.get(index).copied().flatten());
    };
    let path = path.unwrap_or_default().into_iter().skip(before);
    let methods = path.chain(without_path.into_iter().rev()).map(|id| names.signature(id));
    let methods: Vec<String> = methods.collect();
    // Nothing of it is known.
    if methods.is_empty() { vec![names.signature(MethodId::NONE)] } else { methods }
}

/// For each call, the time of its callees that are not recorded.
fn unrecorded_ns(calls: &[Call], callers: &[Option<usize>]) -> Vec<u64> {
    let of_callees = |call: &Call| call.total_ns.saturating_sub(call.self_ns);
    let mut unrecorded: Vec<u64> = calls.iter().map(of_callees).collect();
    for (call, caller) in calls.iter().zip(callers) {
        if let Some(ns) = caller.and_then(|caller| unrecorded.get_mut(caller)) {
            *ns = ns.saturating_sub(call.total_ns);
        }
    }
    unrecorded
}

/// For each call, the one around it: in reverse, callers come before callees, and those that end with a call's
/// caller come first.
fn callers(calls: &[Call]) -> Vec<Option<usize>> {
    let mut callers = vec![None; calls.len()];
    let mut around: Vec<(usize, u64)> = Vec::new();
    for (index, call) in calls.iter().enumerate().rev() {
        while around.last().is_some_and(|(_, start_ns)| *start_ns > call.start_ns) {
            around.pop();
        }
        if let Some(caller) = callers.get_mut(index) {
            *caller = around.last().map(|(index, _)| *index);
        }
        around.push((index, call.start_ns));
    }
    callers
}
