//! In which methods threads have waited, for the overhead budget: a throttled method may turn slow.

use std::collections::{HashMap, HashSet};

use log_format::ids::{MethodId, SampledStackId};
use log_format::rows::FrameRow;
use log_format::writer::one_line;

use crate::drain::sampled_stacks::SampledStacks;
use crate::instrument::methods::Method;

/// Most stacks that are kept until somebody takes them.
const MOST: usize = 10_000;

/// Methods by class, name and descriptor, as the log has them; those of several class loaders are alike.
type Named = HashMap<(String, String, String), Vec<MethodId>>;

/// Time by stack since it was last taken.
#[derive(Default)]
pub(super) struct Waited {
    by_stack: HashMap<SampledStackId, u64>,
}

impl Waited {
    pub(super) fn add(&mut self, stack: SampledStackId, ns: u64) {
        if self.by_stack.len() < MOST {
            *self.by_stack.entry(stack).or_default() += ns;
        }
    }

    /// Stacks get other ids.
    pub(super) fn clear(&mut self) {
        self.by_stack.clear();
    }

    /// How long threads have waited in these methods and what they call, in nanoseconds.
    pub(super) fn take(
        &mut self,
        stacks: &SampledStacks,
        methods: impl Iterator<Item = (MethodId, Method)>,
    ) -> Vec<(MethodId, u64)> {
        let by_stack = std::mem::take(&mut self.by_stack);
        let mut named = Named::new();
        for (id, Method { class, name, descriptor, .. }) in methods {
            let name = (one_line(&class.name), one_line(&name), one_line(&descriptor));
            named.entry(name).or_default().push(id);
        }
        let mut waited: HashMap<MethodId, u64> = HashMap::new();
        for (stack, ns) in by_stack.into_iter().filter(|_| !named.is_empty()) {
            for id in methods_of(stack, stacks, &named) {
                *waited.entry(id).or_default() += ns;
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
