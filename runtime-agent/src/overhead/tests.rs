//! Tests that decide hours of a program's life at once.

use std::collections::HashMap;

use log_format::ids::MethodId;

use super::*;
use crate::drain::hot_methods::Recent;
use crate::drain::method_waits::Waits;
use crate::drain::run_sums::SampledProbes;
use crate::options::CpuShare;
use crate::sys::clock::{self, as_f64};
use crate::sys::run_delay::Delay;

const S: u64 = period_cost::SECOND_NS;
const NONE: [u32; 0] = [];

/// The numbers of these ids.
fn numbers(ids: Vec<MethodId>) -> Vec<u32> {
    ids.into_iter().map(MethodId::get).collect()
}

fn ids(numbers: &[u32]) -> Vec<MethodId> {
    numbers.iter().copied().map(MethodId::new).collect()
}

/// A program that calls each instrumented method at a fixed rate. Methods have plain numbers here.
struct Program {
    overhead: Overhead,
    now_ns: u64,
    /// Calls a second, self time of a call, and time of slow calls a second, in nanoseconds.
    methods: HashMap<u32, (u64, u64, u64)>,
    /// CPU time a second, the agent's part of it, and what pauses cost.
    cpu_ns: u64,
    own_ns: u64,
    paused_ns: u64,
    /// What a call costs by samples, as a multiple of its cost in a loop.
    times: u64,
    /// 0 if slow calls are within slow calls of the same method.
    outermost: u64,
    /// How often compiled code was discarded.
    discarded: u32,
    /// The first id that cannot be compiled out.
    end: u32,
}

impl Program {
    fn new(methods: &[(u32, u64, u64)]) -> Self {
        let methods = methods.iter().map(|(id, calls, ns)| (*id, (*calls, *ns, 0))).collect();
        let overhead = Overhead::new(Some(CpuShare::from_millionths(20_000)), 25.0);
        Self {
            overhead,
            now_ns: 100 * S,
            methods,
            cpu_ns: S,
            own_ns: 0,
            paused_ns: 0,
            times: 3,
            outermost: 1,
            discarded: 0,
            end: 10_000,
        }
    }

    /// Lets a second go by.
    fn second(&mut self) -> Vec<u32> {
        self.now_ns += S;
        let mut methods = HashMap::new();
        for (id, (calls, self_ns, slow_ns)) in &self.methods {
            let id = MethodId::new(*id);
            if !self.overhead.throttled().contains_key(&id) {
                let mut did = Recent { calls: *calls, slow_ns: *slow_ns, ..Recent::default() };
                did.self_ticks = clock::ns_to_ticks(calls * self_ns);
                did.total_ticks = did.self_ticks + clock::ns_to_ticks(slow_ns * self.outermost);
                methods.insert(id, did);
            }
        }
        let (now_ns, unix_ns) = (self.now_ns, self.now_ns);
        let (cpu_ns, own_ns, paused_ns) = (self.cpu_ns, self.own_ns, self.paused_ns);
        let calls: u64 = methods.values().map(|did| did.calls).sum();
        let sampled = SampledProbes { probes_ns: calls * 25 * self.times, all_ns: self.cpu_ns };
        let period =
            Period { now_ns, unix_ns, length_ns: S, cpu_ns, own_ns, paused_ns, sampled, methods };
        let throttled = self.overhead.judge(&period, MethodId::new(self.end));
        self.overhead.add_throttled(&throttled);
        let compiled_out = self.overhead.compile_out(self.now_ns, MethodId::new(self.end));
        self.discarded += u32::from(compiled_out.is_some());
        numbers(throttled.into_iter().map(|(id, _)| id).collect())
    }

    /// Lets seconds go by, and returns the methods that are measured again.
    fn seconds(&mut self, seconds: u64) -> Vec<u32> {
        let mut again = Vec::new();
        for _ in 0..seconds {
            self.second();
            let now = self.overhead.fitting(self.now_ns);
            self.overhead.measured_again(&now);
            again.extend(now);
        }
        numbers(again)
    }

    fn throttled(&self) -> Vec<u32> {
        let mut ids: Vec<MethodId> = self.overhead.throttled().keys().copied().collect();
        ids.sort_unstable();
        numbers(ids)
    }

    /// Which of these methods are compiled out.
    fn compiled_out(&self, methods: &[u32]) -> Vec<u32> {
        numbers(self.overhead.compiled_out(&ids(methods)))
    }

    fn measure_again(&mut self, methods: &[u32]) {
        self.overhead.measured_again(&ids(methods));
    }
}

/// A method that answers requests, and methods that it calls often; calls cost 75 ns.
fn service() -> Program {
    // 0.0075%, 0.15%, 1.5%, 7.5% and 7.5% of the time; calls of the last take long themselves.
    Program::new(&[
        (1, 1_000, 3_600),
        (2, 20_000, 20),
        (3, 200_000, 20),
        (4, 1_000_000, 4),
        (5, 1_000_000, 400),
    ])
}

/// A program whose first wave is over; nothing of it is throttled any more.
fn settled() -> Program {
    let mut program = Program::new(&[(9_000, 1_000_000, 20)]);
    program.seconds(20);
    program.methods.clear();
    program.measure_again(&[9_000]);
    assert_eq!((program.discarded, program.throttled()), (1, vec![]));
    program
}

#[test]
fn nothing_is_throttled_within_the_budget() {
    let mut program = settled();
    program.methods.extend([(1, (200_000, 10, 0)), (2, (60_000, 10, 0))]);
    for _ in 0..100 {
        assert_eq!(program.second(), NONE);
    }
    assert!(
        (program.overhead.spent.share - 0.0195).abs() < 1e-9,
        "{}",
        program.overhead.spent.share
    );
    program.methods.insert(3, (7_000, 400, 0));
    assert_eq!(program.second(), [1]);
}

#[test]
fn what_costs_most_for_the_least_time_is_throttled_first() {
    let mut program = service();
    assert_eq!(program.second(), [4, 3, 5, 2]);
    let left = program.overhead.throttled()[&MethodId::new(4)];
    assert_eq!((left.why.calls_per_s, left.why.since_unix_ns), (1_000_000, 101 * S));
    // What is left is 0.16%.
    assert_eq!(program.second(), NONE);
    assert!(program.overhead.spent.share < 0.02);
}

/// A program that has nothing to do uses so little CPU time that any call is a large share of it.
#[test]
fn what_an_idle_program_calls_stays() {
    let mut program = service();
    program.methods.insert(6, (20_000, 20, 0));
    program.second();
    program.methods.insert(7, (1_000_000, 20, 0));
    program.second();
    program.methods = HashMap::from([(8, (1_000, 20, 0)), (9, (1_000, 20, 0))]);
    program.cpu_ns = S / 100;
    assert_eq!(program.seconds(5), NONE);
    assert!([8, 9].iter().all(|id| !program.throttled().contains(id)));
}

#[test]
fn a_method_whose_slow_calls_are_worth_it_stays() {
    let mut program = service();
    // Slow calls in three threads.
    program.methods.insert(4, (1_000_000, 10, 3_000_000_000));
    program.seconds(5);
    assert_eq!(program.throttled(), [2, 3, 5]);
    // Then it has no more slow calls.
    program.methods.insert(4, (1_000_000, 10, 0));
    program.seconds(5);
    assert!(!program.throttled().contains(&4));
    program.seconds(30);
    assert!(program.throttled().contains(&4));
}

/// All calls of a recursion are slow if one thread waits in it for a processor.
#[test]
fn a_recursion_is_not_needed_for_one_wait() {
    let mut program = service();
    program.outermost = 0;
    program.methods.insert(4, (1_000_000, 10, 3_000_000_000));
    program.seconds(5);
    assert_eq!(program.throttled(), [2, 3, 4, 5]);
}

#[test]
fn without_a_budget_nothing_is_throttled_and_all_comes_back() {
    let mut program = service();
    program.second();
    assert_eq!(program.throttled(), [2, 3, 4, 5]);
    program.measure_again(&[2, 3, 4, 5]);
    program.overhead.set_budget(None);
    assert_eq!((program.second(), program.throttled()), (vec![], vec![]));
    program.seconds(100);
    // It begins with the first seconds, and with what is assumed.
    program.overhead.set_budget(Some(CpuShare::from_millionths(20_000)));
    assert_eq!(program.second(), [4, 3, 5, 2]);
}

/// A program that overruns the budget for the first time is not compiled yet, and becomes faster.
#[test]
fn what_the_first_wave_throttles_is_compiled_out() {
    let mut program = Program::new(&[]);
    // Whenever that is.
    program.seconds(100);
    assert!(!program.overhead.is_busy(program.now_ns));
    program.methods.insert(1, (1_000_000, 20, 0));
    assert_eq!(program.second(), [1]);
    assert!(program.overhead.is_busy(program.now_ns));
    program.methods.insert(2, (1_000_000, 20, 0));
    assert_eq!(program.second(), [2]);
    program.second();
    assert_eq!((program.discarded, program.compiled_out(&[1, 2])), (0, vec![]));
    program.second();
    assert_eq!((program.discarded, program.compiled_out(&[1, 2])), (1, vec![1, 2]));
    assert!(!program.overhead.is_busy(program.now_ns));
    // While code is compiled again, the next one needs no guard.
    program.methods.insert(3, (300_000, 20, 0));
    assert_eq!(program.second(), [3]);
    assert_eq!(program.compiled_out(&[3]), [3]);
    program.seconds(10);
    // Later, a few get one.
    program.methods.insert(4, (500_000, 20, 0));
    assert_eq!(program.second(), [4]);
    assert_eq!(program.compiled_out(&[4]), NONE);
    // None of them comes back: they cost too much.
    assert_eq!(program.seconds(10_000), NONE);
    assert_eq!((program.discarded, program.throttled()), (1, vec![1, 2, 3, 4]));
}

/// The first wave throttles more than is necessary, because the program may become faster.
#[test]
fn what_fits_comes_back_after_the_first_wave_of_a_small_program() {
    let mut program = service();
    assert_eq!(program.second(), [4, 3, 5, 2]);
    assert_eq!(program.seconds(3), NONE);
    assert_eq!(program.compiled_out(&[2, 3, 4, 5]), [3, 4, 5]);
    assert_eq!((program.seconds(56), program.seconds(1)), (vec![], vec![2]));
    // If all fit, no code is discarded.
    let mut program = service();
    program.methods.retain(|id, _| [1, 2].contains(id));
    program.cpu_ns = S / 20;
    assert_eq!(program.second(), [2, 1]);
    program.cpu_ns = S;
    program.seconds(5);
    assert_eq!((program.discarded, program.compiled_out(&[1, 2])), (0, vec![]));
    // Nor is any compiled again, so the next one has a guard too.
    program.methods.insert(3, (300_000, 20, 0));
    assert_eq!(program.second(), [3]);
    assert_eq!(program.compiled_out(&[3]), NONE);
    // Of a large one, most would be throttled again.
    let mut program = service();
    program.methods.extend((100..200).map(|id| (id, (20_000, 20, 0))));
    program.second();
    assert_eq!(program.seconds(5), NONE);
    assert!(program.compiled_out(&[2, 3, 4, 5]).contains(&2));
}

/// Where nothing can be compiled out, because probes are plain.
#[test]
fn the_first_wave_ends_without_a_discard_too() {
    let mut program = service();
    program.end = 0;
    assert_eq!(program.second(), [4, 3, 5, 2]);
    program.seconds(5);
    // 3% of the time; the first wave would leave a twentieth of a percent.
    program.methods = (10..50).map(|id| (id, (10_000, 20, 0))).collect();
    let throttled = program.second().len();
    assert!((20..30).contains(&throttled), "{throttled}");
    assert_eq!(program.discarded, 0);
}

/// Guards of methods that are called often cost too much, whenever they come; a discard of compiled code does too.
#[test]
fn what_later_waves_throttle_is_compiled_out_if_it_is_much() {
    let mut program = settled();
    let mut next = 0;
    let mut wave = |calls_per_s: u64, seconds: u64| {
        next += 1;
        program.methods.insert(next, (calls_per_s, 20, 0));
        program.seconds(seconds);
        program.discarded
    };
    assert_eq!(wave(700_000, 10), 1);
    // Both together are enough.
    assert_eq!(wave(300_000, 3), 2);
    // What is compiled out at once has guards in code that has been compiled already.
    wave(500_000, 10);
    // Not before twenty seconds have passed since the last one.
    assert_eq!(wave(500_000, 9), 2);
    assert_eq!(wave(0, 1), 3);
    wave(0, 10);
    // At last, not before an hour has passed.
    for _ in 0..10 {
        wave(1_000_000, 7_200);
    }
    wave(0, 10);
    assert_eq!(wave(1_000_000, 3), 14);
    wave(0, 10);
    assert_eq!(wave(1_000_000, 3_589), 14);
    assert_eq!(wave(0, 1), 15);
}

/// A program may become faster all the time.
#[test]
fn a_wave_ends_after_a_while() {
    let mut program = Program::new(&[]);
    for id in 1..200 {
        program.methods.insert(id, (1_000_000, 20, 0));
        program.second();
    }
    assert_eq!(program.compiled_out(&[20, 21, 120]), [20, 21, 120]);
    assert_eq!(program.discarded, 5);
    // After a long stop, the next wave is a first one again.
    program.measure_again(&(1..200).collect::<Vec<_>>());
    program.methods.clear();
    program.overhead.begin_again();
    program.methods.insert(200, (1_000_000, 20, 0));
    program.seconds(3);
    assert_eq!(program.compiled_out(&[200]), [200]);
}

/// Only so many ids can be compiled out.
#[test]
fn others_keep_a_guard() {
    let mut program = Program::new(&[(9_999, 1_000_000, 20), (10_000, 1_000_000, 20)]);
    program.seconds(3);
    assert_eq!(program.compiled_out(&[9_999, 10_000]), [9_999]);
}

/// A method waits for a minute before it comes back, the next time for two.
#[test]
fn what_fits_comes_back_after_a_while() {
    let mut program = settled();
    // 0.9% of the time each.
    program.methods.extend([1, 2, 3].map(|id| (id, (120_000, 400, 0))));
    assert_eq!(program.second(), [1, 2]);
    program.methods.remove(&3);
    assert_eq!(program.seconds(59), NONE);
    assert_eq!(program.seconds(1), [1]);
    assert_eq!(program.seconds(1_000), NONE);
    program.methods.extend([4, 5].map(|id| (id, (120_000, 400, 0))));
    assert_eq!(program.second(), [1, 4]);
    program.methods.remove(&5);
    assert_eq!(program.seconds(1), [2]);
    program.methods.remove(&2);
    assert_eq!(program.seconds(58), NONE);
    assert_eq!(program.seconds(1), [4]);
    program.methods.remove(&4);
    assert_eq!(program.seconds(59), NONE);
    assert_eq!(program.seconds(1), [1]);
}

/// The agent thread counts, and leaves less room for probes. Pauses count too, but are over when they are known.
#[test]
fn what_the_agent_costs_itself_is_within_the_budget() {
    let cases = [(0, 0, vec![]), (S / 100, 0, vec![1]), (0, S / 100, vec![])];
    for (own_ns, paused_ns, throttled) in cases {
        let mut program = Program::new(&[]);
        program.seconds(20);
        // 1.5%.
        program.methods.insert(1, (200_000, 20, 0));
        (program.own_ns, program.paused_ns) = (own_ns, paused_ns);
        program.second();
        assert_eq!(program.throttled(), throttled);
        let ns = 15_000_000 + own_ns + paused_ns;
        assert!((program.overhead.spent.share - as_f64(ns) / 1e9).abs() < 1e-9);
    }
}

/// A process that uses a tenth of a processor, of which the agent needs a twentieth: more than the budget.
#[test]
fn what_fits_comes_back_beside_the_agents_own_work() {
    let mut program = settled();
    (program.cpu_ns, program.own_ns) = (S / 10, S / 200);
    // Probes have a quarter of the budget: half a millisecond a second. These cost 0.225, 0.15 and 0.75 ms.
    program
        .methods
        .extend([(1, 3_000), (2, 2_000), (3, 10_000)].map(|(id, calls)| (id, (calls, 400, 0))));
    assert_eq!(program.second(), [3, 1]);
    assert_eq!(program.seconds(100), NONE);
    program.methods.remove(&2);
    assert_eq!(program.seconds(10), [1]);
    assert_eq!(program.throttled(), [3]);
}

/// A program that has been compiled for long overruns the budget by a little. It does not become faster.
#[test]
fn the_first_wave_of_a_mature_program_is_mild() {
    // 2.2% and 7.5% of the time, of 22 and 75 methods.
    for (methods, throttled, compiled_out) in [(22, 13, 0), (75, 75, 65)] {
        let mut program = Program::new(&[]);
        program.seconds(100);
        program.methods = (1..=methods).map(|id| (id, (13_333, 400, 0))).collect();
        assert_eq!(program.second().len(), throttled);
        program.seconds(10);
        let all: Vec<u32> = (1..=methods).collect();
        assert_eq!(program.compiled_out(&all).len(), compiled_out);
    }
}

/// Methods that are worth their probes and the others share one budget.
#[test]
fn what_is_worth_its_probes_leaves_less_room() {
    // Method 1 costs 1.5% of the time at first, and method 2 costs 0.75%.
    for (calls, throttled) in [(200_000, vec![2]), (100_000, vec![])] {
        let mut program = settled();
        program.methods.insert(1, (calls, 7_200, 0));
        program.methods.insert(2, (100_000, 200, 0));
        program.second();
        assert_eq!(program.throttled(), throttled);
    }
}

/// Samples in probes say what calls cost. Methods with slow calls are needed all the same.
#[test]
fn where_samples_say_that_calls_cost_more_there_is_room_for_fewer() {
    for (times, throttled) in [(3, vec![]), (6, vec![1])] {
        // 1.5% by what is assumed.
        let mut program = Program::new(&[(1, 200_000, 400)]);
        program.seconds(20);
        program.times = times;
        program.seconds(60);
        assert_eq!(program.throttled(), throttled);
        program.methods.insert(1, (200_000, 400, 200_000_000));
        program.measure_again(&[1]);
        // A millisecond in a thousand calls.
        program.seconds(3);
        assert_eq!(program.throttled(), NONE);
    }
}

/// Samples say that calls cost less than was assumed, so more fits into the budget.
#[test]
fn what_costs_less_than_assumed_comes_back() {
    let mut program = settled();
    program.methods.insert(1, (100_000, 4_000, 0));
    program.methods.insert(2, (180_000, 2_000, 0));
    program.second();
    assert_eq!(program.throttled(), [2]);
    program.times = 1;
    assert_eq!(program.seconds(300), [2]);
    assert_eq!(program.throttled(), NONE);
}

/// Threads wait in a throttled method for much longer than its probes would cost.
#[test]
fn what_turns_slow_is_measured_again() {
    let mut program = settled();
    // 2.25% of the time: 22.5 ms a second.
    program.methods.insert(1, (300_000, 20, 0));
    program.second();
    assert_eq!(program.throttled(), [1]);
    let slow = |program: &mut Program, ns, looks| {
        let waited = [(MethodId::new(1), Waits { ns, looks })];
        numbers(program.overhead.turned_slow(&waited, 10.0, program.now_ns))
    };
    assert_eq!(slow(&mut program, 3 * S, 30), NONE);
    program.now_ns += 30 * S;
    assert_eq!(slow(&mut program, 2 * S, 20), NONE);
    assert_eq!(slow(&mut program, 3 * S, 4), NONE);
    assert_eq!(slow(&mut program, 3 * S, 30), [1]);
    // Each call is fast after all, so it is throttled again.
    program.measure_again(&[1]);
    program.second();
    assert_eq!(program.throttled(), [1]);
    assert_eq!(slow(&mut program, 3 * S, 30), NONE);
    program.now_ns += 30 * S;
    assert_eq!(slow(&mut program, 3 * S, 30), NONE);
    program.now_ns += 30 * S;
    assert_eq!(slow(&mut program, 3 * S, 30), [1]);
}

/// Rarely called methods cost little, unless there are many of them.
#[test]
fn methods_that_are_seldom_called_are_throttled_where_they_cost_too_much_together() {
    // 0.34% and 2.25% of the time.
    for (methods, is_throttled) in [(300, false), (2_000, true)] {
        let mut program = Program::new(&[]);
        program.seconds(20);
        program.methods = (1..=methods).map(|id| (id, (150, 20, 0))).collect();
        program.seconds(3);
        assert_eq!(!program.throttled().is_empty(), is_throttled, "{methods}");
        assert!(program.overhead.spent.share < 0.02, "{}", program.overhead.spent.share);
    }
}

#[test]
fn without_a_budget_the_cost_is_known_and_nothing_is_throttled() {
    let mut program = service();
    program.times = 1;
    program.overhead.set_budget(None);
    assert_eq!(program.seconds(100), NONE);
    assert_eq!(program.throttled(), NONE);
    // 25 ns a call, as in a loop of their own.
    let share = program.overhead.spent.share;
    assert!((0.055..0.056).contains(&share), "{share}");
    assert!((program.overhead.call_cost.pair_ns - 25.0).abs() < 0.5);
}

/// A method whose calls take 2 us of CPU time, with callees, and the threads wait half of the time.
#[test]
fn what_waits_for_a_processor_is_not_slow() {
    let did = |total_ns, self_ns, slow_ns| Recent {
        calls: 100_000,
        self_ticks: clock::ns_to_ticks(self_ns),
        total_ticks: clock::ns_to_ticks(total_ns),
        slow_ns,
    };
    let left = |mut did: Recent, share, ns_per_s| {
        did.leave_out(Delay { share, ns_per_s }, 1.0);
        (did.slow_ns, clock::ticks_to_ns(did.self_ticks))
    };
    let about = |(slow, own): (u64, u64), expected: (u64, u64)| {
        let is_so = slow.abs_diff(expected.0) < 1_000 && own.abs_diff(expected.1) < 1_000;
        assert!(is_so, "{slow} and {own}, not {expected:?}");
    };
    let program = did(400_000_000, 40_000_000, 200_000_000);
    about(left(program, 0.5, 1e9), (0, 20_000_000));
    // More is slow than waiting explains.
    about(left(program, 0.1, 1e9), (120_000_000, 36_000_000));
    about(left(program, 0.0, 0.0), (200_000_000, 40_000_000));
    // Its calls wait for a database, 20 s in 100 threads, while a few threads wait for a processor half of the time.
    let database = did(20_000_000_000, 20_000_000_000, 20_000_000_000);
    about(left(database, 0.5, 1e9), (18_000_000_000, 19_000_000_000));
}
