//! A class that has passed the load hook and is defined with probes only after the detach.

use std::process::Command;

use test_classes::{Java, artifacts, classes, free_port, jdks, tprofiler_json, wait_until};

fn command(arguments: &[&str]) -> String {
    let output = Command::new(&artifacts().tprofiler).args(arguments).output();
    let output = output.expect("tprofiler runs");
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// The methods that were called, with their numbers of calls.
fn calls(port: u16) -> Vec<(String, u64)> {
    let top = tprofiler_json(port, &["top", "1000"]);
    let methods = top["methods"].as_array().expect("a list").iter();
    let called = methods.map(|method| {
        let text = |key: &str| method[key].as_str().expect("text").to_owned();
        let name = format!("{}.{}", text("class"), text("method"));
        (name, method["calls"].as_u64().expect("a number"))
    });
    called.filter(|(_, calls)| *calls > 0).collect()
}

/// The detach reports such a class, and its probes' calls count for no other method in a later attachment.
#[test]
fn a_class_that_is_defined_after_the_detach_counts_for_no_other() {
    for jdk in jdks() {
        let logs = tempfile::tempdir().expect("a temporary folder");
        let logs = logs.path().display();
        let port = free_port();
        let options =
            format!("include=programs.InFlight$Late,overhead=off,port={port},logs={logs}");
        let mut program =
            Java::new(jdk).agent(&options).main(classes(), "programs.InFlight").talk();
        let pid = program.program.pid().to_string();
        program.ask("load");
        let detached = command(&["detach", &pid]);
        assert!(detached.contains("classes not seen loaded: 1\n"), "{jdk}: {detached}");
        let other = format!(
            "include=programs.InFlight$Other,leaves=keep,overhead=off,port={port},logs={logs}"
        );
        command(&["attach", &pid, &other]);
        program.ask("other 10");
        program.ask("release");
        program.ask("late 1000");
        let expected = vec![("programs.InFlight$Other.run".to_owned(), 10)];
        assert_eq!(calls(port), expected, "{jdk}");
        // The agent finds the class and has it restored: its calls are not even counted as muted.
        wait_until("the class is restored", || {
            let muted =
                || tprofiler_json(port, &["status"])["calls_muted"].as_u64().expect("a number");
            let before = muted();
            program.ask("late 1000");
            muted() == before
        });
        assert_eq!(calls(port), expected, "{jdk}");
        let detached = command(&["detach", &pid]);
        assert!(detached.contains("classes not seen loaded: 0\n"), "{jdk}: {detached}");
        assert!(detached.contains("classes not restored: 0\n"), "{jdk}: {detached}");
        assert_eq!(program.end().status, Some(0), "{jdk}");
    }
}
