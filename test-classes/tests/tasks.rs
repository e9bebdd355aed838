//! Profile tasks: the slow requests of an endpoint with all their calls, against a program that knows its own times.

use log_format::rows::{Exit, TaskState, counter};
use serde_json::Value;
use test_classes::{
    Dialogue, Java, Jdk, Profile, Task, TaskCall, at_once, classes, ends_of_jdks, error_line,
    free_port, jdks, jdks_from, tasks, tprofiler, tprofiler_json, tprofiler_text,
};

const PAY: &str = "--endpoint=programs.Endpoints.pay";

/// The program, with its agent.
struct Endpoints {
    dialogue: Dialogue,
    port: u16,
    logs: tempfile::TempDir,
}

/// A request as the program knows it.
#[derive(Debug)]
struct Known {
    start_ns: u64,
    /// Outermost last, in nanoseconds.
    times: Vec<(String, u64)>,
}

impl Known {
    fn parse(answer: &str) -> Self {
        let words: Vec<&str> = answer.split(' ').collect();
        let number = |word: &str| word.parse::<u64>().expect("a number") * 1_000;
        let times = words[1..].chunks(2).map(|pair| (pair[0].to_owned(), number(pair[1])));
        Self { start_ns: number(words[0]), times: times.collect() }
    }
}

impl Endpoints {
    fn start(jdk: &Jdk, more: &str) -> Self {
        let (logs, port) = (tempfile::tempdir().expect("a temporary folder"), free_port());
        let options = format!(
            "include=programs.Endpoints,port={port},logs={},exclude=programs.Endpoints$Times,exclude=programs.Endpoints.rest,exclude=programs.Endpoints.spin,overhead=off,threshold=150ms{more}",
            logs.path().display()
        );
        let java = Java::new(jdk).agent(&options).main(classes(), "programs.Endpoints");
        let mut dialogue = java.talk();
        // It listens then.
        dialogue.ask("short");
        Self { dialogue, port, logs }
    }

    fn ask(&mut self, line: &str) -> Known {
        Known::parse(&self.dialogue.ask(line))
    }

    /// Orders a task, and returns it.
    fn order(&self, more: &[&str]) -> Value {
        let arguments = [&["task", PAY, "--duration=1m"], more].concat();
        tprofiler_json(self.port, &arguments)["task"].clone()
    }

    fn list(&self) -> Vec<Value> {
        tprofiler_json(self.port, &["tasks"])["tasks"].as_array().expect("tasks").clone()
    }

    /// Ends the program, and returns its tasks and what was recorded besides.
    fn end(self) -> (Vec<Task>, Profile) {
        self.dialogue.end().expect_quiet_success("programs.Endpoints");
        let run = Profile::runs(self.logs.path()).remove(0);
        (tasks(&run), Profile::read(&run))
    }
}

/// The call's duration is the one that the program knows, or a little longer: the program's clock runs inside it.
fn expect_time(call: &TaskCall, known_ns: u64) {
    let more = call.total_ns as f64 / known_ns as f64;
    assert!((0.99..1.2).contains(&more), "{call:?}: {known_ns}");
}

fn shape(calls: &[TaskCall]) -> Vec<String> {
    calls.iter().map(TaskCall::names).collect()
}

#[test]
fn slow_requests_are_recorded_with_all_their_calls() {
    at_once(jdks(), |jdk| {
        let mut program = Endpoints::start(jdk, "");
        // Before the task, nothing is recorded for it.
        program.ask("pay");
        let task = program.order(&["--min-duration=100ms", "--max-samples=3"]);
        assert_eq!((&task["state"], &task["requests"]), (&"running".into(), &0.into()));
        let mut known = vec![program.ask("pay")];
        program.ask("short");
        program.ask("other");
        known.push(program.ask("throwing"));
        known.push(program.ask("nested"));
        // One more than the task wants.
        program.ask("pay");
        assert_eq!(program.list()[0]["reason"], "count");
        let (tasks, profile) = program.end();
        assert_eq!(tasks.len(), 1, "{jdk}");
        let task = &tasks[0];
        let states = [TaskState::Notified, TaskState::Running, TaskState::Finished];
        assert_eq!((&task.states[..], task.row.requests), (&states[..], 3), "{jdk}");
        let main = "main request";
        let pay = |path: &str| format!("{main} pay{path}");
        let shapes = [
            vec![pay(" stock"), pay(" price"), pay("")],
            vec![pay(" stock"), pay("")],
            vec![pay(" pay stock"), pay(" pay price"), pay(" pay"), pay("")],
        ];
        for ((request, known), shape_of) in task.requests.iter().zip(&known).zip(shapes) {
            let calls: Vec<TaskCall> = request
                .calls
                .iter()
                .filter(|call| !call.names().ends_with("rest") || shape_of.contains(&call.names()))
                .cloned()
                .collect();
            assert_eq!(shape(&calls), shape_of, "{jdk}");
            let timed: Vec<&TaskCall> =
                calls.iter().filter(|call| !call.names().ends_with("rest")).collect();
            let known_times = known.times.iter().filter(|(name, _)| name != "threw");
            for (call, (name, ns)) in timed.iter().zip(known_times) {
                assert!(call.names().ends_with(name), "{jdk}: {call:?}");
                expect_time(call, *ns);
            }
            assert_eq!((&*request.thread, request.dropped), ("main", 0));
            assert!(
                request.start_ns.abs_diff(known.start_ns) < 50_000_000,
                "{request:?} {known:?}"
            );
        }
        let exits: Vec<Exit> = task.requests.iter().map(|request| request.exit).collect();
        assert_eq!(exits, [Exit::Return, Exit::Throw, Exit::Return]);
        // Recorded calls are those of the threshold, as without a task.
        assert!(profile.records.iter().all(|record| record.total_ns >= 150_000_000), "{jdk}");
        let of = |name: &str| {
            profile.records.iter().filter(|r| r.method.split(' ').nth(1) == Some(name)).count()
        };
        assert_eq!((of("pay"), of("stock"), of("price")), (6, 6, 4), "{jdk}");
    });
}

/// Many short calls, each far below the time between two snapshots, are what a request's time goes to.
#[test]
fn short_calls_of_a_request_are_all_there() {
    for jdk in ends_of_jdks() {
        let mut program = Endpoints::start(jdk, "");
        program.order(&["--max-samples=2"]);
        let known = program.ask("many 2000");
        let (tasks, _) = program.end();
        let request = &tasks[0].requests[0];
        let queries: Vec<u64> = request
            .calls
            .iter()
            .filter(|call| call.names() == "main request pay query")
            .map(|call| call.total_ns)
            .collect();
        assert_eq!((queries.len(), request.dropped), (2_000, 0), "{jdk}");
        let share = queries.iter().sum::<u64>() as f64 / known.times[0].1 as f64;
        assert!((0.9..1.001).contains(&share), "{jdk}: {share}");
    }
}

/// So many calls are recorded that their thread has no room for more: no request is missing, and each says what it
/// lacks.
#[test]
fn requests_are_not_lost_among_too_many_recorded_calls() {
    for jdk in ends_of_jdks() {
        let mut program = Endpoints::start(jdk, "");
        tprofiler_json(program.port, &["threshold", "1us"]);
        program.order(&["--max-samples=9", "--min-duration=20ms"]);
        program.ask("dense 20");
        let (tasks, profile) = program.end();
        assert!(profile.counter(counter::RECORDED_CALLS_DROPPED) > 10_000, "{jdk}");
        let requests = &tasks[0].requests;
        assert_eq!(requests.len(), 9, "{jdk}: {}", tasks[0].row.reason);
        for pair in requests.windows(2) {
            let end_ns = pair[0].start_ns + pair[0].total_ns;
            let between_ns = pair[1].start_ns.abs_diff(end_ns);
            assert!(between_ns < pair[0].total_ns / 2, "{jdk}: {pair:?}");
        }
        // Steps are too short for the task, but for those that others interrupted.
        for request in requests {
            assert!(request.dropped < 200, "{jdk}: {request:?}");
            assert!(request.calls.iter().all(|call| call.total_ns >= 100_000), "{jdk}");
        }
    }
}

#[test]
fn requests_of_many_threads_at_once() {
    for jdk in ends_of_jdks() {
        let mut program = Endpoints::start(jdk, "");
        program.order(&["--min-duration=100ms", "--max-samples=9"]);
        program.dialogue.ask("threads 20");
        expect_payers(&program.end().0, jdk);
    }
    for jdk in jdks_from(21) {
        let mut program = Endpoints::start(jdk, "");
        program.order(&["--min-duration=100ms", "--max-samples=9"]);
        program.dialogue.ask("virtual 20");
        expect_payers(&program.end().0, jdk);
    }
}

fn expect_payers(tasks: &[Task], jdk: &Jdk) {
    assert_eq!(tasks[0].requests.len(), 9, "{jdk}");
    let mut threads: Vec<&str> = tasks[0].requests.iter().map(|r| &*r.thread).collect();
    threads.sort_unstable();
    threads.dedup();
    assert_eq!(threads.len(), 9, "{jdk}: {threads:?}");
    for request in &tasks[0].requests {
        assert!(request.thread.starts_with("payer-"), "{jdk}: {}", request.thread);
        let own = shape(&request.calls);
        let ends: Vec<&str> =
            own.iter().map(|names| names.rsplit(' ').next().unwrap_or_default()).collect();
        assert_eq!(ends, ["stock", "price", "pay"], "{jdk}: {own:?}");
    }
}

/// A request that hangs is in the log, with where it is, when its task is cancelled, and when the agent ends.
#[test]
fn requests_in_progress_are_recorded_when_the_task_ends() {
    for jdk in ends_of_jdks() {
        for cancels in [true, false] {
            let mut program = Endpoints::start(jdk, "");
            assert_eq!(program.order(&["--id=hang", "--min-duration=100ms"])["id"], "hang");
            program.dialogue.ask("hang");
            let known = program.ask("pay");
            let end: &[&str] = if cancels { &["task", "--cancel=hang"] } else { &["detach"] };
            let ended = tprofiler_json(program.port, end);
            if cancels {
                assert_eq!(ended["tasks"][0]["state"], "finished");
                let again = tprofiler(program.port, end);
                let line = error_line(&again);
                assert!(line.ends_with("task: hang is finished already\n"), "{line}");
            }
            program.dialogue.ask("release");
            let (tasks, _) = program.end();
            assert_eq!(tasks[0].row.reason, if cancels { "cancelled" } else { "agent ended" });
            let requests = &tasks[0].requests;
            let exits: Vec<Exit> = requests.iter().map(|request| request.exit).collect();
            assert_eq!(exits, [Exit::Return, Exit::Unfinished], "{jdk}: {requests:?}");
            let hanging = &requests[1];
            assert_eq!(hanging.thread, "hanging");
            let [stock, pay] = &hanging.calls[..] else { panic!("{jdk}: {hanging:?}") };
            assert!(pay.names().ends_with(" request pay"), "{jdk}: {pay:?}");
            assert_eq!(stock.names(), pay.names() + " stock");
            assert_eq!(stock.exit, Exit::Unfinished);
            // It hung while the other one ran.
            assert!(hanging.total_ns >= known.times.last().expect("pay").1, "{hanging:?}");
        }
    }
}

#[test]
fn what_a_task_could_not_see_is_in_its_reason() {
    let jdk = jdks().first().expect("a JDK");
    let program = Endpoints::start(jdk, "");
    program.order(&["--id=blind"]);
    for command in [&["stop"][..], &["start"], &["mute", "programs.Endpoints.stock"]] {
        tprofiler_json(program.port, command);
    }
    let cancelled = tprofiler_json(program.port, &["task", "--cancel=blind"]);
    let expected = "cancelled; recording was off for a time; methods were muted or unmuted";
    assert_eq!(cancelled["tasks"][0]["reason"], expected);
    // A new one has both.
    tprofiler_json(program.port, &["stop"]);
    tprofiler_json(program.port, &["mute", "programs.Endpoints.pay"]);
    let task = tprofiler_json(program.port, &["task", PAY, "--duration=1m"]);
    let hints = task["hints"].as_array().expect("hints");
    let said = |word: &str| hints.iter().any(|hint| hint.as_str().expect("text").contains(word));
    assert!(hints.len() == 2 && said("is muted") && said("recording is off"), "{task}");
    let (tasks, _) = program.end();
    assert_eq!(tasks[1].row.reason, "agent ended; recording was off for a time");
}

/// A request that began before its task is no request of it, because its beginning was not seen.
#[test]
fn requests_that_began_before_the_task_are_not_recorded() {
    let jdk = jdks().first().expect("a JDK");
    let mut program = Endpoints::start(jdk, "");
    program.dialogue.ask("hang");
    program.order(&["--max-samples=9"]);
    program.dialogue.ask("release");
    program.ask("pay");
    let (tasks, _) = program.end();
    assert_eq!(tasks[0].requests.len(), 1);
    assert_eq!(tasks[0].requests[0].thread, "main");
}

/// SkyWalking's checks, and what rejected tasks get as a reason.
#[test]
fn tasks_are_checked() {
    let jdk = jdks().first().expect("a JDK");
    let program = Endpoints::start(jdk, "");
    let first = program.order(&["--id=first"]);
    assert_eq!(first["state"], "running");
    for (arguments, message) in [
        (&["--endpoint=", "--duration=1m"][..], "endpoint: must not be empty"),
        (&["--endpoint=a.B.c", "--duration=30s"], "duration=30s: must be from 1m to 15m"),
        (&["--endpoint=a.B.c", "--duration=16m"], "duration=16m: must be from 1m to 15m"),
        (&["--endpoint=a.B.c", "--dump-period=5ms"], "dump_period=5ms: must be at least 10ms"),
        (&["--endpoint=a.B.c", "--max-samples=10"], "max_samples=10: must be from 1 to 9"),
        (&["--endpoint=a.B.c", "--id=first"], "task first exists"),
    ] {
        let output = tprofiler(program.port, &[&["task"], arguments].concat());
        let line = error_line(&output);
        assert!(
            line.ends_with(&format!("error: task: {message}\n"))
                || line.ends_with(&format!("task: {message}\n")),
            "{line}"
        );
    }
    let overlapping = tprofiler(program.port, &["task", "--endpoint=a.B.c"]);
    let line = error_line(&overlapping);
    assert!(
        line.contains("task: overlaps task first (programs.Endpoints.pay), which lasts until 20"),
        "{line}"
    );
    let unmapped = tprofiler(program.port, &["task", "--endpoint=/api/users"]);
    assert!(error_line(&unmapped).contains("'/api/users' is no method"), "{unmapped:?}");
    tprofiler_json(program.port, &["task", "--cancel=first"]);
    let states: Vec<String> = program
        .list()
        .iter()
        .map(|task| task["state"].as_str().expect("a state").to_owned())
        .collect();
    assert_eq!(states[0], "finished");
    assert_eq!(states.iter().filter(|state| *state == "rejected").count(), 6);
    let (tasks, _) = program.end();
    // Of those that are rejected, the log has one a second.
    assert!((2..7).contains(&tasks.len()), "{tasks:?}");
    assert_eq!(tasks[1].row.reason, "endpoint: must not be empty");
}

/// An endpoint's name from a mapping file, a start at a time of the day, and an endpoint that is not there.
#[test]
fn an_endpoint_may_be_a_name_for_methods() {
    let jdk = jdks().last().expect("a JDK");
    let mut program = Endpoints::start(jdk, "");
    let file = program.logs.path().with_extension("endpoints");
    std::fs::write(&file, "# shop\n/pay = programs.Endpoints.stock, programs.Endpoints.price\n")
        .expect("a file");
    let from_file = format!("--endpoints={}", file.display());
    let text = tprofiler_text(&[
        "task",
        "--endpoint=/pay",
        &from_file,
        "--max-samples=2",
        "--id=mapped",
        &format!("--addr=127.0.0.1:{}", program.port),
    ]);
    assert!(
        text.contains("task: mapped running, 0 of 2 requests of /pay of any duration"),
        "{text}"
    );
    program.ask("pay");
    let missing = tprofiler(program.port, &["task", "--endpoint=/other", &from_file]);
    assert!(error_line(&missing).ends_with("endpoints: no line for /other\n"), "{missing:?}");
    let later =
        tprofiler_json(program.port, &["task", "--endpoint=no.such.Endpoint.at", "--start=00:00"]);
    assert_eq!(later["task"]["state"], "notified");
    assert!(
        later["hints"][0].as_str().expect("a hint").contains(" that no.such.Endpoint.at names"),
        "{later}"
    );
    // A class that has probes and no such method will not come to have it.
    let mistyped = tprofiler(program.port, &["task", "--endpoint=programs.Endpoints.stok"]);
    let why = "programs.Endpoints has no method stok; nearest: stock";
    assert!(error_line(&mistyped).ends_with(&format!("task: {why}\n")), "{mistyped:?}");
    std::fs::remove_file(&file).expect("the file");
    let (tasks, _) = program.end();
    assert_eq!((tasks[2].row.state, &*tasks[2].row.reason), (TaskState::Rejected, why));
    let names: Vec<Vec<String>> = tasks[0]
        .requests
        .iter()
        .map(|request| vec![request.calls.last().expect("a call").names()])
        .collect();
    assert_eq!(names, [["main request pay stock"], ["main request pay price"]]);
    assert_eq!(tasks[1].row.reason, "agent ended");
}
