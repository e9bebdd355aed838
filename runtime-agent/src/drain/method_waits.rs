//! In which methods threads have waited, for the overhead budget: a throttled method may turn slow.

use std::collections::{HashMap, HashSet};

use log_format::ids::{MethodId, SampledStackId};
use log_format::rows::FrameRow;
use log_format::writer::one_line;

use crate::drain::sampled_stacks::SampledStacks;
use crate::instrument::methods::Method;
use crate::sampling::waiting::Waiting;

/// Most stacks that are kept until somebody takes them.
const MOST: usize = 10_000;

/// Methods by class, name and descriptor, as the log has them; those of several class loaders are alike.
type Named = HashMap<(String, String, String), Vec<MethodId>>;

/// A look that stands for more time says little about it; with `wall=1s`, one stands for a second or so.
const LONGEST_LOOK_NS: u64 = 2_000_000_000;
/// Not waits that a method's code decides: for a processor, a safepoint or the garbage collector.
const OTHERS: [Waiting; 2] = [Waiting::Runnable, Waiting::Vm];

/// How long threads have waited, and how many looks say so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waits {
    pub ns: u64,
    pub looks: u32,
}

impl Waits {
    fn add(&mut self, other: Self) {
        self.ns += other.ns;
        self.looks += other.looks;
    }
}

/// Waits by stack since they were last taken.
#[derive(Default)]
pub(super) struct Waited {
    by_stack: HashMap<SampledStackId, Waits>,
}

impl Waited {
    /// Adds a look at a thread.
    pub(super) fn add(&mut self, state: &str, stack: SampledStackId, ns: u64) {
        let is_other = ns > LONGEST_LOOK_NS || OTHERS.iter().any(|other| other.name() == state);
        if !is_other && (self.by_stack.len() < MOST || self.by_stack.contains_key(&stack)) {
            self.by_stack.entry(stack).or_default().add(Waits { ns, looks: 1 });
        }
    }

    /// Approximate memory that it uses.
    pub(super) fn bytes(&self) -> usize {
        self.by_stack.capacity() * size_of::<(SampledStackId, Waits)>()
    }

    /// Stacks get other ids.
    pub(super) fn clear(&mut self) {
        self.by_stack.clear();
    }

    /// How long threads have waited in these methods and what they call.
    pub(super) fn take(
        &mut self,
        stacks: &SampledStacks,
        methods: impl Iterator<Item = (MethodId, Method)>,
    ) -> Vec<(MethodId, Waits)> {
        let by_stack = std::mem::take(&mut self.by_stack);
        let mut named = Named::new();
        for (id, Method { class, name, descriptor, .. }) in methods {
            let name = (one_line(&class.name), one_line(&name), one_line(&descriptor));
            named.entry(name).or_default().push(id);
        }
        let mut waited: HashMap<MethodId, Waits> = HashMap::new();
        for (stack, waits) in by_stack.into_iter().filter(|_| !named.is_empty()) {
            for id in methods_of(stack, stacks, &named) {
                waited.entry(id).or_default().add(waits);
            }
        }
        waited.into_iter().collect()
    }
}

/// The named methods of a stack, each once.
fn methods_of(
    mut stack: SampledStackId,
    stacks: &SampledStacks,
    named: &Named,
) -> HashSet<MethodId> {
    let mut found = HashSet::new();
    while let Some((parent, frame)) = stacks.frame_of(stack) {
        let FrameRow { class, method, descriptor, .. } = frame;
        let name = (class.clone(), method.clone(), descriptor.clone());
        found.extend(named.get(&name).into_iter().flatten().copied());
        stack = parent;
    }
    found
}
