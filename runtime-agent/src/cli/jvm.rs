//! The JVMs of this machine, as `/proc` shows them. Nothing here connects to one or disturbs it.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use rustix::process::geteuid;

use super::bounded::bounded;
use super::listening::listens_on;
use crate::control::token::Token;
use crate::session::presence;

const LIBRARY: &str = "libtprofiler.so";
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
pub(super) enum Presence {
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
}

/// This process's effective user.
pub(super) fn own_uid() -> u32 {
    geteuid().as_raw()
}

impl Jvm {
    /// The JVM with a process id.
    ///
    /// # Errors
    /// One line: there is no such process, it is no JVM, or it belongs to another user.
    pub(super) fn find(pid: u32) -> Result<Self, String> {
        let folder = PathBuf::from(format!("/proc/{pid}"));
        // A thread has a folder in /proc too.
        if status_field(&folder, "Tgid:").as_deref() != Some(&*pid.to_string()) {
            return Err("no such process".to_owned());
        }
        let uid = fs::metadata(&folder).map_or(0, |metadata| metadata.uid());
        let maps = match fs::read_to_string(folder.join("maps")) {
            Ok(maps) => maps,
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                return Err(match [0, uid].contains(&own_uid()) {
                    true => "the kernel does not let this process look into it".to_owned(),
                    false => format!("it is of user {uid}; only that user and root may do this"),
                });
            }
            Err(error) => return Err(format!("{}: {error}", folder.join("maps").display())),
        };
        // A zombie is still in the list.
        if maps.is_empty() {
            return Err("it has ended".to_owned());
        }
        let jvm = Self { pid, folder, maps };
        if jvm.mapped("libjvm.so").is_none() {
            return Err("it is no JVM (libjvm.so is not in it)".to_owned());
        }
        if ![0, jvm.uid()].contains(&own_uid()) {
            return Err(format!(
                "it is of user {}; only that user and root may do this",
                jvm.uid()
            ));
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

    /// The path under which the agent's library was loaded.
    pub(super) fn agent_library(&self) -> Option<PathBuf> {
        self.mapped(LIBRARY).map(PathBuf::from)
    }

    /// A mapped file with this name.
    fn mapped(&self, name: &str) -> Option<&str> {
        self.maps.lines().find_map(|line| {
            let path = line.get(line.find('/')?..)?;
            let path = path.strip_suffix(" (deleted)").unwrap_or(path);
            (path.rsplit('/').next() == Some(name)).then_some(path)
        })
    }

    /// The state of the agent in it.
    pub(super) fn presence(&self) -> Presence {
        // It may have been loaded since `maps` was read.
        if !Self::find(self.pid).is_ok_and(|now| now.agent_library().is_some()) {
            return Presence::None;
        }
        let tasks = fs::read_dir(self.folder.join("task")).into_iter().flatten().flatten();
        let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
        let names: Vec<String> = names.map(|name| name.trim_end().to_owned()).collect();
        if names.iter().any(|name| name == presence::ATTACHED) {
            let port = names.iter().find_map(|name| presence::control_port(name));
            return Presence::Attached { port };
        }
        if names.iter().any(|name| name == presence::BEGINNING) {
            return Presence::Beginning;
        }
        Presence::Idle
    }

    /// Whether its agent has this control port. A starting agent may listen already, but does not show its port yet.
    pub(super) fn has_control_port(&self, port: u16) -> bool {
        match self.presence() {
            Presence::Attached { port: shown } => shown == Some(port),
            Presence::Beginning => listens_on(&self.folder, port),
            Presence::None | Presence::Idle => false,
        }
    }

    /// The token that the agent created. The JVM has the token's file open, so this works across containers. Normally
    /// there is one.
    ///
    /// # Errors
    /// One line: why none was found.
    pub(super) fn control_tokens(&self) -> Result<Vec<Token>, String> {
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
/// One line: why there is none.
fn tokens_among(files: &Path, uid: u32) -> Result<Vec<Token>, String> {
    let of = |error: std::io::Error| format!("cannot look into the process: {error}");
    let (mut tokens, mut wrong) = (Vec::new(), None);
    for entry in fs::read_dir(files).map_err(of)?.flatten() {
        let path = entry.path();
        if fs::read_link(&path).is_ok_and(|file| is_token_file(&file)) {
            match check_token_file(&path, uid).and_then(|()| Token::read(&path)) {
                Ok(token) => tokens.push(token),
                Err(error) => wrong = Some(error),
            }
        }
    }
    let none = "the agent made no token (option token_file); give --token-file FILE";
    match tokens.is_empty() {
        true => Err(wrong.unwrap_or_else(|| none.to_owned())),
        false => Ok(tokens),
    }
}

/// Checks that a file is regular and belongs to the JVM's user or root. It may be something else, so it is not opened
/// for this.
fn check_token_file(path: &Path, uid: u32) -> Result<(), String> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let stat = openat(CWD, path, flags, Mode::empty()).and_then(fstat);
    let stat = stat.map_err(|error| format!("{}: {error}", path.display()))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(format!("{}: not a file", path.display()));
    }
    if ![0, uid].contains(&stat.st_uid) {
        return Err(format!(
            "{}: it belongs to user {}, not to the JVM's user {uid}",
            path.display(),
            stat.st_uid
        ));
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
    path.strip_suffix(presence::TOKEN_FILE.as_bytes()).is_some_and(|rest| rest.ends_with(b"/"))
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
    fn a_token_is_read_from_a_regular_file_of_the_jvms_user() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(presence::TOKEN_FILE);
        fs::write(&path, "0123456789abcdef").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let files = tempfile::tempdir().unwrap();
        let link = |path: &Path| {
            let link = files.path().join("7");
            let _ = fs::remove_file(&link);
            std::os::unix::fs::symlink(path, link).unwrap();
        };
        link(&path);
        let error = |uid: u32| tokens_among(files.path(), uid).err();
        assert_eq!(error(own_uid()), None);
        if own_uid() == 0 {
            std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
            assert_eq!(error(65_534), None);
            assert!(error(1).unwrap().ends_with("to user 65534, not to the JVM's user 1"));
        }
        // A pipe that is already open is neither opened nor waited for.
        let pipe = folder.path().join("pipe").join(presence::TOKEN_FILE);
        fs::create_dir(pipe.parent().unwrap()).unwrap();
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let open = fs::File::options().read(true).write(true).open(&pipe).unwrap();
        assert!(open.as_raw_fd() > 0);
        link(&pipe);
        assert!(error(own_uid()).unwrap().ends_with("not a file"));
    }
}
