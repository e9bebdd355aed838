//! Samples in native code have its functions: those that Java calls, and those of the JVM's own threads.
#![cfg(target_arch = "x86_64")]

use std::process::Command;

use test_classes::{Java, Jdk, Profile, Sampled, artifacts, classes, faults, jdks, samples};

/// How long the program works. The agent reads libraries once native code has used a second of CPU time.
const SECONDS: &str = "6";
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

/// How many samples there are, and how many of these are as they should be.
fn count(samples: &[&Sampled], is_right: impl Fn(&Sampled) -> bool) -> (u64, u64) {
    let sum = |of: &mut dyn Iterator<Item = &&Sampled>| of.map(|sample| sample.samples).sum();
    let all = sum(&mut samples.iter());
    (all, sum(&mut samples.iter().filter(|sample| is_right(sample))))
}

/// The library and the function of a frame of native code.
fn function(frame: &str) -> Option<(&str, &str)> {
    frame.strip_prefix('[')?.split_once("].")
}

#[test]
fn native_functions_have_names_and_callers() {
    for jdk in jdks() {
        let (logs, samples) = sampled(jdk);
        let has_names = |sample: &&Sampled| sample.frames.iter().any(|f| f.ends_with(BURNS[3]));
        let known = samples.iter().filter(has_names).map(|sample| sample.start_ns).min();
        // A library is read when a sample is in it, and so its callers' later.
        let from = known.unwrap_or_else(|| panic!("{jdk}: no names")) + 1_000_000_000;
        let late: Vec<&Sampled> = samples.iter().filter(|sample| sample.start_ns >= from).collect();
        let with = |frame: &str| -> Vec<&Sampled> {
            let of = late.iter().filter(|sample| sample.frames.iter().any(|found| found == frame));
            of.copied().collect()
        };

        // The program's own functions, one above the other.
        let own = with("programs.Natives.burn");
        let (all, right) = count(&own, |sample| {
            let names = sample.frames.iter().filter_map(|frame| function(frame));
            let names: Vec<&str> = names.map(|(_, name)| name).collect();
            names.starts_with(&BURNS[..names.len().min(BURNS.len())]) && names.len() >= 3
        });
        println!("{jdk}: {right} of {all} in native functions of the program");
        assert!(
            all > 100 && right * 100 >= all * 97,
            "{jdk}: {right} of {all}: {:?}",
            own[0].frames
        );

        // The JDK's: the function that the JVM calls for a native method is the outermost.
        let deflate = with("java.util.zip.Deflater.deflateBytesBytes");
        let (all, right) = count(&deflate, |sample| {
            let outermost = sample.frames.iter().find_map(|frame| function(frame));
            let expected = ("libzip.so", "Java_java_util_zip_Deflater_deflateBytesBytes");
            outermost == Some(expected)
        });
        println!("{jdk}: {right} of {all} in deflate");
        assert!(all > 100 && right * 100 >= all * 90, "{jdk}: {right} of {all} in deflate");

        // Of the JVM's own threads, down to the function with which they begin.
        let collector = with("[gc]");
        let first = |name: &str| name.contains("thread_native_entry");
        let (all, right) = count(&collector, |sample| {
            let mut names = sample.frames.iter().filter_map(|frame| function(frame));
            names.any(|(library, name)| library == "libjvm.so" && first(name))
        });
        println!("{jdk}: {right} of {all} of the collector");
        assert!(all > 50 && right * 100 >= all * 90, "{jdk}: {right} of {all} of the collector");

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
