//! Where threads waited, from looks at them: by method and state, beside CPU time, and compared.

// A panic here is the test's failure.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::BTreeSet;
use std::fs;

use crate::common::sampled_shop::{RUN, shop, waiting, waiting_shop};
use crate::common::*;

#[test]
fn waits_have_the_method_outside_the_jdk_and_its_state() {
    let logs = waiting_shop();
    let text = logs.analyze(&["logs"]).quiet();
    let (first, all) = text.split_once("Waiting, by samples").unwrap();
    assert_golden("waiting.txt", all);
    let (_, first) = first_screen(first).split_once("Wall time outside the JDK").unwrap();
    assert_golden("first_waiting.txt", first);
    let waits = |more: &[&str]| {
        let json = logs.analyze(&[&["logs", "--format", "json"], more].concat()).json();
        let rows = json["off_cpu"]["waits"].as_array().cloned().unwrap_or_default();
        let rows = rows.iter().map(|row| {
            let [method, state] = ["method", "state"].map(|key| row[key].as_str().unwrap());
            format!("{method} {state} {}", row["ns"].as_u64().unwrap() / MS)
        });
        (rows.collect::<Vec<_>>(), json["off_cpu"]["total_ns"].as_u64().unwrap_or(0) / MS)
    };
    let all = ["pay parked 2000", "take parked 500", "pay blocked 100"].map(str::to_owned);
    assert_eq!(waits(&[]), (all.to_vec(), 2_600));
    // CPU time is as before.
    let csv = |logs: &Logs| logs.analyze(&["logs", "--format", "csv"]).stdout;
    assert_eq!(csv(&logs), csv(&shop()));
    // A row lasts for its weight, so a time cuts it.
    assert_eq!(waits(&["--from", "14:01"]), (vec!["pay parked 1500".to_owned()], 1_500));
    assert_eq!(waits(&["--thread", "GC*"]), (vec![], 0));
    assert_eq!(waits(&["--method", "LinkedBlockingQueue"]).0, ["take parked 500"]);
}

#[test]
fn flame_graphs_of_all_time_have_what_threads_waited_for() {
    let logs = waiting_shop();
    let collapsed = |of| logs.analyze(&["logs", "--flame", of, "--format", "collapsed"]).stdout;
    let (cpu, wall) = (collapsed("cpu"), collapsed("wall"));
    let added: Vec<&str> = wall.lines().filter(|line| !cpu.contains(line)).collect();
    assert_eq!(
        added,
        [
            "com.shop.order.OrderService.pay;[blocked] 100000000",
            "com.shop.order.OrderService.pay;java.util.concurrent.LinkedBlockingQueue.take;\
             jdk.internal.misc.Unsafe.park;[parked] 2000000000",
            "java.lang.Thread.run;java.util.concurrent.LinkedBlockingQueue.take;\
             jdk.internal.misc.Unsafe.park;[parked] 500000000",
        ]
    );
    assert_eq!(wall.lines().count(), cpu.lines().count() + added.len());
    let svg = logs.analyze(&["logs", "--flame", "wall"]).stdout;
    assert!(svg.contains("Time of all threads") && svg.contains("[parked]"));
    let none = shop().analyze(&["logs", "--flame", "wall"]);
    assert!(none.stderr.contains("cpu=10ms,wall=100ms"), "{}", none.stderr);
}

/// What threads did in [`waiting_shop`], in milliseconds: CPU time, and waiting by the method outside the JDK.
const BY_STATE: [(&str, &str, u64); 8] = [
    ("parked", "pay", 2_000),
    ("parked", "take", 500),
    ("running", "count", 70),
    ("running", "pay", 60),
    ("running", "[gc]", 30),
    ("running", "hash", 20),
    ("running", "[missing]", 10),
    ("running", "pay", 10),
];

#[test]
fn states_have_their_time_and_methods() {
    let logs = waiting_shop();
    let report = |more: &[&str]| logs.analyze(&[&["logs", "--by", "state"], more].concat());
    assert_golden("by_state.txt", &report(&[]).quiet());
    let csv = report(&["--format", "csv"]);
    let columns = ["state", "method", "ns"].map(|name| csv.csv_column(name));
    let rows = |of: [&Vec<String>; 3], row: usize| {
        (of[0][row].clone(), of[1][row].clone(), of[2][row].parse::<u64>().unwrap() / MS)
    };
    let of_csv: Vec<(String, String, u64)> =
        (0..columns[0].len()).map(|row| rows(columns.each_ref(), row)).collect();
    let mut expected: Vec<(String, String, u64)> =
        BY_STATE.map(|(state, method, ms)| (state.to_owned(), method.to_owned(), ms)).to_vec();
    expected.push(("blocked".to_owned(), "pay".to_owned(), 100));
    assert_eq!(of_csv, expected);
    let line =
        "analyze: By state only samples count, CPU time and waiting; exact figures do not apply\n";
    assert!(csv.stderr.ends_with(line), "{}", csv.stderr);
    let json = report(&["--format", "json"]).json();
    assert_eq!((&json["by"], &json["methods"]), (&"state".into(), &serde_json::json!([])));
    assert!(json.get("cpu").is_none() && json.get("off_cpu").is_none());
    let states = json["states"].as_array().unwrap().iter().flat_map(|state| {
        let methods = state["methods"].as_array().unwrap().iter();
        methods.map(move |method| {
            let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
            (text(&state["state"]), text(&method["method"]), method["ns"].as_u64().unwrap() / MS)
        })
    });
    assert_eq!(states.collect::<Vec<_>>(), expected);
    let of_states = json["states"].as_array().unwrap().iter();
    let sums: Vec<u64> = of_states.map(|state| state["ns"].as_u64().unwrap() / MS).collect();
    assert_eq!(sums, [2_500, 200, 100]);
}

#[test]
fn samples_of_states_can_be_selected_and_of_none_the_reason_is_reported() {
    let logs = waiting_shop();
    let states = |more: &[&str]| {
        let args = [&["logs", "--by", "state", "--format", "csv"], more].concat();
        let csv = logs.analyze(&args);
        assert_eq!(csv.status, 0, "{}", csv.stderr);
        csv.csv_column("state").into_iter().collect::<BTreeSet<String>>()
    };
    let of = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(states(&["--thread", "GC*"]), of(&["running"]));
    assert_eq!(states(&["--method", "LinkedBlockingQueue"]), of(&["parked"]));
    assert_eq!(states(&["--from", "14:01"]), of(&["parked", "running"]));
    let top = logs.analyze(&["logs", "--by", "state", "--top", "1"]).quiet();
    assert!(top.contains("    and 5 more methods\n"), "{top}");
    for (more, reason) in [
        (&["--thread", "nobody"][..], "no samples are selected, or there are none in these logs; "),
        (&["--method", "org.nobody"], "no samples of methods named by org.nobody: no method has "),
    ] {
        let text = logs.analyze(&[&["logs", "--by", "state"], more].concat()).quiet();
        assert!(text.contains(&format!("\n\n{reason}")), "{text}");
    }
    for refused in [["--format", "prometheus"], ["--above", "1ms"], ["--sort", "calls"]] {
        let outcome = logs.analyze(&[&["logs", "--by", "state"], &refused[..]].concat());
        assert_eq!((outcome.status, outcome.stdout.as_str()), (2, ""), "{refused:?}");
        assert!(outcome.stderr.contains("by state"), "{refused:?} {}", outcome.stderr);
    }
}

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
