//! A program that throws, overflows its stack, unloads classes, deoptimises and starts threads all the time survives
//! sampling at the highest rate, with each collector.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use log_format::rows::counter;
use test_classes::{
    Java, Jdk, Profile, Sampled, classes, free_port, has_thread, jdks, samples, timers,
    tprofiler_json, tprofiler_text, wait_until,
};

const COLLECTORS: [&str; 5] = ["Serial", "Parallel", "G1", "Z", "Shenandoah"];

/// Whether a JVM has this collector.
fn has(jdk: &Jdk, collector: &str) -> bool {
    let finished = Java::new(jdk).args(options(collector)).arg("-version").run();
    finished.status == Some(0)
}

fn options(collector: &str) -> [String; 2] {
    ["-XX:+UnlockExperimentalVMOptions".to_owned(), format!("-XX:+Use{collector}GC")]
}

/// The agent comes and goes, and others send the sampling signal. Then the program ends well, with right results.
fn survive(jdk: &Jdk, collector: &str, time: Duration) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (file, logs) = (folder.path().join("stop"), folder.path().join("logs"));
    let port = free_port();
    let agent = format!(
        "include=programs,port={port},logs={},cpu=100us,sampler_cap=off,wall=50ms",
        logs.display()
    );
    let attaches = if jdk.major >= 21 { vec!["-XX:+EnableDynamicAgentLoading"] } else { vec![] };
    let java = Java::new(jdk).args(options(collector)).args(attaches).arg("-Xmx256m");
    let mut running = java.agent(&agent).main(classes(), "programs.Chaos").arg(&file).start();
    // The thread has another name until the agent can be detached.
    wait_until("recording is on", || has_thread(running.pid(), "tprofiler"));
    let pid = running.pid().to_string();
    let until = Instant::now() + time;
    let mut cycles = 0;
    loop {
        for _ in 0..100 {
            if !running.is_running() {
                panic!("{jdk} {collector}: {:?}", running.wait());
            }
            running.signal("STKFLT");
            std::thread::sleep(Duration::from_millis(10));
        }
        if Instant::now() >= until {
            break;
        }
        tprofiler_text(&["detach", &pid]);
        running.signal("STKFLT");
        // Half of the times, a class is replaced while one of its loops runs, so that old methods are on stacks.
        let retransform = if cycles % 2 == 0 { ",retransform=even-running" } else { "" };
        tprofiler_text(&["attach", &pid, &format!("{agent}{retransform}")]);
        cycles += 1;
    }
    fs::write(&file, "").expect("a file");
    let finished = running.wait();
    assert_eq!(finished.status, Some(0), "{jdk} {collector}: {}", finished.stderr);
    assert!(finished.stdout.contains("done "), "{jdk} {collector}: {}", finished.stdout);
    let runs = Profile::runs(&logs);
    let faults = runs.iter().map(|run| Profile::read(run).counter(counter::GUARDED_FAULTS));
    let faults: u64 = faults.sum();
    let all: Vec<Sampled> = runs.iter().flat_map(|run| samples(run)).collect();
    let count = |is: fn(&Sampled) -> bool| {
        all.iter().filter(|s| is(s)).map(|sample| sample.samples).sum::<u64>()
    };
    let [java, failed, truncated] =
        [count(Sampled::is_java), count(Sampled::lacks_stack), count(Sampled::is_truncated)];
    println!(
        "{jdk} {collector}: {cycles} cycles, {java} samples in Java, {failed} without stack, \
         {truncated} truncated, {faults} faults, {}",
        finished.stdout.trim()
    );
    let mut reasons = BTreeMap::<&str, u64>::new();
    for sample in all.iter().filter(|sample| sample.lacks_stack()) {
        *reasons.entry(&sample.frames[0]).or_default() += sample.samples;
    }
    println!("  {reasons:?}");
    assert!(java > 100, "{jdk} {collector}: {java} samples");
    // In most runs less than a hundredth; more with Shenandoah, and on JDK 11, where old methods are not all known.
    let most = java / 50 + 3;
    assert!(failed <= most, "{jdk} {collector}: {failed} of {java} failed");
}

#[test]
fn programs_survive_sampling_at_the_highest_rate() {
    for (jdk, collector) in jdks().iter().zip(COLLECTORS.into_iter().skip(1)) {
        let collector = if has(jdk, collector) { collector } else { "Serial" };
        survive(jdk, collector, Duration::from_secs(4));
    }
}

/// Loads of the stack walker never end the process, wherever it begins, and each walk ends.
fn walk_at_random(jdk: &Jdk, walks: u64) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (file, logs) = (folder.path().join("stop"), folder.path().join("logs"));
    let port = free_port();
    let agent = format!(
        "include=programs,port={port},logs={},cpu=10ms,wall=100ms,debug=fault:walks",
        logs.display()
    );
    let java = Java::new(jdk).agent(&agent).main(classes(), "programs.Chaos").arg(&file);
    let mut running = java.start();
    wait_until("threads have timers", || timers(running.pid()) > 0);
    loop {
        if !running.is_running() {
            panic!("{jdk}: {:?}", running.wait());
        }
        let status = tprofiler_json(port, &["status"]);
        if status["random_walks"].as_u64() > Some(walks) {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    fs::write(&file, "").expect("a file");
    let finished = running.wait();
    assert_eq!(finished.status, Some(0), "{jdk}: {}", finished.stderr);
    // Its recursion may be deeper than the shadow stack.
    let profile = Profile::read(&Profile::runs(&logs)[0]);
    let faults = profile.counter(counter::GUARDED_FAULTS);
    println!("{jdk}: {faults} faults in {walks} walks");
    assert!(faults > walks / 100, "{jdk}: {faults}");
}

#[test]
fn walks_from_random_registers_do_no_harm() {
    for jdk in jdks() {
        walk_at_random(jdk, 300_000);
    }
}

#[test]
#[ignore = "full lane: ten million walks on each JDK"]
fn ten_million_walks_from_random_registers_do_no_harm() {
    for jdk in jdks() {
        walk_at_random(jdk, 10_000_000);
    }
}

/// `SURVIVAL_MINUTES` (10) for each runtime and collector.
#[test]
#[ignore = "full lane: ten minutes for each JDK and collector"]
fn programs_survive_sampling_for_long() {
    let minutes = std::env::var("SURVIVAL_MINUTES").ok().and_then(|text| text.parse().ok());
    let time = Duration::from_secs_f64(minutes.unwrap_or(10.0) * 60.0);
    for jdk in jdks() {
        for collector in COLLECTORS.into_iter().filter(|collector| has(jdk, collector)) {
            survive(jdk, collector, time);
        }
    }
}
