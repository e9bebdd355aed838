//! Commands that observe a running service: `top`, `inflight` and `options`, as text and as JSON.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpStream;

use log_format::rows::counter;
use serde_json::{Value, json};
use test_classes::{Counts, Java, Jdk, Profile, classes, free_port, jdks, tprofiler, wait_until};

fn text(port: u16, arguments: &[&str]) -> String {
    let output = tprofiler(port, arguments);
    assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

fn json(port: u16, arguments: &[&str]) -> Value {
    let text = text(port, &[arguments, &["--json"]].concat());
    assert_eq!(text.lines().count(), 1, "{text}");
    serde_json::from_str(&text).expect("JSON")
}

fn fails(port: u16, arguments: &[&str], message: &str) {
    let output = tprofiler(port, arguments);
    let error = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {error}");
    assert!(error.ends_with(&format!(": {message}\n")) && error.lines().count() == 1, "{error}");
}

/// Calls and throws of each method that `top` shows.
fn shown(top: &Value) -> BTreeMap<String, (u64, u64)> {
    let methods = top["methods"].as_array().expect("methods");
    methods
        .iter()
        .map(|m| {
            let number = |key: &str| m[key].as_u64().expect("a number");
            assert!(number("self_ns") <= number("total_ns"), "{m}");
            assert!(number("max_ns") <= number("total_ns"), "{m}");
            (m["method"].as_str().expect("a name").to_owned(), (number("calls"), number("throws")))
        })
        .collect()
}

/// CPU time of methods, measured or not, and what threads wait for.
#[test]
fn top_has_cpu_time_and_waiting_by_samples() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (file, port) = (folder.path().join("stop"), free_port());
        let logs = folder.path().join("logs");
        let options = format!("include=nothing.at.all,logs={},port={port}", logs.display());
        let java = Java::new(jdk).agent(&options).main(classes(), "programs.Busy");
        let running = java.arg("2").arg(&file).start();
        let second_ns = 1_000_000_000;
        wait_until("a second of CPU time", || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
                && json(port, &["top"])["cpu_ns"].as_u64() > Some(second_ns)
        });
        for arguments in [&["top", "1000"][..], &["top", "1000", "--minute"]] {
            let top = json(port, arguments);
            let rows = top["cpu_methods"].as_array().expect("methods");
            let ns = |row: &Value| row["cpu_self_ns"].as_u64().expect("a time");
            let all_ns = top["cpu_ns"].as_u64().expect("a time");
            assert_eq!(rows.iter().map(ns).sum::<u64>(), all_ns, "{jdk}: {top}");
            let is_busy = |row: &&Value| {
                row["class"].as_str().is_some_and(|c| c.starts_with("programs.Busy"))
            };
            let busy_ns: u64 = rows.iter().filter(is_busy).map(ns).sum();
            assert!(busy_ns > all_ns / 3, "{jdk}: {top}");
            assert!(rows.is_sorted_by_key(|row| std::cmp::Reverse(ns(row))), "{jdk}: {top}");
            // `main` looks for the file now and then.
            let waiting = top["waiting_ns"].as_object().expect("states");
            let of = |state: &str| waiting.get(state).and_then(Value::as_u64).unwrap_or(0);
            assert!(of("sleeping") + of("parked") > second_ns / 10, "{jdk}: {top}");
        }
        let shown = text(port, &["top"]);
        assert!(
            shown.lines().any(|line| line.starts_with("cpu: ") && line.contains("%), ")),
            "{shown}"
        );
        assert!(shown.lines().any(|line| line.starts_with("waiting: ")), "{shown}");
        fs::write(&file, "").expect("a file");
        assert_eq!(running.wait().status, Some(0), "{jdk}");
    }
}

/// Of the run, and of the last minute, which is all of it.
#[test]
fn top_has_locks_allocations_and_exceptions() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let port = free_port();
        let options = format!("alloc=64k,logs={},port={port}", folder.path().display());
        let java = Java::new(jdk).agent(&options).main(classes(), "programs.Trouble");
        let running = java.arg("4").start();
        wait_until("many waits", || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
                && json(port, &["top"])["locks"][0]["waits"].as_u64() > Some(100)
        });
        for arguments in [&["top", "3"][..], &["top", "3", "--minute"]] {
            let top = json(port, arguments);
            let (lock, class, thrown) =
                (&top["locks"][0], &top["allocations"][0], &top["exceptions"][0]);
            let number = |row: &Value, key: &str| row[key].as_u64().expect("a number");
            assert_eq!(lock["lock"], "programs.Trouble$Stock", "{jdk}: {lock}");
            assert_eq!(lock["method"]["method"], "handle", "{jdk}: {lock}");
            // It is held for 4 ms each time, and three threads may be before.
            let wait_ns = number(lock, "total_ns") / number(lock, "waits");
            assert!((1_000_000..100_000_000).contains(&wait_ns), "{jdk}: {lock}");
            assert_eq!(class["class"], "char[]", "{jdk}: {class}");
            // Those of the export have 8,016 bytes; the JDK has small ones.
            let size = number(class, "bytes") / number(class, "objects");
            assert!((6_000..8_100).contains(&size), "{jdk}: {class}");
            assert_eq!(thrown["exception"], "programs.Trouble$NoSuchSymbol", "{jdk}: {thrown}");
            assert_eq!(thrown["method"]["method"], "price", "{jdk}: {thrown}");
            assert_eq!(number(thrown, "began"), number(thrown, "thrown"), "{jdk}: {thrown}");
        }
        let shown = text(port, &["top"]);
        for start in ["lock: ", "allocated: ", "exceptions: "] {
            assert!(shown.lines().any(|line| line.starts_with(start)), "{jdk}: {shown}");
        }
        assert_eq!(running.wait().status, Some(0), "{jdk}");
    }
}

#[test]
fn top_has_the_exact_counts_of_the_hottest_methods() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let port = free_port();
        let options =
            format!("include=programs.Phases,cpu=off,logs={},port={port}", folder.path().display());
        let mut program = Java::new(jdk).agent(&options).main(classes(), "programs.Phases").talk();
        assert_eq!(program.ask("wait"), "ready");
        assert_eq!(shown(&json(port, &["top"])), BTreeMap::new(), "{jdk}");
        // No minute has passed yet.
        let minute = text(port, &["top", "--minute"]);
        let covers = minute.lines().find_map(|line| line.strip_prefix("covers: ")).expect("a time");
        assert!(covers.ends_with("s, less than a minute: all since the run began"), "{covers}");
        let counts = program.ask("calls 1000");
        assert_eq!(counts, "outer 1000 middle 3000 thrown 600 leaf 3000", "{jdk}");
        let expected: BTreeMap<String, (u64, u64)> = [
            ("calls", (1, 0)),
            ("<init>", (1, 0)),
            ("outer", (1000, 0)),
            ("middle", (3000, 600)),
            ("leaf", (3000, 0)),
        ]
        .map(|(name, counts)| (name.to_owned(), counts))
        .into();
        let top = json(port, &["top"]);
        assert_eq!(shown(&top), expected, "{jdk}");
        assert_eq!(top["methods_called"], 5, "{jdk}");
        assert_eq!(top["profiling"], true, "{jdk}");
        let thrown = &top["exceptions"][0];
        assert_eq!(thrown["exception"], "java.lang.IllegalStateException", "{jdk}: {thrown}");
        assert_eq!(thrown["method"]["method"], "middle", "{jdk}: {thrown}");
        assert_eq!((&thrown["began"], &thrown["thrown"]), (&600.into(), &600.into()), "{jdk}");
        // All of it in the last minute, whatever was written meanwhile.
        text(port, &["flush"]);
        assert_eq!(shown(&json(port, &["top", "--minute"])), expected, "{jdk}");
        let since = |top: &Value| top["since_ns"].as_u64().expect("a time");
        assert_eq!(since(&json(port, &["top"])), since(&top), "{jdk}");

        program.ask("calls 1000");
        let methods = json(port, &["top", "2"]);
        let methods = methods["methods"].as_array().expect("methods");
        assert_eq!(methods.len(), 2, "{jdk}");
        let self_ns = |m: &Value| m["self_ns"].as_u64().expect("a time");
        assert!(self_ns(&methods[0]) >= self_ns(&methods[1]), "{jdk}: {methods:?}");
        for method in methods {
            assert_eq!(method["loader"], "app", "{jdk}: {method}");
        }
        let lines = text(port, &["top", "3"]);
        let lines: Vec<&str> = lines.lines().collect();
        assert_eq!(lines.len(), 3 + 3 + 3 + 1, "{jdk}: {lines:?}");
        let thrown = "exceptions: 1200 began, 1200 calls ended, java.lang.IllegalStateException, ";
        assert!(lines[9].starts_with(thrown), "{jdk}: {lines:?}");
        assert!(lines[6].starts_with("1: self ") && lines[8].starts_with("3: self "), "{lines:?}");
        let all = text(port, &["top", "1000"]);
        let middle = "calls 6000, throws 1200, programs.Phases$Work.middle(I)V\n";
        assert!(all.contains(middle), "{jdk}: {all}");
        fails(
            port,
            &["top", "0"],
            "top: '0' is neither a number from 1 to 1000 nor minute nor sql",
        );
        assert_eq!(program.end().status, Some(0), "{jdk}");
    }
}

/// The calls of a thread: method, and whether they have run for at least that long.
fn calls(thread: &Value) -> Vec<(&str, bool)> {
    let calls = thread["calls"].as_array().expect("calls").iter();
    calls
        .map(|c| {
            (c["method"].as_str().expect("a name"), c["is_long"].as_bool().expect("true or false"))
        })
        .collect()
}

#[test]
#[allow(clippy::too_many_lines, reason = "one scenario told in order")]
fn inflight_shows_a_call_that_hangs_before_it_ends() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let stop = folder.path().join("stop");
        let port = free_port();
        let options = format!(
            "include=programs.Stuck,exclude=**.sleep,logs={},port={port}",
            folder.path().join("logs").display()
        );
        let program =
            Java::new(jdk).agent(&options).main(classes(), "programs.Stuck").arg(&stop).start();
        wait_until("the control port", || tprofiler(port, &["status"]).status.success());
        let threads = if jdk.major >= 21 { 4 } else { 3 };
        let mut seen = Value::Null;
        wait_until("calls of half a second", || {
            seen = json(port, &["inflight", "500"]);
            let all = seen["threads"].as_array().expect("threads");
            // Calls begin some microseconds apart.
            let is_waiting = |thread: &Value| {
                let innermost = thread["calls"].as_array().and_then(|calls| calls.last());
                innermost.is_some_and(|call| call["method"] == "waits" && call["is_long"] == true)
            };
            let hanging = if jdk.major >= 21 { 2 } else { 1 };
            all.len() == threads && all.iter().filter(|t| is_waiting(t)).count() == hanging
        });
        assert_eq!(seen["more_threads"], 0, "{jdk}");
        let all = seen["threads"].as_array().expect("threads");
        let named = |name: &str| {
            let mut found = all.iter().filter(|t| t["name"] == name);
            found.next().unwrap_or_else(|| panic!("{jdk}: {name} in {seen}"))
        };
        let hangs = named("hangs, \"here\"");
        let expected = [("run", true), ("outer", true), ("waits", true)];
        assert_eq!(calls(hangs), expected, "{jdk}: {hangs}");
        assert!(hangs["java_id"].as_u64() > Some(0), "{jdk}: {hangs}");
        assert!(hangs["os_id"].as_u64() > Some(0), "{jdk}: {hangs}");
        assert_eq!(hangs["virtual"], false, "{jdk}: {hangs}");
        for call in hangs["calls"].as_array().expect("calls") {
            assert_eq!(call["class"], "programs.Stuck$Hangs", "{jdk}: {call}");
            let ns = call["running_ns"].as_u64().expect("a time");
            assert!((500_000_000..60_000_000_000).contains(&ns), "{jdk}: {call}");
        }
        assert_eq!(calls(named("main")), [("main", true)], "{jdk}");
        // A short call in a long one, unless it is just between two.
        wait_until("a step", || {
            let seen = json(port, &["inflight", "500"]);
            let loops = seen["threads"].as_array().expect("threads").iter();
            let loops: Vec<&Value> = loops.filter(|t| t["name"] == "loops").collect();
            loops.len() == 1 && calls(loops[0]) == [("run", true), ("slow", true), ("step", false)]
        });
        if jdk.major >= 21 {
            let hangs = all.iter().find(|t| t["virtual"] == true).expect("a virtual thread");
            assert_eq!(calls(hangs), expected, "{jdk}: {hangs}");
        }

        // As text, with the innermost long call of the longest first.
        let lines = text(port, &["inflight", "500"]);
        let at = lines.find("thread: hangs, \"here\" (java id ").expect("the thread");
        let keys: Vec<&str> = lines[at..]
            .lines()
            .skip(1)
            .take_while(|line| !line.starts_with("thread: "))
            .map(|line| line.rsplit_once(' ').expect("a call").1)
            .collect();
        // Times have three digits and the unit that a person would take.
        let times = lines[at..].lines().skip(1).take_while(|line| !line.starts_with("thread: "));
        for line in times {
            let [_, number, unit, _] = line.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{jdk}: {line}");
            };
            assert!(number.len() <= 4 && ["us", "ms", "s", "min"].contains(&unit), "{jdk}: {line}");
        }
        let method = |name: &str| format!("programs.Stuck$Hangs.{name}()V");
        assert_eq!(keys, [method("run"), method("outer"), method("waits")], "{jdk}: {lines}");
        assert_eq!(json(port, &["inflight", "3600000"])["threads"], json!([]), "{jdk}");

        // Muted methods are skipped, in an unmounted virtual thread too.
        text(port, &["mute", "**.outer"]);
        let seen = json(port, &["inflight", "500"]);
        let all = seen["threads"].as_array().expect("threads");
        let hang = |t: &&Value| t["virtual"] == true || t["name"] == "hangs, \"here\"";
        let hanging: Vec<&Value> = all.iter().filter(hang).collect();
        assert_eq!(hanging.len(), threads - 2, "{jdk}: {seen}");
        for thread in &hanging {
            assert_eq!(calls(thread), [("run", true), ("waits", true)], "{jdk}: {thread}");
        }
        text(port, &["unmute", "**.outer"]);
        fails(port, &["mute", "a/b"], "mute: 'a/b' is not a pattern; use dots: a.b");
        fs::write(&stop, "").expect("a file");
        program.wait().expect_quiet_success(jdk);
        let profile = Profile::only_run(&folder.path().join("logs"));
        let once = Counts { calls: hanging.len() as u64, throws: 0 };
        for (name, expected) in [("run", Some(once)), ("outer", None), ("waits", Some(once))] {
            let found = profile.counts.get(&format!("programs.Stuck$Hangs {name} ()V"));
            assert_eq!(found.copied(), expected, "{jdk}: {name}");
        }
        assert_eq!(profile.counter(counter::UNSEEN_ENDS), 0, "{jdk}");
        assert_eq!(profile.counter(counter::MUTED_CALLS), once.calls, "{jdk}");
        let waits = profile.records.iter().filter(|r| r.method.ends_with("Hangs waits ()V"));
        for record in waits {
            assert!(record.path.iter().all(|m| !m.contains(" outer ")), "{jdk}: {record:?}");
        }
    }
}

#[test]
fn options_and_every_answer_are_there_for_programs() {
    let jdk = jdks().last().expect("a JDK");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let port = free_port();
    let logs = folder.path().join("logs");
    let options = format!(
        "include=programs.Phases,logs={},port={port},max_memory=64m,max_mb=20",
        logs.display()
    );
    let mut program = Java::new(jdk).agent(&options).main(classes(), "programs.Phases").talk();
    assert_eq!(program.ask("wait"), "ready");
    text(port, &["threshold", "**.leaf:3ms"]);
    text(port, &["overhead", "5%"]);
    let options = json(port, &["options"]);
    for (key, value) in [
        ("include", "programs.Phases"),
        ("port", &*port.to_string()),
        ("bind", "127.0.0.1"),
        ("threshold", "1ms,**.leaf:3ms"),
        ("keep", "72h"),
        ("max_memory", "64m"),
        ("max_mb_per_hour", "20"),
        ("overhead", "5%"),
        ("window", ""),
        ("logs", &*logs.display().to_string()),
    ] {
        assert_eq!(options["options"][key], value, "{key}");
    }
    let lines = text(port, &["options"]);
    assert!(lines.contains("\ninclude: programs.Phases\n"), "{lines}");
    assert!(lines.contains("\nthreshold: 1ms,**.leaf:3ms\n"), "{lines}");
    assert!(lines.contains("\nkeep: 72h\n"), "{lines}");

    let pid = program.program.pid();
    for command in ["status", "start", "stop", "flush", "threshold", "mute", "top", "inflight"] {
        let answer = json(port, &[command]);
        assert_eq!((&answer["service"], &answer["pid"]), (&json!("programs.Phases"), &json!(pid)));
        assert!(answer["profiling"].is_boolean(), "{command}: {answer}");
    }
    // Recording was stopped and started: `main` is not recorded until it is entered again.
    assert_eq!(json(port, &["inflight", "0"])["threads"], json!([]));
    let status = json(port, &["status"]);
    for key in ["since_ns", "calls_seen", "methods_muted", "threshold_ns", "hour_budget"] {
        assert!(status[key].is_u64(), "{key} in {status}");
    }
    assert_eq!(
        status["own_thresholds"],
        json!([{"pattern": "**.leaf", "threshold_ns": 3_000_000}])
    );
    let muted = json(port, &["mute", "**.leaf"]);
    assert_eq!(muted["muted"], json!([{"pattern": "**.leaf", "muted": true}]));
    assert_eq!(json(port, &["detach"])["profiling"], false);
    assert_eq!(program.end().status, Some(0));
}

/// For a pattern that names nothing, the answer has the nearest names.
fn expect_hints(jdk: &Jdk, port: u16) {
    for (pattern, hint) in [
        (
            "java.lang.String",
            "no instrumented class has methods that java.lang.String names; such a class is excluded, no include \
             matches it",
        ),
        ("midle", "no instrumented class has methods that midle names; nearest: middle"),
        ("Wrok", "no instrumented class has methods that Wrok names; nearest: Work"),
        (
            "programs.Phases$Wrok",
            "no instrumented class has methods that programs.Phases$Wrok names; nearest: programs.Phases$Work",
        ),
        (
            "programs.Phases$Wrok.middle",
            "no instrumented class has methods that programs.Phases$Wrok.middle names; nearest: \
             programs.Phases$Work.middle",
        ),
        (
            "Phases$Work.midle",
            "no instrumented class has methods that Phases$Work.midle names; nearest: Phases$Work.middle",
        ),
        ("**.nothing", "no instrumented class has methods that **.nothing names"),
        ("programs.Phases$Work.midle", "programs.Phases$Work has no method midle; nearest: middle"),
    ] {
        let answer = json(port, &["methods", pattern]);
        assert_eq!(answer["hints"], json!([hint]), "{jdk}: {answer}");
    }
}

#[test]
fn each_method_has_one_state() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let port = free_port();
        let options = format!(
            "include=programs.Phases,exclude=programs.Phases$Work.leaf,logs={},port={port}",
            folder.path().display()
        );
        let mut program = Java::new(jdk).agent(&options).main(classes(), "programs.Phases").talk();
        program.ask("calls 10");
        text(port, &["mute", "programs.Phases$Work.middle"]);
        let state_of = |method: &str| {
            let answer = json(port, &["methods", &format!("programs.Phases$Work.{method}")]);
            let methods = answer["methods"].as_array().expect("methods");
            let states = methods.iter().map(|m| m["state"].as_str().expect("a state").to_owned());
            states.collect::<Vec<String>>()
        };
        assert_eq!(state_of("outer"), ["instrumented"], "{jdk}");
        assert_eq!(state_of("middle"), ["muted"], "{jdk}");
        assert_eq!(state_of("outer(I)V"), ["instrumented"], "{jdk}");
        let leaf = json(port, &["methods", "programs.Phases$Work.leaf"]);
        let excluded = json!([{ "method": "programs.Phases$Work.leaf", "state": "excluded" }]);
        assert_eq!(leaf["named"], excluded, "{jdk}: {leaf}");
        assert_eq!(leaf["methods"], json!([]), "{jdk}: {leaf}");
        // A short name.
        let short = json(port, &["methods", "Phases$Work.middle"]);
        assert_eq!(short["methods"][0]["state"], "muted", "{jdk}: {short}");
        let all = text(port, &["methods", "programs.Phases"]);
        for line in [
            "instrumented: programs.Phases$Work.outer(",
            "muted: programs.Phases$Work.middle(",
            "without probes: programs.Phases$Work; 1 excluded",
        ] {
            assert_eq!(all.lines().filter(|l| l.starts_with(line)).count(), 1, "{jdk}: {all}");
        }
        // A muted method that was retransformed out still is muted.
        wait_until("it is unmuted", || {
            text(port, &["unmute", "programs.Phases$Work.middle"]);
            state_of("middle") == ["instrumented"]
        });
        expect_hints(jdk, port);
        assert_eq!(program.end().status, Some(0), "{jdk}");
    }
}
