//! Where threads waited, from looks at them: by method and state, beside CPU time, and compared.

// A panic here is the test's failure.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use std::fs;

use common::sampled_shop::{RUN, shop, waiting, waiting_shop};
use common::*;

/// Waits of a second of recording, the largest change first, without what is small or may be chance.
#[test]
fn a_comparison_has_waiting() {
    let logs = Logs::new();
    for (side, parked, blocked) in [("before", 6_000, 1_200), ("after", 600, 9_000)] {
        let shop = waiting_shop();
        let run = shop.run(RUN, "web07", 4242);
        // In `pay`, and in the JDK alone.
        run.rows(T14, &[waiting(1, "blocked", blocked), waiting(24, "sleeping", blocked)]);
        run.rows(T14, &[waiting(21, "parked", parked), waiting(1, "native", parked / 100)]);
        run.rows(T14, &[counter(T14, "recorded_ns", MIN)]);
        fs::rename(shop.root().join("logs"), logs.root().join(side)).unwrap();
    }
    let text = logs.analyze(&["diff", "before", "after"]).quiet();
    let (_, waiting) = text.split_once("Waiting by samples, per second, ").unwrap();
    assert_golden("diff_waiting.txt", waiting);
    let json = logs.analyze(&["diff", "before", "after", "--format", "json"]).json();
    let rows = json["waiting"].as_array().unwrap();
    let changes: Vec<(&str, i64, bool)> = rows
        .iter()
        .map(|row| {
            let cost_ns = row["cost_ns"].as_i64().unwrap();
            (row["state"].as_str().unwrap(), cost_ns, row["is_clear"].as_bool().unwrap())
        })
        .collect();
    // 5.4 s less, 7.8 s more, and 54 ms less in a minute.
    let expected = [
        ("blocked", 130_000_000, true),
        ("sleeping", 130_000_000, true),
        ("parked", -90_000_000, true),
        ("native", -900_000, false),
        ("parked", 0, false),
    ];
    assert_eq!(changes, expected);
    assert_eq!((&rows[0]["was_ns"], &rows[0]["before_samples"]), (&21_666_666.into(), &13.into()));
    let same = logs.analyze(&["diff", "before", "before", "--per", "call"]).quiet();
    assert!(same.ends_with("Waiting by samples, per second: no clear change\n"), "{same}");
    // Without waiting on both sides there is none to compare.
    let cpu_alone = shop();
    cpu_alone.run(RUN, "web07", 4242).rows(T14, &[counter(T14, "recorded_ns", MIN)]);
    fs::rename(cpu_alone.root().join("logs"), logs.root().join("cpu")).unwrap();
    let none = logs.analyze(&["diff", "cpu", "after"]).quiet();
    assert!(!none.contains("Waiting"), "{none}");
}
