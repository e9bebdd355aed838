//! Where threads waited, from looks at them.

use log_format::pattern::Pattern;

use crate::options::By;
use crate::report::group_names::GroupNames;
use crate::stats::aggregate::Group;
use crate::stats::method::Method;
use crate::stats::sampled_stacks::{SampledStacks, SampledTime};

/// Time in which threads did not run.
#[derive(Debug, Default)]
pub struct OffCpuReport {
    /// Of all selected threads, in nanoseconds.
    pub total_ns: u64,
    /// What waits, each group's with most time first.
    pub waits: Vec<Waits>,
    /// The time by stack; the frame on top says what threads did.
    pub stacks: SampledStacks,
}

/// A method that waits in one way.
#[derive(Clone, Debug)]
pub struct Waits {
    /// Its group's label; `None` without groups.
    pub label: Option<String>,
    /// The innermost method outside the JDK, if there is one.
    pub method: Method,
    /// What threads did: `blocked`, `parked` and so on.
    pub state: String,
    /// The time of all threads.
    pub time: SampledTime,
}

/// A method that waits in one way, in a group.
pub(crate) struct GroupedWait {
    group: Group,
    method: Method,
    state: String,
    time: SampledTime,
}

/// The waits of the methods that a pattern names, by group.
pub(crate) fn grouped_waits(
    stacks: &SampledStacks,
    by: By,
    pattern: Option<&Pattern>,
    names: &mut GroupNames,
) -> Vec<GroupedWait> {
    let mut waits = Vec::new();
    for (group, methods) in stacks.waits() {
        for ((method, state), time) in methods {
            let (class, name, _) = method.parts();
            if pattern.is_none_or(|pattern| pattern.method(class, &name)) {
                let group = names.of_method(by, &method).unwrap_or(group);
                waits.push(GroupedWait { group, method, state, time });
            }
        }
    }
    waits
}

impl OffCpuReport {
    pub(crate) fn new(
        stacks: SampledStacks,
        waits: Vec<GroupedWait>,
        label: impl Fn(Group) -> Option<String>,
    ) -> Self {
        let waits = waits.into_iter().map(|GroupedWait { group, method, state, time }| {
            let label = label(group);
            Waits { label, method, state, time }
        });
        let mut waits: Vec<Waits> = waits.collect();
        waits.sort_by(|one, other| {
            let by_time = other.time.ns.cmp(&one.time.ns);
            let by_name = || (&one.method, &one.state).cmp(&(&other.method, &other.state));
            one.label.cmp(&other.label).then(by_time).then_with(by_name)
        });
        Self { total_ns: stacks.total_ns(), waits, stacks }
    }

    /// Why there is no waiting to show, if there is none; `in_logs` if the runs have samples, not selected.
    #[must_use]
    pub fn no_waiting(&self, in_logs: bool) -> Option<String> {
        let none = "no waiting in these logs; attach or start the agent with cpu=10ms,wall=100ms";
        let not_selected = "no waiting is selected, or the agent ran without cpu=10ms,wall=100ms";
        self.stacks.is_empty().then(|| if in_logs { not_selected } else { none }.to_owned())
    }
}
