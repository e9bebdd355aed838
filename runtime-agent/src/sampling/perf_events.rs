//! Perf events on the CPU time of single threads (`cpu-clock`). Each sends the sampling signal to its thread, at the
//! end of the interval and not only at the kernel's next tick.
#![allow(unsafe_code)]

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use sampling_handler::signal::count_events_of;
use sampling_handler::threads::Event;

use log_format::ids::OsThreadId;

use super::rings;
use crate::probe::thread::os_id;
use crate::sys::perf_event;

/// Events that there are, and how many there may be: the service needs file descriptors too.
static EVENTS: AtomicU64 = AtomicU64::new(0);
static MOST: AtomicU64 = AtomicU64::new(0);
/// They take at most one part in so many of the descriptors that `ulimit -n` leaves.
const PART: u64 = 4;

/// Reads how many events there may be. There are none now.
pub(super) fn read_limit() {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let used = fs::read_dir("/proc/self/fd").map_or(0, |files| files.count() as u64);
    let left = limit.current.unwrap_or(u64::MAX).saturating_sub(used);
    MOST.store(left / PART, Ordering::Relaxed);
}

/// The interval of events that only show whether there are any.
const UNUSED_NS: u64 = 1_000_000_000;

/// Why there are no events here; `None` if there are.
pub(super) fn refusal() -> Option<String> {
    let error = perf_event::open(os_id(), UNUSED_NS, false).err()?;
    let why = match fs::read_to_string("/proc/sys/kernel/perf_event_paranoid") {
        Ok(level) if error.raw_os_error() == Some(libc::EACCES) => {
            format!("{error}, perf_event_paranoid={}", level.trim())
        }
        _ => error.to_string(),
    };
    Some(format!("perf_event_open is refused ({why})"))
}

/// Why events do not say where threads are in the kernel; `None` if they do.
pub(super) fn kernel_refusal() -> Option<String> {
    match perf_event::open(os_id(), UNUSED_NS, true) {
        Err(error) => Some(format!("perf_event_open is refused for its stacks ({error})")),
        Ok(event) => match rings::map(event.as_raw_fd()) {
            Err(error) => Some(rings::reason(&error)),
            Ok(ring) => {
                rings::unmap(ring);
                None
            }
        },
    }
}

/// Creates an event that sends `signal` to a thread each `interval_ns` of its CPU time, with a ring if there is room.
pub(super) fn create(
    thread: OsThreadId,
    signal: libc::c_int,
    interval_ns: u64,
) -> io::Result<Event> {
    create_and(thread, signal, interval_ns, |_| ())
}

/// The same for the calling thread; the handler counts its signals, and stops it after so many.
pub(super) fn create_counted(
    signal: libc::c_int,
    interval_ns: u64,
    most: u32,
) -> io::Result<Event> {
    create_and(os_id(), signal, interval_ns, |event| count_events_of(event, most))
}

/// The same; calls `before` with the descriptor before it starts.
fn create_and(
    thread: OsThreadId,
    signal: libc::c_int,
    interval_ns: u64,
    before: impl Fn(libc::c_int),
) -> io::Result<Event> {
    if EVENTS.fetch_add(1, Ordering::Relaxed) >= MOST.load(Ordering::Relaxed) {
        EVENTS.fetch_sub(1, Ordering::Relaxed);
        return Err(io::ErrorKind::QuotaExceeded.into());
    }
    let created = open_with_ring(thread, interval_ns).and_then(|(file, ring)| {
        let fd = file.as_raw_fd();
        let started = perf_event::send_to(file.as_fd(), thread, signal)
            .map(|()| before(fd))
            .and_then(|()| perf_event::enable(file.as_fd()));
        let event = started
            .and_then(|()| Event::new(fd, ring).ok_or_else(|| io::ErrorKind::QuotaExceeded.into()));
        match event {
            Ok(_) => drop(file.into_raw_fd()),
            Err(_) => unmap(ring),
        }
        event
    });
    if created.is_err() {
        EVENTS.fetch_sub(1, Ordering::Relaxed);
    }
    created
}

/// An event that does nothing yet, and the address of its ring, or 0.
fn open_with_ring(thread: OsThreadId, interval_ns: u64) -> io::Result<(OwnedFd, usize)> {
    if rings::reserve() {
        // Kernels before 4.7 know no such ring.
        let with_stacks = perf_event::open(thread, interval_ns, true);
        let mapped = with_stacks.and_then(|file| rings::map(file.as_raw_fd()).map(|at| (file, at)));
        if let Ok(both) = mapped {
            return Ok(both);
        }
        rings::give_back();
    }
    Ok((perf_event::open(thread, interval_ns, false)?, 0))
}

fn unmap(ring: usize) {
    if ring != 0 {
        rings::unmap(ring);
        rings::give_back();
    }
}

/// Deletes an event. Its last signal may still be on its way.
pub(super) fn delete(event: Event) {
    unmap(event.ring());
    // SAFETY: the event was created by `create`, and is deleted once.
    perf_event::close(unsafe { OwnedFd::from_raw_fd(event.descriptor()) });
    EVENTS.fetch_sub(1, Ordering::Relaxed);
}
