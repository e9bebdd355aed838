//! Who may read and write the log: only the JVM's user, or a group too. Another user who may write to the parent
//! folder can rename its content, but cannot make the agent write anywhere else.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs::{self, OpenOptions, Permissions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use log_format::compression::Compression;
use log_format::file_names::{Hour, RUN_JSON, Table};
use test_classes::{
    Finished, Java, Jdk, Profile, Running, artifacts, classes, free_port, jdks, set_clock, skipped,
    tprofiler, wait_until,
};

const TICK: &str = "programs.Ticks tick ()V";

/// Another user than root.
const NOBODY: u32 = 65_534;

/// The name of `run.json` while it is being written.
const NEW_RUN_JSON: &str = "run.json.new";

/// The content of the file that nobody else may write to.
const SECRET: &str = "the service's own\n";

/// The log's files do not depend on the JVM.
fn jdk() -> &'static Jdk {
    jdks().last().expect("a JDK")
}

/// Whether the tests can act as several users.
fn is_root() -> bool {
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout == b"0\n");
    if !is_root {
        skipped("only root can act as another user");
    }
    is_root
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("a mode");
}

/// A shell script, run by the user `nobody`.
fn nobodys(script: &str, folder: &Path) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-euc", script]).current_dir(folder).uid(NOBODY).gid(NOBODY);
    shell
}

fn as_nobody(script: &str, folder: &Path) {
    let status = nobodys(script, folder).status();
    assert!(status.is_ok_and(|status| status.success()), "{script}");
}

/// Root's service, with its log in a folder of the user `nobody`.
struct Service {
    program: Running,
    port: u16,
    /// Root's.
    folder: tempfile::TempDir,
    /// Owned by `nobody`, and everybody may write to it.
    shared: PathBuf,
    /// How many seconds the service's clock is ahead.
    ahead: Cell<i64>,
}

impl Service {
    /// Starts it, with its log in a folder of that name in the shared one, or in the shared one itself.
    fn start(logs: &str, options: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        set_mode(folder.path(), 0o755);
        let (shared, secret) = (folder.path().join("shared"), folder.path().join("secret"));
        fs::create_dir(&shared).expect("a folder");
        chown(&shared, Some(NOBODY), Some(NOBODY)).expect("nobody's folder");
        set_mode(&shared, 0o777);
        fs::write(&secret, SECRET).expect("a file");
        set_mode(&secret, 0o600);
        // Half an hour from both ends of an hour.
        let ahead = 3_600 - unix_s() % 3_600 + 1_800;
        let clock = folder.path().join("clock");
        fs::write(&clock, ahead.to_ne_bytes()).expect("a clock");
        let port = free_port();
        let options = format!(
            "include=programs.Ticks.tick,threshold=0,logs={},port={port},{options}",
            shared.join(logs).display()
        );
        let program = Java::new(jdk())
            .variable("LD_PRELOAD", set_clock())
            .variable("SET_CLOCK", &clock)
            .agent(&options)
            .main(classes(), "programs.Ticks")
            .arg(folder.path())
            .start();
        let service = Self { program, port, folder, shared, ahead: Cell::new(ahead) };
        wait_until("records", || {
            fs::read_dir(service.shared.join(logs)).is_ok_and(|mut runs| {
                runs.any(|run| has(&run.expect("a run").path(), ".calls.csv"))
            })
        });
        service
    }

    /// The name of the only run.
    fn run(&self, logs: &str) -> String {
        let [run] = &Profile::runs(&self.shared.join(logs))[..] else { panic!("one run") };
        run.file_name().and_then(|name| name.to_str()).expect("a name").to_owned()
    }

    fn flush(&self) {
        let output = tprofiler(self.port, &["flush"]);
        assert!(output.status.success(), "{output:?}");
    }

    fn next_hour(&self) {
        self.ahead.set(self.ahead.get() + 3_600);
        set_to(&self.folder.path().join("clock"), self.ahead.get());
    }

    /// Waits until an hour's files are compressed in a folder.
    fn closed_hour(&self, folder: &Path) {
        wait_until("a closed hour", || {
            assert_secret(self.folder.path());
            has(folder, ".stats.csv.gz")
        });
    }

    /// Makes a folder in the shared one, owned by `nobody`, with every name that the agent may use, each a symlink to
    /// root's file; returns their number.
    fn make_trap(&self, name: &str, run_json: &[&str]) -> usize {
        let mut names: BTreeSet<String> = run_json.iter().map(|name| (*name).to_owned()).collect();
        let now = unix_s() + self.ahead.get();
        for hour in -1..5 {
            let s = u64::try_from(now + hour * 3_600).expect("a time");
            let hour = Hour::of_unix_ns(s * 1_000_000_000);
            for (table, compression) in Table::ALL.iter().flat_map(|table| {
                Compression::ALL.into_iter().map(move |compression| (*table, compression))
            }) {
                let name = format!("{}{}", hour.file_name(table), compression.suffix());
                names.insert(format!("{name}.new"));
                names.insert(name);
            }
        }
        let count = names.len();
        let names: Vec<String> = names.into_iter().collect();
        let script = format!(
            "mkdir -p {name}; for name in {}; do ln -s {} {name}/$name; done",
            names.join(" "),
            self.folder.path().join("secret").display()
        );
        as_nobody(&script, &self.shared);
        count
    }

    /// Ends the program. Everything must have been recorded in `run`, and root's file must be unchanged.
    fn stop(self, run: &Path) -> tempfile::TempDir {
        fs::write(self.folder.path().join("stop"), "").expect("a file");
        let finished = self.program.wait();
        finished.expect_quiet_success("Ticks");
        let profile = Profile::read(run);
        assert_eq!(profile.counts[TICK].calls, ticks(&finished), "{}", finished.stderr);
        assert_eq!(profile.records.len() as u64, ticks(&finished));
        assert_readable(run);
        assert_secret(self.folder.path());
        self.folder
    }
}

/// Root's file is unchanged.
fn assert_secret(folder: &Path) {
    let secret = folder.join("secret");
    assert_eq!(fs::read_to_string(&secret).expect("a file"), SECRET);
    assert_eq!(mode(&secret), 0o600);
}

fn unix_s() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time");
    i64::try_from(since.as_secs()).expect("a time")
}

/// The number of ticks that the program printed.
fn ticks(finished: &Finished) -> u64 {
    let last = finished.stdout.lines().last().and_then(|line| line.strip_prefix("ticks "));
    last.and_then(|ticks| ticks.parse().ok()).expect("a number")
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Whether a folder has a file whose name ends in `end`.
fn has(folder: &Path, end: &str) -> bool {
    names(folder).iter().any(|name| name.ends_with(end))
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).expect("a file").mode() & 0o777
}

fn assert_readable(run: &Path) {
    let analyze = Command::new(&artifacts().analyze).args(["--format", "csv"]).arg(run).output();
    let output = analyze.expect("analyze runs");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    // A header, and at least one method.
    assert!(String::from_utf8_lossy(&output.stdout).lines().count() > 1, "{output:?}");
}

/// All of the links that `nobody` made, and nothing else.
fn assert_trap_is_empty(trap: &Path, count: usize) {
    let entries = fs::read_dir(trap).expect("nobody's folder").map(|entry| entry.expect("a link"));
    let owners: Vec<(u32, bool)> = entries
        .map(|entry| entry.metadata().expect("a link"))
        .map(|metadata| (metadata.uid(), metadata.is_symlink()))
        .collect();
    assert_eq!(owners, vec![(NOBODY, true); count], "{}: {:?}", trap.display(), names(trap));
}

#[test]
fn a_folder_put_in_the_place_of_the_run_gets_nothing() {
    if !is_root() {
        return;
    }
    // With `run.json` and without, which the agent would then write again.
    for run_json in [&[RUN_JSON, NEW_RUN_JSON][..], &[NEW_RUN_JSON]] {
        let service = Service::start("", "keep=off,max_mb=off");
        let run = service.run("");
        let (mine, trap) = (service.shared.join("mine"), service.shared.join(&run));
        let count = service.make_trap("trap", run_json);
        as_nobody(&format!("mv {run} mine; mv trap {run}"), &service.shared);
        service.flush();
        service.next_hour();
        service.closed_hour(&mine);
        service.next_hour();
        service.flush();
        let _folder = service.stop(&mine);
        assert_trap_is_empty(&trap, count);
    }
}

#[test]
fn hours_are_deleted_in_the_own_folder_alone() {
    if !is_root() {
        return;
    }
    let service = Service::start("", "keep=1s,compress=off");
    let run = service.run("");
    let mine = service.shared.join("mine");
    let count = service.make_trap("trap", &[RUN_JSON]);
    as_nobody(&format!("mv {run} mine; mv trap {run}"), &service.shared);
    let first = names(&mine);
    let first = first.iter().find(|name| name.ends_with(".calls.csv")).expect("records");
    service.next_hour();
    wait_until("a deleted hour", || {
        assert_secret(service.folder.path());
        !mine.join(first).exists()
    });
    fs::write(service.folder.path().join("stop"), "").expect("a file");
    let Service { program, folder, shared, .. } = service;
    program.wait().expect_quiet_success("Ticks");
    assert!(!Profile::read(&mine).records.is_empty());
    assert_trap_is_empty(&shared.join(run), count);
    assert_secret(folder.path());
}

#[test]
fn a_folder_that_is_swapped_all_the_time_gets_nothing() {
    if !is_root() {
        return;
    }
    let service = Service::start("", "keep=off,max_mb=off,debug=classes");
    let run = service.run("");
    let (mine, own) = (service.shared.join("mine"), service.shared.join(&run));
    let count = service.make_trap("trap", &[RUN_JSON]);
    let script = format!(
        "while [ ! -e halt ]; do mv -T {run} mine; mv -T trap {run}; mv -T {run} trap; \
         mv -T mine {run}; echo >> rounds; done"
    );
    let mut attack = nobodys(&script, &service.shared).spawn().expect("a shell");
    let rounds = || fs::metadata(service.shared.join("rounds")).map_or(0, |file| file.len());
    for _ in 0..2 {
        let before = rounds();
        service.next_hour();
        wait_until("rounds", || {
            service.flush();
            assert_secret(service.folder.path());
            rounds() > before + 50
        });
    }
    // The trap has such names from the start.
    let is_closed = |folder: &Path| has(folder, ".stats.csv.gz") && has(folder, "classes.log");
    wait_until("a closed hour", || is_closed(&own) || is_closed(&mine));
    fs::write(service.shared.join("halt"), "").expect("a file");
    assert!(attack.wait().is_ok_and(|status| status.success()), "{:?}", names(&service.shared));
    assert_eq!(names(&service.shared), [&*run, "halt", "rounds", "trap"]);
    let trap = service.shared.join("trap");
    let _folder = service.stop(&own);
    assert_trap_is_empty(&trap, count);
}

#[test]
fn a_folder_put_in_the_place_of_all_logs_gets_nothing() {
    if !is_root() {
        return;
    }
    let service = Service::start("logs", "keep=off,max_mb=off");
    let (run, shared) = (service.run("logs"), service.shared.clone());
    let trap = format!("theirs/{run}");
    let count = service.make_trap(&trap, &[RUN_JSON]);
    as_nobody("mv logs away; ln -s theirs logs", &shared);
    service.flush();
    service.next_hour();
    let own = shared.join("away").join(&run);
    service.closed_hour(&own);
    service.next_hour();
    service.flush();
    let _folder = service.stop(&own);
    assert_trap_is_empty(&shared.join(trap), count);
    assert_eq!(names(&shared.join("theirs")), [run]);
}

#[test]
fn a_deleted_log_folder_whose_name_is_taken_is_not_made_again_elsewhere() {
    if !is_root() {
        return;
    }
    let service = Service::start("logs", "keep=off,max_mb=off");
    let shared = service.shared.clone();
    as_nobody("mv logs away; mkdir theirs; ln -s theirs logs", &shared);
    // The agent may write to it during the deletion.
    wait_until("the folder is gone", || fs::remove_dir_all(shared.join("away")).is_ok());
    let logs = shared.join("logs");
    let taken = format!("{}: it was deleted, and something else has its name now", logs.display());
    let ask = |command| tprofiler(service.port, &[command]);
    wait_until("a refusal", || String::from_utf8_lossy(&ask("flush").stderr).contains(&taken));
    let errors = || {
        let status = String::from_utf8(ask("status").stdout).expect("text");
        let errors = status.lines().find_map(|line| line.strip_prefix("write errors: "));
        errors.and_then(|errors| errors.parse::<u64>().ok()).expect("a number")
    };
    // However often it is requested, it is tried every five seconds.
    let (before, began) = (errors(), Instant::now());
    for _ in 0..20 {
        assert!(!ask("flush").status.success());
    }
    let tried = errors() - before;
    assert!(tried <= began.elapsed().as_secs() / 5 + 1, "{tried} in {:?}", began.elapsed());
    assert_eq!(names(&shared.join("theirs")), [""; 0]);
    as_nobody("rm logs", &shared);
    wait_until("the log", || ask("flush").status.success());
    assert_eq!((mode(&logs), logs.metadata().expect("a folder").uid()), (0o700, 0));
    fs::write(service.folder.path().join("stop"), "").expect("a file");
    let finished = service.program.wait();
    let goes_on =
        format!("tprofiler: files of the log were deleted; it goes on in {}", logs.display());
    let mut messages: Vec<&str> = finished.stderr.lines().collect();
    messages.retain(|message| !message.starts_with(&goes_on));
    let expected = [
        &*format!("tprofiler: {taken}; it is tried again"),
        "tprofiler: the log is written again; 0 rows were dropped",
    ];
    assert_eq!(messages, expected);
    // Rows that waited are there too.
    let profile = Profile::only_run(&logs);
    assert!(profile.records.len() as u64 <= ticks(&finished) && !profile.records.is_empty());
    assert_readable(&profile.folder);
}

/// Runs a service for some ticks and a closed hour; also returns the run's folder.
fn run_with(java: Java, options: &str, folder: &Path) -> (Finished, PathBuf) {
    let (logs, clock) = (folder.join("logs"), folder.join("clock"));
    let ahead = 3_600 - unix_s() % 3_600 + 1_800;
    fs::write(&clock, ahead.to_ne_bytes()).expect("a clock");
    let options = format!(
        "include=programs.Ticks.tick,threshold=0,debug=classes,port=off,logs={},{options}",
        logs.display()
    );
    let program = java
        .variable("LD_PRELOAD", set_clock())
        .variable("SET_CLOCK", &clock)
        .agent(&options)
        .main(classes(), "programs.Ticks")
        .arg(folder)
        .start();
    let run = || Profile::runs(&logs).remove(0);
    wait_until("records", || names(&logs).len() == 1 && has(&run(), ".calls.csv"));
    let first = names(&run()).into_iter().find(|name| name.ends_with(".calls.csv"));
    let hour =
        first.and_then(|name| Some(name.split_once(".calls")?.0.to_owned())).expect("its hour");
    set_to(&clock, ahead + 3_600);
    // Files are replaced one after the other, and the end of the JVM does not wait for that.
    wait_until("a closed hour", || {
        let of_hour: Vec<String> =
            names(&run()).into_iter().filter(|name| name.contains(&hour)).collect();
        has(&run(), ".stats.csv.gz") && of_hour.iter().all(|name| name.ends_with(".csv.gz"))
    });
    fs::write(folder.join("stop"), "").expect("a file");
    let run = run();
    (program.wait(), run)
}

fn set_to(clock: &Path, seconds: i64) {
    let file = OpenOptions::new().write(true).open(clock).expect("a clock");
    file.write_all_at(&seconds.to_ne_bytes(), 0).expect("a clock");
}

/// Mode and group of a folder, and of all its files.
fn modes(run: &Path) -> ((u32, u32), BTreeSet<(u32, u32)>) {
    let of = |path: &Path| (mode(path), path.metadata().expect("a file").gid());
    let files = names(run).into_iter().map(|name| of(&run.join(name))).collect();
    (of(run), files)
}

#[test]
fn files_are_for_the_jvms_user_with_any_umask() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (finished, run) = run_with(Java::with_umask(jdk(), "000"), "", folder.path());
    finished.expect_quiet_success("Ticks");
    for file in [".calls.csv", ".stats.csv.gz", "classes.log", RUN_JSON] {
        assert!(has(&run, file), "{file}: {:?}", names(&run));
    }
    let group = run.metadata().expect("a folder").gid();
    assert_eq!(modes(&run), ((0o700, group), BTreeSet::from([(0o600, group)])));
    assert_eq!(mode(run.parent().expect("logs")), 0o700);
    assert_readable(&run);
}

/// A group other than root's, with its name.
fn group() -> (String, u32) {
    let groups = fs::read_to_string("/etc/group").expect("groups");
    let mut groups = groups.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let group = groups.find(|fields| fields[2] != "0").expect("a group");
    (group[0].to_owned(), group[2].parse().expect("a number"))
}

#[test]
fn a_group_may_read_the_log() {
    if !is_root() {
        return;
    }
    let (name, number) = group();
    for (given, umask) in [(name, "077"), ("4711".to_owned(), "000")] {
        let number = given.parse().unwrap_or(number);
        let folder = tempfile::tempdir().expect("a temporary folder");
        set_mode(folder.path(), 0o755);
        let options = format!("log_group={given}");
        let (finished, run) = run_with(Java::with_umask(jdk(), umask), &options, folder.path());
        finished.expect_quiet_success(&given);
        assert_eq!(modes(&run), ((0o750, number), BTreeSet::from([(0o640, number)])));
        let logs = run.parent().expect("logs").to_owned();
        assert_eq!((mode(&logs), logs.metadata().expect("a folder").gid()), (0o750, number));
        let text = fs::read_to_string(run.join(RUN_JSON)).expect("run.json");
        let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(json["options"]["log_group"], given);
        // A member of the group can read it, and nobody else.
        let can_read = |group| {
            let mut analyze = Command::new(&artifacts().analyze);
            analyze.arg(&run).uid(NOBODY).gid(group);
            analyze.output().expect("analyze runs").status.success()
        };
        assert!(can_read(number) && !can_read(NOBODY), "{given}");
    }
}

#[test]
fn a_wrong_group_is_named() {
    if !is_root() {
        return;
    }
    for is_there in [false, true] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        set_mode(folder.path(), 0o777);
        let logs = folder.path().join("logs");
        if is_there {
            fs::create_dir(&logs).expect("a folder");
            set_mode(&logs, 0o777);
        }
        for (group, message) in [
            ("no-such-group", "log_group: no group 'no-such-group' in /etc/group; give its number"),
            (
                "0",
                "logs: logs: log_group: the JVM's user cannot give it to group 0: Operation not \
                 permitted (os error 1)",
            ),
        ] {
            let run = |strict: &str| {
                let options = format!("logs=logs,log_group={group}{strict}");
                let java = Java::new(jdk()).user(NOBODY).agent(&options).folder(folder.path());
                java.main(classes(), "programs.Exits").arg("return").run()
            };
            let finished = run("");
            assert_eq!((finished.status, &*finished.stdout), (Some(0), "worked\nhook\n"));
            assert_eq!(finished.stderr, format!("tprofiler: {message}; profiling is off\n"));
            assert_eq!(run(",strict").status, Some(1));
            assert_eq!(names(folder.path()).len(), usize::from(is_there), "{group}");
            assert_eq!(names(&logs), [""; 0]);
        }
    }
}

#[test]
fn a_folder_that_many_may_write_to_can_have_the_log() {
    if !is_root() {
        return;
    }
    for (mode_of_parent, owner, group) in
        [(0o777, 0, 0), (0o1777, 0, 0), (0o777, 1, 1), (0o2775, 0, NOBODY), (0o2770, 1, NOBODY)]
    {
        for logs in ["shared", "shared/a/logs"] {
            let folder = tempfile::tempdir().expect("a temporary folder");
            set_mode(folder.path(), 0o755);
            let shared = folder.path().join("shared");
            fs::create_dir(&shared).expect("a folder");
            chown(&shared, Some(owner), Some(group)).expect("a folder");
            set_mode(&shared, mode_of_parent);
            let logs = folder.path().join(logs);
            let options = format!("include=programs,port=off,logs={}", logs.display());
            let java = Java::new(jdk()).user(NOBODY).agent(&options);
            java.main(classes(), "programs.Exits")
                .arg("return")
                .run()
                .expect_quiet_success(format!("{mode_of_parent:o} {owner} {group}"));
            let profile = Profile::only_run(&logs);
            assert!(!profile.counts.is_empty());
            let (own, files) = modes(&profile.folder);
            let file_modes: BTreeSet<u32> = files.into_iter().map(|(mode, _)| mode).collect();
            assert_eq!((own.0, file_modes), (0o700, BTreeSet::from([0o600])));
            assert_eq!(profile.folder.metadata().expect("a run").uid(), NOBODY);
            assert_eq!(shared.metadata().expect("a folder").mode() & 0o7777, mode_of_parent);
            assert_readable(&profile.folder);
        }
    }
}
