//! Rows of calls that are in progress when a recording or a thread ends.

use log_format::ids::{StackId, ThreadId};
use log_format::rows::{CallRow, Exit};

use crate::drain::call_paths::{self, CallPaths};
use crate::probe::open_frames::OpenFrame;
use crate::probe::{self, MAX_PATH_DEPTH};
use crate::sys::clock::{self, Anchors};

/// Whether an unfinished call has reached the threshold of its method.
pub(crate) fn is_over_threshold(row: &CallRow) -> bool {
    row.total_ns >= probe::threshold_ns_of(row.method)
}

/// The rows of calls that are unfinished at `now_ticks`, callees before callers as calls end.
pub(crate) fn rows(
    frames: &[OpenFrame],
    id: ThreadId,
    now_ticks: u64,
    anchors: &Anchors,
    paths: &mut CallPaths,
) -> Vec<CallRow> {
    let mut path = StackId::NONE;
    let mut rows = Vec::with_capacity(frames.len());
    for (index, frame) in frames.iter().enumerate() {
        path = if index < MAX_PATH_DEPTH as usize {
            paths.id(path, frame.method)
        } else {
            call_paths::UNKNOWN
        };
        let open_since = |frame: &OpenFrame| now_ticks.saturating_sub(frame.start_ticks);
        let total = open_since(frame);
        let running = frames.get(index + 1).map_or(0, open_since);
        let callees = frame.callee_ticks.saturating_add(running);
        rows.push(CallRow {
            start_ns: anchors.unix_ns(frame.start_ticks),
            thread: id,
            stack: path,
            method: frame.method,
            total_ns: clock::ticks_to_ns(total),
            self_ns: clock::ticks_to_ns(total.saturating_sub(callees)),
            exit: Exit::Unfinished,
            allocated_bytes: None,
        });
    }
    rows.reverse();
    rows
}
