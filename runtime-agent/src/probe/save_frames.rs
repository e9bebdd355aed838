//! Copies frames out of a shadow stack and back. Without memory for the copy, the calls in progress are counted as
//! lost; later calls of the thread are recorded as usual.

use super::lost_calls;
use super::native_stack;
use super::saved::{SavedFrame, SavedStack};
use super::thread::{ProbeThread, totals_of};

/// Takes all frames off the stack of the calling thread, `thread`. `None` if there are none, or no memory.
pub(super) fn save(thread: &ProbeThread) -> Option<SavedStack> {
    let stack = &thread.stack;
    let (depth, beyond) = (stack.depth(), stack.beyond());
    if depth == 0 && beyond == 0 {
        return None;
    }
    let mut saved = SavedStack::with_room(depth, stack.state(), beyond);
    if saved.is_none() {
        lost_calls::add(u64::from(depth) + beyond);
    }
    for index in 0..depth {
        let frame = stack.frame(index);
        totals_of(thread, frame).leave();
        if let Some(saved) = &mut saved {
            // There is room.
            saved.frames.push(SavedFrame::of(frame));
        }
    }
    stack.pop_to(0);
    stack.set_beyond(0);
    saved
}

/// Puts back what `save` took, in this or another thread. `thread` is the calling thread, and its stack is empty. Calls
/// whose frames do not fit are counted without times when they end.
pub(super) fn restore(thread: &ProbeThread, saved: &SavedStack) {
    let stack = &thread.stack;
    stack.set_state(saved.state);
    // Only the JVM knows where these calls are now on the native stack: above all later ones.
    let above_all = native_stack::address_here() + (1 << 30);
    let mut frames = saved.frames.iter();
    while !frames.as_slice().is_empty() && stack.make_room(&thread.account) {
        let Some(frame) = frames.next() else { break };
        let totals = thread.totals_of_method(frame.method());
        stack.push(frame.probe_id, above_all, totals, || frame.start_ticks);
        stack.frame(stack.depth() - 1).add_callee_ticks(frame.callee_ticks);
    }
    stack.set_beyond(frames.as_slice().len() as u64 + saved.beyond);
}
