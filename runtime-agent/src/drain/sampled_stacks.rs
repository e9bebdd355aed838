//! The stacks of samples and their methods, by id from 1, each once.

use std::collections::HashMap;

use log_format::ids::{FrameId, SampledStackId};
use log_format::rows::{FrameRow, SampledStackRow};
use log_format::writer::one_line;
use sampling_handler::walk::Frame;

use crate::hotspot::method_names::Named;
use crate::sampling::native::Function;
use crate::sampling::sampler::Sampler;

/// Most stacks and methods that are kept; of other stacks, only the innermost frame is. If half of that is used when an
/// hour ends, both lists are cleared.
const MOST_STACKS: usize = 200_000;
const MOST_FRAMES: usize = 100_000;

/// The class of the probes, as stacks name it; JDKs add numbers to classes that they hide.
const PROBES: &str = "java.lang.invoke.$TProfiler";

#[derive(Default)]
pub(super) struct SampledStacks {
    frame_ids: HashMap<Named, FrameId>,
    frames: Vec<FrameRow>,
    stack_ids: HashMap<(SampledStackId, FrameId), SampledStackId>,
    stacks: Vec<(SampledStackId, FrameId)>,
    /// Ids that were given before the lists were last cleared. No id is given twice.
    frames_before: u32,
    stacks_before: u32,
    /// Frames by the `jmethodID`, as long as ids keep their meaning.
    frame_of_id: HashMap<usize, FrameId>,
    frame_of_function: HashMap<Function, FrameId>,
}

impl SampledStacks {
    /// A stack of one frame that is no method.
    pub(super) fn of_name(&mut self, name: &str) -> SampledStackId {
        let frame = self.frame(pseudo("other", name));
        self.stack(SampledStackId::NONE, frame)
    }

    /// Adds frames, which begin with the innermost, to a stack.
    pub(super) fn add_frames(
        &mut self,
        root: SampledStackId,
        frames: &[Frame],
        sampler: &mut Sampler<'_>,
    ) -> SampledStackId {
        let mut stack = root;
        for frame in frames.iter().rev() {
            if let Some(pc) = frame.native() {
                stack = self.add_native(stack, pc, sampler);
                continue;
            }
            if let Some(pc) = frame.kernel() {
                stack = self.add_function(stack, sampler.kernel_function(pc), sampler);
                continue;
            }
            let known = self.frame_of_id.get(&frame.id()).copied();
            let frame = known.unwrap_or_else(|| {
                let id = self.frame(sampler.name(*frame).unwrap_or_else(unknown));
                self.frame_of_id.insert(frame.id(), id);
                id
            });
            stack = self.stack(stack, frame);
        }
        stack
    }

    /// Adds a frame of native code, if its address is in a library.
    pub(super) fn add_native(
        &mut self,
        stack: SampledStackId,
        pc: usize,
        sampler: &mut Sampler<'_>,
    ) -> SampledStackId {
        match sampler.native_function(pc) {
            Some(function) => self.add_function(stack, function, sampler),
            None => stack,
        }
    }

    fn add_function(
        &mut self,
        stack: SampledStackId,
        function: Function,
        sampler: &mut Sampler<'_>,
    ) -> SampledStackId {
        let known = self.frame_of_function.get(&function).copied();
        let frame = known.unwrap_or_else(|| {
            let id = self.frame(sampler.native_name(function));
            self.frame_of_function.insert(function, id);
            id
        });
        // Functions without a name are one.
        let is_same = self.frame_of(stack).is_some_and(|(_, top)| top.id == frame);
        if is_same && !function.has_name() { stack } else { self.stack(stack, frame) }
    }

    /// The frame whose own time a stack's is: probes and native code count for what called them.
    pub(super) fn own_frame(&self, mut stack: SampledStackId) -> Option<FrameId> {
        loop {
            let (parent, frame) = self.frame_of(stack)?;
            let is_part = is_native(frame) || frame.class.starts_with(PROBES);
            if parent == SampledStackId::NONE || !is_part {
                return Some(frame.id);
            }
            stack = parent;
        }
    }

    /// Whether a sample is in one of the probes' native methods, or in the agent's library below it.
    pub(super) fn is_in_probe(&self, mut stack: SampledStackId) -> bool {
        loop {
            let Some((parent, frame)) = self.frame_of(stack) else { return false };
            if !is_native(frame) {
                return frame.class.starts_with(PROBES) && frame.method.ends_with('0');
            }
            stack = parent;
        }
    }

    /// The stack below the innermost frame, and this frame.
    pub(super) fn frame_of(&self, stack: SampledStackId) -> Option<(SampledStackId, &FrameRow)> {
        let (parent, id) = *self.stacks.get(place(stack.get(), self.stacks_before)?)?;
        Some((parent, self.frames.get(place(id.get(), self.frames_before)?)?))
    }

    /// A method's id may have got another meaning.
    pub(super) fn forget_method_ids(&mut self) {
        self.frame_of_id.clear();
    }

    fn frame(&mut self, named: Named) -> FrameId {
        if let Some(id) = self.frame_ids.get(&named) {
            return *id;
        }
        if self.frames.len() >= MOST_FRAMES && named.kind != "other" {
            return self.frame(pseudo("other", "[too many methods]"));
        }
        let id = FrameId::new(next_id(self.frames_before, self.frames.len()));
        self.frames.push(row(id, &named));
        self.frame_ids.insert(named, id);
        id
    }

    /// The stack of `frame` above another stack, or none.
    fn stack(&mut self, parent: SampledStackId, frame: FrameId) -> SampledStackId {
        if let Some(id) = self.stack_ids.get(&(parent, frame)) {
            return *id;
        }
        if self.stacks.len() < MOST_STACKS {
            return self.keep_stack((parent, frame));
        }
        let root = self.frame(pseudo("other", "[too many stacks]"));
        let root = self.keep_stack((SampledStackId::NONE, root));
        self.keep_stack((root, frame))
    }

    fn keep_stack(&mut self, stack: (SampledStackId, FrameId)) -> SampledStackId {
        *self.stack_ids.entry(stack).or_insert_with(|| {
            let id = next_id(self.stacks_before, self.stacks.len());
            self.stacks.push(stack);
            SampledStackId::new(id)
        })
    }

    /// Whether there are so many stacks or methods that there may soon be no room for new ones.
    pub(super) fn are_many(&self) -> bool {
        self.stacks.len() >= MOST_STACKS / 2 || self.frames.len() >= MOST_FRAMES / 2
    }

    /// Forgets all stacks and methods.
    pub(super) fn clear(&mut self) {
        *self = Self {
            frames_before: next_id(self.frames_before, self.frames.len()) - 1,
            stacks_before: next_id(self.stacks_before, self.stacks.len()) - 1,
            ..Self::default()
        };
    }

    pub(super) fn frame_row(&self, id: FrameId) -> Option<FrameRow> {
        self.frames.get(place(id.get(), self.frames_before)?).cloned()
    }

    pub(super) fn stack_row(&self, id: SampledStackId) -> Option<SampledStackRow> {
        let (parent, frame) = *self.stacks.get(place(id.get(), self.stacks_before)?)?;
        Some(SampledStackRow { id, parent, frame })
    }

    /// Approximate memory that they use.
    pub(super) fn bytes(&self) -> usize {
        const NAMES: usize = 100;
        self.stacks.capacity() * size_of::<(SampledStackId, FrameId)>()
            + self.stack_ids.capacity() * size_of::<((SampledStackId, FrameId), SampledStackId)>()
            + self.frames.len() * 2 * (size_of::<FrameRow>() + NAMES)
    }
}

/// Whether a frame is native code, or the kernel's.
fn is_native(frame: &FrameRow) -> bool {
    matches!(&*frame.kind, "native" | "kernel")
}

/// The next id after those of before and these.
fn next_id(before: u32, len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX).saturating_add(before).saturating_add(1)
}

/// The place of an id; `None` if it was given before.
fn place(id: u32, before: u32) -> Option<usize> {
    Some(id.checked_sub(before)?.checked_sub(1)? as usize)
}

fn row(id: FrameId, named: &Named) -> FrameRow {
    let Named { kind, class, method, descriptor, source } = named;
    FrameRow {
        id,
        kind: (*kind).to_owned(),
        class: one_line(class),
        method: one_line(method),
        descriptor: one_line(descriptor),
        source: one_line(source),
    }
}

fn pseudo(kind: &'static str, name: &str) -> Named {
    Named {
        kind,
        class: String::new(),
        method: name.to_owned(),
        descriptor: String::new(),
        source: String::new(),
    }
}

fn unknown() -> Named {
    pseudo("java", "[unloaded]")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn method(number: usize) -> Named {
        Named { kind: "java", ..pseudo("java", &format!("m{number}")) }
    }

    #[test]
    fn of_too_many_stacks_and_methods_the_innermost_frame_is_kept() {
        let mut stacks = SampledStacks::default();
        let frame = stacks.frame(method(0));
        let fill = |stacks: &mut SampledStacks| {
            let mut parent = SampledStackId::NONE;
            (0..MOST_STACKS).for_each(|_| parent = stacks.stack(parent, frame));
            parent
        };
        let last = fill(&mut stacks);
        assert_eq!(stacks.stack_row(last).map(|row| row.frame), Some(frame));
        let over = stacks.stack(last, frame);
        let row = stacks.stack_row(over).expect("a stack");
        assert_eq!(row.frame, frame);
        let root = stacks.stack_row(row.parent).expect("a root");
        assert_eq!(root.parent, SampledStackId::NONE);
        let root = stacks.frame_row(root.frame).expect("its frame");
        assert_eq!(root.method, "[too many stacks]");
        let frames: Vec<FrameId> =
            (0..MOST_FRAMES + 9).map(|number| stacks.frame(method(number))).collect();
        let row = stacks.frame_row(*frames.last().expect("many")).expect("a frame");
        assert_eq!((&*row.kind, &*row.method), ("other", "[too many methods]"));
        assert_eq!(stacks.frame_row(frames[5]).expect("a frame").method, "m5");
    }

    #[test]
    fn no_id_is_given_twice() {
        let mut stacks = SampledStacks::default();
        assert!(!stacks.are_many());
        let frames = [stacks.frame(method(1)), stacks.frame(method(2))];
        let stack = stacks.stack(SampledStackId::NONE, frames[0]);
        stacks.clear();
        assert!(stacks.frame_row(frames[1]).is_none() && stacks.stack_row(stack).is_none());
        let again = stacks.frame(method(2));
        assert!(!frames.contains(&again));
        let new = stacks.stack(SampledStackId::NONE, again);
        assert_ne!(new, stack);
        assert_eq!(stacks.frame_row(again).expect("a frame").method, "m2");
        assert_eq!(stacks.stack_row(new).expect("a stack").frame, again);
    }
}
