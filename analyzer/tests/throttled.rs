//! Methods that the agent throttled, and the probes' share, read from files.

use std::fs;

use crate::common::*;
use log_format::file_names::RUN_JSON;
use log_format::rows::{EventRow, counter as name, event};
use log_format::run::Run;

const HASH: &str = "com.shop.Util.hash(Ljava/lang/String;)I";
const NEXT: &str = "com.shop.Dice.next()I";
const RUN_A: &str = "20261120T140000Z-web07-4242";
const RUN_B: &str = "20261120T150000Z-web08-17";

fn back(at_ns: u64, method: &str) -> EventRow {
    EventRow { method: method.into(), ..EventRow::new(at_ns, event::UNTHROTTLED) }
}

/// Two hours; `hash` is throttled at 14:03:07, and `next` from 14:10 to 14:20 and from 14:30 to 15:05.
fn shop() -> Logs {
    let logs = Logs::new();
    let run = logs.run(RUN_A, "web07", 4242);
    let methods = [method(1, "com.shop.Util", "hash", "(Ljava/lang/String;)I")];
    run.rows(T14, &methods).rows(T15, &methods);
    for (hour, probe_ns) in [(T14, 27 * MS), (T15, 9 * MS)] {
        for minute in 0..60 {
            let at = hour + minute * MIN;
            run.rows(at, &[stats(at, 1, 0, MS, &[MS])]);
            run.rows(
                at,
                &[
                    counter(at, name::THRESHOLD_NS, MS),
                    counter(at, name::PROBE_NS, probe_ns),
                    counter(at, name::CPU_NS, S),
                ],
            );
        }
    }
    let hash = throttled(T14 + 187 * S, HASH, 2_100_000, 45);
    run.rows(T14, &[hash.clone(), throttled(T14 + 10 * MIN, NEXT, 900_000, 60)]);
    run.rows(T14, &[back(T14 + 20 * MIN, NEXT)]);
    let next = throttled(T14 + 30 * MIN, NEXT, 1_000, 50);
    // The second hour repeats the current state.
    run.rows(T14, std::slice::from_ref(&next)).rows(T15, &[hash, next]);
    run.rows(T15, &[back(T15 + 5 * MIN, NEXT)]);
    logs
}

/// A text without line breaks inside its items.
fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_text_names_the_methods_and_the_share_of_probes() {
    let text = shop().analyze(&["logs"]).quiet();
    assert_golden("throttled.txt", &text);
    for more in [&[][..], &["--from", "14:25"], &["--method", "com.shop"]] {
        let text = shop().analyze(&[&["logs", "--notes"], more].concat()).quiet();
        let hash = "hash(Ljava/lang/String;)I was throttled since 2026-11-20T14:03:07Z (";
        assert!(unwrapped(&text).contains(hash), "{text}");
    }
    let early = unwrapped(&shop().analyze(&["logs", "--notes", "--to", "14:25"]).quiet());
    let next = format!(
        "{NEXT} was throttled from 2026-11-20T14:10:00Z to 2026-11-20T14:20:00Z \
         (900,000 calls/s, average 60 ns); its time is in its callers' self time"
    );
    assert!(early.contains(&next), "{early}");
    let late = unwrapped(&shop().analyze(&["logs", "--notes", "--from", "15:05"]).quiet());
    assert!(
        !late.contains("Dice") && late.contains("The profiler took about 0.9% of the"),
        "{late}"
    );
    let earliest = unwrapped(&shop().analyze(&["logs", "--notes", "--to", "14:03"]).quiet());
    assert!(!earliest.contains("was throttled") && earliest.contains("about 2.7%"), "{earliest}");
}

/// Their times are listed at the end, whatever the text shows, if all notes are asked for.
#[test]
fn throttled_methods_take_one_line_at_the_top_and_one_at_the_end_without_notes() {
    let logs = shop();
    let other = logs.run(RUN_B, "web08", 17);
    other.rows(T15, &[method(1, "C", "m", "()V")]).rows(T15, &[stats(T15, 1, 0, MS, &[MS])]);
    for i in 0..8 {
        other.rows(T15, &[throttled(T15 + S, &format!("C.m{i}()V"), 10 + i, 20)]);
    }
    for class in ["C", "D"] {
        let reason = "run runs in thread main".to_owned();
        let postponed = EventRow::new(T15, event::CLASS_POSTPONED);
        other.rows(T15, &[EventRow { class: class.into(), reason, ..postponed }]);
    }
    for args in [&[][..], &["--tree", "top-down"], &["--slowest", "3"], &["--by", "hour"]] {
        let report = |more: &[&str]| {
            let text = logs.analyze(&[&["logs"], args, more].concat()).quiet();
            let (head, rest) = text.split_once("\n\n").unwrap();
            (unwrapped(head), rest.to_owned())
        };
        let line = " trust profiler about 1.8% of CPU, 10 methods throttled, 13 notes: ";
        let (head, rest) = report(&["--notes"]);
        let (_, details) = rest.split_once("Notes\n").unwrap();
        assert!(head.ends_with(&format!("{line}see the end")), "{args:?}: {head}");
        for (one, count) in [("was throttled", 10), ("was not instrumented", 2)] {
            assert!(!head.contains(one), "{args:?}: {head}");
            assert_eq!(details.matches(one).count(), count);
        }
        let (head, rest) = report(&[]);
        assert!(head.ends_with(&format!("{line}--notes")), "{args:?}: {head}");
        let flaws = "\nWhat is missing; all notes (13): --notes\n\n  2 classes were not instrumented, all \
                     or part of the time\n  10 methods were throttled, all or part of the time; ";
        assert!(rest.contains(flaws) && !rest.contains("took about"), "{args:?}: {rest}");
    }
}

#[test]
fn an_hour_stands_alone() {
    let logs = shop();
    for entry in fs::read_dir(logs.root().join("logs").join(RUN_A)).unwrap() {
        let path = entry.unwrap().path();
        if path.to_string_lossy().contains("20261120T14Z") {
            fs::remove_file(path).unwrap();
        }
    }
    let text = unwrapped(&logs.analyze(&["logs", "--notes"]).quiet());
    let hash = "was throttled since 2026-11-20T14:03:07Z (2,100,000 calls/s, average 45 ns)";
    assert!(text.contains(&format!("{HASH} {hash}")), "{text}");
    assert!(
        text.contains("throttled from 2026-11-20T14:30:00Z to 2026-11-20T15:05:00Z (1,000"),
        "{text}"
    );
}

#[test]
fn formats_without_a_place_for_it_say_it_on_stderr_and_tables_stay_as_they_are() {
    let csv = shop().analyze(&["logs", "--format", "csv"]);
    assert_eq!((csv.status, csv.csv_column("method")), (0, vec!["hash".to_owned()]));
    let line = format!("analyze: missing: {HASH} was throttled since ");
    assert!(csv.stderr.contains(&line), "{}", csv.stderr);
    assert!(csv.stderr.contains("analyze: The profiler took about 1.8% of the "), "{}", csv.stderr);
    let html = shop().analyze(&["logs", "--format", "html"]);
    assert_eq!((html.status, html.stderr.as_str()), (0, ""));
}

#[test]
fn json_has_all_of_them_with_their_runs() {
    let logs = shop();
    let run = logs.run(RUN_B, "web08", 17);
    run.rows(T15, &[method(1, "C", "m", "()V")]).rows(T15, &[stats(T15, 1, 0, MS, &[MS])]);
    for i in 0..20 {
        run.rows(T15, &[throttled(T15 + S, &format!("C.m{i}()V"), 10 + i, 20)]);
    }
    run.rows(T15, &[0, 11].map(|s| counter(T15 + s * S, name::BYTES, 1)));
    let missing = logs.analyze(&["logs", "--format", "json"]).json()["missing"].clone();
    assert_eq!(missing["probe_ns"], 60 * 36 * MS);
    assert_eq!(missing["cpu_ns"], 120 * S);
    assert_eq!(missing["throttled"].as_array().unwrap().len(), 22);
    assert_eq!(
        missing["throttled"][0],
        serde_json::json!({
            "run": RUN_A, "method": HASH, "from_ns": T14 + 187 * S, "to_ns": null, "times": 1,
            "out_ns": T15 + 59 * MIN - T14 - 187 * S, "calls_per_s": 2_100_000, "mean_ns": 45,
        })
    );
    let next = &missing["throttled"][1];
    assert_eq!((&next["times"], &next["to_ns"]), (&2.into(), &(T15 + 5 * MIN).into()));
    assert_eq!(missing["throttled"][2]["method"], "C.m19()V");
    let text = unwrapped(&logs.analyze(&["logs", "--notes"]).quiet());
    let hash =
        format!("since 2026-11-20T14:03:07Z in run {RUN_A} (2,100,000 calls/s, average 45 ns)");
    assert!(text.contains(&hash), "{text}");
    assert!(text.contains(" 12 more methods were throttled"), "{text}");
    // What the log does not have is missing.
    let old = logs.analyze(&["logs", "--run", RUN_B, "--format", "json"]).json();
    assert!(old["missing"].get("cpu_ns").is_none() && old["missing"].get("probe_ns").is_none());
}

#[test]
fn a_comparison_says_how_many_there_are_and_counts_the_whole_time() {
    let logs = shop();
    let side = logs.root().join("logs").join(RUN_A);
    let side = side.to_str().unwrap();
    let text = logs.analyze(&["diff", side, side]).quiet();
    let count = "missing: 2 methods were throttled, all or part of the time; meanwhile their time \
                 is in their callers' self time";
    assert_eq!(unwrapped(&text).matches(count).count(), 2, "{text}");
    let json = logs.analyze(&["diff", side, side, "--format", "json"]).json();
    assert_eq!(json["after"]["missing"]["throttled"].as_array().unwrap().len(), 2);
    // A row within an interval does not end it.
    assert_eq!(json["after"]["recorded_ns"], 2 * HOUR);
}

#[test]
fn figures_say_how_long_their_method_was_throttled() {
    let ns = (57 * MIN - 7 * S + HOUR - MIN).to_string();
    let column = |more: &[&str]| {
        let arguments = [&["logs", "--format", "csv"][..], more].concat();
        shop().analyze(&arguments).csv_column("throttled_ns")
    };
    assert_eq!(column(&[]), [ns.as_str()]);
    assert_eq!(column(&["--to", "14:03"]), ["0"]);
    let hours = [57 * MIN - 7 * S, HOUR - MIN].map(|ns| ns.to_string());
    assert_eq!(column(&["--by", "hour"]), hours);
    let minutes = column(&["--by", "minute"]);
    assert_eq!(minutes[..5], ["0", "0", "0", "53000000000", "60000000000"]);
    assert_eq!(column(&["--by", "host"]), [ns.as_str()]);
    // A minute's calls lack those of a method that was throttled, even if all of them.
    let text = shop().analyze(&["logs", "--by", "minute"]).quiet();
    let minute = |start: &str| text.lines().find(|line| line.starts_with(start)).expect("a minute");
    assert!(!minute("2026-11-20T14:00Z").contains('+'), "{text}");
    assert!(minute("2026-11-20T14:03Z").contains("+ call, self"), "{text}");
    assert!(text.contains("\n+: at least so many; a method was throttled"), "{text}");
    let json = shop().analyze(&["logs", "--format", "json"]).stdout;
    assert!(json.contains(&format!("\"throttled_ns\": {ns}")), "{json}");
    let whole = shop().analyze(&["logs", "--to", "14:03"]).quiet();
    assert!(!whole.contains('+'), "{whole}");
}

/// As throttled ones: a sign, their time, when, and of the patterns that name a method the last one.
#[test]
fn figures_say_how_long_their_method_was_muted() {
    let logs = Logs::new();
    let run = logs.run(RUN_A, "web07", 4242);
    run.rows(
        T14,
        &[method(1, "com.shop.Order", "pay", "()V"), method(2, "com.shop.Dao", "read", "()V")],
    );
    for minute in 0..60 {
        let at = T14 + minute * MIN;
        run.rows(at, &[stats(at, 1, 0, MS, &[MS]), stats(at, 2, 0, MS, &[MS])]);
        run.rows(at, &[counter(at, name::THRESHOLD_NS, MS)]);
    }
    let change = |at, pattern, is_muted| muted(T14 + at * MIN, pattern, is_muted);
    run.rows(
        T14,
        &[
            change(10, "com.shop", true),
            change(15, "com.shop.Dao", false),
            change(20, "com.shop", false),
        ],
    );
    let column = |more: &[&str]| {
        let arguments = [&["logs", "--format", "csv"][..], more].concat();
        let csv = logs.analyze(&arguments);
        csv.csv_column("method").into_iter().zip(csv.csv_column("muted_ns")).collect::<Vec<_>>()
    };
    let row = |method: &str, minutes: u64| (method.to_owned(), (minutes * MIN).to_string());
    assert_eq!(column(&[]), [row("read", 5), row("pay", 10)]);
    assert_eq!(column(&["--from", "14:12", "--to", "14:17"]), [row("read", 3), row("pay", 5)]);
    assert_eq!(column(&["--by", "run"]), [row("read", 5), row("pay", 10)]);
    let by_minute = column(&["--by", "minute", "--method", "com.shop.Order"]);
    let muted_in = by_minute.iter().filter(|(_, ns)| *ns == MIN.to_string()).count();
    assert_eq!(muted_in, 10, "{by_minute:?}");
    let text = logs.analyze(&["logs", "--notes"]).quiet();
    assert!(text.contains("\n+: at least so many; the method was throttled or muted"), "{text}");
    let when = "com.shop was muted from 2026-11-20T14:10:00Z to 2026-11-20T14:20:00Z, 10.0 min of the selected time; \
                its time is in its callers' self time";
    assert!(unwrapped(&text).contains(when), "{text}");
    let json = logs.analyze(&["logs", "--format", "json"]).json();
    let muted = &json["missing"]["muted"][0];
    assert_eq!((&muted["pattern"], &muted["muted_ns"]), (&"com.shop".into(), &(10 * MIN).into()));
    let early = logs.analyze(&["logs", "--notes", "--to", "14:10"]).quiet();
    assert!(!early.contains('+') && !early.contains("was muted"), "{early}");
}

/// Whether the figures are of recorded calls or of the interval that the selected time lies in.
#[test]
fn within_an_interval_a_method_is_throttled_no_longer_than_selected() {
    for is_recorded in [false, true] {
        let logs = shop();
        if is_recorded {
            let run = RunFolder(logs.root().join("logs").join(RUN_A));
            run.rows(T14, &[stack(1, 0, 1)]);
            run.rows(T14, &[call(T14 + 4 * MIN + 15 * S, 1, 1, 1, 2 * MS)]);
        }
        let report = |from: &str, to: &str| {
            let select = ["logs", "--from", from, "--to", to];
            let json = logs.analyze(&[&select[..], &["--format", "json"]].concat()).json();
            let of = if is_recorded { "recorded_calls" } else { "statistics" };
            assert_eq!(json["figures_of"], of, "{from} {to}");
            let found =
                [&json["methods"][0]["throttled_ns"], &json["missing"]["throttled"][0]["out_ns"]];
            let found = found.map(|ns| ns.as_u64().unwrap() / S);
            let text = logs.analyze(&select).quiet();
            (found, text.contains("+: at least so many"))
        };
        assert_eq!(report("14:04:10", "14:04:20"), ([10, 10], true));
        if !is_recorded {
            // Throttled in the interval, but not in the selected time.
            assert_eq!(report("14:03:01", "14:03:05"), ([0, 0], true));
            assert_eq!(report("14:03:02", "14:03:12"), ([5, 5], true));
        }
    }
}

/// Methods that were throttled for part of the time are not in the figures by minute.
#[test]
fn hours_and_charts_have_only_methods_that_were_measured_all_the_time() {
    let logs = shop();
    let run = RunFolder(logs.root().join("logs").join(RUN_A));
    let pay =
        [method(2, "com.shop.Order", "pay", "()V"), method(3, "com.shop.Page", "draw", "()V")];
    run.rows(T14, &pay).rows(T15, &pay);
    // The same number of calls of `pay` in both hours; many of `hash` and `draw` in the first hour only.
    for (hour, many) in [(T14, 1_000), (T15, 1)] {
        run.rows(hour, &[stats(hour, 2, 0, 50 * MS, &[MS; 50])]);
        run.rows(
            hour,
            &[stats(hour + MIN, 1, 0, S, &vec![MS; many]), stats(hour, 3, 0, S, &vec![MS; many])],
        );
    }
    let page = muted(T14 + 30 * MIN, "com.shop.Page", true);
    run.rows(T14, std::slice::from_ref(&page)).rows(T15, &[page]);
    let text = logs.analyze(&["logs"]).quiet();
    let (_, hours) = text.split_once("Hours compared").expect("hours");
    let hours: Vec<&str> = hours.lines().skip(1).take(5).collect();
    assert_eq!(hours[0], "Without 2 methods that were throttled or muted for part of the time");
    for (line, hour) in hours[3..].iter().zip(["14:00Z", "15:00Z"]) {
        let cells: Vec<&str> = line.split_whitespace().collect();
        assert_eq!((&cells[0][11..], cells[1]), (hour, "50"), "{hours:?}");
    }
    // The methods' own rows have all calls.
    let csv = logs.analyze(&["logs", "--format", "csv"]);
    let calls: Vec<_> = csv.csv_column("method").into_iter().zip(csv.csv_column("calls")).collect();
    assert!(calls.contains(&("draw".into(), "1001".into())), "{calls:?}");
}

#[test]
fn the_share_of_probes_in_the_first_ten_seconds_is_reported_apart() {
    let logs = Logs::new();
    let run = logs.run(RUN_A, "web07", 4242);
    let about = Run { format_version: 1, start_ns: T14 + 20 * S, ..Run::default() };
    fs::write(run.0.join(RUN_JSON), about.to_json()).unwrap();
    run.rows(T14, &[method(1, "C", "m", "()V")]);
    for (second, probe_ns) in [(20, 90 * MS), (30, 10 * MS), (60, 10 * MS)] {
        let at = T14 + second * S;
        run.rows(T14, &[stats(at, 1, 0, MS, &[MS])]);
        run.rows(T14, &[counter(at, name::PROBE_NS, probe_ns), counter(at, name::CPU_NS, S)]);
    }
    let text = unwrapped(&logs.analyze(&["logs", "--notes"]).quiet());
    let note = "The profiler took about 3.7% of the process's CPU time (an estimate): about 9.0% in the first ten \
                seconds, about 1.0% after";
    assert!(text.contains(note), "{text}");
    let trust = "profiler about 3.7% of CPU (first 10 s 9.0%, then 1.0%), 1 note:";
    assert!(text.contains(trust), "{text}");
}

/// Two methods of 60 ns and 1 us a call, when a call's probes take 75 ns: half of these are in the self time.
#[test]
fn methods_whose_time_is_mostly_that_of_their_probes_have_a_sign() {
    let logs = Logs::new();
    let run = logs.run(RUN_A, "web07", 4242);
    run.rows(T14, &[method(1, "Util", "hash", "()V"), method(2, "Dao", "find", "()V")]);
    run.rows(T14, &[stats(T14, 1, 0, 60_000, &[60; 1_000])]);
    run.rows(T14, &[stats(T14, 2, 0, 1_000_000, &[1_000; 1_000])]);
    let without = logs.analyze(&["logs", "--format", "csv"]).csv_column("probe_ns");
    assert_eq!(without, ["", ""]);
    let price = |at, ns| counter(at, name::PROBE_CALL_NS, ns);
    run.rows(T14, &[price(T14, 120), price(T14 + MIN, 75)]);
    let csv = logs.analyze(&["logs", "--format", "csv"]);
    assert_eq!(csv.csv_column("method"), ["find", "hash"]);
    assert_eq!(csv.csv_column("probe_ns"), ["75000", "75000"]);
    let json = logs.analyze(&["logs", "--format", "json"]).quiet();
    assert_eq!(json.matches("\"probe_ns\": 75000").count(), 2, "{json}");
    let text = logs.analyze(&["logs"]).quiet();
    let sign = "~: at least half of this self time is spent in probes (an estimate)";
    assert_eq!(text.matches(sign).count(), 2, "{text}");
    assert_eq!(text.matches(" 5.7%~").count(), 2, "{text}");
    assert!(text.contains("94.3%  ") && !text.contains("94.3%~"), "{text}");
}
