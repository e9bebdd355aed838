//! Stacks of one in so many calls of a traced method.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use log_format::rows::counter;
use serde_json::json;
use test_classes::{
    Java, Jdk, Profile, TracedCalls, artifacts, classes, ends_of_jdks, error_line, free_port, jdks,
    jdks_from, tprofiler, tprofiler_json, traced_calls, wait_until,
};

const THREADS: u64 = 3;
const PAY: &str = "programs.Traced pay (I)I";
const ITEM: &str = "programs.Traced$Item <init> (I)V";

fn options(logs: &Path, more: &str) -> String {
    let logs = logs.display();
    format!("include=programs,leaves=keep,overhead=off,logs={logs},{more}")
}

/// Traces each hundredth call of one method, and each seventieth of a constructor.
fn compare(jdk: &Jdk, arguments: &[&str]) {
    let logs = tempfile::tempdir().expect("a temporary folder");
    let traces = "trace=programs.Traced.pay:100,trace=programs.Traced$Item.<init>:70";
    let options = options(logs.path(), &format!("port=off,sampler_cap=off,{traces}"));
    let java = Java::new(jdk).agent(&options).main(classes(), "programs.Traced");
    java.args(arguments).run().expect_quiet_success(jdk);
    let profile = Profile::only_run(logs.path());
    assert_eq!(profile.counter(counter::TRACE_SAMPLES_DROPPED), 0, "{jdk}");
    let rounds: u64 = arguments[0].parse().expect("a number");
    let all = traced_calls(&profile.folder);
    for (method, every, calls) in [(PAY, 100, 4 * rounds * THREADS), (ITEM, 70, rounds * THREADS)] {
        assert_eq!(profile.counts[method].calls, calls, "{jdk}");
        let of: Vec<&TracedCalls> = all.iter().filter(|row| row.method == method).collect();
        let samples: u64 = of.iter().map(|row| row.samples).sum();
        // One of each hundred of a thread, or of a carrier, and one of the rest or none.
        let differs = samples.abs_diff(calls / every);
        assert!(differs <= THREADS, "{jdk}: {method}: {samples} of {calls}");
        assert!(of.iter().all(|row| row.calls == every * row.samples), "{jdk}");
    }
    let mut callers: BTreeMap<&str, u64> = BTreeMap::new();
    for row in &all {
        let is_pay = row.method == PAY;
        let name = if is_pay { "programs.Traced.pay" } else { "programs.Traced$Item.<init>" };
        let [.., caller, top] = &*row.frames else { panic!("{jdk}: {row:?}") };
        assert_eq!(top, name, "{jdk}: {row:?}");
        assert_eq!(row.path.last(), Some(&row.method), "{jdk}: {row:?}");
        assert!(row.frames.contains(&"programs.Traced.round".to_owned()), "{jdk}: {row:?}");
        let is_platform = arguments.len() == 1;
        assert_eq!(row.thread.starts_with("caller-"), is_platform, "{jdk}: {row:?}");
        if is_pay {
            *callers.entry(caller).or_default() += row.samples;
        }
    }
    let samples: u64 = callers.values().sum();
    assert!(samples > 1_000, "{jdk}: {samples}");
    let shares = [
        ("programs.Traced.checkout", 0.5),
        ("programs.Traced.refund", 0.25),
        ("programs.Traced$Item.<init>", 0.25),
    ];
    assert_eq!(callers.len(), shares.len(), "{jdk}: {callers:?}");
    for (caller, share) in shares {
        let found = callers[caller] as f64 / samples as f64;
        // Five standard errors.
        let bound = 5.0 * (share * (1.0 - share) / samples as f64).sqrt();
        assert!((found - share).abs() < bound, "{jdk}: {caller}: {found} of {samples}");
    }
}

#[test]
fn one_in_so_many_calls_has_its_stack() {
    for jdk in jdks() {
        compare(jdk, &["20000"]);
    }
}

#[test]
fn calls_in_virtual_threads_have_their_stacks() {
    for jdk in jdks_from(21) {
        compare(jdk, &["20000", "virtual"]);
    }
}

/// What names no method of a class with probes, or has no package, is refused.
fn expect_mistakes_refused(jdk: &Jdk, port: u16) {
    for (command, more) in [("trace", ""), ("mute", ""), ("threshold", ":5ms")] {
        let all = format!(
            "Traced.pay is the end of a name; {command} needs all of it, like programs.Traced.pay"
        );
        for (mistyped, why) in
            [("programs.Traced.sell", "programs.Traced has no method sell"), ("Traced.pay", &all)]
        {
            let refused = tprofiler(port, &[command, &format!("{mistyped}{more}")]);
            let line = error_line(&refused);
            assert!(line.ends_with(&format!("{command}: {why}\n")), "{jdk}: {line}");
        }
    }
    let status = tprofiler_json(port, &["status"]);
    assert_eq!((&status["own_thresholds"], &status["methods_muted"]), (&json!([]), &json!(0)));
}

/// Also of methods that the overhead budget has throttled, and by threads that go on.
#[test]
fn commands_trace_and_untrace() {
    for jdk in ends_of_jdks() {
        let logs = tempfile::tempdir().expect("a temporary folder");
        let port = free_port();
        let options = options(logs.path(), &format!("port={port},sampler_cap=off"));
        let options = options.replace("overhead=off", "overhead=0.1%");
        let java = Java::new(jdk).agent(&options);
        let mut program = java.main(classes(), "programs.Traced").talk();
        assert_eq!(program.hear(), "ready");
        let samples = || tprofiler_json(port, &["trace"])["trace_samples"].as_u64();
        wait_until("the method is throttled", || {
            program.ask("100000");
            let throttled = tprofiler_json(port, &["overhead"]);
            throttled["throttled"].to_string().contains("pay")
        });
        assert_eq!(samples(), Some(0), "{jdk}");
        let on = tprofiler_json(port, &["trace", "programs.Traced.pay", "1000"]);
        let wanted = serde_json::json!([{ "pattern": "programs.Traced.pay", "every": 1000 }]);
        assert_eq!(on["traces"], wanted, "{jdk}: {on}");
        let options = tprofiler_json(port, &["options"]);
        assert_eq!(options["options"]["trace"], "programs.Traced.pay:1000", "{jdk}");
        wait_until("all calls are traced", || {
            let before = samples();
            program.ask("100000");
            // Three threads, four calls a round. The thousands of a thread do not begin with the rounds.
            let now = samples();
            now.zip(before).is_some_and(|(now, before)| (now - before).abs_diff(1_200) <= THREADS)
        });
        let off = tprofiler_json(port, &["untrace"]);
        assert_eq!(off["traces"], json!([]), "{jdk}: {off}");
        let last = samples();
        program.ask("100000");
        assert_eq!(samples(), last, "{jdk}");
        expect_mistakes_refused(jdk, port);
        // A class may come later.
        let nothing = tprofiler_json(port, &["trace", "programs.Later.sell"]);
        assert_eq!(
            nothing["hints"][0], "no instrumented class has methods that programs.Later.sell names",
            "{jdk}: {nothing}"
        );
        let again = tprofiler_json(port, &["trace"]);
        assert_eq!(again["hints"], nothing["hints"], "{jdk}: {again}");
        // Without any, no pattern is left.
        let off = tprofiler_json(port, &["untrace", "programs.Later.sell"]);
        assert_eq!(
            (&off["traces"], &off["hints"]),
            (&json!([]), &nothing["hints"]),
            "{jdk}: {off}"
        );
        let one = tprofiler_json(port, &["trace", "programs.Traced.pay", "100"]);
        assert_eq!(one["traces"].as_array().map(Vec::len), Some(1), "{jdk}: {one}");
        let wrong = tprofiler(port, &["trace", "programs.Traced.pay", "often"]);
        assert!(error_line(&wrong).contains("'often' is not a number of calls"), "{wrong:?}");
        assert_eq!(program.end().status, Some(0), "{jdk}");
    }
}

/// Of each call of a method that is called all the time, stacks would take all of the CPU time.
#[test]
fn stacks_keep_to_the_cap() {
    for jdk in ends_of_jdks() {
        let logs = tempfile::tempdir().expect("a temporary folder");
        let port = free_port();
        let java =
            Java::new(jdk).agent(&options(logs.path(), &format!("port={port},sampler_cap=1%")));
        let mut program = java.main(classes(), "programs.Traced").talk();
        assert_eq!(program.hear(), "ready");
        tprofiler_json(port, &["trace", "programs.Traced.pay"]);
        let factor = || tprofiler_json(port, &["trace"])["trace_factor"].as_u64();
        wait_until("stacks are rarer", || {
            program.ask("1000000");
            factor() > Some(50)
        });
        assert_eq!(program.end().status, Some(0), "{jdk}");
        let mut analyze = Command::new(&artifacts().analyze);
        let report = analyze.arg(logs.path()).output().expect("it runs");
        let text = String::from_utf8_lossy(&report.stdout);
        assert!(text.contains("Traced: 1 method"), "{jdk}: {text}");
    }
}
