//! Copies frames out of a shadow stack and back. Without memory for the copy, the calls in progress are counted as
//! lost; later calls of the thread are recorded as usual.

use super::lost_calls;
use super::native_stack;
use super::saved_frames::{SavedFrame, SavedStack};
use super::thread::OwnThread;

/// Takes all frames off the thread's stack. `None` if there are none, or no memory.
pub(super) fn save(own: OwnThread<'_>) -> Option<SavedStack> {
    let stack = own.stack();
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
        own.totals_of(frame).leave();
        if let Some(saved) = &mut saved {
            // There is room.
            saved.frames.push(SavedFrame::of(&frame));
        }
    }
    if let Some(saved) = &mut saved {
        saved.thrown = own.last_thrown();
    }
    stack.pop_to(0);
    stack.set_beyond(0);
    saved
}

/// Puts back what `save` took, in this or another thread, whose stack is empty. Calls whose frames do not fit are
/// counted without times when they end.
pub(super) fn restore(own: OwnThread<'_>, saved: &SavedStack) {
    let stack = own.stack();
    if stack.state() != saved.state {
        own.mark_traced();
    }
    stack.set_state(saved.state);
    own.set_last_thrown(&saved.thrown);
    // Only the JVM knows where these calls are now on the native stack: above all later ones.
    let above_all = native_stack::address_here() + (1 << 30);
    let mut frames = saved.frames.iter();
    while !frames.as_slice().is_empty() && stack.make_room(&own.account) {
        let Some(frame) = frames.next() else { break };
        let totals = own.totals_of_method(frame.method());
        stack.push(frame.probe_id, above_all, totals, || frame.start_ticks);
        stack.frame(stack.depth() - 1).add_callee_ticks(frame.callee_ticks);
    }
    stack.set_beyond(frames.as_slice().len() as u64 + saved.beyond);
}
