//! Profiling tasks of processes, SkyWalking's eBPF profiling, with a real server and programs that know their own
//! shares.

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use test_classes::{
    Bridge, Finished, Java, Jdk, Oap, Profile, Running, classes, ends_of_jdks, free_port,
    service_id, skipped, wait_until,
};

/// The end of a symbol of the kernel.
const KERNEL: &str = " [k]";

/// A program with its agent, whose process the server knows.
struct Profiled<'o> {
    oap: &'o Oap,
    service: String,
    running: Running,
    bridge: Bridge,
    folder: tempfile::TempDir,
}

impl<'o> Profiled<'o> {
    fn start(jdk: &Jdk, oap: &'o Oap, program: &str, more: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let logs = folder.path().join("logs");
        let (port, logs) = (free_port(), logs.display());
        let options = format!("include=programs,port={port},logs={logs}{more}");
        let java = Java::new(jdk).agent(&options).main(classes(), &format!("programs.{program}"));
        let running = java.arg("110").start();
        let service = format!("{program}-{}", jdk.version);
        let bridge = Bridge::start(&oap.address, &service, folder.path(), &["--instance", "web07"]);
        Self { oap, service, running, bridge, folder }
    }

    /// Has the server profile it for a minute. Returns each symbol of the program with its sum;
    /// those in the kernel end in `[k]`.
    fn profile(&mut self, target: &str, by: &[&str]) -> Vec<Vec<(String, f64)>> {
        let service = service_id(&self.service);
        let query = "query($s: ID!) { it: queryPrepareCreateEBPFProfilingTaskData(serviceId: $s) {\
                     couldProfiling } }";
        wait_until("the server knows the process", || {
            thread::sleep(Duration::from_secs(1));
            self.oap.graphql(query, &json!({ "s": service }))["it"]["couldProfiling"] == true
        });
        let query = "mutation($r: EBPFProfilingTaskFixedTimeCreationRequest!) {\
                     it: createEBPFProfilingFixedTimeTask(request: $r) { status errorReason id } }";
        let request = json!({
            "serviceId": service, "processLabels": [], "startTime": 0, "duration": 60,
            "targetType": target,
        });
        let created = self.oap.graphql(query, &json!({ "r": request }));
        let task = created["it"]["id"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned();
        self.bridge.wait_for(&format!("profiling task {task} of web07: {target}, 60 s"));
        thread::sleep(Duration::from_secs(60));
        self.bridge.wait_for(&format!("profiling task {task} ({target}): "));
        by.iter().map(|by| self.symbols(&task, by)).collect()
    }

    fn symbols(&self, task: &str, by: &str) -> Vec<(String, f64)> {
        let query = "query($t: ID!) { it: queryEBPFProfilingSchedules(taskId: $t) {\
                     scheduleId startTime endTime } }";
        let mut schedule = Value::Null;
        wait_until("the schedule", || {
            thread::sleep(Duration::from_secs(1));
            schedule = self.oap.graphql(query, &json!({ "t": task }))["it"][0].clone();
            !schedule.is_null()
        });
        let ms = |key: &str| schedule[key].as_u64().expect("a time");
        assert!((55_000..=60_000).contains(&(ms("endTime") - ms("startTime"))), "{schedule}");
        let query = "query($i: [ID!]!, $r: [EBPFProfilingAnalyzeTimeRange!]!,\
                     $b: EBPFProfilingAnalyzeAggregateType!) {\
                     it: analysisEBPFProfilingResult(scheduleIdList: $i, timeRanges: $r,\
                     aggregateType: $b) { tip trees { elements { symbol stackType dumpCount } } } }";
        let range = json!([{ "start": ms("startTime"), "end": ms("endTime") + 1_000 }]);
        let variables = json!({ "i": [schedule["scheduleId"]], "r": range, "b": by });
        let mut symbols = Vec::new();
        wait_until("the stacks", || {
            thread::sleep(Duration::from_secs(1));
            let trees = self.oap.graphql(query, &variables)["it"]["trees"].clone();
            let trees = trees.as_array().cloned().unwrap_or_default();
            let elements =
                trees.iter().flat_map(|tree| tree["elements"].as_array().expect("a list"));
            symbols = elements
                .map(|element| {
                    let mut symbol = element["symbol"].as_str().expect("a symbol").to_owned();
                    if element["stackType"] == "KERNEL_SPACE" {
                        symbol += KERNEL;
                    }
                    (symbol, element["dumpCount"].as_f64().expect("a number"))
                })
                .collect();
            !symbols.is_empty()
        });
        symbols
    }

    fn end(self) -> (Finished, String) {
        let finished = self.running.wait();
        let (status, said) = self.bridge.end("TERM");
        assert_eq!(status, Some(0), "{said}");
        (finished, said)
    }
}

fn sum(symbols: &[(String, f64)], of: &str) -> f64 {
    symbols.iter().filter(|(symbol, _)| symbol == of).map(|(_, sum)| sum).sum()
}

#[test]
#[ignore = "full lane: it starts a SkyWalking server"]
fn time_on_and_off_the_processor_is_the_programs() {
    let oap = Oap::start(&[]);
    let jdk = ends_of_jdks().pop().expect("a JDK");
    thread::scope(|scope| {
        let on = scope.spawn(|| on_cpu(jdk, &oap));
        let off = scope.spawn(|| off_cpu(jdk, &oap));
        let in_kernel = scope.spawn(|| in_kernel(jdk, &oap));
        for test in [on, off, in_kernel] {
            test.join().expect("a test that passes");
        }
    });
}

fn on_cpu(jdk: &Jdk, oap: &Oap) {
    let mut profiled = Profiled::start(jdk, oap, "Shares", "");
    let symbols = profiled.profile("ON_CPU", &["COUNT"]).remove(0);
    let (finished, said) = profiled.end();
    assert!(said.contains(" stacks sent, by CPU samples\n"), "{said}");
    let mut known: Vec<(String, f64)> = Vec::new();
    for line in finished.stdout.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        if let [_, method, ns] = words[..]
            && method.starts_with('m')
        {
            known.push((method.to_owned(), ns.parse().expect("nanoseconds")));
        }
    }
    let methods: Vec<String> = (0..10).map(|n| format!("m{n}")).collect();
    let of_known = |method: &str| sum(&known, method);
    let of_task = |method: &str| sum(&symbols, &format!("programs.Shares.{method}"));
    let all_known: f64 = methods.iter().map(|method| of_known(method)).sum();
    let all: f64 = methods.iter().map(|method| of_task(method)).sum();
    // Ten milliseconds a sample, two threads for a minute.
    assert!(all > 1_000.0, "{symbols:?}");
    for method in &methods {
        let (share, expected) = (of_task(method) / all, of_known(method) / all_known);
        assert!((share - expected).abs() < 0.03, "{jdk}: {method}: {share} instead of {expected}");
    }
}

/// The thread's clocks say how much of its time it is in the kernel; so does the outermost frame there.
fn in_kernel(jdk: &Jdk, oap: &Oap) {
    let mut profiled = Profiled::start(jdk, oap, "InKernel", ",engine=perf");
    let symbols = profiled.profile("ON_CPU", &["COUNT"]).remove(0);
    let run = Profile::only_run(&profiled.folder.path().join("logs")).run;
    let (finished, _) = profiled.end();
    if run.cpu.kernel_frames != Some(true) {
        skipped(&format!("no frames of the kernel: {:?}", run.cpu.kernel_reason));
        return;
    }
    let numbers = finished.numbers();
    let [user, system] = ["user", "system"].map(|name| numbers[name] as f64);
    let outermost = symbols.iter().filter(|(symbol, _)| symbol.ends_with(KERNEL));
    let outermost = outermost.map(|(_, sum)| *sum).fold(0.0, f64::max);
    let all = sum(&symbols, "programs.InKernel.spend");
    let (share, expected) = (outermost / all, system / (user + system));
    assert!((share - expected).abs() < 0.05, "{jdk}: {share} instead of {expected}: {symbols:?}");
    // Outside of the kernel, the stacks are the process's own.
    assert!(sum(&symbols, "programs.InKernel.read") > 0.9 * outermost, "{jdk}: {symbols:?}");
}

fn off_cpu(jdk: &Jdk, oap: &Oap) {
    let mut profiled = Profiled::start(jdk, oap, "Rhythm", "");
    let found = profiled.profile("OFF_CPU", &["COUNT", "DURATION"]);
    let (finished, said) = profiled.end();
    assert!(said.contains("by looks at threads; switches by the kernel's counts\n"), "{said}");
    for line in finished.stdout.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [method, times, ns] = words[..] else { panic!("{line}") };
        let number = |word: &str| word.parse::<f64>().expect("a number");
        let symbol = format!("programs.Rhythm.{method}");
        let (count, duration) = (sum(&found[0], &symbol), sum(&found[1], &symbol));
        // It waits nearly all the time.
        assert!((55e9..61e9).contains(&duration), "{jdk}: {method}: {duration}");
        // On a busy machine, threads leave the processor more often than they say.
        let rate = (count / duration) / (number(times) / number(ns));
        assert!((0.9..1.3).contains(&rate), "{jdk}: {method}: {rate} of the program's rate");
    }
}
