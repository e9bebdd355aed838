//! HotSpot's attach protocol, version 1, for the one command needed here.
//!
//! A JVM to which nothing has attached yet starts to listen when it gets SIGQUIT and finds a file `.attach_pid<pid>`
//! in its working folder, or in /tmp. It listens on the socket `/tmp/.java_pid<pid>`. A request is a list of strings,
//! each ended by a NUL; the answer is a line with a number, followed by text. In a container, the pid in these names
//! is that in the container.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use log_format::error::FileError;
use rustix::process::{Pid, Signal, kill_process};

use super::failure::{Failure, failed};
use super::jvm::Jvm;
use super::time_limit::bounded;
use super::trigger::Trigger;

/// How long a JVM may take to start listening.
const LISTEN: Duration = Duration::from_secs(10);
/// How long it may take to accept a connection and to read a request.
const ACCEPT: Duration = Duration::from_secs(5);
/// How long it may take to answer: the agent may be restoring classes.
const ANSWER: Duration = Duration::from_secs(130);
/// How long the last threads of a JVM that ends may take.
pub(super) const ENDS: Duration = Duration::from_millis(200);
const POLL: Duration = Duration::from_millis(10);
/// Larger than any answer.
const MAX_ANSWER: usize = 1 << 16;

const DISABLE_ATTACH: &str = "-XX:+DisableAttachMechanism";
const STOPPED: &str =
    "the JVM is stopped (SIGSTOP, a debugger or a paused container); let it go on first";

/// What newer JVMs answer in their start, when they listen already.
const IN_ITS_START: &str = "only permitted in the live phase";

/// Makes a JVM load a library, and returns the result of its `Agent_OnAttach`.
///
/// # Errors
/// Why the library was not loaded.
pub(super) fn load(jvm: &Jvm, library: &Path, options: &str) -> Result<i32, Failure> {
    let library = library.to_str().ok_or("the library's path is no UTF-8 text")?;
    let request = ["1", "load", library, "true", options].map(|text| format!("{text}\0")).concat();
    let deadline = Instant::now() + LISTEN;
    loop {
        let answer = match ask(jvm, &request) {
            Ok(answer) if !answer.is_empty() => answer,
            other => {
                // A JVM that is ending hangs up before it is gone.
                thread::sleep(ENDS);
                if !jvm.is_alive() {
                    return Err("the JVM has ended".into());
                }
                other?
            }
        };
        if !answer.contains(IN_ITS_START) || Instant::now() > deadline {
            return result(&answer);
        }
        thread::sleep(POLL);
    }
}

/// The JVM's answer.
fn ask(jvm: &Jvm, request: &str) -> Result<String, Failure> {
    let mut stream = connect(jvm)?;
    let broken = |limit: Duration, error: io::Error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            format!("the JVM did not answer within {} s", limit.as_secs()).into()
        }
        _ => failed("the JVM hangs up")(error),
    };
    stream.set_write_timeout(Some(ACCEPT)).map_err(|error| broken(ACCEPT, error))?;
    stream.write_all(request.as_bytes()).map_err(|error| broken(ACCEPT, error))?;
    let answer = read_until(&mut stream, Instant::now() + ANSWER);
    let answer = answer.map_err(|error| broken(ANSWER, error))?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Reads to the end, or until there is more than any answer has.
fn read_until(stream: &mut UnixStream, deadline: Instant) -> io::Result<Vec<u8>> {
    let (mut answer, mut bytes) = (Vec::new(), [0; 4 << 10]);
    while answer.len() < MAX_ANSWER {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut bytes) {
            Ok(0) => break,
            Ok(count) => answer.extend_from_slice(bytes.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(answer)
}

/// The library's return code in an answer. Only the text shows whether there is one: the number in front is 0 for
/// some refusals too.
fn result(answer: &str) -> Result<i32, Failure> {
    let (_, text) = answer.split_once('\n').unwrap_or(("", answer));
    let code = text.lines().find_map(|line| line.trim().strip_prefix("return code:"));
    match code.and_then(|code| code.trim().parse().ok()) {
        Some(code) => Ok(code),
        None => {
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let text = if text.is_empty() { "no reason given" } else { &text };
            Err(format!("the JVM refuses the library: {text}").into())
        }
    }
}

fn connect(jvm: &Jvm) -> Result<UnixStream, Failure> {
    let socket = jvm.temporary_folder().join(format!(".java_pid{}", jvm.own_pid()));
    // With this option the JVM would print a thread dump on the service's stdout instead.
    if jvm.has_option(DISABLE_ATTACH) {
        return Err(format!("the JVM runs with {DISABLE_ATTACH}: nothing can be attached").into());
    }
    // Before, the socket may be of an earlier process with the same id, as in containers.
    let begun = wait_for(jvm, "it hangs in its start", || jvm.has_begun() || stays_stopped(jvm));
    refuse_stopped(jvm)?;
    if fs::symlink_metadata(&socket).is_err() {
        begun?;
        start_listening(jvm, &socket)?;
    }
    let wrong = |what: &str| Err(FileError::at(&socket)(io::Error::other(what)).into());
    let found = fs::symlink_metadata(&socket).map_err(FileError::at(&socket))?;
    if !found.file_type().is_socket() {
        return wrong("not a socket; delete it");
    }
    if ![0, jvm.uid()].contains(&found.uid()) {
        return wrong(&format!("it belongs to user {}, not to the JVM's", found.uid()));
    }
    let path = socket.clone();
    // A stopped JVM does not accept connections, and the kernel's queue is limited.
    let connected = bounded("the JVM's socket", ACCEPT, move || UnixStream::connect(path))?;
    let stream = connected.map_err(FileError::at(&socket))?;
    // Somebody may have replaced the socket.
    let uid = peer_uid(&stream).map_err(FileError::at(&socket))?;
    match [0, jvm.uid()].contains(&uid) {
        true => Ok(stream),
        false => wrong(&format!("user {uid} listens on it, not the JVM's")),
    }
}

/// The user of the process that listens at the other end.
fn peer_uid(stream: &UnixStream) -> io::Result<u32> {
    Ok(rustix::net::sockopt::socket_peercred(stream)?.uid.as_raw())
}

fn start_listening(jvm: &Jvm, socket: &Path) -> Result<(), Failure> {
    wait_for(jvm, "it hangs in its start, or runs with -Xrs", || {
        stays_stopped(jvm) || jvm.catches_sigquit() || fs::symlink_metadata(socket).is_ok()
    })?;
    let trigger = Trigger::make(jvm)?;
    let pid = i32::try_from(jvm.pid).ok().and_then(Pid::from_raw).ok_or("no such process")?;
    // Another command may have made the JVM listen meanwhile. The signal ends a JVM that does not handle it.
    let is_mine = trigger.is_some() && fs::symlink_metadata(socket).is_err();
    if is_mine && jvm.catches_sigquit() {
        // It would print a thread dump when it goes on, because nothing shows that this signal came from here.
        refuse_stopped(jvm)?;
        kill_process(pid, Signal::QUIT).map_err(io::Error::from).map_err(failed("SIGQUIT"))?;
    }
    let listens = || fs::symlink_metadata(socket).is_ok();
    wait_for(jvm, &format!("it hangs, or runs with {DISABLE_ATTACH}"), || {
        listens() || stays_stopped(jvm)
    })?;
    // It may have been stopped just after the signal.
    if listens() { Ok(()) } else { Err(STOPPED.into()) }
}

/// Whether a JVM is stopped, and not for a moment only, as by a tracer.
fn stays_stopped(jvm: &Jvm) -> bool {
    /// How often to look.
    const LOOKS: u32 = 10;
    (0..LOOKS).all(|_| {
        let is_stopped = jvm.is_stopped();
        if is_stopped {
            thread::sleep(POLL);
        }
        is_stopped
    })
}

/// # Errors
/// The JVM is stopped: it would not answer, and attach when it goes on, after this command has given up.
fn refuse_stopped(jvm: &Jvm) -> Result<(), Failure> {
    if stays_stopped(jvm) { Err(STOPPED.into()) } else { Ok(()) }
}

/// Waits until something is true of a JVM, which may have only just begun.
fn wait_for(jvm: &Jvm, or_else: &str, is_there: impl Fn() -> bool) -> Result<(), Failure> {
    let deadline = Instant::now() + LISTEN;
    while !is_there() {
        if !jvm.is_alive() {
            return Err("the JVM has ended".into());
        }
        if Instant::now() > deadline {
            let seconds = LISTEN.as_secs();
            return Err(format!("the JVM does not listen within {seconds} s; {or_else}").into());
        }
        thread::sleep(POLL);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peer_is_who_listens() {
        let (one, _other) = UnixStream::pair().unwrap();
        assert_eq!(peer_uid(&one).unwrap(), super::super::jvm::own_uid());
    }

    #[test]
    fn an_answers_text_says_whether_the_library_was_loaded() {
        assert_eq!(result("0\nreturn code: 0\n").unwrap(), 0);
        assert_eq!(result("0\nreturn code: 3\n").unwrap(), 3);
        assert_eq!(result("0\nreturn code: -1").unwrap(), -1);
        let refused = "the JVM refuses the library: ";
        for (answer, reason) in [
            (
                "0\nDynamic agent loading is not enabled.\nUse it.\n",
                "Dynamic agent loading is not enabled. Use it.",
            ),
            ("100\nlib.so: cannot open\n", "lib.so: cannot open"),
            ("101\n", "no reason given"),
            ("", "no reason given"),
            ("0\nreturn code: x\n", "return code: x"),
        ] {
            assert_eq!(result(answer).unwrap_err().to_string(), format!("{refused}{reason}"));
        }
    }
}
