//! CPU time of methods by samples, beside their exact figures.

use std::collections::HashMap;

use log_format::pattern::Pattern;
use serde::Serialize;

use crate::options::By;
use crate::report::group_names::GroupNames;
use crate::report::not_counted::{NotCounted, OfGroup};
use crate::stats::aggregate::Group;
use crate::stats::method::Method;
use crate::stats::sampled_stacks::{CpuFigures, SampledStacks};

/// A method that was sampled.
#[derive(Clone, Debug)]
pub struct SampledMethod {
    /// Its group's label; `None` without groups.
    pub label: Option<String>,
    /// The method, or what else used CPU time: without a class, its name in brackets.
    pub method: Method,
    /// Its CPU time.
    pub cpu: CpuFigures,
    /// How long it was throttled or muted.
    pub not_counted: NotCounted,
    /// Whether its group has exact figures of it.
    pub is_measured: bool,
}

impl SampledMethod {
    /// What stands behind its name.
    #[must_use]
    pub const fn sign(&self) -> &'static str {
        match self.not_counted {
            NotCounted { throttled_ns: Some(1..), .. } => " (throttled)",
            NotCounted { muted_ns: Some(1..), .. } => " (muted)",
            _ => "",
        }
    }
}

/// What samples say.
#[derive(Debug, Default)]
pub struct CpuReport {
    /// CPU time of all selected samples, in nanoseconds: that of the processes, if all are selected.
    pub total_ns: u64,
    /// How many there are.
    pub samples: u64,
    /// The CPU time in the kernel; `None` if no sample says.
    pub kernel_ns: Option<u64>,
    /// The selected methods by group, each group's with most CPU time of their own first.
    pub methods: Vec<SampledMethod>,
    /// Those without exact figures, as many of each group as were asked for.
    pub only_sampled: Vec<SampledMethod>,
    /// The number of such methods beyond those.
    pub only_sampled_not_shown: usize,
    /// CPU time by stack.
    pub stacks: SampledStacks,
}

/// All selected samples.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct CpuSums {
    total_ns: u64,
    samples: u64,
    kernel_ns: Option<u64>,
}

impl CpuReport {
    /// The sums of all selected samples.
    #[must_use]
    pub const fn sums(&self) -> CpuSums {
        CpuSums { total_ns: self.total_ns, samples: self.samples, kernel_ns: self.kernel_ns }
    }

    /// Why there are no samples to show, if there are none; `in_logs` if the runs have some, not selected.
    /// `timers_refused` is the number of timers that the kernel refused.
    #[must_use]
    pub fn no_samples(&self, in_logs: bool, timers_refused: u64) -> Option<String> {
        (self.samples == 0).then(|| match (in_logs, timers_refused) {
            (true, _) => "no CPU samples are selected".to_owned(),
            (false, 0) => {
                "no CPU samples in these logs; attach or start the agent with cpu=10ms".to_owned()
            }
            (false, _) => {
                "no CPU samples in these logs: the kernel refused timers; raise `ulimit -i`"
                    .to_owned()
            }
        })
    }
}

/// CPU time by group and method, until the report is made.
pub(crate) struct SampledGroups {
    groups: HashMap<Group, HashMap<Method, (CpuFigures, bool)>>,
    total_ns: u64,
    samples: u64,
    kernel_ns: Option<u64>,
}

impl SampledGroups {
    pub(crate) fn new(
        cpu: &SampledStacks,
        by: By,
        pattern: Option<&Pattern>,
        names: &mut GroupNames,
    ) -> Self {
        let mut groups: HashMap<Group, HashMap<Method, (CpuFigures, bool)>> = HashMap::new();
        for (group, methods) in cpu.methods() {
            for (method, figures) in methods {
                let (class, name, _) = method.parts();
                if pattern.is_none_or(|pattern| pattern.method(class, &name)) {
                    let group = names.of_method(by, &method).unwrap_or(group);
                    groups.entry(group).or_default().insert(method, (figures, false));
                }
            }
        }
        let (total_ns, samples, kernel_ns) = (cpu.total_ns(), cpu.samples(), cpu.kernel_ns());
        Self { groups, total_ns, samples, kernel_ns }
    }

    /// Tells that a group has exact figures of these methods.
    pub(crate) fn set_measured<'m>(
        &mut self,
        group: Group,
        measured: impl Iterator<Item = &'m Method>,
    ) {
        let Some(methods) = self.groups.get_mut(&group) else { return };
        for method in measured {
            if let Some((_, is_measured)) = methods.get_mut(method) {
                *is_measured = true;
            }
        }
    }

    /// The figures of a method; `None` if there are no samples of whatever method.
    pub(crate) fn of(&self, group: Group, method: &Method) -> Option<CpuFigures> {
        let found = self.groups.get(&group).and_then(|methods| methods.get(method));
        (self.samples > 0).then(|| found.map_or_else(CpuFigures::default, |(figures, _)| *figures))
    }

    /// The report, when all instrumented methods are known.
    pub(crate) fn finish<'t>(
        self,
        top: Option<usize>,
        not_counted: impl Fn(Group) -> OfGroup<'t>,
        label: impl Fn(Group) -> Option<String>,
    ) -> CpuReport {
        let Self { total_ns, samples, kernel_ns, .. } = self;
        let mut report = CpuReport { total_ns, samples, kernel_ns, ..CpuReport::default() };
        for (group, methods) in self.groups {
            let (label, times) = (label(group), not_counted(group));
            let methods = methods.into_iter().map(|(method, (cpu, is_measured))| SampledMethod {
                label: label.clone(),
                not_counted: times.of(&method),
                method,
                cpu,
                is_measured,
            });
            report.methods.extend(methods);
        }
        report.methods.sort_by(|one, other| {
            let key = |of: &SampledMethod| (of.cpu.self_ns, of.cpu.total_ns);
            let by_time = key(other).cmp(&key(one));
            one.label.cmp(&other.label).then(by_time).then_with(|| one.method.cmp(&other.method))
        });
        let only: Vec<&SampledMethod> =
            report.methods.iter().filter(|method| !method.is_measured).collect();
        let groups = only.chunk_by(|one, other| one.label == other.label);
        let shown = groups.flat_map(|group| group.iter().take(top.unwrap_or(usize::MAX)));
        report.only_sampled = shown.map(|method| (*method).clone()).collect();
        report.only_sampled_not_shown = only.len() - report.only_sampled.len();
        report
    }
}
