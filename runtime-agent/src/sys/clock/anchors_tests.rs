//! Anchors of clocks that run, are set, stand still, and jump.

use super::*;

const S: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;
const WALL: u64 = 1_795_186_458 * S;
/// Ticks of a nanosecond and a quarter.
const LENGTH: u64 = 5 * (1_u64 << 32) / 4;
const TICKS_PER_S: u64 = S / 5 * 4;

/// The values of the clocks: the counter, CLOCK_MONOTONIC and the time of day.
#[derive(Clone, Copy)]
struct Clocks {
    ticks: u64,
    monotonic_ns: u64,
    unix_ns: u64,
}

impl Clocks {
    const fn new() -> Self {
        Self { ticks: 1_000 * TICKS_PER_S, monotonic_ns: 5, unix_ns: WALL }
    }

    /// Advances all of them.
    fn pass(&mut self, ns: u64) -> Anchor {
        self.ticks += ns / 5 * 4;
        self.monotonic_ns += ns;
        self.unix_ns += ns;
        self.anchor()
    }

    fn anchor(&self) -> Anchor {
        let Self { ticks, monotonic_ns, unix_ns } = *self;
        Anchor { ticks, monotonic_ns, unix_ns, spread_ns: 50 }
    }
}

/// Clocks that have been running for ten seconds.
fn running() -> (Clocks, Anchors) {
    let mut clocks = Clocks::new();
    let mut anchors = Anchors::from(clocks.anchor(), LENGTH + LENGTH / 500);
    for _ in 0..10 {
        assert_eq!(anchors.add(clocks.pass(S)), None);
    }
    assert_eq!(anchors.current.ns_per_2_32, LENGTH);
    (clocks, anchors)
}

/// The clock is set back by an hour and a half, and later forward by two days.
#[test]
fn a_time_of_day_that_is_set_moves_moments_and_no_durations() {
    let (mut clocks, mut anchors) = running();
    for set_by in [0, -5_400 * 1_000_000_000, 0, 172_800 * 1_000_000_000] {
        clocks.unix_ns = clocks.unix_ns.wrapping_add_signed(set_by);
        assert_eq!(anchors.add(clocks.pass(10 * S)), None);
        assert_eq!(anchors.current.ns_per_2_32, LENGTH);
        let (now, unix_ns) = (clocks.ticks, clocks.unix_ns);
        assert_eq!(anchors.unix_ns(now), unix_ns);
        // Calls that ended before the clock was set keep their order, and their distance to now.
        assert_eq!(unix_ns - anchors.unix_ns(now - 4_000), 5_000);
        assert_eq!(anchors.unix_ns(now + 4_000), unix_ns + 5_000);
    }
    // Earlier than any representable time.
    anchors.current.last.unix_ns = 3;
    assert_eq!(anchors.unix_ns(0), 0);
    assert_eq!(anchors.jumps(), 0);
}

/// The machine is suspended for 20 s, in which only the counter and the time of day advance.
#[test]
fn a_suspended_machine_is_a_jump_and_later_times_are_true() {
    let (mut clocks, mut anchors) = running();
    clocks.pass(300 * MS);
    let before = clocks;
    clocks.ticks += 20 * TICKS_PER_S;
    clocks.unix_ns += 20 * S;
    let jump = anchors.add(clocks.pass(700 * MS));
    assert_eq!(jump, Some(Jump { ticks_ns: 21_000_000_000, monotonic_ns: S }));
    for _ in 0..10 {
        assert_eq!(anchors.current.ns_per_2_32, LENGTH);
        assert_eq!(anchors.add(clocks.pass(S)), None);
    }
    assert_eq!((anchors.jumps(), anchors.current.ns_per_2_32), (1, LENGTH));
    // Calls that began before and after.
    assert_eq!(anchors.unix_ns(before.ticks), before.unix_ns);
    assert_eq!(anchors.unix_ns(before.ticks - 8 * TICKS_PER_S), before.unix_ns - 8 * S);
    assert_eq!(anchors.unix_ns(clocks.ticks - 10 * TICKS_PER_S), clocks.unix_ns - 10 * S);
    assert_eq!(anchors.unix_ns(clocks.ticks + TICKS_PER_S), clocks.unix_ns + S);
}

#[test]
fn either_clock_may_jump_either_way() {
    for (ticks, monotonic_ns) in [
        (20 * TICKS_PER_S, 0),
        (TICKS_PER_S / 10, 0),
        (0, 20 * S),
        (0, S / 10),
        (u64::MAX / 4, 0),
        // Back, by a little, and by more than the counter had.
        (0_u64.wrapping_sub(TICKS_PER_S / 2), 0),
        (0_u64.wrapping_sub(500 * TICKS_PER_S), 0),
    ] {
        let (mut clocks, mut anchors) = running();
        let before = clocks;
        clocks.ticks = clocks.ticks.wrapping_add(ticks);
        clocks.monotonic_ns += monotonic_ns;
        assert!(anchors.add(clocks.pass(S)).is_some(), "{ticks} {monotonic_ns}");
        assert_eq!(anchors.unix_ns(clocks.ticks), clocks.unix_ns);
        for _ in 0..3 {
            assert_eq!(anchors.add(clocks.pass(S)), None);
            assert_eq!(anchors.current.ns_per_2_32, LENGTH);
        }
        assert_eq!(anchors.jumps(), 1);
        assert_eq!(anchors.unix_ns(clocks.ticks), clocks.unix_ns);
        if ticks > TICKS_PER_S {
            let ago = before.ticks - 5 * TICKS_PER_S;
            assert_eq!(anchors.unix_ns(ago), before.unix_ns - 5 * S, "{ticks} {monotonic_ns}");
        }
    }
}

/// The guest moves to a host whose counter is faster by a third, and far behind.
#[test]
fn a_counter_with_another_rate_is_one_jump_and_is_calibrated_again() {
    let (mut clocks, mut anchors) = running();
    clocks.ticks = 77;
    let pass = |clocks: &mut Clocks| {
        clocks.pass(S);
        clocks.ticks += TICKS_PER_S / 3;
        clocks.anchor()
    };
    assert!(anchors.add(pass(&mut clocks)).is_some());
    assert_eq!(anchors.current.ns_per_2_32, LENGTH);
    let other = LENGTH / 4 * 3;
    for _ in 0..10 {
        anchors.add(pass(&mut clocks));
    }
    assert!(anchors.current.ns_per_2_32.abs_diff(other) < 100);
    assert_eq!(anchors.jumps(), 1);
    assert_eq!(anchors.unix_ns(clocks.ticks), clocks.unix_ns);
}

/// Each second has a jump of another length, as when a guest is paused again and again.
#[test]
fn jumps_in_successive_seconds_are_one_and_never_averaged() {
    let (mut clocks, mut anchors) = running();
    for at in 1..=5 {
        clocks.ticks += at * TICKS_PER_S;
        assert_eq!(anchors.add(clocks.pass(S)).is_some(), at == 1);
        assert_eq!(anchors.current.ns_per_2_32, LENGTH);
    }
    assert_eq!(anchors.add(clocks.pass(S)), None);
    clocks.ticks += TICKS_PER_S;
    assert!(anchors.add(clocks.pass(S)).is_some());
    assert_eq!((anchors.jumps(), anchors.current.ns_per_2_32), (2, LENGTH));
}

/// Each flush takes an anchor, whenever a client asks for one.
#[test]
fn anchors_close_together_hide_no_jump_and_find_none() {
    let (mut clocks, mut anchors) = running();
    for _ in 0..10 {
        // Read on two processors whose counters differ a little.
        clocks.ticks -= 100;
        assert_eq!(anchors.add(clocks.pass(1_000)), None);
    }
    clocks.monotonic_ns += 300 * MS;
    let mut jumps = 0;
    for _ in 0..10 {
        jumps += usize::from(anchors.add(clocks.pass(100 * MS)).is_some());
        assert!(anchors.current.ns_per_2_32.abs_diff(LENGTH) < LENGTH / 1_000_000);
    }
    assert_eq!((jumps, anchors.jumps()), (1, 1));
}

/// A thread that is off the processor while it reads the clocks, and one that comes late.
#[test]
fn noise_is_no_jump() {
    let (mut clocks, mut anchors) = running();
    for (late_ns, off_ns, spread_ns) in
        [(S, 9 * MS, 50), (30 * S, 100 * MS, 50), (S, 40 * MS, 80 * MS), (S, 0, 50)]
    {
        let anchor = clocks.pass(late_ns);
        let read = Anchor { monotonic_ns: anchor.monotonic_ns + off_ns, spread_ns, ..anchor };
        assert_eq!(anchors.add(read), None, "{late_ns} {off_ns}");
        assert_eq!(anchors.add(clocks.pass(late_ns)), None, "{late_ns} {off_ns}");
    }
    assert_eq!(anchors.jumps(), 0);
}

#[test]
fn only_some_jumps_are_remembered() {
    let (mut clocks, mut anchors) = running();
    for _ in 0..100 {
        clocks.ticks += 20 * TICKS_PER_S;
        assert!(anchors.add(clocks.pass(S)).is_some());
        assert_eq!(anchors.add(clocks.pass(S)), None);
    }
    assert_eq!((anchors.earlier.len(), anchors.jumps()), (REMEMBERED, 100));
}
