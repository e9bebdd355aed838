//! Samples say where threads are in the kernel, where it allows that.

use std::collections::HashSet;
use std::fs;
use std::io::Write;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::Command;

use log_format::rows::{FrameRow, counter};
use serde_json::Value;
use test_classes::{
    Java, Jdk, Profile, Sampled, artifacts, classes, ends_of_jdks, free_port, jdks, rings, rows,
    samples, skipped, tasks_of, timers, tprofiler_json, tprofiler_text, wait_until,
};

/// A user that the kernel refuses perf events, unless it allows them to all.
const NOBODY: u32 = 65_534;
const KERNEL: &str = "[kernel]";

/// Runs the program that is in the kernel for a known part of its time. Returns its figures, the run and its samples.
fn in_kernel(jdk: &Jdk, engine: &str, logs: &Path) -> (Vec<(String, f64)>, Profile, Vec<Sampled>) {
    let logs_option = format!("logs={}", logs.display());
    let options = format!("include=programs,port=off,{logs_option},cpu=1ms,engine={engine}");
    let java = Java::new(jdk).agent(&format!("{options},sampler_cap=off"));
    let finished = java.main(classes(), "programs.InKernel").arg("6").run();
    finished.expect_quiet_success(jdk);
    let figure = |line: &str| {
        let (name, number) = line.split_once(' ').expect("a name and a number");
        (name.to_owned(), number.parse().expect("a number"))
    };
    let profile = Profile::only_run(logs);
    let samples = samples(&profile.folder);
    (finished.stdout.lines().map(figure).collect(), profile, samples)
}

fn is_in_kernel(sample: &Sampled) -> bool {
    sample.frames.last().is_some_and(|top| top.starts_with(KERNEL))
}

/// Whether a run has frames of the kernel; else its reason is printed.
fn has_kernel(profile: &Profile) -> bool {
    let run = &profile.run;
    let has = run.cpu.kernel_frames == Some(true);
    if !has {
        assert!(run.cpu.kernel_reason.is_some(), "{run:?}");
        skipped(&format!("no frames of the kernel: {:?}", run.cpu.kernel_reason));
    }
    has
}

#[test]
fn the_time_in_the_kernel_is_the_threads_own() {
    for jdk in ends_of_jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let logs = folder.path().join("logs");
        let (figures, profile, samples) = in_kernel(jdk, "perf", &logs);
        if !has_kernel(&profile) {
            return;
        }
        let figure = |of: &str| figures.iter().find(|(name, _)| name == of).expect("a figure").1;
        let own: Vec<&Sampled> = samples.iter().filter(|s| s.thread == "reader").collect();
        let ns = |which: &dyn Fn(&Sampled) -> bool| {
            own.iter().filter(|s| which(s)).map(|s| s.weight_ns as f64).sum::<f64>()
        };
        let count = own.iter().map(|s| s.samples as f64).sum::<f64>();
        let all = ns(&|_| true);
        let is_read = |s: &Sampled| s.frames.iter().any(|f| f == "programs.InKernel.read");
        // The kernel's own figures are samples too, one a tick.
        let ticks = figure("user") + figure("system");
        for (what, known, found, of) in [
            ("read", figure("read") / figure("all"), ns(&is_read), count),
            ("kernel", figure("system") / ticks, ns(&is_in_kernel), count.min(2.5 * ticks)),
        ] {
            let found = found / all;
            println!("{jdk}: {what}: {known:.3}, samples say {found:.3} ({count} samples)");
            let error = 5.0 * (known * (1.0 - known) / of).sqrt();
            assert!((0.05..0.95).contains(&known), "{jdk}: {what}: {known}");
            assert!((known - found).abs() < error.max(0.02), "{jdk}: {what}: {known}, {found}");
        }
        // A signal waits while the thread is in the kernel; none of its samples is lost.
        assert!((0.95..1.05).contains(&(all / figure("all"))), "{jdk}: {all} of {figures:?}");
        // Nearly all that it does there is reading, and that is where the stacks lead.
        let through = ns(&|s| is_in_kernel(s) && is_read(s));
        assert!(through > 0.9 * ns(&is_in_kernel), "{jdk}: {through}");
        names_are_the_kernels(jdk, &profile, &own);
        shown_everywhere(jdk, &logs, &profile);
    }
}

/// Frames of the kernel have its functions' names, if it says these.
fn names_are_the_kernels(jdk: &Jdk, profile: &Profile, own: &[&Sampled]) {
    if profile.run.cpu.kernel_reason.is_some() {
        return;
    }
    let text = fs::read_to_string("/proc/kallsyms").expect("the kernel's symbols");
    let known: HashSet<&str> =
        text.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    let frames: Vec<FrameRow> = rows(&profile.folder);
    let of_kernel: Vec<&FrameRow> = frames.iter().filter(|row| row.kind == "kernel").collect();
    assert!(of_kernel.len() > 5, "{jdk}: {of_kernel:?}");
    for row in of_kernel {
        // The names of the first samples are not read yet.
        let is_unnamed = row.class.is_empty() && row.method == KERNEL;
        let is_named = row.class == KERNEL && known.contains(row.method.as_str());
        assert!(is_unnamed || is_named, "{jdk}: {row:?}");
    }
    let ns = |which: &dyn Fn(&Sampled) -> bool| {
        own.iter().filter(|s| which(s)).map(|s| s.weight_ns as f64).sum::<f64>()
    };
    let reads = |s: &Sampled| s.frames.iter().any(|f| f.starts_with(KERNEL) && f.contains("read"));
    let share = ns(&|s| is_in_kernel(s) && reads(s)) / ns(&is_in_kernel);
    assert!(share > 0.7, "{jdk}: {share} of the kernel's time is in functions called read");
}

/// What gzip has packed.
fn unpacked(bytes: &[u8]) -> Vec<u8> {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(bytes).expect("a packed file");
    let output = Command::new("gzip").arg("-dc").stdin(file.reopen().expect("the file")).output();
    output.expect("gzip runs").stdout
}

/// Each report has the frames.
fn shown_everywhere(jdk: &Jdk, logs: &Path, profile: &Profile) {
    let analyze = |options: &[&str]| {
        let output = Command::new(&artifacts().analyze).args(options).arg(logs).output();
        let output = output.expect("analyze runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    let text = |options: &[&str]| String::from_utf8(analyze(options)).expect("text");
    assert!(text(&[]).contains("% kernel, JDK code"), "{jdk}: {}", text(&[]));
    let json: Value = serde_json::from_slice(&analyze(&["--format", "json"])).expect("JSON");
    let kernel_ns = json["cpu"]["kernel_ns"].as_u64().expect("a time");
    let expected: u64 =
        samples(&profile.folder).iter().filter(|s| is_in_kernel(s)).map(|s| s.weight_ns).sum();
    assert_eq!(kernel_ns, expected, "{jdk}");
    let collapsed = text(&["--flame", "cpu", "--format", "collapsed"]);
    let of_kernel = collapsed.lines().filter_map(|line| line.rsplit_once(' '));
    let sum: u64 = of_kernel
        .filter(|(stack, _)| stack.ends_with("_[k]"))
        .map(|(_, ns)| ns.parse::<u64>().expect("a number"))
        .sum();
    assert_eq!(sum, expected, "{jdk}");
    let svg = text(&["--flame", "cpu", "--format", "flamegraph"]);
    let pprof = unpacked(&analyze(&["--flame", "cpu", "--format", "pprof"]));
    let has = |bytes: &[u8], text: &str| bytes.windows(text.len()).any(|w| w == text.as_bytes());
    let mut top =
        collapsed.lines().filter_map(|line| line.rsplit_once("_[k] ")?.0.rsplit(';').next());
    let top = top.next_back().expect("a function of the kernel");
    assert!(has(&pprof, &format!("{top} [kernel]")) || top == KERNEL, "{jdk}: {top}");
    // The mark is not drawn, only its colour.
    assert!(svg.contains("rgb(150,140,220)"), "{jdk}");
}

/// Timers say nothing of the kernel, and neither does it for other users.
#[test]
fn without_frames_of_the_kernel_the_reason_is_reported() {
    let jdk = &jdks()[0];
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (_, profile, samples) = in_kernel(jdk, "ctimer", &folder.path().join("logs"));
    assert_eq!(profile.run.cpu.kernel_frames, Some(false));
    let reason = profile.run.cpu.kernel_reason.as_deref().unwrap_or_default();
    assert!(reason.contains("engine=ctimer") && reason.contains("engine=perf"), "{reason}");
    assert!(!samples.iter().any(is_in_kernel) && !samples.is_empty());

    let folder = tempfile::tempdir().expect("a temporary folder");
    if chown(folder.path(), Some(NOBODY), Some(NOBODY)).is_err() {
        return skipped("only root can run a program as another user");
    }
    let (stop, logs) = (folder.path().join("stop"), folder.path().join("logs"));
    let port = free_port();
    let options =
        format!("include=programs,port={port},logs={},cpu=1ms,engine=perf", logs.display());
    let java = Java::new(jdk).user(NOBODY).agent(&options).main(classes(), "programs.Busy");
    let running = java.arg("2").arg(&stop).start();
    wait_until("threads have timers", || timers(running.pid()) >= 4);
    let status = tprofiler_json(port, &["status"]);
    let is_perf = status["cpu_engine"] == "perf";
    let line = tprofiler_text(&["status", "--addr", &format!("127.0.0.1:{port}")]);
    assert!(is_perf || line.contains("kernel frames"), "{line}");
    assert!(is_perf || status["cpu_kernel_frames"] == false, "{status}");
    assert_eq!(
        status["cpu_kernel_reason"].is_null(),
        is_perf && status["cpu_kernel_frames"] == true
    );
    assert!(is_perf || rings(running.pid()) == 0);
    fs::write(&stop, "").expect("a file");
    assert_eq!(running.wait().status, Some(0));
}

/// Rings take a sixteenth of the agent's memory at most. Other threads have samples without frames of the kernel.
#[test]
fn rings_take_little_memory() {
    for jdk in ends_of_jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (stop, logs) = (folder.path().join("stop"), folder.path().join("logs"));
        let port = free_port();
        let options = format!(
            "include=programs,port={port},logs={},cpu=10ms,engine=perf,max_memory=4m",
            logs.display()
        );
        let java = Java::new(jdk).agent(&options).main(classes(), "programs.Busy");
        // Its threads rest most of the time.
        let running = java.arg("60").arg(&stop).arg("200").start();
        let pid = running.pid();
        wait_until("threads have timers", || timers(pid) > 60);
        let status = tprofiler_json(port, &["status"]);
        if status["cpu_kernel_frames"] == true {
            // A quarter of a megabyte of eight kilobytes each, or less with larger pages.
            assert!((1..=32).contains(&rings(pid)), "{jdk}: {}", rings(pid));
            assert!(status["cpu_kernel_refused"].as_u64() > Some(28), "{jdk}: {status}");
        }
        tprofiler_json(port, &["stop"]);
        assert_eq!((timers(pid), rings(pid)), (0, 0), "{jdk}: after a stop");
        tprofiler_json(port, &["start"]);
        wait_until("threads have timers again", || timers(pid) > 60);
        tprofiler_text(&["detach", &pid.to_string()]);
        assert_eq!((timers(pid), rings(pid)), (0, 0), "{jdk}: after a detach");
        fs::write(&stop, "").expect("a file");
        assert_eq!(running.wait().status, Some(0), "{jdk}");
        let refused = Profile::only_run(&logs).counter(counter::KERNEL_FRAMES_REFUSED);
        assert_eq!(refused > 0, status["cpu_kernel_frames"] == true, "{jdk}: {refused}");
    }
}

/// Threads that end leave neither a ring nor an event.
#[test]
fn threads_that_end_leave_no_ring() {
    for jdk in ends_of_jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let port = free_port();
        let logs = folder.path().join("logs");
        let options =
            format!("include=programs,port={port},logs={},cpu=1ms,engine=perf", logs.display());
        let java = Java::new(jdk).agent(&options).main(classes(), "programs.Brief");
        let running = java.args(["5000", "2"]).start();
        let pid = running.pid();
        wait_until("samples", || Path::new(&format!("/proc/{pid}/fd")).exists() && timers(pid) > 4);
        let status = tprofiler_json(port, &["status"]);
        let has_kernel = status["cpu_kernel_frames"] == true;
        // Of over a thousand threads.
        let mut looks = 0;
        while let (Some(threads), true) = (tasks_of(pid), looks < 40) {
            let (timers, rings) = (timers(pid), rings(pid));
            // Some began between the two looks.
            assert!(timers <= threads + 10 && rings <= threads + 10, "{jdk}: {timers}, {rings}");
            assert!(!has_kernel || rings > 0, "{jdk}");
            looks += 1;
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        assert!(looks > 5, "{jdk}");
        assert_eq!(running.wait().status, Some(0), "{jdk}");
    }
}
