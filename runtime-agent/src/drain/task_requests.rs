//! The requests that a profile task records. Their calls are held back until the request has ended, because only then
//! it is known whether it took long enough.
//!
//! ```text
//! in the ring:   a  b  a  c  R          calls in the order of their ends; R is the request itself
//! held back:    [a  b  a  c  R]         until the next round has drained all rings: a virtual thread may have left
//!                                       calls in several
//! short R:       forgotten              long R: given to the task
//! ```

use std::cmp::Reverse;
use std::collections::HashMap;

use log_format::ids::{JavaThreadId, ThreadId};
use log_format::rows::CallRow;

use crate::probe::task_requests;

/// Most calls that are kept of a request: the longest.
const MOST_CALLS: usize = 10_000;
/// Most calls held back for all threads, some 15 MB; further ones are dropped and counted.
const MOST_HELD: usize = 200_000;
/// Moments of one thread that were converted at different times may differ by this.
const CLOCK_SLACK_NS: u64 = 1_000_000;

/// A thread that runs a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RequestThread {
    Platform(ThreadId),
    Virtual(JavaThreadId),
}

impl RequestThread {
    /// The virtual thread with this number, or without one, the platform thread.
    pub(crate) const fn of(number: JavaThreadId, own: ThreadId) -> Self {
        if number.is_none() { Self::Platform(own) } else { Self::Virtual(number) }
    }
}

/// Which requests are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// They took at least so long.
    pub min_duration_ns: u64,
    /// Their calls are recorded that take at least so long.
    pub least_call_ns: u64,
    /// If there are too many, their least duration is raised up to this.
    pub most_call_ns: u64,
}

/// A request that was long enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EndedRequest {
    pub call: CallRow,
    /// Its calls in the order of their ends, itself included.
    pub calls: Vec<CallRow>,
    /// Calls that are missing.
    pub dropped: u64,
    /// Shorter calls were not recorded.
    pub least_call_ns: u64,
}

/// The calls of a thread.
#[derive(Debug, Default)]
struct Held {
    calls: Vec<CallRow>,
    /// Requests that have ended, with the number of the round.
    ended: Vec<(CallRow, u64)>,
    dropped: u64,
}

/// The calls that are held back.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    wanted: Option<Wanted>,
    /// They began at this moment or later.
    from_ns: u64,
    threads: HashMap<RequestThread, Held>,
    /// Calls held in all.
    count: usize,
    round: u64,
    /// Threads had no room for calls in this round.
    has_overflowed: bool,
    /// When it was changed from which duration on calls are recorded, and to what.
    least_call: Vec<(u64, u64)>,
    /// Calls in requests that are not known, because their threads had no room for any other.
    lost: u64,
}

impl Requests {
    /// Begins to hold calls back, for a new task: of requests that begin at this moment or later.
    pub(crate) fn begin(&mut self, wanted: Wanted, from_ns: u64) {
        let least_call = vec![(from_ns, wanted.least_call_ns)];
        *self = Self { wanted: Some(wanted), from_ns, least_call, ..Self::default() };
    }

    /// The clock has jumped: what is held has other times than what comes, and requests in progress are not whole.
    pub(crate) fn clock_jumped(&mut self, now_ns: u64) {
        if let Some(Wanted { least_call_ns, .. }) = self.wanted {
            self.from_ns = now_ns;
            self.least_call = vec![(now_ns, least_call_ns)];
            self.threads.clear();
            self.count = 0;
        }
    }

    /// Forgets all calls, and holds none back any more.
    pub(crate) fn end(&mut self) {
        *self = Self::default();
    }

    /// Adds a call in a request, or the request itself. Calls of a thread come in the order of their ends.
    pub(crate) fn add(&mut self, thread: RequestThread, call: &CallRow, is_request: bool) {
        if self.wanted.is_none() {
            return;
        }
        let held = self.threads.entry(thread).or_default();
        if self.count >= MOST_HELD && !is_request {
            held.dropped += 1;
            return;
        }
        held.calls.push(call.clone());
        self.count += 1;
        if is_request {
            held.ended.push((call.clone(), self.round));
        } else if held.calls.len() >= 2 * MOST_CALLS && held.ended.is_empty() {
            let dropped = keep_longest(&mut held.calls, MOST_CALLS);
            held.dropped += dropped as u64;
            self.count -= dropped;
        }
    }

    /// Adds the calls that are in progress in a thread, innermost first, if the endpoint is one of them.
    pub(crate) fn add_unfinished(&mut self, thread: RequestThread, open: &[CallRow]) {
        if self.wanted.is_none() {
            return;
        }
        let request = open.iter().rposition(|call| task_requests::is_endpoint(call.method));
        // One that has ended since then is known.
        let is_same = |(ended, _): &(CallRow, u64), open: &CallRow| {
            ended.start_ns.abs_diff(open.start_ns) <= CLOCK_SLACK_NS
        };
        let ended = self.threads.get(&thread).map_or(&[][..], |held| &held.ended);
        let open_request = request.and_then(|request| open.get(request));
        if open_request.is_some_and(|open| ended.iter().any(|ended| is_same(ended, open))) {
            return;
        }
        for (at, call) in open.iter().enumerate().take(request.map_or(0, |request| request + 1)) {
            self.add(thread, call, Some(at) == request);
        }
    }

    /// Notes that a thread dropped calls because its ring was full.
    pub(crate) fn add_dropped(&mut self, thread: RequestThread, calls: u64) {
        if calls == 0 || self.wanted.is_none() {
            return;
        }
        self.has_overflowed = true;
        match self.threads.get_mut(&thread) {
            Some(held) => held.dropped += calls,
            None => self.lost += calls,
        }
    }

    /// Calls in requests that are not known.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// If threads had no room for calls since the last call of this, from which duration on they are to be recorded
    /// now: twice the one before.
    pub(crate) fn raise_least_call(&mut self, now_ns: u64) -> Option<u64> {
        let wanted = self.wanted.as_mut()?;
        let has_overflowed = std::mem::take(&mut self.has_overflowed);
        if !has_overflowed || wanted.least_call_ns >= wanted.most_call_ns {
            return None;
        }
        wanted.least_call_ns = wanted.least_call_ns.saturating_mul(2).min(wanted.most_call_ns);
        self.least_call.push((now_ns, wanted.least_call_ns));
        Some(wanted.least_call_ns)
    }

    /// Which requests are recorded, if any are.
    pub(crate) fn wanted(&self) -> Option<Wanted> {
        self.wanted
    }

    /// The requests that were seen to end in this round.
    pub(crate) fn ended_now(&self) -> impl Iterator<Item = &CallRow> {
        let ended = self.threads.values().flat_map(|held| &held.ended);
        ended.filter(|(_, round)| *round == self.round).map(|(call, _)| call)
    }

    /// All rings were drained. Takes the requests that had ended before and were long enough; with `all`, also those
    /// of this round. Those that ended first come first.
    pub(crate) fn end_round(&mut self, all: bool) -> Vec<EndedRequest> {
        let Some(wanted) = self.wanted else { return Vec::new() };
        let before = if all { u64::MAX } else { self.round };
        let mut ended = Vec::new();
        for (thread, held) in &mut self.threads {
            let is_virtual = matches!(thread, RequestThread::Virtual(_));
            for (call, _) in held.ended.extract_if(.., |(_, round)| *round < before) {
                let before = held.calls.len();
                let mut calls = take_calls(&mut held.calls, &call);
                self.count -= before - held.calls.len();
                // If the next one has begun, the dropped calls of one that is forgotten may be its.
                if call.start_ns < self.from_ns || call.total_ns < wanted.min_duration_ns {
                    if held.calls.is_empty() {
                        held.dropped = 0;
                    }
                    continue;
                }
                let mut dropped = std::mem::take(&mut held.dropped);
                if is_virtual {
                    calls.sort_by_key(|call| (end_ns(call), call.total_ns));
                }
                dropped += keep_longest(&mut calls, MOST_CALLS) as u64;
                let least_call_ns = least_in(&self.least_call, &call);
                ended.push(EndedRequest { call, calls, dropped, least_call_ns });
            }
        }
        self.threads.retain(|_, held| !held.calls.is_empty());
        self.round += 1;
        ended.sort_by_key(|request| end_ns(&request.call));
        ended
    }

    /// Approximate memory that they use.
    pub(crate) fn bytes(&self) -> usize {
        let of = |held: &Held| {
            held.calls.capacity() * size_of::<CallRow>()
                + held.ended.capacity() * size_of::<(CallRow, u64)>()
        };
        self.threads.capacity() * size_of::<(RequestThread, Held)>()
            + self.threads.values().map(of).sum::<usize>()
    }
}

/// The highest of these durations while a request lasted.
fn least_in(changes: &[(u64, u64)], request: &CallRow) -> u64 {
    let end_ns = end_ns(request);
    let before = changes.iter().rfind(|(at_ns, _)| *at_ns <= request.start_ns);
    let during = changes.iter().filter(|(at_ns, _)| (request.start_ns..end_ns).contains(at_ns));
    before.into_iter().chain(during).map(|(_, ns)| *ns).max().unwrap_or(0)
}

fn end_ns(call: &CallRow) -> u64 {
    call.start_ns.saturating_add(call.total_ns)
}

/// Takes the calls of a request out of those of its thread. Forgets those that ended before it began: their request's
/// end was not seen.
fn take_calls(held: &mut Vec<CallRow>, request: &CallRow) -> Vec<CallRow> {
    let from_ns = request.start_ns.saturating_sub(CLOCK_SLACK_NS);
    let to_ns = end_ns(request).saturating_add(CLOCK_SLACK_NS);
    let own = held.extract_if(.., |call| end_ns(call) <= to_ns);
    let mut calls: Vec<CallRow> = own.filter(|call| call.start_ns >= from_ns).collect();
    // The calls of the next request may lie within the slack.
    if let Some(at) = calls.iter().position(|call| call == request) {
        let next = calls.extract_if(at + 1.., |call| call.start_ns >= end_ns(request));
        held.splice(0..0, next);
    }
    calls
}

/// Keeps the longest calls, at most so many, in their order. Returns how many were dropped.
pub(super) fn keep_longest(calls: &mut Vec<CallRow>, most: usize) -> usize {
    let Some(more) = calls.len().checked_sub(most).filter(|more| *more > 0) else { return 0 };
    let mut durations: Vec<u64> = calls.iter().map(|call| call.total_ns).collect();
    durations.sort_unstable_by_key(|ns| Reverse(*ns));
    let least = durations.get(most.saturating_sub(1)).copied().unwrap_or(u64::MAX);
    // Of those that are as long as the shortest that is kept, the first are dropped: the request is the last.
    let mut equal = durations.iter().filter(|ns| **ns >= least).count().saturating_sub(most);
    calls.retain(|call| {
        let drops = call.total_ns < least || (call.total_ns == least && equal > 0);
        equal -= usize::from(drops && call.total_ns == least);
        !drops
    });
    more
}

#[cfg(test)]
mod tests {
    use log_format::ids::{MethodId, StackId};
    use log_format::rows::Exit;

    use super::*;

    const MS: u64 = 1_000_000;
    const THREAD: RequestThread = RequestThread::Platform(ThreadId::new(7));

    fn call(start_ms: u64, ms: u64) -> CallRow {
        CallRow {
            start_ns: start_ms * MS,
            thread: ThreadId::new(7),
            stack: StackId::new(2),
            method: MethodId::new(3),
            total_ns: ms * MS,
            self_ns: 0,
            exit: Exit::Return,
            allocated_bytes: None,
        }
    }

    fn recording(min_ms: u64) -> Requests {
        let mut requests = Requests::default();
        let min_duration_ns = min_ms * MS;
        let wanted = Wanted { min_duration_ns, least_call_ns: MS, most_call_ns: 3 * MS };
        requests.begin(wanted, 100 * MS);
        requests
    }

    fn add(requests: &mut Requests, calls: &[(u64, u64)], request: (u64, u64)) {
        for (start, ms) in calls {
            requests.add(THREAD, &call(*start, *ms), false);
        }
        requests.add(THREAD, &call(request.0, request.1), true);
    }

    fn shape(request: &EndedRequest) -> Vec<(u64, u64)> {
        request.calls.iter().map(|call| (call.start_ns / MS, call.total_ns / MS)).collect()
    }

    #[test]
    fn a_long_request_is_given_in_the_next_round_with_its_calls() {
        let mut requests = recording(50);
        add(&mut requests, &[(210, 5), (220, 20)], (200, 60));
        assert_eq!(requests.ended_now().count(), 1);
        assert_eq!(requests.end_round(false), []);
        assert_eq!(requests.ended_now().count(), 0);
        // The next request has begun meanwhile.
        requests.add(THREAD, &call(270, 4), false);
        let ended = requests.end_round(false);
        assert_eq!(ended.iter().map(shape).collect::<Vec<_>>(), [[(210, 5), (220, 20), (200, 60)]]);
        add(&mut requests, &[(280, 30)], (265, 70));
        let next = requests.end_round(true);
        assert_eq!(shape(&next[0]), [(270, 4), (280, 30), (265, 70)]);
        assert!(requests.threads.is_empty() && requests.count == 0);
    }

    #[test]
    fn requests_that_are_short_or_began_too_early_are_forgotten() {
        let mut requests = recording(50);
        add(&mut requests, &[(210, 5)], (200, 49));
        add(&mut requests, &[(252, 40)], (250, 50));
        let ended = requests.end_round(true);
        assert_eq!(ended.iter().map(shape).collect::<Vec<_>>(), [[(252, 40), (250, 50)]]);
        add(&mut requests, &[(120, 70)], (99, 200));
        // Its end was not seen: a call is left that belongs to none.
        requests.add(THREAD, &call(400, 10), false);
        add(&mut requests, &[(510, 70)], (500, 100));
        let ended = requests.end_round(true);
        assert_eq!(ended.iter().map(shape).collect::<Vec<_>>(), [[(510, 70), (500, 100)]]);
        requests.end();
        add(&mut requests, &[(120, 70)], (200, 200));
        assert_eq!((requests.end_round(true), requests.count), (Vec::new(), 0));
    }

    /// Two requests end within a round, microseconds apart.
    #[test]
    fn requests_that_follow_at_once_keep_their_calls_apart() {
        let mut requests = recording(10);
        let at = |start_us: u64, us: u64| CallRow {
            start_ns: start_us * 1_000,
            total_ns: us * 1_000,
            ..call(0, 0)
        };
        requests.add(THREAD, &at(200_000, 19_990), false);
        requests.add(THREAD, &at(200_000, 20_000), true);
        requests.add(THREAD, &at(220_010, 300), false);
        requests.add(THREAD, &at(220_400, 15_000), false);
        requests.add(THREAD, &at(220_005, 20_000), true);
        let ended = requests.end_round(true);
        let counts: Vec<usize> = ended.iter().map(|request| request.calls.len()).collect();
        assert_eq!(counts, [2, 3]);
    }

    #[test]
    fn calls_of_a_virtual_thread_come_from_several_carriers() {
        let mut requests = recording(10);
        let thread = RequestThread::Virtual(JavaThreadId::new(9));
        requests.add(thread, &call(230, 20), false);
        requests.add(thread, &call(200, 60), true);
        assert_eq!(requests.end_round(false), []);
        requests.add(thread, &call(205, 9), false);
        let ended = requests.end_round(false);
        assert_eq!(shape(&ended[0]), [(205, 9), (230, 20), (200, 60)]);
    }

    #[test]
    fn the_longest_calls_are_kept_and_the_others_counted() {
        let mut requests = recording(10);
        for n in 0..45_000 {
            let (start_ns, total_ns) = (200 * MS + n * 1_000, 500 + n % 3 * 100);
            requests.add(THREAD, &CallRow { start_ns, total_ns, ..call(0, 0) }, false);
            assert!(requests.count <= 2 * MOST_CALLS);
        }
        requests.add_dropped(THREAD, 5);
        requests.add(THREAD, &call(200, 100), true);
        let ended = requests.end_round(true);
        assert_eq!(ended[0].calls.len(), MOST_CALLS);
        assert_eq!(ended[0].dropped, 45_001 + 5 - MOST_CALLS as u64);
        assert!(
            ended[0].calls.iter().all(|call| call.total_ns == 700 || call.total_ns == 100 * MS)
        );
        assert_eq!(ended[0].calls.last(), Some(&call(200, 100)));
        let mut calls = vec![call(1, 5), call(2, 5), call(3, 9), call(4, 5)];
        assert_eq!(keep_longest(&mut calls, 2), 2);
        assert_eq!(calls, [call(3, 9), call(4, 5)]);
    }

    #[test]
    fn threads_without_room_record_fewer_calls() {
        let mut requests = recording(10);
        requests.add(THREAD, &call(200, 1), false);
        assert_eq!(requests.raise_least_call(210 * MS), None);
        let raised = [220, 300, 400].map(|at_ms| {
            requests.add_dropped(THREAD, 5);
            requests.raise_least_call(at_ms * MS)
        });
        assert_eq!(raised, [Some(2 * MS), Some(3 * MS), None]);
        requests.add_dropped(RequestThread::Platform(ThreadId::new(8)), 5);
        requests.add_dropped(THREAD, 0);
        assert_eq!((requests.raise_least_call(500 * MS), requests.lost()), (None, 5));
        let least = |start, ms| least_in(&requests.least_call, &call(start, ms));
        assert_eq!([least(110, 50), least(110, 150), least(230, 20)], [MS, 2 * MS, 2 * MS]);
        assert_eq!([least(230, 90), least(310, 10)], [3 * MS; 2]);
    }

    /// Its stack was read before its ring.
    #[test]
    fn a_request_that_has_just_ended_is_not_in_progress() {
        let _turn = crate::probe::tests::turn();
        let mut held = recording(10);
        add(&mut held, &[(210, 5)], (200, 60));
        task_requests::assign(MethodId::new(3), 1);
        held.add_unfinished(THREAD, &[call(200, 59)]);
        held.add_unfinished(THREAD, &[call(270, 20)]);
        task_requests::assign(MethodId::new(3), 0);
        let ended = held.end_round(true);
        let starts: Vec<u64> = ended.iter().map(|request| request.call.start_ns / MS).collect();
        assert_eq!(starts, [200, 270]);
    }

    #[test]
    fn requests_in_progress_when_the_clock_jumps_are_forgotten() {
        let mut requests = recording(10);
        requests.add(THREAD, &call(200, 20), false);
        requests.clock_jumped(50 * MS);
        add(&mut requests, &[(60, 5)], (40, 60));
        add(&mut requests, &[(110, 5)], (105, 20));
        let ended = requests.end_round(true);
        assert_eq!(ended.iter().map(shape).collect::<Vec<_>>(), [[(110, 5), (105, 20)]]);
    }

    #[test]
    fn what_all_threads_hold_is_bounded() {
        let mut requests = recording(10);
        for n in 0..250_000_u32 {
            let thread = RequestThread::Platform(ThreadId::new(1 + n % 50));
            requests.add(thread, &call(200, 1), false);
        }
        assert_eq!(requests.count, MOST_HELD);
        assert!(requests.bytes() < 40 << 20);
        requests.add(RequestThread::Platform(ThreadId::new(1)), &call(200, 60), true);
        assert_eq!(requests.end_round(true)[0].dropped, 1_000);
    }
}
