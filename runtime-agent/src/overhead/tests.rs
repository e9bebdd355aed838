//! Tests that decide hours of a program's life at once.

use log_format::ids::MethodId;

use super::*;
use crate::drain::waited::Waits;
use crate::sys::run_delay::Delay;

const S: u64 = SECOND_NS;
const NONE: [u32; 0] = [];

/// The numbers of these ids.
fn numbers(ids: Vec<MethodId>) -> Vec<u32> {
    ids.into_iter().map(MethodId::get).collect()
}

fn ids(numbers: &[u32]) -> Vec<MethodId> {
    numbers.iter().copied().map(MethodId::new).collect()
}

/// A program that calls each measured method at a fixed rate. Methods have plain numbers here.
struct Program {
    overhead: Overhead,
    now_ns: u64,
    /// Calls a second, self time of a call, and time of slow calls a second, in nanoseconds.
    methods: HashMap<u32, (u64, u64, u64)>,
    /// CPU time a second, and the agent's part of it.
    cpu_ns: u64,
    own_ns: u64,
    /// What a call costs by samples, as a multiple of its cost in a loop.
    times: u64,
    /// 0 if slow calls are within slow calls of the same method.
    outermost: u64,
    /// Compiled code is discarded when that is decided.
    renews: bool,
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
            times: 3,
            outermost: 1,
            renews: true,
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
        let (cpu_ns, own_ns) = (self.cpu_ns, self.own_ns);
        let calls: u64 = methods.values().map(|did| did.calls).sum();
        let sampled = SampledProbes { probes_ns: calls * 25 * self.times, all_ns: self.cpu_ns };
        let period =
            Period { now_ns, unix_ns, length_ns: S, cpu_ns, own_ns, sampled, methods: &methods };
        let leave = self.overhead.judge(period);
        self.overhead.compile_out(self.now_ns, MethodId::new(10_000));
        if self.renews && self.overhead.is_to_renew(self.now_ns, false) {
            self.overhead.renewed();
        }
        numbers(leave)
    }

    /// Lets seconds go by, and returns the methods that are measured again.
    fn seconds(&mut self, seconds: u64) -> Vec<u32> {
        let mut again = Vec::new();
        for _ in 0..seconds {
            self.second();
            let now = self.overhead.measure_again(self.now_ns);
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

#[test]
fn nothing_is_throttled_within_the_budget() {
    let mut program = Program::new(&[(1, 200_000, 10), (2, 60_000, 10)]);
    for _ in 0..100 {
        assert_eq!(program.second(), NONE);
    }
    assert!((program.overhead.share() - 0.0195).abs() < 1e-9, "{}", program.overhead.share());
    program.methods.insert(3, (7_000, 400, 0));
    assert_eq!(program.second(), [1]);
}

#[test]
fn what_costs_most_for_the_least_time_is_throttled_first() {
    let mut program = service();
    // No calls in the beginning, so that the program is not about to become faster.
    let methods = std::mem::take(&mut program.methods);
    program.seconds(20);
    program.methods = methods;
    assert_eq!(program.second(), [4, 3, 5]);
    let left = program.overhead.throttled()[&MethodId::new(4)];
    assert_eq!((left.calls_per_s, left.since_unix_ns), (1_000_000, 121 * S));
    // What is left is 0.16%.
    assert_eq!(program.second(), NONE);
    assert!(program.overhead.share() < 0.02);
}

/// A program that begins gets faster, so more is throttled, and comes back when it turns out to fit.
#[test]
fn what_was_throttled_in_the_beginning_comes_back_if_it_fits() {
    let mut program = service();
    assert_eq!(program.second(), [4, 3, 5, 2]);
    assert_eq!(program.seconds(16), NONE);
    assert_eq!(program.seconds(3), [2]);
    assert_eq!(program.throttled(), [3, 4, 5]);
}

/// Methods that the compiler gets to first stay slow, so methods do not wait until a third overrun.
#[test]
fn in_the_beginning_what_is_new_is_throttled_at_once() {
    let mut program = service();
    assert_eq!(program.second(), [4, 3, 5, 2]);
    // 1.5%, 7.5% and 0.15%.
    program.methods.insert(6, (200_000, 20, 0));
    assert_eq!(program.second(), NONE);
    program.methods.insert(7, (1_000_000, 20, 0));
    assert_eq!(program.second(), [7, 6]);
    program.methods.insert(8, (20_000, 20, 0));
    assert_eq!(program.second(), [8]);
    // It comes back, and stays when nothing is new any more.
    program.seconds(30);
    assert_eq!(program.throttled(), [3, 4, 5, 6, 7]);
    program.methods.insert(9, (20_000, 20, 0));
    assert_eq!(program.second(), NONE);
    // After a new beginning, the budget has not been overrun yet.
    program.overhead.begin_again();
    program.methods.insert(10, (20_000, 20, 0));
    assert_eq!(program.second(), NONE);
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

/// Methods that are called when nothing is compiled yet are compiled out, except those that are worth their probes.
#[test]
fn hot_methods_are_compiled_out_before_they_are_compiled() {
    let mut program = Program::new(&[(1, 200_000, 10), (2, 2_000_000, 4_000)]);
    program.second();
    assert_eq!(program.throttled(), [1, 2]);
    assert_eq!(program.compiled_out(&[1, 2]), [1]);
}

/// A guard suffices for methods that are called less often, so that they can come back.
#[test]
fn of_throttled_methods_only_the_hottest_are_compiled_out() {
    let mut program = Program::new(&[(1, 2_000_000, 10), (2, 200_000, 10), (3, 20_000, 10)]);
    program.second();
    assert_eq!(program.throttled(), [1, 2, 3]);
    // The guard of the last: 3.75 ns, 20,000 times a second, and twenty times as often soon.
    assert_eq!(program.compiled_out(&[1, 2, 3]), [1, 2]);
    assert_eq!(program.seconds(30), [3]);
    assert_eq!(program.seconds(3_600), NONE);
    assert_eq!(program.throttled(), [1, 2]);
}

/// In a large program the JIT optimizes code with guards less, so no throttled method keeps one.
#[test]
fn in_a_large_program_all_throttled_methods_are_compiled_out() {
    let mut program = Program::new(&[(1, 2_000_000, 10), (2, 200_000, 10), (3, 20_000, 10)]);
    program.methods.extend((10..260).map(|id| (id, (1, 20, 0))));
    program.second();
    assert_eq!(program.throttled(), [1, 2, 3]);
    assert_eq!(program.compiled_out(&[1, 2, 3]), [1, 2, 3]);
}

/// The first judgement of H2 is sometimes so early that the guards of its hottest methods seem to cost nothing. With
/// these guards in the compiled code, H2 was half as fast.
#[test]
fn what_is_throttled_before_the_program_is_known_to_be_large_is_compiled_out_too() {
    let mut program = Program::new(&[(1, 2_000_000, 10), (2, 20_000, 10)]);
    program.second();
    assert_eq!(program.throttled(), [1, 2]);
    assert_eq!(program.compiled_out(&[1, 2]), [1]);
    program.methods.extend((10..260).map(|id| (id, (1, 20, 0))));
    program.second();
    assert_eq!(program.compiled_out(&[1, 2]), [1, 2]);
}

/// A method that is throttled when it is already compiled keeps its guard in the compiled code.
#[test]
fn compiled_methods_are_not_compiled_out_later() {
    let mut program = Program::new(&[(1, 9_000, 10)]);
    program.seconds(20);
    program.methods.insert(1, (30_000_000, 10, 0));
    program.second();
    assert_eq!(program.throttled(), [1]);
    assert_eq!(program.compiled_out(&[1]), NONE);
    // 3.75 ns a call: 11% of the CPU time.
    program.second();
    assert!((program.overhead.share() - 0.1125).abs() < 1e-4, "{}", program.overhead.share());
}

/// The agent thread and pauses count, and leave less room for probes.
#[test]
fn what_the_agent_costs_itself_is_within_the_budget() {
    for (own_ns, throttled) in [(0, vec![]), (S / 100, vec![1])] {
        let mut program = Program::new(&[]);
        program.seconds(20);
        // 1.5%.
        program.methods.insert(1, (200_000, 20, 0));
        program.own_ns = own_ns;
        program.second();
        assert_eq!(program.throttled(), throttled);
    }
}

/// Methods that are worth their probes and the others share one budget.
#[test]
fn what_is_worth_its_probes_leaves_less_room() {
    // Method 1 costs 1.5% of the time at first, and method 2 costs 0.75%.
    for (calls, throttled) in [(200_000, vec![2]), (100_000, vec![])] {
        let mut program = Program::new(&[]);
        program.seconds(20);
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
    let mut program = Program::new(&[(1, 100_000, 4_000)]);
    program.seconds(20);
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
    let mut program = Program::new(&[]);
    program.seconds(20);
    // 2.25% of the time: 22.5 ms a second.
    program.methods.insert(1, (300_000, 20, 0));
    program.second();
    assert_eq!(program.throttled(), [1]);
    let slow = |program: &mut Program, ns, looks| {
        let waited = [(MethodId::new(1), Waits { ns, looks })];
        numbers(program.overhead.slow_again(&waited, 10.0, program.now_ns))
    };
    assert_eq!(slow(&mut program, 2 * S, 20), NONE);
    assert_eq!(slow(&mut program, 3 * S, 4), NONE);
    assert_eq!(slow(&mut program, 3 * S, 30), [1]);
    // Each call is fast after all, so it is throttled again.
    program.measure_again(&[1]);
    program.second();
    assert_eq!(program.throttled(), [1]);
    assert_eq!(slow(&mut program, 3 * S, 30), NONE);
    program.now_ns += 600 * S;
    assert_eq!(slow(&mut program, 3 * S, 30), [1]);
}

/// Rarely called methods are spared as long as there are not too many of them.
#[test]
fn methods_that_are_seldom_called_are_throttled_where_they_cost_too_much_together() {
    // 0.34% and 2.25% of the time.
    for (methods, is_throttled) in [(300, false), (2_000, true)] {
        let mut program = Program::new(&[]);
        program.seconds(20);
        program.methods = (1..=methods).map(|id| (id, (150, 20, 0))).collect();
        program.seconds(3);
        assert_eq!(!program.throttled().is_empty(), is_throttled, "{methods}");
        assert!(program.overhead.share() < 0.02, "{}", program.overhead.share());
    }
}

/// Code that was compiled with a guard that costs too much is compiled again, once.
#[test]
fn what_was_compiled_too_early_is_renewed_once() {
    // The second is not compiled out: it is worth its probes.
    for (self_ns, is_dear) in [(4, true), (4_000, false)] {
        let mut program = Program::new(&[(1, 1_000_000, self_ns)]);
        program.renews = false;
        assert_eq!(program.second(), [1]);
        assert_eq!(program.seconds(3), NONE);
        assert!(!program.overhead.is_to_renew(program.now_ns - S, false));
        assert_eq!(program.overhead.is_to_renew(program.now_ns, false), is_dear);
        assert!(!program.overhead.is_to_renew(program.now_ns, true));
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
    let share = program.overhead.share();
    assert!((0.055..0.056).contains(&share), "{share}");
    assert_eq!(program.overhead.call_ns(), 25);
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
