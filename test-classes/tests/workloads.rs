//! The benchmarks' programs compile, and their counts equal what is recorded, so a benchmark compares runs that all
//! did their work.

use std::fs;
use std::path::PathBuf;

use test_classes::{Java, Profile, compile, compiler, library, project};

fn sources(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(project().join(folder)).expect("a folder");
    let mut sources: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    sources.sort();
    sources
}

#[test]
fn workloads_say_what_is_recorded_of_them() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let classes = folder.path().join("classes");
    let libraries = ["h2-", "lucene-core", "lucene-analysis-common"].map(library);
    let path: Vec<String> = libraries.iter().map(|jar| jar.display().to_string()).collect();
    let options = ["--release", "17", "-nowarn", "-cp", &path.join(":")];
    compile(compiler(), &options, &sources("test-classes/java/workloads"), &classes);
    for (arguments, measured) in [
        (&["Leaf", "2", "0.5"][..], "workloads.Leaf.leaf"),
        (&["Tree", "0.2", "0.5"], "workloads.Tree.tree"),
        (&["Throw", "0.5"], "workloads.Throw"),
        (&["Service", "1"], "workloads.Shop"),
        (&["Growth", "depth", "100"], "workloads.Growth.deeper"),
    ] {
        let logs = folder.path().join(arguments[0]);
        let options = format!("include={measured},logs={},port=off", logs.display());
        let main = format!("workloads.{}", arguments[0]);
        let java = Java::new(compiler()).agent(&options).main(&classes, &main);
        let finished = java.args(&arguments[1..]).run();
        finished.expect_quiet_success(&main);
        let profile = Profile::only_run(&logs);
        let figures = finished.stdout.lines().filter(|line| line.starts_with("figure ")).count();
        assert!(figures > 0, "{main}: {}", finished.stdout);
        let truths = finished.stdout.lines().filter_map(|line| line.strip_prefix("truth "));
        let mut is_any = arguments[0] == "Growth";
        for truth in truths {
            let words: Vec<&str> = truth.split(' ').collect();
            let (class, method) = words[0].rsplit_once('.').expect("a method");
            let named = |name: &str| name.starts_with(&format!("{class} {method} "));
            let counts = profile.counts.iter().filter(|(name, _)| named(name));
            let (calls, throws) =
                counts.fold((0, 0), |sum, (_, c)| (sum.0 + c.calls, sum.1 + c.throws));
            assert_eq!(
                (calls.to_string(), throws.to_string()),
                (words[1].into(), words[2].into()),
                "{main}: {truth}"
            );
            is_any = true;
        }
        assert!(is_any, "{main}: {}", finished.stdout);
    }
}
