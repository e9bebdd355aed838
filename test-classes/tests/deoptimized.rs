//! Samples of compiled frames whose code became invalid.

use test_classes::{Java, Profile, Sampled, classes, jdks, samples};

/// A compiled frame stays on the stack after its code became invalid: the methods inlined into it are known as before.
#[test]
fn frames_that_will_be_deoptimized_have_their_inlined_methods() {
    for jdk in jdks() {
        let logs = tempfile::tempdir().expect("a temporary folder");
        let options = format!("include=none.Such,port=off,cpu=1ms,logs={}", logs.path().display());
        let commands = ["quiet", "dontinline,programs.Deoptimized::spin"];
        let commands = commands.map(|command| format!("-XX:CompileCommand={command}"));
        let java = Java::new(jdk).args(commands).arg("-XX:+PrintCompilation").agent(&options);
        let finished = java.main(classes(), "programs.Deoptimized").arg("2000").run();
        assert_eq!(finished.status, Some(0), "{jdk}: {}", finished.stderr);
        let (_, later) = finished.stdout.split_once("loaded").expect("the class was loaded");
        let before = finished.stdout.replace(later, "");
        // By the second compiler.
        let is_invalid = |line: &str| {
            line.contains(" 4 ")
                && line.contains("Deoptimized::work")
                && line.contains("made not entrant")
        };
        assert!(before.lines().any(is_invalid), "{jdk}: {before}");
        let samples = samples(&Profile::only_run(logs.path()).folder);
        let name = |method: &str| format!("programs.Deoptimized{method}");
        let spins = |s: &&Sampled| s.thread == "spins" && s.top() == Some(&name(".spin"));
        let wanted = [".work", ".outer", ".middle", "$Base.leaf", ".spin"].map(name);
        let is_whole = |s: &&Sampled| s.frames.windows(wanted.len()).any(|five| five == wanted);
        let all: u64 = samples.iter().filter(spins).map(|s| s.samples).sum();
        let whole: u64 = samples.iter().filter(spins).filter(is_whole).map(|s| s.samples).sum();
        assert!(all > 100, "{jdk}: {all} samples");
        // One may come while the JVM changes the frame.
        assert!(all - whole <= 1, "{jdk}: {whole} of {all} are whole");
    }
}
