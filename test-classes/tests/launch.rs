//! Unusual ways to start a JVM with the agent.

use test_classes::{Java, Profile, classes, jdks};

const WORK: &str = "programs.Exits work ()V";

/// The agent uses JNI correctly: the JVM's own checks report nothing.
#[test]
fn the_jvm_has_nothing_against_the_agents_use_of_jni() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let run = |java: Java| {
            let java = java.arg("-Xcheck:jni");
            let finished = java.main(classes(), "programs.Exits").arg("return").run();
            assert_eq!(finished.status, Some(0), "{jdk}: {}", finished.stderr);
            // A line that the JVM prints in both runs is not the agent's fault.
            finished.stdout.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        let options =
            format!("include=programs,include=java.util,logs={}", folder.path().display());
        // It would be the fault handlers' that are put before the JVM's own.
        let options = format!("{options},cpu=10ms,wall=100ms");
        let plain = run(Java::new(jdk));
        assert_eq!(plain, run(Java::new(jdk).agent(&format!("{options},port=off"))), "{jdk}");
    }
}

#[test]
fn an_agent_that_is_given_twice_works_once() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let options = |name: &str| format!("logs={},port=off", folder.path().join(name).display());
        let java = Java::new(jdk).agent(&options("first")).agent(&options("second"));
        let finished = java.main(classes(), "programs.Exits").arg("return").run();
        assert_eq!((finished.status, &*finished.stdout), (Some(0), "worked\nhook\n"), "{jdk}");
        let message = "tprofiler: the agent was given twice; what was given first counts\n";
        assert_eq!(finished.stderr, message, "{jdk}");
        assert_eq!(Profile::only_run(&folder.path().join("first")).counts[WORK].calls, 1);
        assert!(!folder.path().join("second").exists(), "{jdk}");
    }
}

/// The application's own loader is asked only for what the application needs, and its classes belong to the
/// application.
#[test]
fn a_system_class_loader_of_the_applications_own_changes_nothing() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let run = |java: Java| {
            let java = java.arg("-Djava.system.class.loader=programs.OwnLoader");
            let java = java.arg("-Xlog:disable");
            java.main(classes(), "programs.Exits").arg("return").run()
        };
        let options = format!("logs={},port=off", folder.path().display());
        let (plain, profiled) = (run(Java::new(jdk)), run(Java::new(jdk).agent(&options)));
        assert!(plain.stdout.contains("asked for programs.Exits"), "{jdk}: {}", plain.stdout);
        // The JVM warns about its less useful archive, with the agent and without.
        assert_eq!(
            (plain.status, plain.stdout, plain.stderr),
            (profiled.status, profiled.stdout, profiled.stderr),
            "{jdk}"
        );
        assert_eq!(Profile::only_run(folder.path()).counts[WORK].calls, 1, "{jdk}");
    }
}
