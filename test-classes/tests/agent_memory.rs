//! The agent's memory: with many threads and methods, for idle threads, and after a deep recursion. It is the
//! process's increase over the same work while recording was off.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use log_format::rows::counter;
use test_classes::{
    Dialogue, Java, Jdk, Profile, at_once, classes, compile, compiler, free_port, jdks_by_turns,
    tprofiler,
};

const THREADS: u64 = 500;
/// Including those of the hundred classes that call them, a thread calls 300 methods.
const CALLS: u64 = 200;
const CLASSES: usize = 100;
const METHODS: usize = 200;
/// What the agent keeps of native libraries, in kilobytes. It is read after a second in native code: at the beginning.
const NATIVE: u64 = 4_000;

/// 20,000 methods in the package `many`.
fn generate(folder: &Path) -> PathBuf {
    let mut sources = Vec::new();
    for class in 0..CLASSES {
        let mut text = format!("package many;\npublic final class C{class} {{\n");
        text.push_str("    public static void call(int n) {\n        switch (n) {\n");
        for n in 0..METHODS {
            let _ = writeln!(text, "            case {n}: m{n}(); break;");
        }
        text.push_str("            default: throw new AssertionError();\n        }\n    }\n");
        for n in 0..METHODS {
            let _ = writeln!(text, "    private static void m{n}() {{}}");
        }
        text.push_str("}\n");
        let source = folder.join(format!("C{class}.java"));
        fs::write(&source, text).expect("a file");
        sources.push(source);
    }
    let output = folder.join("classes");
    compile(compiler(), &["--release", "11"], &sources, &output);
    output
}

/// Kilobytes of anonymous memory.
fn anonymous_kb(program: &Dialogue) -> u64 {
    let path = format!("/proc/{}/status", program.program.pid());
    let status = fs::read_to_string(path).expect("a process");
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).expect("its memory");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse().ok()).expect("a number")
}

/// Makes all threads do something, and returns the memory a moment later, in kilobytes: by then, idle threads have
/// returned what they do not need.
fn stage(program: &mut Dialogue, stage: &str) -> u64 {
    assert_eq!(program.ask(stage), stage);
    std::thread::sleep(Duration::from_millis(1_500));
    anonymous_kb(program)
}

/// Kilobytes that the stages take with recording on, and what was recorded.
fn run<const STAGES: usize>(
    jdk: &Jdk,
    folder: &Path,
    many: &Path,
    max_memory: &str,
    stages: [&str; STAGES],
) -> ([u64; STAGES], Profile) {
    let path = format!("{}:{}", classes().display(), many.display());
    let numbers = [THREADS, CALLS, CLASSES as u64, METHODS as u64].map(|n| n.to_string());
    let (logs, port) = (folder.join(format!("{}-{max_memory}", jdk.major)), free_port());
    let options = format!(
        "include=many,include=programs,start=off,max_memory={max_memory},logs={},port={port}",
        logs.display()
    );
    // The heap is allocated from the start, and no compiler takes memory at random times.
    let heap = ["-Xms64m", "-Xmx64m", "-XX:+AlwaysPreTouch", "-XX:+UseSerialGC", "-Xint"];
    let java = Java::new(jdk).args(heap).agent(&options);
    let java = java.arg("-cp").arg(&path).arg("programs.Crowd").args(&numbers);
    let mut program = java.talk();
    // Everything once while recording is off: then the JVM has allocated what it needs for it.
    let before = stages.map(|name| stage(&mut program, name));
    assert!(tprofiler(port, &["start"]).status.success(), "{jdk}");
    let kb = stages.map(|name| {
        assert_eq!(program.ask(name), name);
        // What the agent keeps about written statistics of each thread is allocated with the statistics.
        assert!(tprofiler(port, &["flush"]).status.success(), "{jdk}");
        stage(&mut program, "nothing").saturating_sub(before[STAGES - 1])
    });
    let finished = program.end();
    assert_eq!(finished.status, Some(0), "{jdk}: {}", finished.stderr);
    let is_reported = finished.stderr.contains("no more memory for profiling");
    assert_eq!(is_reported, !finished.stderr.is_empty(), "{jdk}: {}", finished.stderr);
    println!("{jdk}, {max_memory}: after {stages:?} {kb:?} kB");
    let profile = Profile::only_run(&logs);
    assert_eq!(profile.counter(counter::LOST_CALLS) > 0, is_reported, "{jdk}");
    (kb, profile)
}

/// Calls of the generated methods in a stage `call`.
const GENERATED: u64 = 2 * THREADS * CALLS;

/// Calls of the generated methods.
fn generated(profile: &Profile) -> u64 {
    let generated = profile.counts.iter().filter(|(name, _)| name.starts_with("many.C"));
    generated.map(|(_, counts)| counts.calls).sum()
}

#[test]
fn five_hundred_threads_and_twenty_thousand_methods() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let many = generate(folder.path());
    at_once(jdks_by_turns(), |jdk| {
        // Some 2 MB that the agent thread or the allocator keeps come and go, so all is called twice.
        let stages = ["deflate", "one", "call", "call", "recurse"];
        let (kb, profile) = run(jdk, folder.path(), &many, "256m", stages);
        let [_, idle, first, second, recursed] = kb;
        let called = first.max(second);
        // 16 kB a thread, and what samples take.
        assert!(idle < THREADS * 16 + 1_000 + NATIVE, "{jdk}: {kb:?}");
        assert!(called < 100_000 + NATIVE, "{jdk}: {kb:?}");
        // Stacks that are not returned would take 10 MB. Samples of deep stacks take more on a busy machine.
        assert!(recursed < called + 5_000, "{jdk}: {kb:?}");
        assert_eq!(generated(&profile), 2 * GENERATED, "{jdk}: of `call` and of what it calls");
        let recurse = profile.counts["programs.Crowd recurse (I)V"].calls;
        assert_eq!(recurse, 2 * 20 * 10_001, "{jdk}");

        // All threads have statistics, with some of their methods.
        let stages = ["deflate", "one", "call", "call"];
        let (kb, profile) = run(jdk, folder.path(), &many, "24m", stages);
        // What grows only with methods is not part of the ceiling.
        assert!(kb.iter().all(|kb| *kb < 24 * 1_024 + 12_000), "{jdk}: {kb:?}");
        // Only generated methods are lost: all others were called before memory ran out.
        let (kept, lost) = (generated(&profile), profile.counter(counter::LOST_CALLS));
        assert!(kept > GENERATED / 10, "{jdk}: {kept}");
        assert_eq!(kept + lost, 2 * GENERATED, "{jdk}: {kept} kept, {lost} lost");
        assert_eq!(profile.counts["programs.Crowd one ()V"].calls, THREADS, "{jdk}");
    });
}
