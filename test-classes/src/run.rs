//! Starts Java programs, with and without the agent, and waits for them.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::{CommandExt, parent_id};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::artifacts::artifacts;
use crate::classes::agent_jar;
use crate::jdk::Jdk;

/// No program here takes this long, on slow and busy machines neither; one that does hangs.
const TIMEOUT: Duration = Duration::from_secs(600);

/// The probe form for all tests, if not the agent's own choice.
const PROBE: &str = "TPROFILER_TEST_PROBE";

/// A java command being built.
#[derive(Debug)]
pub struct Java {
    command: Command,
    what: String,
    stderr: Option<Stdio>,
    library: PathBuf,
    /// Loads the agent, if not the JVM.
    jar: Option<PathBuf>,
}

/// A program that has ended by itself.
#[derive(Debug)]
pub struct Finished {
    /// Exit status; `None` after a signal.
    pub status: Option<i32>,
    /// Everything on stdout.
    pub stdout: String,
    /// Everything on stderr.
    pub stderr: String,
}

/// A running program. It is killed when dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    what: String,
    stdout: Option<JoinHandle<String>>,
    stderr: Option<JoinHandle<String>>,
}

/// Whether these options may instrument classes of the JDK. The JVM verifies those only with `-Xverify:all`, which
/// keeps it from its class archive: it takes twice the CPU time to start.
fn may_include_jdk(options: &str) -> bool {
    let is_jdk = |include: &str| {
        let first = include.split('.').next().unwrap_or_default();
        ["java", "javax", "jdk", "sun", "**"].contains(&first) || include.starts_with("com.sun")
    };
    options.contains("config=")
        || options.split(',').filter_map(|option| option.strip_prefix("include=")).any(is_jdk)
}

impl Java {
    /// The java command of a runtime. The JVM verifies the classes of programs.
    pub fn new(jdk: &Jdk) -> Self {
        Self::with(jdk, Command::new(jdk.command("java")))
    }

    /// The same with another umask, in the shell's notation.
    pub fn with_umask(jdk: &Jdk, umask: &str) -> Self {
        Self::after(jdk, &format!("umask {umask}"))
    }

    /// The same with a limited address space.
    pub fn with_address_space(jdk: &Jdk, bytes: u64) -> Self {
        Self::after(jdk, &format!("ulimit -v {}", bytes >> 10))
    }

    /// The same where the kernel refuses all but a few timers.
    pub fn with_few_timers(jdk: &Jdk, timers: u32) -> Self {
        Self::after(jdk, &format!("prlimit --pid $$ --sigpending={timers}"))
    }

    /// The same where a process may have few files open.
    pub fn with_few_files(jdk: &Jdk, files: u32) -> Self {
        Self::after(jdk, &format!("ulimit -n {files}")).arg("-XX:-MaxFDLimit")
    }

    /// The same on one processor, where another program keeps busy until this one ends.
    pub fn beside_a_busy_program(jdk: &Jdk) -> Self {
        let status = std::fs::read_to_string("/proc/self/status").expect("this process");
        let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:\t"));
        let allowed = allowed.and_then(|list| list.split(['-', ',']).next()).expect("a processor");
        let busy = "{ while kill -0 $$; do :; done 2>/dev/null & }";
        Self::after(jdk, &format!("taskset -c -p {allowed} $$ >/dev/null && {busy}"))
    }

    /// The same under a tracer, for which the kernel stops a thread at each signal: about a tenth of a millisecond.
    pub fn traced(jdk: &Jdk) -> Self {
        let mut command = Command::new("strace");
        command.args(["-fqq", "-e", "trace=none", "-e", "signal=none", "-o", "/dev/null"]);
        command.arg(jdk.command("java"));
        Self::with(jdk, command)
    }

    /// The same where an earlier JVM with this process id has left the socket of attaches.
    pub fn with_stale_socket(jdk: &Jdk) -> Self {
        const BIND: &str = "import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])";
        Self::after(jdk, &format!("python3 -c '{BIND}' /tmp/.java_pid$$"))
    }

    /// The same in a shell that runs `what` before.
    fn after(jdk: &Jdk, what: &str) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{what} && exec \"$0\" \"$@\"")]);
        command.arg(jdk.command("java"));
        Self::with(jdk, command)
    }

    /// The same in its own mount namespace, where a shell mounts something before.
    pub fn with_mounts(jdk: &Jdk, script: &str) -> Self {
        let mut command = unshare();
        command.args(["sh", "-c", &format!("{script} && exec \"$0\" \"$@\"")]);
        command.arg(jdk.command("java"));
        Self::with(jdk, command)
    }

    fn with(jdk: &Jdk, mut command: Command) -> Self {
        // The JVM's message about these variables would mix with the program's output.
        command.env_remove("JAVA_TOOL_OPTIONS").env_remove("JDK_JAVA_OPTIONS");
        command.env_remove("TPROFILER_OPTS");
        command.arg("-XX:-UsePerfData");
        let library = artifacts().agent.clone();
        Self { command, what: jdk.to_string(), stderr: None, library, jar: None }
    }

    /// The same on an emulated processor, with that system's libraries in a folder.
    pub fn emulated(jdk: &Jdk, emulator: &str, libraries: &Path) -> Self {
        let mut command = Command::new(emulator);
        let own = jdk.home.join("lib");
        let path = format!("LD_LIBRARY_PATH={}:{}", libraries.display(), own.display());
        command.args(["-E", &path]).arg(jdk.command("java"));
        Self::with(jdk, command)
    }

    /// Takes the agent from this file.
    pub fn library(mut self, library: &Path) -> Self {
        self.library = library.to_owned();
        self
    }

    /// Loads the agent with these options. Unless they say otherwise, every method is instrumented and never
    /// throttled, because programs count their calls.
    pub fn agent(self, options: &str) -> Self {
        let agent = self.library.display().to_string();
        let mut all = options.to_owned();
        for (key, more) in [("leaves=", ",leaves=keep"), ("overhead=", ",overhead=off")] {
            let says = [key, "config="].iter().any(|key| options.contains(key));
            all += if says || options.is_empty() { "" } else { more };
        }
        if let Ok(form) = std::env::var(PROBE)
            && !options.is_empty()
            && !["probe=", "debug=", "config="].iter().any(|key| options.contains(key))
        {
            all += &format!(",probe={form}");
        }
        let options = all;
        let this = if may_include_jdk(&options) { self.arg("-Xverify:all") } else { self };
        match &this.jar {
            None => this.arg(format!("-agentpath:{agent}={options}")),
            Some(jar) => {
                let agent = format!("-javaagent:{}={options}", jar.display());
                this.arg(agent)
            }
        }
    }

    /// From here on, [`agent`](Self::agent) loads it with `-javaagent:tprofiler-agent.jar`.
    pub fn with_agent_jar(mut self, jdk: &Jdk) -> Self {
        self.jar = Some(agent_jar());
        self.args(may_load(jdk))
    }

    /// Sets an environment variable.
    pub fn variable(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Adds an argument.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    /// Adds arguments.
    pub fn args<I: IntoIterator<Item: AsRef<OsStr>>>(mut self, arguments: I) -> Self {
        self.command.args(arguments);
        self
    }

    /// Sets the classes and the main class.
    pub fn main(self, classes: &Path, main: &str) -> Self {
        self.arg("-cp").arg(classes).arg(main)
    }

    /// Sets the working folder.
    pub fn folder(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// Runs the program as another user. Only root can do that.
    pub fn user(mut self, id: u32) -> Self {
        self.command.uid(id).gid(id);
        self
    }

    /// Gives the program another stderr, which nobody here reads.
    pub fn stderr(mut self, stderr: impl Into<Stdio>) -> Self {
        self.stderr = Some(stderr.into());
        self
    }

    /// Runs the program to its end.
    pub fn run(self) -> Finished {
        self.start().wait()
    }

    /// Starts the program.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start(mut self) -> Running {
        self.command.stdin(Stdio::null());
        let mut running = self.spawn();
        running.stdout = running.child.stdout.take().map(collect);
        running
    }

    /// Starts a program that takes commands on its stdin.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn talk(mut self) -> Dialogue {
        self.command.stdin(Stdio::piped());
        let mut program = self.spawn();
        let stdin = program.child.stdin.take().expect("a pipe");
        let stdout = BufReader::new(program.child.stdout.take().expect("a pipe"));
        Dialogue { program, stdin, stdout }
    }

    fn spawn(mut self) -> Running {
        let arguments: Vec<OsString> = self.command.get_args().map(OsString::from).collect();
        let what = format!("{}: {arguments:?}", self.what);
        let mut child = self
            .command
            .stdout(Stdio::piped())
            .stderr(self.stderr.take().unwrap_or_else(Stdio::piped))
            .spawn()
            .unwrap_or_else(|e| panic!("{what}: {e}"));
        let stderr = child.stderr.take().map(collect);
        Running { child, what, stdout: None, stderr }
    }
}

fn collect(mut pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // A broken pipe ends the output.
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

impl Running {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it is still running.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("the state of a child").is_none()
    }

    /// Sends a signal, by its name for `kill`.
    pub fn signal(&self, name: &str) {
        let status =
            Command::new("kill").arg(format!("-{name}")).arg(self.pid().to_string()).status();
        assert!(status.is_ok_and(|s| s.success()), "kill -{name}");
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// If it does not end in time.
    pub fn wait(mut self) -> Finished {
        let deadline = Instant::now() + TIMEOUT;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("the state of a child") {
                break status;
            }
            if Instant::now() > deadline {
                let _ = self.child.kill();
                let stderr = self.stderr.take().and_then(|pipe| pipe.join().ok());
                panic!("{} does not end\n{}", self.what, stderr.unwrap_or_default());
            }
            thread::sleep(Duration::from_millis(5));
        };
        let text = |pipe: Option<JoinHandle<String>>| {
            pipe.map(|p| p.join().expect("a reader")).unwrap_or_default()
        };
        Finished {
            status: status.code(),
            stdout: text(self.stdout.take()),
            stderr: text(self.stderr.take()),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Finished {
    /// The numbers that the program has printed, in lines of a word and a number.
    ///
    /// # Panics
    /// If the text after a word is not a number.
    pub fn numbers(&self) -> BTreeMap<&str, u64> {
        let lines = self.stdout.lines().filter_map(|line| line.split_once(' '));
        lines.map(|(word, number)| (word, number.parse().expect("a number"))).collect()
    }

    /// Asserts that the program ended well and printed nothing on stderr.
    pub fn expect_quiet_success(&self, what: impl std::fmt::Display) -> &Self {
        let lines: Vec<&str> = self.stdout.lines().collect();
        let end = lines[lines.len().saturating_sub(20)..].join("\n");
        assert_eq!((self.status, &*self.stderr), (Some(0), ""), "{what}\n{end}");
        self
    }
}

/// What spares a program that loads a library the JVM's warning.
pub fn may_load(jdk: &Jdk) -> &'static [&'static str] {
    if jdk.major >= 24 { &["--enable-native-access=ALL-UNNAMED"] } else { &[] }
}

/// A command in a mount namespace of its own, and for users other than root in a user namespace of its own.
fn unshare() -> Command {
    let mut command = Command::new("unshare");
    command.arg("--map-root-user").arg("--mount");
    command
}

/// A shell command that mounts a file system that never answers on a folder. `None` if that cannot be done here.
pub fn hung_mount(folder: &Path) -> Option<String> {
    // Nobody reads the kernel's requests from descriptor 9, which the JVM inherits.
    let script = format!(
        "exec 9<>/dev/fuse && mount -t fuse -o fd=9,rootmode=40000,user_id=0,group_id=0 hung '{}'",
        folder.display()
    );
    let trial = unshare().args(["sh", "-c", &script]).stderr(Stdio::null()).status();
    trial.is_ok_and(|status| status.success()).then_some(script)
}

/// Reports that a test cannot run here. `scripts/test.sh` prints it at its end, because output of tests that pass is
/// hidden.
///
/// # Panics
/// If the variable `CI` is set: a CI machine must be able to run all tests.
pub fn skipped(why: &str) {
    eprintln!("skipped: {why}");
    if let Some(file) = std::env::var_os("TEST_SKIPPED") {
        let file = fs::OpenOptions::new().create(true).append(true).open(file);
        file.expect("a file").write_all(format!("{why}\n").as_bytes()).expect("it is written");
    }
    assert!(std::env::var_os("CI").is_none(), "a test was skipped: {why}");
}

/// A port that was free a moment ago. The agent may try 16 ports from it on, so concurrent tests get ports further
/// apart than that.
pub fn free_port() -> u16 {
    use std::sync::atomic::{AtomicU16, Ordering};
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Below the ports that the kernel gives to clients. Each test process has 640 of its own: nextest runs no
    // two tests with the same slot at the same time.
    let slot =
        std::env::var("NEXTEST_TEST_GLOBAL_SLOT").ok().and_then(|slot| slot.parse::<u32>().ok());
    let process = slot.map_or_else(std::process::id, |slot| parent_id().wrapping_mul(8) + slot);
    let base = 10_240 + u16::try_from(process % 34).expect("small") * 640;
    loop {
        let port = base + NEXT.fetch_add(1, Ordering::Relaxed) % 32 * 20;
        // Not by listening: a child that another test is starting would inherit the listener.
        if TcpStream::connect(("127.0.0.1", port)).is_err() {
            return port;
        }
    }
}

/// Waits until a condition holds.
///
/// # Panics
/// If it does not hold within two minutes: machines may be busy.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        let waited = began.elapsed();
        assert!(waited < Duration::from_secs(120), "waited in vain: {what}");
        // Most questions start a process.
        thread::sleep((waited / 10).clamp(Duration::from_millis(10), Duration::from_millis(200)));
    }
}

/// How many timers and perf events a process has, as the kernel lists them.
///
/// # Panics
/// If it has ended.
#[must_use]
pub fn timers(pid: u32) -> usize {
    let list = fs::read_to_string(format!("/proc/{pid}/timers")).expect("a list of timers");
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).expect("a list of descriptors");
    let files = descriptors.flatten().filter_map(|file| fs::read_link(file.path()).ok());
    let events = files.filter(|file| file.as_os_str() == "anon_inode:[perf_event]").count();
    list.lines().filter(|line| line.starts_with("ID:")).count() + events
}

/// How many rings of perf events a process has mapped.
///
/// # Panics
/// If it has ended.
#[must_use]
pub fn rings(pid: u32) -> usize {
    let maps = fs::read(format!("/proc/{pid}/maps")).expect("a list of mappings");
    let maps = String::from_utf8_lossy(&maps).into_owned();
    maps.lines().filter(|line| line.ends_with("anon_inode:[perf_event]")).count()
}

/// How many threads a process has; `None` if it has ended.
#[must_use]
pub fn tasks_of(pid: u32) -> Option<usize> {
    Some(fs::read_dir(format!("/proc/{pid}/task")).ok()?.count())
}

/// Whether a process has a thread with this name in the kernel.
#[must_use]
pub fn has_thread(pid: u32, name: &str) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks
        .filter_map(|task| fs::read_to_string(task.path().join("comm")).ok())
        .any(|comm| comm.trim_end() == name)
}

/// A program that takes commands on its stdin, and answers line by line.
#[derive(Debug)]
pub struct Dialogue {
    /// The program.
    pub program: Running,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Dialogue {
    /// Sends the program a line, and returns the line that it answers.
    ///
    /// # Panics
    /// If it does not answer.
    pub fn ask(&mut self, line: &str) -> String {
        self.stdin.write_all(format!("{line}\n").as_bytes()).expect("a program that listens");
        self.hear()
    }

    /// Returns the next line that the program prints.
    ///
    /// # Panics
    /// If it prints nothing more.
    pub fn hear(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("a line");
        assert!(line.ends_with('\n'), "{}: {line:?}", self.program.what);
        line.trim_end().to_owned()
    }

    /// Closes its stdin and waits for its end.
    pub fn end(self) -> Finished {
        let Self { mut program, stdin, stdout } = self;
        drop(stdin);
        program.stdout = Some(collect(stdout));
        program.wait()
    }
}
