//! The JVMs of this machine, as `/proc` shows them. Nothing here connects to one or disturbs it.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use log_format::error::FileError;
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use rustix::process::geteuid;

use super::failure::{Failure, failed};
use super::listening::listens_on;
use super::time_limit::bounded;
use crate::attach_protocol;
use crate::control::token::Token;

const LIBRARY: &str = "libtprofiler.so";
/// How the kernel marks the name of a file that is gone.
const DELETED: &str = " (deleted)";
/// How long reading the files of one JVM may take: another user's may be on a file system that never answers.
const TOKENS: Duration = Duration::from_secs(2);

/// A process with a JVM.
#[derive(Clone, Debug)]
pub(super) struct Jvm {
    pub pid: u32,
    /// `/proc/<pid>`.
    folder: PathBuf,
    /// `/proc/<pid>/maps`, as read at first.
    maps: String,
}

/// The state of the agent in a JVM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AgentState {
    /// It was never loaded.
    None,
    /// Its library is loaded, but the agent is not active.
    Idle,
    /// It is starting.
    Beginning,
    /// It is attached.
    Attached {
        /// The control port, if there is one.
        port: Option<u16>,
    },
    /// The agent thread has ended with the JVM, which still has the control port.
    Ending {
        /// The control port.
        port: u16,
    },
}

/// Why an agent does not answer in a JVM that ends.
pub(super) const ENDING: &str = "the JVM is ending, and its agent with it";

impl AgentState {
    /// By the names of the JVM's threads, which `names` reads.
    fn by_threads(names: impl Fn() -> Vec<String>) -> Self {
        /// Where threads end meanwhile, the kernel's list may lack others.
        const AGAIN: usize = 4;
        let mut state = Self::by_names(&names());
        for _ in 0..AGAIN {
            match state {
                Self::None | Self::Idle | Self::Ending { .. } => state = Self::by_names(&names()),
                // The threads were listed before their names were read: the control thread may have begun meanwhile.
                // The agent says that it is attached after that, so the next list has it.
                Self::Attached { port: None } => return Self::by_names(&names()).or(state),
                Self::Attached { .. } | Self::Beginning => break,
            }
        }
        state
    }

    /// This one, unless the agent thread was not seen.
    fn or(self, before: Self) -> Self {
        if matches!(self, Self::Attached { .. }) { self } else { before }
    }

    fn by_names(names: &[String]) -> Self {
        let has = |name: &str| names.iter().any(|thread| thread == name);
        let port = names.iter().find_map(|name| attach_protocol::control_port(name));
        match port {
            _ if has(attach_protocol::ATTACHED) => Self::Attached { port },
            _ if has(attach_protocol::BEGINNING) => Self::Beginning,
            // A detach closes the port before the agent thread gets another name.
            Some(port) => Self::Ending { port },
            None => Self::Idle,
        }
    }
}

/// The kernel's names of a process's threads.
fn thread_names(process: &Path) -> Vec<String> {
    let tasks = fs::read_dir(process.join("task")).into_iter().flatten().flatten();
    let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    names.map(|name| name.trim_end().to_owned()).collect()
}

/// This process's effective user.
pub(super) fn own_uid() -> u32 {
    geteuid().as_raw()
}

impl Jvm {
    /// The JVM with a process id.
    ///
    /// # Errors
    /// There is no such process, it is no JVM, or it belongs to another user.
    pub(super) fn find(pid: u32) -> Result<Self, Failure> {
        let folder = PathBuf::from(format!("/proc/{pid}"));
        // A thread has a folder in /proc too.
        if status_field(&folder, "Tgid:").as_deref() != Some(&*pid.to_string()) {
            return Err("no such process".into());
        }
        let uid = fs::metadata(&folder).map_or(0, |metadata| metadata.uid());
        let maps = match fs::read_to_string(folder.join("maps")) {
            Ok(maps) => maps,
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                return Err(match [0, uid].contains(&own_uid()) {
                    true => "the kernel does not let this process look into it".into(),
                    false => {
                        format!("it is of user {uid}; only that user and root may do this").into()
                    }
                });
            }
            Err(error) => return Err(FileError::at(folder.join("maps"))(error).into()),
        };
        // A zombie is still in the list.
        if maps.is_empty() {
            return Err("it has ended".into());
        }
        let jvm = Self { pid, folder, maps };
        if jvm.mapped("libjvm.so").is_none() {
            return Err("it is no JVM (libjvm.so is not in it)".into());
        }
        if ![0, jvm.uid()].contains(&own_uid()) {
            let uid = jvm.uid();
            return Err(format!("it is of user {uid}; only that user and root may do this").into());
        }
        Ok(jvm)
    }

    /// The JVMs that this user may inspect, by process id.
    pub(super) fn all() -> Vec<Self> {
        let pid = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let mut pids: Vec<u32> = entries.filter_map(pid).collect();
        pids.sort_unstable();
        pids.into_iter().filter_map(|pid| Self::find(pid).ok()).collect()
    }

    /// Whether the process still exists.
    pub(super) fn is_alive(&self) -> bool {
        // A zombie has no memory.
        fs::read(self.folder.join("maps")).is_ok_and(|maps| !maps.is_empty())
    }

    /// Its effective user.
    pub(super) fn uid(&self) -> u32 {
        let ids = self.status_field("Uid:").unwrap_or_default();
        ids.split_whitespace().nth(1).and_then(|uid| uid.parse().ok()).unwrap_or(0)
    }

    /// Its process id in its own container.
    pub(super) fn own_pid(&self) -> u32 {
        let pids = self.status_field("NSpid:").unwrap_or_default();
        pids.split_whitespace().last().and_then(|pid| pid.parse().ok()).unwrap_or(self.pid)
    }

    /// Whether it can begin to listen. In its start, HotSpot deletes the socket that it may have made just before, then
    /// starts this thread.
    pub(super) fn has_begun(&self) -> bool {
        thread_names(&self.folder).iter().any(|name| name == "Service Thread")
    }

    /// Whether it is stopped, as by SIGSTOP or a debugger, or frozen, as a paused container is.
    pub(super) fn is_stopped(&self) -> bool {
        self.status_field("State:").is_some_and(|state| state.starts_with(['T', 't']))
            || self.is_frozen()
    }

    /// Whether the kernel lets nothing run in its control group.
    fn is_frozen(&self) -> bool {
        let groups = fs::read_to_string(self.folder.join("cgroup")).unwrap_or_default();
        groups.lines().any(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else {
                return false;
            };
            let says = |folder: &str, file: &str, what: &str| {
                fs::read_to_string(format!("/sys/fs/cgroup{folder}{group}/{file}"))
                    .is_ok_and(|text| text.lines().any(|line| line == what))
            };
            match controllers {
                "" => ["", "/unified"].iter().any(|at| says(at, "cgroup.events", "frozen 1")),
                "freezer" => says("/freezer", "freezer.state", "FROZEN"),
                _ => false,
            }
        })
    }

    /// Whether it handles SIGQUIT. If not, the signal would end it.
    pub(super) fn catches_sigquit(&self) -> bool {
        let caught = self.status_field("SigCgt:").unwrap_or_default();
        let caught = u64::from_str_radix(&caught, 16).unwrap_or(0);
        caught >> (libc::SIGQUIT - 1) & 1 == 1
    }

    /// Whether an option is in its command line, or in an environment variable that adds to it.
    pub(super) fn has_option(&self, option: &str) -> bool {
        let option = option.as_bytes();
        let has = |text: &[u8]| text.windows(option.len()).any(|window| window == option);
        let variables = ["JAVA_TOOL_OPTIONS=", "JDK_JAVA_OPTIONS=", "_JAVA_OPTIONS="];
        let environment = fs::read(self.folder.join("environ")).unwrap_or_default();
        self.arguments().iter().any(|argument| argument == option)
            || environment.split(|b| *b == 0).any(|variable| {
                variables.iter().any(|name| variable.starts_with(name.as_bytes())) && has(variable)
            })
    }

    fn arguments(&self) -> Vec<Vec<u8>> {
        let line = fs::read(self.folder.join("cmdline")).unwrap_or_default();
        line.split(|b| *b == 0).map(<[u8]>::to_vec).collect()
    }

    /// A path in the JVM's file system, as this process can reach it.
    pub(super) fn seen_from_here(&self, path: &Path) -> PathBuf {
        if let Ok(own) = path.strip_prefix("/proc/self") {
            return self.folder.join(own);
        }
        if self.shares("mnt") { path.to_owned() } else { self.inside(path) }
    }

    /// A path in the JVM's file system, by way of the JVM's root folder.
    pub(super) fn inside(&self, path: &Path) -> PathBuf {
        let mut inside = self.folder.join("root").into_os_string();
        inside.push(path);
        inside.into()
    }

    /// The JVM's /tmp. HotSpot uses it, whatever TMPDIR says.
    pub(super) fn temporary_folder(&self) -> PathBuf {
        let inside = self.inside(Path::new("/tmp"));
        if inside.is_dir() { inside } else { PathBuf::from("/tmp") }
    }

    /// Its working folder.
    pub(super) fn working_folder(&self) -> PathBuf {
        self.folder.join("cwd")
    }

    /// Whether it is in the same namespace as this process: `mnt` for files, `net` for ports.
    pub(super) fn shares(&self, namespace: &str) -> bool {
        let of = |folder: &Path| fs::read_link(folder.join("ns").join(namespace)).ok();
        let root =
            |folder: &Path| fs::metadata(folder.join("root")).ok().map(|m| (m.dev(), m.ino()));
        let own = Path::new("/proc/self");
        let same_root = namespace != "mnt" || root(&self.folder) == root(own);
        of(&self.folder) == of(own) && same_root
    }

    /// A path under which the JVM can load its agent's library again. `tprofiler-agent.jar` deletes the file and keeps
    /// it open.
    pub(super) fn agent_library(&self) -> Option<PathBuf> {
        let path = self.mapped(LIBRARY)?;
        let Some(name) = path.strip_suffix(DELETED) else { return Some(PathBuf::from(path)) };
        let files = fs::read_dir(self.folder.join("fd")).into_iter().flatten().flatten();
        let is_library =
            |file: &fs::DirEntry| fs::read_link(file.path()).is_ok_and(|link| link == *path);
        let open = files.into_iter().find(is_library);
        Some(open.map_or_else(
            || PathBuf::from(name),
            |file| Path::new("/proc/self/fd").join(file.file_name()),
        ))
    }

    /// A mapped file with this name, as the kernel shows it.
    fn mapped(&self, name: &str) -> Option<&str> {
        self.maps.lines().find_map(|line| {
            let shown = line.get(line.find('/')?..)?;
            let path = shown.strip_suffix(DELETED).unwrap_or(shown);
            (path.rsplit('/').next() == Some(name)).then_some(shown)
        })
    }

    /// The state of the agent in it.
    pub(super) fn agent_state(&self) -> AgentState {
        // It may have been loaded since `maps` was read.
        if !Self::find(self.pid).is_ok_and(|now| now.mapped(LIBRARY).is_some()) {
            return AgentState::None;
        }
        AgentState::by_threads(|| thread_names(&self.folder))
    }

    /// Whether its agent has this control port. A starting agent may listen already, but does not show its port yet.
    pub(super) fn has_control_port(&self, port: u16) -> bool {
        match self.agent_state() {
            AgentState::Attached { port: shown } => shown == Some(port),
            AgentState::Beginning => listens_on(&self.folder, port),
            AgentState::None | AgentState::Idle | AgentState::Ending { .. } => false,
        }
    }

    /// Whether it is ending, and its agent had this control port.
    pub(super) fn is_ending_with(&self, port: u16) -> bool {
        self.agent_state() == AgentState::Ending { port }
    }

    /// The token that the agent created. The JVM has the token's file open, so this works across containers. Normally
    /// there is one.
    ///
    /// # Errors
    /// Why none was found.
    pub(super) fn control_tokens(&self) -> Result<Vec<Token>, Failure> {
        let (files, uid) = (self.folder.join("fd"), self.uid());
        bounded("the token's file", TOKENS, move || tokens_among(&files, uid))?
    }

    /// Its main class, jar or module from the command line; else the name of its executable.
    pub(super) fn program(&self) -> String {
        let arguments = self.arguments();
        let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
        let mut rest = arguments.iter().map(text);
        let executable = rest.next().unwrap_or_default();
        let executable = executable.rsplit('/').next().unwrap_or_default().to_owned();
        if executable != "java" {
            return executable;
        }
        while let Some(argument) = rest.next() {
            match &*argument {
                "-jar" | "-m" | "--module" => return rest.next().unwrap_or_default(),
                "-cp"
                | "-classpath"
                | "--class-path"
                | "-p"
                | "--module-path"
                | "--add-modules"
                | "--upgrade-module-path"
                | "--limit-modules"
                | "--add-reads"
                | "--add-exports"
                | "--add-opens"
                | "--patch-module"
                | "--source"
                | "--enable-native-access"
                | "--describe-module"
                | "-d" => {
                    rest.next();
                }
                other if other.starts_with(['-', '@']) => {}
                _ => return argument,
            }
        }
        executable
    }

    fn status_field(&self, name: &str) -> Option<String> {
        status_field(&self.folder, name)
    }
}

/// The tokens among the open files of a JVM of this user.
///
/// # Errors
/// Why there is none.
fn tokens_among(files: &Path, uid: u32) -> Result<Vec<Token>, Failure> {
    let (mut tokens, mut wrong) = (Vec::new(), None);
    let entries = fs::read_dir(files).map_err(failed("cannot look into the process"))?;
    for entry in entries.flatten() {
        let path = entry.path();
        if fs::read_link(&path).is_ok_and(|file| is_token_file(&file)) {
            let checked = check_token_file(&path, uid).map_err(FileError::at(&path));
            match checked.and_then(|()| Token::read(&path)) {
                Ok(token) => tokens.push(token),
                Err(error) => wrong = Some(error),
            }
        }
    }
    let none = "the agent made no token (option token_file); give --token-file FILE";
    match tokens.is_empty() {
        true => Err(wrong.map_or_else(|| none.into(), Failure::from)),
        false => Ok(tokens),
    }
}

/// Checks that a file is regular and belongs to the JVM's user or root. It may be something else, so it is not opened
/// for this.
fn check_token_file(path: &Path, uid: u32) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let stat = openat(CWD, path, flags, Mode::empty()).and_then(fstat)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(io::Error::other("not a file"));
    }
    let owner = stat.st_uid;
    if ![0, uid].contains(&owner) {
        let reason = format!("it belongs to user {owner}, not to the JVM's user {uid}");
        return Err(io::Error::other(reason));
    }
    Ok(())
}

/// A field of `/proc/<pid>/status`.
fn status_field(folder: &Path, name: &str) -> Option<String> {
    let status = fs::read(folder.join("status")).ok()?;
    let status = String::from_utf8_lossy(&status);
    Some(status.lines().find_map(|line| line.strip_prefix(name))?.trim().to_owned())
}

/// Whether a link in `/proc/PID/fd` names a token's file, deleted or not.
fn is_token_file(path: &Path) -> bool {
    let path = path.as_os_str().as_bytes();
    let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
    path.strip_suffix(attach_protocol::TOKEN_FILE.as_bytes())
        .is_some_and(|rest| rest.ends_with(b"/"))
}

/// Whether a path can be part of an option string.
pub(super) fn fits_option(path: &Path) -> bool {
    !path.as_os_str().as_bytes().contains(&b',') && path.to_str().is_some()
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_control_thread_that_begins_while_threads_are_read_is_found() {
        use std::cell::Cell;

        let read = Cell::new(0);
        let names = |of: &[&[&str]]| {
            let now = of.get(read.replace(read.get() + 1)).or(of.last()).copied().unwrap();
            now.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()
        };
        let attached = attach_protocol::ATTACHED;
        let port =
            AgentState::by_threads(|| names(&[&[attached], &["java", attached, "tprofiler:7"]]));
        assert_eq!(port, AgentState::Attached { port: Some(7) });
        read.set(0);
        let none = AgentState::by_threads(|| names(&[&[attached], &["java", attached]]));
        assert_eq!(none, AgentState::Attached { port: None });
        read.set(0);
        let beginning = AgentState::by_threads(|| names(&[&["java", attach_protocol::BEGINNING]]));
        assert_eq!((beginning, read.get()), (AgentState::Beginning, 1));
        read.set(0);
        let ending = AgentState::by_threads(|| names(&[&["java", "tprofiler:7"]]));
        assert_eq!(ending, AgentState::Ending { port: 7 });
        // The kernel's list may be incomplete.
        read.set(0);
        let missed = AgentState::by_threads(|| names(&[&["java"], &["java", attached], &["java"]]));
        assert_eq!(missed, AgentState::Attached { port: None });
    }

    #[test]
    fn a_token_is_read_from_a_regular_file_of_the_jvms_user() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(attach_protocol::TOKEN_FILE);
        fs::write(&path, "0123456789abcdef").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let files = tempfile::tempdir().unwrap();
        let link = |path: &Path| {
            let link = files.path().join("7");
            let _ = fs::remove_file(&link);
            std::os::unix::fs::symlink(path, link).unwrap();
        };
        link(&path);
        let error = |uid: u32| tokens_among(files.path(), uid).err().map(|e| e.to_string());
        assert_eq!(error(own_uid()), None);
        if own_uid() == 0 {
            std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
            assert_eq!(error(65_534), None);
            assert!(error(1).unwrap().ends_with("to user 65534, not to the JVM's user 1"));
        }
        // A pipe that is already open is neither opened nor waited for.
        let pipe = folder.path().join("pipe").join(attach_protocol::TOKEN_FILE);
        fs::create_dir(pipe.parent().unwrap()).unwrap();
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let open = fs::File::options().read(true).write(true).open(&pipe).unwrap();
        assert!(open.as_raw_fd() > 0);
        link(&pipe);
        assert!(error(own_uid()).unwrap().ends_with("not a file"));
    }
}
