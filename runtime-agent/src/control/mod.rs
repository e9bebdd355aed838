//! Remote control over TCP, by lines of text. `docs/control.md` is the authority on the protocol.
//!
//! Nothing that a client does or does not do can hold up a probe or another client: each has its
//! own thread, of which there are at most [`MAX_CLIENTS`], a line is at most [`MAX_LINE`] bytes, and
//! a client that says nothing is hung up on. A command that is not known changes nothing and ends
//! the connection, so that a web page's request cannot smuggle one in.

mod line;

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use log_format::names::utc_text;
use log_format::units;

use self::line::{Dialect, Lines, Next};
use crate::engine::{Handle, Request, Status};
use crate::message::message;
use crate::native_thread::{self, Priority};
use crate::options::parse_threshold;
use crate::{presence, run_info};

const MAX_CLIENTS: usize = 16;
const IDLE: Duration = Duration::from_secs(30);
const WRITE: Duration = Duration::from_secs(5);
/// How long a client that is hung up on may go on sending.
const LINGER: Duration = Duration::from_secs(1);
/// How many ports are tried, from the one that was asked for.
const PORTS: u16 = 16;

const HELP: &str = "\
start: begin recording
stop: end recording; calls still open are written as such
flush: write everything so far to the disk
detach: end recording, give classes their own bytes back, and close this port
status: what is going on
threshold [DURATION | PATTERN:DURATION]: show from which duration on calls are recorded, or set it
help: this list
";

/// A port to listen on.
pub(crate) struct Control {
    listener: TcpListener,
    port: u16,
}

impl Control {
    /// Takes `first` or the next free one of 16 ports, on the loopback address. Says so if it is
    /// not `first`; if none is free, says that and gives `None`.
    pub(crate) fn bind(first: u16) -> Option<Self> {
        let last = first.saturating_add(PORTS - 1);
        let mut reason = None;
        for port in first..=last {
            match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
                Ok(listener) => {
                    if port != first {
                        message!("port {first} is taken; control is on port {port}");
                    }
                    return Some(Self { listener, port });
                }
                Err(error) => reason = Some(error),
            }
        }
        let reason = reason.map_or_else(String::new, |error| format!(" ({error})"));
        message!("no free port from {first} to {last}{reason}; there is no remote control");
        None
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Serves clients on threads of its own, until it is closed.
    pub(crate) fn serve(self, engine: Handle) -> Option<Serving> {
        let clients = Arc::new(Clients::default());
        let listener = Arc::new(self.listener);
        let (named, is_named) = mpsc::channel();
        let serve = {
            let (clients, listener) = (clients.clone(), listener.clone());
            move || {
                // Its name is seen from outside from now on. Whoever waits may have gone.
                let _ = named.send(());
                loop {
                    let accepted = listener.accept();
                    if clients.is_closed.load(Ordering::Acquire) {
                        return;
                    }
                    match accepted {
                        Ok((stream, _)) => admit(stream, &engine, &clients),
                        // Out of file descriptors, perhaps; there may be some again.
                        Err(_) => thread::sleep(Duration::from_millis(100)),
                    }
                }
            }
        };
        let name = presence::control_thread(self.port);
        match native_thread::spawn(&name, Priority::Normal, serve) {
            Ok(thread) => {
                // An error would say that it has ended.
                let _ = is_named.recv();
                Some(Serving { listener, clients, thread })
            }
            Err(error) => {
                message!("no thread for remote control: {error}");
                None
            }
        }
    }
}

/// A port that is listened on.
pub(crate) struct Serving {
    listener: Arc<TcpListener>,
    clients: Arc<Clients>,
    thread: thread::JoinHandle<()>,
}

impl Serving {
    /// Closes the port and hangs up on all clients, once they have the answers that they wait for.
    #[allow(unsafe_code)]
    pub(crate) fn close(self) {
        self.clients.is_closed.store(true, Ordering::Release);
        // SAFETY: the descriptor is the listener's, which is open. It wakes the thread up.
        unsafe { libc::shutdown(self.listener.as_raw_fd(), libc::SHUT_RDWR) };
        drop(self.listener);
        // It cannot have panicked.
        let _ = self.thread.join();
        for stream in self.clients.streams().values() {
            // A client that has gone is no error.
            let _ = stream.shutdown(Shutdown::Read);
        }
    }
}

fn admit(stream: TcpStream, engine: &Handle, clients: &Arc<Clients>) {
    let timeouts = stream
        .set_read_timeout(Some(IDLE))
        .and_then(|()| stream.set_write_timeout(Some(WRITE)))
        .and_then(|()| stream.set_nodelay(true));
    if timeouts.is_err() {
        return;
    }
    // A client that is turned away gets a thread too, for the moment that its answer takes.
    let (place, refusal) = match occupy(&clients.served) {
        Some(place) => (place, None),
        None => match occupy(&clients.refused) {
            Some(place) => (place, Some("error: too many clients\n")),
            None => return,
        },
    };
    let engine = engine.clone();
    let stream = Arc::new(stream);
    let known = clients.add(stream.clone());
    let serve = move || {
        let (_place, _known) = (place, known);
        match refusal {
            // A client that goes away is no error.
            None => drop(converse(&stream, &engine)),
            Some(answer) => {
                if (&*stream).write_all(answer.as_bytes()).is_ok() {
                    hang_up(&stream);
                }
            }
        }
    };
    // If there is no thread, what was to run on it is dropped, and the client hung up on.
    let _ = thread::Builder::new().name("tprofiler-cli".to_owned()).spawn(serve);
}

/// Who the clients are.
#[derive(Default)]
struct Clients {
    served: Arc<AtomicUsize>,
    refused: Arc<AtomicUsize>,
    is_closed: AtomicBool,
    last: AtomicU64,
    /// By number.
    streams: Mutex<HashMap<u64, Arc<TcpStream>>>,
}

impl Clients {
    fn streams(&self) -> MutexGuard<'_, HashMap<u64, Arc<TcpStream>>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client's connection, which can be closed from outside until what is returned is dropped.
    fn add(self: &Arc<Self>, stream: Arc<TcpStream>) -> Known {
        let number = self.last.fetch_add(1, Ordering::Relaxed);
        self.streams().insert(number, stream);
        Known { clients: self.clone(), number }
    }
}

/// A client that can be hung up on.
struct Known {
    clients: Arc<Clients>,
    number: u64,
}

impl Drop for Known {
    fn drop(&mut self) {
        self.clients.streams().remove(&self.number);
    }
}

/// One of [`MAX_CLIENTS`] places, which is free again when dropped.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

fn occupy(count: &Arc<AtomicUsize>) -> Option<Place> {
    let more = |n: usize| (n < MAX_CLIENTS).then_some(n + 1);
    let taken = count.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
    taken.is_ok().then(|| Place(count.clone()))
}

/// Answers a client until it goes, is silent for too long, or says what is not understood.
fn converse(mut stream: &TcpStream, engine: &Handle) -> io::Result<()> {
    let mut lines = Lines::new(stream);
    loop {
        let (answer, goes_on) = match lines.next()? {
            Next::Line(line, Dialect::Lines) => answer(&line, engine),
            // TProfiler's server hung up after each command, and its client relies on it.
            Next::Line(line, Dialect::TProfiler) => (tprofiler_answer(&line, engine), false),
            Next::TooLong => ("error: line too long\n".to_owned(), false),
            Next::End => return Ok(()),
        };
        stream.write_all(answer.as_bytes())?;
        if !goes_on {
            hang_up(stream);
            return Ok(());
        }
    }
}

/// Ends a connection so that its last answer arrives: to close it with bytes unread would reset it,
/// and the client would lose what it has not read either.
fn hang_up(mut stream: &TcpStream) {
    let deadline = Instant::now() + LINGER;
    let is_closing =
        stream.shutdown(Shutdown::Write).and_then(|()| stream.set_read_timeout(Some(LINGER)));
    let mut unread = [0; 512];
    while is_closing.is_ok()
        && Instant::now() < deadline
        && stream.read(&mut unread).is_ok_and(|count| count > 0)
    {}
}

fn request(line: &str) -> Option<Request> {
    match line {
        "start" => Some(Request::Start),
        "stop" => Some(Request::Stop),
        "flush" => Some(Request::Flush),
        "status" => Some(Request::Status),
        "detach" => Some(Request::Detach),
        _ => None,
    }
}

/// The answer to a line, and whether the connection goes on.
fn answer(line: &str, engine: &Handle) -> (String, bool) {
    if line == "help" {
        return (format!("{HELP}ok\n"), true);
    }
    let request = match line.split_once(' ').map_or((line, ""), |(word, rest)| (word, rest.trim()))
    {
        ("threshold", "") => Some(Request::Status),
        ("threshold", value) => match parse_threshold(value) {
            Ok((of, threshold)) => Some(Request::Threshold(of, units::as_ns(threshold))),
            Err(error) => return (format!("error: {error}\n"), true),
        },
        _ => request(line),
    };
    let Some(request) = request else {
        return ("error: unknown command; try help\n".to_owned(), false);
    };
    let details = match (line, &request) {
        ("status", _) => details,
        (_, Request::Status | Request::Threshold(..)) => thresholds,
        (_, Request::Detach) => restored,
        _ => |_: &Status| String::new(),
    };
    match engine.ask(request) {
        Ok(status) => {
            // With several JVMs on a machine, a port alone does not say whose answer this is.
            let (service, pid) = (run_info::service_name(), std::process::id());
            let profiling = on_off(&status);
            let details = details(&status);
            let first = format!("service: {service}\npid: {pid}\nprofiling: {profiling}\n");
            (format!("{first}{details}ok\n"), true)
        }
        Err(error) => (format!("error: {error}\n"), true),
    }
}

fn tprofiler_answer(line: &str, engine: &Handle) -> String {
    match request(line).map(|request| engine.ask(request)) {
        Some(Ok(status)) if status.is_recording => "running\r".to_owned(),
        Some(Ok(_)) => "stop\r".to_owned(),
        Some(Err(error)) => format!("error: {error}\r"),
        None => "error: unknown command\r".to_owned(),
    }
}

fn on_off(status: &Status) -> &'static str {
    if status.is_recording { "on" } else { "off" }
}

/// What `detach` says beyond the other answers.
fn restored(status: &Status) -> String {
    format!(
        "classes restored: {}\nclasses not restored: {}\nlongest retransform pause: {}\n",
        status.retransformed_classes,
        status.not_retransformed,
        micros(status.longest_retransform_ns),
    )
}

fn micros(ns: u64) -> String {
    format!("{} us", ns.div_ceil(1_000))
}

/// What `status` says beyond the other answers.
fn details(status: &Status) -> String {
    [
        ("since", utc_text(status.since_ns)),
        ("classes instrumented", status.classes.to_string()),
        ("methods instrumented", status.methods.to_string()),
        ("methods skipped", status.skipped_methods.to_string()),
        ("classes retransformed", status.retransformed_classes.to_string()),
        ("longest retransform pause", micros(status.longest_retransform_ns)),
        ("calls seen", status.calls.to_string()),
        ("records written", status.records.to_string()),
        ("records dropped", status.dropped_records.to_string()),
        ("records cut", status.cut_records.to_string()),
        ("calls lost", status.lost_calls.to_string()),
        ("ends unseen", status.unseen_ends.to_string()),
        ("write errors", status.io_errors.to_string()),
        ("logs", status.logs.clone()),
        ("bytes this hour", status.bytes_this_hour.to_string()),
        ("budget of the hour", budget(status)),
        ("hours deleted", status.deleted_hours.to_string()),
    ]
    .into_iter()
    .map(|(key, value)| format!("{key}: {value}\n"))
    .collect::<String>()
        + &thresholds(status)
}

/// The thresholds in force.
fn thresholds(status: &Status) -> String {
    let own = status.own_thresholds.iter();
    let own = own.map(|(of, ns)| format!("threshold {of}: {}\n", units::duration_text(*ns)));
    let raised = (status.raised_to_ns > 0)
        .then(|| format!("thresholds raised to: {}\n", units::duration_text(status.raised_to_ns)));
    format!("threshold: {}\n", units::duration_text(status.threshold_ns))
        + &own.collect::<String>()
        + &raised.unwrap_or_default()
}

/// How much of the hour's budget is spent.
fn budget(status: &Status) -> String {
    status.hour_budget.map_or_else(
        || "off".to_owned(),
        |bytes| {
            let percent = u128::from(status.bytes_this_hour) * 100 / u128::from(bytes.max(1));
            format!("{percent}% of {bytes} bytes")
        },
    )
}
