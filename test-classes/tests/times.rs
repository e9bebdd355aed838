//! Total and self times of methods that spin or sleep for known times.

use std::collections::BTreeMap;

use test_classes::{Java, Profile, classes, jdks};

/// Two bounds of the true time: measured from inside a call, and around it.
type Bracket = std::ops::RangeInclusive<u64>;

/// Total and self time by method, as the program measured them.
fn measured(stdout: &str) -> BTreeMap<&str, (Bracket, Bracket)> {
    stdout
        .lines()
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |index: usize| words[index].parse::<u64>().expect("a number");
            (words[0], (number(1)..=number(2), number(3)..=number(4)))
        })
        .collect()
}

/// Within 2% and 50 us of the truth.
fn assert_close(found: u64, truth: &Bracket, what: &str) {
    let (low, high) = (truth.start() - truth.start() / 50, truth.end() + truth.end() / 50);
    let is_close = (low.saturating_sub(50_000)..=high + 50_000).contains(&found);
    assert!(is_close, "{what}: {found} ns, measured {truth:?} ns");
}

#[test]
fn times_are_what_the_program_measures() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let logs = folder.path().join("logs");
        // The measuring itself must not be part of any method.
        let options = format!(
            "include=programs.Times,exclude=programs.Times$Meter,exclude=programs.Times.returned*,\
             exclude=programs.Times.spin,exclude=programs.Times.main,threshold=0,logs={},port=off",
            logs.display()
        );
        let finished =
            Java::new(jdk).agent(&options).main(classes(), "programs.Times").arg("40").run();
        finished.expect_quiet_success(jdk);
        let truth = measured(&finished.stdout);
        let profile = Profile::only_run(&logs);
        for name in ["root", "branch", "leaf", "sleeper", "thrower", "recursive"] {
            let descriptor = match name {
                "leaf" => "(J)V",
                "recursive" => "(I)V",
                _ => "()V",
            };
            let (total, own) = profile.times[&format!("programs.Times {name} {descriptor}")];
            assert_close(total, &truth[name].0, &format!("{jdk}: total of {name}"));
            assert_close(own, &truth[name].1, &format!("{jdk}: self of {name}"));
        }
        let wall = *truth["wall"].0.start();
        let self_of_all: u64 = profile.times.values().map(|(_, own)| own).sum();
        assert!(self_of_all <= wall, "{jdk}: {self_of_all} ns of self time in {wall} ns");
        // Every call is recorded here, so the recorded calls have the same times.
        let self_of_records: u64 = profile.records.iter().map(|r| r.self_ns).sum();
        assert_close(
            self_of_records,
            &(self_of_all..=self_of_all),
            &format!("{jdk}: self time of records"),
        );
        for record in &profile.records {
            assert!(
                record.self_ns <= record.total_ns && record.total_ns <= wall,
                "{jdk}: {record:?}"
            );
        }
    }
}

#[test]
fn self_times_of_a_thread_never_exceed_its_wall_time() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (logs, counts) = (folder.path().join("logs"), folder.path().join("counts"));
        let options = format!(
            "include=truth,threshold=0,max_mb_per_hour=off,max_mb=off,logs={},port=off",
            logs.display()
        );
        let finished = Java::new(jdk)
            .agent(&options)
            .main(classes(), "truth.Main")
            .arg(&counts)
            .arg("50")
            .run();
        finished.expect_quiet_success(jdk);
        let profile = Profile::only_run(&logs);
        let mut threads: BTreeMap<&str, (u64, u64, u64)> = BTreeMap::new();
        for record in &profile.records {
            let entry = threads.entry(&record.thread).or_insert((u64::MAX, 0, 0));
            entry.0 = entry.0.min(record.start_ns);
            entry.1 = entry.1.max(record.start_ns + record.total_ns);
            entry.2 += record.self_ns;
        }
        assert!(threads.len() > 100, "{jdk}: {} threads", threads.len());
        for (name, (first, last, own)) in threads {
            // Moments are rounded to nanoseconds, and corrected by the clock's anchors.
            assert!(own <= last - first + 20_000, "{jdk}: {name}: {own} ns in {} ns", last - first);
        }
    }
}
