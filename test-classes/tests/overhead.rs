//! Methods that cost more than they are worth are throttled and named, and all others stay exact.

use std::process::Command;

use log_format::rows::counter;
use serde_json::Value;
use test_classes::{
    Dialogue, Java, Jdk, Profile, Record, artifacts, at_once, classes, compile, compiler,
    ends_of_jdks, free_port, jdks, project, tprofiler, tprofiler_json as ask, wait_until,
};

/// Calls of a method at once; they take some tens of milliseconds.
const ERRANDS: u64 = 1_000_000;

/// Names of the throttled methods.
fn throttled(port: u16) -> Vec<String> {
    let answer = ask(port, &["overhead"]);
    let methods = answer["throttled"].as_array().expect("a list").iter();
    methods.map(|method| method["method"].as_str().expect("a name").to_owned()).collect()
}

fn has(port: u16, method: &str) -> bool {
    throttled(port).iter().any(|name| name == method)
}

fn start(jdk: &Jdk, logs: &std::path::Path, port: u16, thresholds: &str) -> Dialogue {
    let options = format!(
        "include=programs.Turning,exclude=**.pause,{thresholds},overhead=2%,logs={},port={port}",
        logs.display()
    );
    let mut program = Java::new(jdk).agent(&options).main(classes(), "programs.Turning").talk();
    program.ask("begin");
    program
}

/// For how many seconds threads of a process have waited for a processor.
fn waited(pid: u32) -> f64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("its threads");
    let delay_ns = tasks.flatten().filter_map(|task| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split(' ').nth(1)?.parse::<f64>().ok()
    });
    delay_ns.sum::<f64>() / 1e9
}

/// On each JDK; the budget is changed while the program runs.
/// Calls that throttling cuts short are not counted as muted ones.
fn expect_nothing_muted(port: u16, jdk: &Jdk) {
    let status = ask(port, &["status"]);
    assert_eq!(status["overhead_budget"], 0.02, "{jdk}");
    assert_eq!((&status["methods_muted"], &status["calls_muted"]), (&0.into(), &0.into()), "{jdk}");
}

/// The mark of methods that had more calls is explained.
fn expect_more_calls(port: u16, jdk: &Jdk) {
    let top = tprofiler(port, &["top", "1000"]).stdout;
    let why =
        "\n+: more calls, not counted: the method was throttled or muted for a time in this run\n";
    assert!(String::from_utf8_lossy(&top).contains(why), "{jdk}");
}

#[test]
fn what_is_throttled_is_named_and_all_else_is_exact() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let logs = folder.path().join("logs");
        let port = free_port();
        let mut program = start(jdk, &logs, port, "threshold=1ms");
        wait_until("it is throttled", || has(port, "step"));
        let status = ask(port, &["status"]);
        assert!(status["methods_throttled"].as_u64() > Some(0), "{jdk}: {status}");
        wait_until("the budget is kept to", || {
            ask(port, &["status"])["overhead_estimated"].as_f64().expect("a share") < 0.02
        });
        let mut errands = 0;
        wait_until("errand is throttled", || {
            errands += ERRANDS;
            program.ask(&format!("errands {ERRANDS}"));
            has(port, "errand")
        });
        let states = ask(port, &["methods", "programs.Turning.errand"]);
        let state = states["methods"][0]["state"].as_str().expect("a state");
        assert!(["throttled", "compiled out"].contains(&state), "{jdk}: {states}");
        // All errands until then may have been counted. These come after it.
        errands += ERRANDS;
        program.ask(&format!("errands {ERRANDS}"));
        expect_nothing_muted(port, jdk);
        let answer = ask(port, &["overhead", "off"]);
        assert_eq!(answer["overhead_budget"], Value::Null, "{jdk}");
        assert_eq!(answer["methods_throttled"], 0, "{jdk}");
        // Throttled before, exact from then on, and marked as having had more calls.
        let counted = || {
            let top = ask(port, &["top", "1000"]);
            let methods = top["methods"].as_array().expect("a list").iter();
            let errand = methods.clone().find(|m| m["method"] == "errand").expect("a method");
            assert_eq!(errand["was_throttled"], true, "{jdk}");
            errand["calls"].as_u64().expect("a number")
        };
        let before = counted();
        assert!(before < errands, "{jdk}: {before} of {errands}");
        expect_more_calls(port, jdk);
        program.ask("errands 12345");
        assert_eq!(counted(), before + 12_345, "{jdk}");
        let seen = || ask(port, &["status"])["calls_seen"].as_u64().expect("a number");
        let before = seen();
        wait_until("it is measured again", || seen() > before + 1_000_000);
        ask(port, &["overhead", "5%"]);
        wait_until("it is throttled again", || has(port, "step"));
        assert!(!tprofiler(port, &["overhead", "lots"]).status.success(), "{jdk}");
        let finished = program.end();
        assert_eq!(finished.stderr, "", "{jdk}");
        let requests: u64 = finished.stdout.trim().parse().expect("a number");
        let profile = Profile::only_run(&logs);
        let counted = profile.counts["programs.Turning$Serving request ()J"];
        assert_eq!((counted.calls, counted.throws), (requests, 0), "{jdk}");
        assert!(profile.is_throttled("programs.Turning$Looping step (I)J"), "{jdk}");
        assert!(profile.is_throttled("programs.Turning errand (J)J"), "{jdk}");
        assert!(profile.counter(counter::PROBE_NS) > 0, "{jdk}");
        assert_eq!(profile.counter(counter::UNSEEN_ENDS), 0, "{jdk}");
        let report = Command::new(&artifacts().analyze).arg("--notes").arg(&logs).output();
        let report = String::from_utf8(report.expect("it runs").stdout).expect("text");
        let says = report.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(says.contains("step(I)J was throttled"), "{jdk}: {report}");
        assert!(says.contains("The profiler took"), "{jdk}: {report}");
    }
}

/// A long stop discards compiled code. The next start instruments throttled methods again.
#[test]
fn what_was_throttled_is_measured_again_after_a_long_stop() {
    let jdk = jdks().last().expect("a JDK");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let port = free_port();
    let mut program = start(jdk, &folder.path().join("logs"), port, "threshold=1ms");
    wait_until("errand is throttled", || {
        program.ask(&format!("errands {ERRANDS}"));
        has(port, "errand")
    });
    ask(port, &["stop"]);
    // Ten seconds later, compiled code is discarded.
    std::thread::sleep(std::time::Duration::from_secs(12));
    ask(port, &["start"]);
    assert!(!has(port, "errand"));
    let counted = || {
        let top = ask(port, &["top", "1000"]);
        let methods = top["methods"].as_array().expect("a list").iter();
        let errand = methods.clone().find(|method| method["method"] == "errand");
        errand.expect("a method")["calls"].as_u64().expect("a number")
    };
    let before = counted();
    program.ask("errands 123");
    assert_eq!(counted(), before + 123, "{jdk}");
    assert_eq!(program.end().status, Some(0), "{jdk}");
}

/// Looks at waiting threads find a throttled method that has turned slow; it is measured again, without a class being
/// changed.
#[test]
fn what_turns_slow_is_measured_again() {
    at_once(ends_of_jdks(), |jdk| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (logs, port) = (folder.path().join("logs"), free_port());
        let options =
            format!("include=programs.Slowing,overhead=2%,logs={},port={port}", logs.display());
        let mut program = Java::new(jdk).agent(&options).main(classes(), "programs.Slowing").talk();
        let state = |method: &str| {
            let states = ask(port, &["methods", &format!("programs.Slowing.{method}")]);
            states["methods"][0]["state"].as_str().expect("a state").to_owned()
        };
        // The first wave comes whenever there is load.
        program.ask("idle");
        std::thread::sleep(std::time::Duration::from_secs(11));
        program.ask("first");
        wait_until("the first method is compiled out", || state("first") == "compiled out");
        let throttled = ask(port, &["overhead"])["throttled"].clone();
        assert_eq!(throttled[0]["is_compiled_out"], true, "{jdk}: {throttled}");
        // The code is compiled again meanwhile, without probes of what is throttled.
        std::thread::sleep(std::time::Duration::from_secs(11));
        program.ask("fast");
        wait_until("it is throttled", || has(port, "step"));
        assert_eq!(state("step"), "throttled", "{jdk}");
        program.ask("slow");
        wait_until("it is measured again", || !has(port, "step"));
        let slow = || ask(port, &["status"])["recorded_calls"].as_u64().expect("a number");
        let before = slow();
        wait_until("its slow calls are recorded", || slow() > before + 200);
        assert!(!has(port, "step"), "{jdk}: it is throttled again");
        program.end().expect_quiet_success(jdk);
        let profile = Profile::only_run(&logs);
        let is_slow = |r: &&Record| r.method.starts_with("programs.Slowing step ");
        assert!(profile.records.iter().filter(is_slow).count() > 200, "{jdk}");
    });
}

/// While threads wait for a processor, any call may look slow. That makes no method worth its probes. Runs alone: in
/// a JVM that gets an eighth of a processor, the agent's own work, which no throttling changes, is 3 to 5%.
#[test]
fn beside_a_busy_program_the_budget_is_kept_to_as_well() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let classes = folder.path().join("classes");
    let sources = ["Figures", "Service", "Shop"]
        .map(|class| project().join(format!("test-classes/java/workloads/{class}.java")));
    compile(compiler(), &["--release", "11", "-nowarn"], &sources, &classes);
    for jdk in ends_of_jdks() {
        let (logs, port) = (folder.path().join(jdk.to_string()), free_port());
        let options =
            format!("include=workloads.Shop,overhead=2%,logs={},port={port}", logs.display());
        let java = Java::beside_a_busy_program(jdk).agent(&options);
        let program = java.main(&classes, "workloads.Service").args(["1", "60"]).start();
        wait_until("it answers", || logs.exists());
        let status = || ask(port, &["status"]);
        wait_until("its threads wait", || waited(program.pid()) > 5.0);
        wait_until("the budget is kept to", || {
            let status = status();
            status["methods_throttled"].as_u64() > Some(0)
                && status["overhead_estimated"].as_f64() < Some(0.02)
        });
        let status = status();
        let share = |name: &str| status[name].as_f64().expect("a share");
        let (probes, all) = (share("overhead_of_probes"), share("overhead_estimated"));
        assert!(0.0 < probes && probes < all, "{jdk}: {status}");
        let states = ask(port, &["methods", "workloads.Shop.order"]);
        assert_eq!(states["methods"][0]["state"], "instrumented", "{jdk}: {states}");
    }
}

/// Even where distortion is worst, there is an estimate, and the distorted rows are marked.
#[test]
fn without_a_budget_the_cost_is_reported_as_well() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let logs = folder.path().join("logs");
        let port = free_port();
        let options = format!(
            "include=programs.Turning,leaves=keep,overhead=off,logs={},port={port}",
            logs.display()
        );
        let mut program = Java::new(jdk).agent(&options).main(classes(), "programs.Turning").talk();
        program.ask("begin");
        wait_until("an estimate", || {
            ask(port, &["status"])["overhead_estimated"].as_f64().expect("a share") > 0.05
        });
        assert_eq!(ask(port, &["status"])["methods_throttled"], 0, "{jdk}");
        // Until the cost of a call is known, in each JVM.
        let price = || {
            ask(port, &["flush"]);
            Profile::only_run(&logs).counters.contains_key(counter::PROBE_CALL_NS)
        };
        wait_until("the price of a call", price);
        assert_eq!(program.end().stderr, "", "{jdk}");
        let profile = Profile::only_run(&logs);
        for counted in [counter::PROBE_NS, counter::CPU_NS, counter::PROBE_CALL_NS] {
            assert!(profile.counter(counted) > 0, "{jdk}: {counted}");
        }
        let report = Command::new(&artifacts().analyze).arg("--notes").arg(&logs).output();
        let report = String::from_utf8(report.expect("it runs").stdout).expect("text");
        assert!(report.contains("The profiler took about"), "{jdk}: {report}");
        let csv = Command::new(&artifacts().analyze).args(["--format", "csv"]).arg(&logs).output();
        let csv = String::from_utf8(csv.expect("it runs").stdout).expect("text");
        let lookup = csv.lines().find(|line| line.contains(",lookup,")).expect("a method");
        let fields: Vec<&str> = lookup.split(',').collect();
        let of = |name: &str| {
            let columns = csv.lines().next().expect("columns").split(',');
            let place = columns.rev().position(|column| column == name).expect("a column");
            fields.iter().rev().nth(place).expect("a field").parse::<u64>().expect("a number")
        };
        assert!(of("probe_ns") >= of("calls"), "{jdk}: {csv}");
    }
}
