//! Samples in native code have its functions: those that Java calls, and those of the JVM's own threads.
#![cfg(target_arch = "x86_64")]

use std::process::Command;

use test_classes::{
    Java, Jdk, Profile, Sampled, artifacts, classes, ends_of_jdks, faults, samples,
};

/// How long the program works, in seconds of CPU time. The agent reads libraries once native code has used a second of
/// CPU time.
const SECONDS: &str = "4";
/// What the program's native method calls.
const BURNS: [&str; 4] =
    ["Java_programs_Natives_burn", "natives_outer", "natives_middle", "natives_inner"];

/// Runs the program.
fn sampled(jdk: &Jdk) -> (tempfile::TempDir, Vec<Sampled>) {
    let logs = tempfile::tempdir().expect("a temporary folder");
    let options = format!("include=programs,port=off,cpu=1ms,logs={}", logs.path().display());
    let library = faults().to_str().expect("a path");
    let mut java = Java::new(jdk).agent(&options).args(["-XX:+UseParallelGC", "-Xmx200m"]);
    if jdk.major >= 24 {
        java = java.arg("--enable-native-access=ALL-UNNAMED");
    }
    let finished = java.main(classes(), "programs.Natives").args(&[library, SECONDS]).run();
    finished.expect_quiet_success(jdk);
    let samples = samples(&Profile::only_run(logs.path()).folder);
    (logs, samples)
}

/// How many samples with a frame there are, and how many of these are as they should be, from the second on after the
/// first that is: a library is read when a sample is in it, and that of its callers later.
fn count(samples: &[Sampled], frame: &str, is_right: impl Fn(&Sampled) -> bool) -> (u64, u64) {
    let of: Vec<&Sampled> =
        samples.iter().filter(|sample| sample.frames.iter().any(|found| found == frame)).collect();
    let right = || of.iter().filter(|sample| is_right(sample));
    let Some(known) = right().map(|sample| sample.start_ns).min() else { return (0, 0) };
    let is_late = |sample: &&&Sampled| sample.start_ns > known;
    let all = of.iter().filter(is_late).map(|sample| sample.samples).sum();
    (all, right().filter(is_late).map(|sample| sample.samples).sum())
}

/// The library and the function of a frame of native code.
fn function(frame: &str) -> Option<(&str, &str)> {
    frame.strip_prefix('[')?.split_once("].")
}

#[test]
fn native_functions_have_names_and_callers() {
    for jdk in ends_of_jdks() {
        let (logs, samples) = sampled(jdk);
        let check = |frame: &str, is_right: &dyn Fn(&Sampled) -> bool| {
            let (all, right) = count(&samples, frame, is_right);
            println!("{jdk}: {right} of {all} of {frame}");
            assert!(all > 50 && right * 100 >= all * 90, "{jdk}: {right} of {all} of {frame}");
        };
        // The program's own functions, one above the other.
        check("programs.Natives.burn", &|sample| {
            let names = sample.frames.iter().filter_map(|frame| function(frame));
            let names: Vec<&str> = names.map(|(_, name)| name).collect();
            names.starts_with(&BURNS[..names.len().min(BURNS.len())]) && names.len() >= 3
        });
        // The JDK's: the function that the JVM calls for a native method is the outermost.
        check("java.util.zip.Deflater.deflateBytesBytes", &|sample| {
            let outermost = sample.frames.iter().find_map(|frame| function(frame));
            outermost == Some(("libzip.so", "Java_java_util_zip_Deflater_deflateBytesBytes"))
        });
        // Of the JVM's own threads, down to the function with which they begin.
        check("[gc]", &|sample| {
            let mut names = sample.frames.iter().filter_map(|frame| function(frame));
            names.any(|(library, name)| {
                library == "libjvm.so" && name.contains("thread_native_entry")
            })
        });

        // Reports have names as programmers write them.
        let mut analyze = Command::new(&artifacts().analyze);
        let output = analyze.args(["--flame", "cpu", "--format", "collapsed"]).arg(logs.path());
        let lines = output.output().expect("analyze runs").stdout;
        let lines = String::from_utf8(lines).expect("UTF-8");
        let line = lines.lines().find(|line| line.starts_with("[gc]") && line.contains("::"));
        let line = line.unwrap_or_else(|| panic!("{jdk}: {lines}"));
        assert!(line.contains(" [libjvm.so]") && !line.contains("_ZN"), "{jdk}: {line}");
    }
}
