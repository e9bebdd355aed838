//! Time by whole stacks, from samples.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use crate::stats::aggregate::Group;
use crate::stats::method::Method;

/// The probe class, whose frames are folded into their callers; in older logs in `java.lang`.
const PROBES: [&str; 2] = ["java.lang.invoke.$TProfiler", "java.lang.$TProfiler"];

/// The class of the kernel's functions, or what stands for one without a name.
const KERNEL: &str = "[kernel]";

/// Classes of the JDK, and those through which all waits go.
const JDK: [&str; 6] = ["java.", "javax.", "jdk.", "sun.", "com.sun.", "["];
const WAITS: [&str; 7] = [
    "java.util.concurrent.locks.",
    // Since JDK 21, all waits for a `Condition` go through it.
    "java.util.concurrent.ForkJoinPool",
    "java.lang.Object",
    "java.lang.Thread",
    "jdk.",
    "sun.",
    "[",
];

/// The JDK's tools, as its compiler, are programs.
const TOOLS: &str = "com.sun.tools.";

/// Whether a method is of the JDK's library, or the JVM's own.
#[must_use]
pub fn is_of_jdk(method: &Method) -> bool {
    is_of_jdk_class(method.parts().0)
}

/// Whether a class is of the JDK's library, or there is none.
#[must_use]
pub fn is_of_jdk_class(class: &str) -> bool {
    class.is_empty()
        || !class.starts_with(TOOLS) && JDK.iter().any(|prefix| class.starts_with(prefix))
}

/// A stack: its frame on top, and the stack below.
#[derive(Clone, Copy, Debug, Default)]
struct Node {
    parent: usize,
    frame: usize,
}

/// Time and how many samples stand for it.
#[derive(Clone, Copy, Debug, Default)]
pub struct SampledTime {
    /// In nanoseconds.
    pub ns: u64,
    /// How often a thread was seen there.
    pub samples: u64,
}

impl SampledTime {
    fn add(&mut self, more: Self) {
        self.ns = self.ns.saturating_add(more.ns);
        self.samples = self.samples.saturating_add(more.samples);
    }
}

/// What samples say.
#[derive(Debug, Default)]
pub struct Sampled {
    /// CPU time.
    pub cpu: SampledStacks,
    /// Time in which threads did not run. What they did is the frame on top: `[parked]`.
    pub off_cpu: SampledStacks,
}

/// Time by group and stack. Stack 0 is empty.
#[derive(Debug)]
pub struct SampledStacks {
    frames: Vec<Method>,
    by_name: HashMap<Method, usize>,
    nodes: Vec<Node>,
    by_frame: HashMap<(usize, usize), usize>,
    sums: HashMap<(Group, usize), SampledTime>,
}

impl Default for SampledStacks {
    fn default() -> Self {
        Self {
            frames: Vec::new(),
            by_name: HashMap::new(),
            nodes: vec![Node::default()],
            by_frame: HashMap::new(),
            sums: HashMap::new(),
        }
    }
}

/// What samples say of a method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuFigures {
    /// CPU time in the method itself, its probes, and native code that it calls.
    pub self_ns: u64,
    /// CPU time in the method and all that it calls; a recursion counts once.
    pub total_ns: u64,
    /// Samples of the method itself.
    pub samples: u64,
    /// CPU time in the method and in code of the JDK that it calls, if it is outside the JDK; in the JDK, its own that
    /// nothing outside called. These times add up to all.
    pub with_jdk_ns: u64,
    /// Samples of that.
    pub with_jdk_samples: u64,
}

impl CpuFigures {
    /// Half of the 95% interval of its share of all samples, in percent: the normal approximation of the binomial.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // Far below the 52 bits that are exact.
    pub fn margin_percent(&self, all: u64) -> f64 {
        let (own, all) = (self.samples as f64, all.max(1) as f64);
        let share = own / all;
        196.0 * (share * (1.0 - share) / all).sqrt()
    }
}

impl SampledStacks {
    /// The stack with a frame on top of another stack.
    pub fn stack(&mut self, parent: usize, frame: &Method) -> usize {
        let frame = match self.by_name.get(frame) {
            Some(known) => *known,
            None => {
                self.frames.push(frame.clone());
                self.by_name.insert(frame.clone(), self.frames.len() - 1);
                self.frames.len() - 1
            }
        };
        match self.by_frame.entry((parent, frame)) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(entry) => {
                self.nodes.push(Node { parent, frame });
                *entry.insert(self.nodes.len() - 1)
            }
        }
    }

    /// Adds samples of a stack.
    pub fn add(&mut self, group: Group, stack: usize, ns: u64, samples: u64) {
        self.sums.entry((group, stack)).or_default().add(SampledTime { ns, samples });
    }

    /// Whether there are no samples.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.samples() == 0
    }

    /// The CPU time of all samples.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        self.sums.values().fold(0, |all, sum| all.saturating_add(sum.ns))
    }

    /// How many samples there are.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.sums.values().fold(0, |all, sum| all.saturating_add(sum.samples))
    }

    /// The CPU time in the kernel: of stacks whose top is a frame of the kernel. `None` if there is no such frame, as
    /// without perf events.
    #[must_use]
    pub fn kernel_ns(&self) -> Option<u64> {
        let is_in_kernel = |stack| self.frames(stack).next().is_some_and(|top| is_kernel(top.1));
        let in_kernel = self.sums.iter().filter(|((_, stack), _)| is_in_kernel(*stack));
        in_kernel.map(|(_, sum)| sum.ns).reduce(u64::saturating_add)
    }

    /// The frames of a stack, from the top, each with the stack below.
    fn frames(&self, stack: usize) -> impl Iterator<Item = (Node, &Method)> {
        let mut next = stack;
        std::iter::from_fn(move || {
            let node = *self.nodes.get(next).filter(|_| next != 0)?;
            next = node.parent;
            Some((node, self.frames.get(node.frame)?))
        })
    }

    /// The figures of each method in each group. Self times add up to the CPU time of all samples.
    #[must_use]
    pub fn methods(&self) -> HashMap<Group, HashMap<Method, CpuFigures>> {
        let mut groups: HashMap<Group, HashMap<Method, CpuFigures>> = HashMap::new();
        let mut seen = Vec::new();
        for ((group, stack), sum) in &self.sums {
            let methods = groups.entry(*group).or_default();
            seen.clear();
            for (node, method) in self.frames(*stack) {
                // Probes and native code count for what called them; that the JVM's own threads run native code says
                // nothing.
                let is_part = node.parent != 0 && is_part_of_caller(method);
                if is_part || seen.contains(&node.frame) {
                    continue;
                }
                let figures = methods.entry(method.clone()).or_default();
                figures.total_ns = figures.total_ns.saturating_add(sum.ns);
                if seen.is_empty() {
                    figures.self_ns = figures.self_ns.saturating_add(sum.ns);
                    figures.samples = figures.samples.saturating_add(sum.samples);
                }
                seen.push(node.frame);
            }
            let mut frames =
                self.frames(*stack).filter(|(node, of)| node.parent == 0 || !is_part_of_caller(of));
            let own = frames.next().map(|top| {
                let is_outside = !is_of_jdk(top.1);
                if is_outside { top } else { frames.find(|(_, of)| !is_of_jdk(of)).unwrap_or(top) }
            });
            if let Some((_, method)) = own {
                let figures = methods.entry(method.clone()).or_default();
                figures.with_jdk_ns = figures.with_jdk_ns.saturating_add(sum.ns);
                figures.with_jdk_samples = figures.with_jdk_samples.saturating_add(sum.samples);
            }
        }
        groups
    }

    /// By group, and by what waits and how: the time of stacks whose top says how. What waits is the innermost method
    /// outside the JDK, else the innermost outside of what all waits go through.
    #[must_use]
    pub fn waits(&self) -> HashMap<Group, HashMap<(Method, String), SampledTime>> {
        let mut groups: HashMap<Group, HashMap<(Method, String), SampledTime>> = HashMap::new();
        for ((group, stack), sum) in &self.sums {
            let mut frames = self.frames(*stack).map(|(_, method)| method);
            let Some(state) = frames.next() else { continue };
            let state = state.parts().1.trim_matches(['[', ']']).to_owned();
            let frames: Vec<&Method> = frames.filter(|method| !is_probe(method)).collect();
            let outside = |of: &[&str]| {
                let starts = |class: &str| {
                    !class.starts_with(TOOLS) && of.iter().any(|start| class.starts_with(start))
                };
                frames.iter().find(|method| !starts(method.parts().0))
            };
            let found = outside(&JDK).or_else(|| outside(&WAITS)).or_else(|| frames.first());
            let Some(method) = found else { continue };
            let of_group = groups.entry(*group).or_default();
            of_group.entry(((*method).clone(), state)).or_default().add(*sum);
        }
        groups
    }

    /// Each stack of all groups: its frames from the innermost, without probes, its time in nanoseconds and its
    /// samples; sorted by the frames.
    #[must_use]
    pub fn stacks(&self) -> Vec<(Vec<&Method>, u64, u64)> {
        let mut stacks: BTreeMap<usize, SampledTime> = BTreeMap::new();
        for ((_, stack), sum) in self.sums.iter().filter(|(_, sum)| sum.ns > 0) {
            stacks.entry(*stack).or_default().add(*sum);
        }
        let frames = |stack: usize| {
            let frames = self.frames(stack);
            let frames = frames.filter(|(node, method)| node.parent == 0 || !is_probe(method));
            frames.map(|(_, method)| method).collect()
        };
        let stacks = stacks.into_iter().map(|(stack, sum)| (frames(stack), sum.ns, sum.samples));
        let mut stacks: Vec<_> = stacks.collect();
        stacks.sort();
        stacks
    }

    /// A line for each stack: frames from the outermost, and the CPU time in nanoseconds; sorted. Frames of the kernel
    /// end in `_[k]`, as others write and colour them.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut sums: HashMap<String, u64> = HashMap::new();
        for (frames, ns, _) in self.stacks() {
            let frames = frames.iter().rev().map(|method| label(method).replace(';', ","));
            let sum = sums.entry(frames.collect::<Vec<String>>().join(";")).or_default();
            *sum = sum.saturating_add(ns);
        }
        let mut lines: Vec<String> =
            sums.into_iter().map(|(frames, ns)| format!("{frames} {ns}")).collect();
        lines.sort();
        lines
    }
}

/// Whether a frame counts for its caller: a probe, or native code.
#[must_use]
pub fn is_part_of_caller(frame: &Method) -> bool {
    is_probe(frame) || is_native(frame)
}

/// Whether a frame is one of the kernel.
#[must_use]
pub fn is_kernel(frame: &Method) -> bool {
    let (class, name, _) = frame.parts();
    class == KERNEL || class.is_empty() && name == KERNEL
}

/// What stands behind the name of a frame of the kernel in collapsed stacks.
pub const KERNEL_MARK: &str = "_[k]";

fn label(frame: &Method) -> String {
    if is_kernel(frame) { frame.parts().1.into_owned() + KERNEL_MARK } else { frame.dotted() }
}

/// Whether a frame is a probe.
#[must_use]
pub fn is_probe(method: &Method) -> bool {
    PROBES.iter().any(|probes| method.parts().0.starts_with(probes))
}

/// Whether a frame is native code: a function of a library, whose name is the class, or `[libjvm.so]` alone.
fn is_native(method: &Method) -> bool {
    let (class, name, _) = method.parts();
    class.starts_with('[')
        || class.is_empty() && name.starts_with('[') && (name.contains(".so") || name == "[vdso]")
        || is_kernel(method)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(class: &str, method: &str) -> Method {
        Method::named(class, method, "")
    }

    #[test]
    fn probes_and_libraries_count_for_their_callers_and_recursion_once() {
        let mut cpu = SampledStacks::default();
        let work_of = frame("a.Work", "work");
        let main = cpu.stack(0, &frame("a.Main", "main"));
        let work = cpu.stack(main, &work_of);
        let again = cpu.stack(work, &work_of);
        let probe = cpu.stack(again, &frame("java.lang.invoke.$TProfiler", "end"));
        let library = cpu.stack(probe, &frame("", "[libtprofiler.so]"));
        let (early, late) = (Group::Minute(1), Group::Minute(2));
        cpu.add(early, library, 20, 2);
        cpu.add(late, library, 10, 1);
        cpu.add(early, work, 10, 1);
        let jit = cpu.stack(0, &frame("", "[jit]"));
        let compiler = cpu.stack(jit, &frame("", "[libjvm.so]"));
        cpu.add(early, compiler, 5, 1);
        // A probe without a caller is all there is of its stack.
        let alone = cpu.stack(0, &frame("java.lang.invoke.$TProfiler", "end"));
        cpu.add(late, alone, 1, 1);
        assert_eq!(cpu.stack(main, &work_of), work);
        assert_eq!((cpu.total_ns(), cpu.samples()), (46, 6));
        // Nothing here is the JDK's, but for the JVM's own.
        let of = |self_ns, total_ns, samples| CpuFigures {
            self_ns,
            total_ns,
            samples,
            with_jdk_ns: self_ns,
            with_jdk_samples: samples,
        };
        let methods = cpu.methods();
        let expected = [
            (early, "a.Work", "work", of(30, 30, 3)),
            (early, "", "[jit]", of(5, 5, 1)),
            (early, "a.Main", "main", of(0, 30, 0)),
            (late, "a.Work", "work", of(10, 10, 1)),
            (late, "a.Main", "main", of(0, 10, 0)),
            (late, "java.lang.invoke.$TProfiler", "end", of(1, 1, 1)),
        ];
        assert_eq!(methods.values().map(HashMap::len).sum::<usize>(), expected.len());
        for (group, class, method, figures) in expected {
            assert_eq!(methods[&group][&frame(class, method)], figures, "{class}.{method}");
        }
        assert_eq!(
            cpu.lines(),
            [
                "[jit];[libjvm.so] 5",
                "a.Main.main;a.Work.work 10",
                "a.Main.main;a.Work.work;a.Work.work;[libtprofiler.so] 30",
                "java.lang.invoke.$TProfiler.end 1",
            ]
        );
        let margin = of(0, 0, 25).margin_percent(100);
        assert!((margin - 8.487).abs() < 0.01, "{margin}");
    }

    #[test]
    fn the_kernels_time_counts_for_the_caller_and_apart() {
        let mut cpu = SampledStacks::default();
        let read = cpu.stack(0, &frame("a.Main", "read"));
        cpu.add(Group::All, read, 10, 1);
        assert_eq!(cpu.kernel_ns(), None);
        let library = cpu.stack(read, &frame("[libc.so.6]", "read"));
        let call = cpu.stack(library, &frame("[kernel]", "ksys_read"));
        let zero = cpu.stack(call, &frame("[kernel]", "read_zero"));
        cpu.add(Group::All, zero, 300, 3);
        cpu.add(Group::Minute(1), call, 20, 1);
        let fault = cpu.stack(read, &frame("", "[kernel]"));
        cpu.add(Group::All, fault, 4, 1);
        assert_eq!(cpu.kernel_ns(), Some(324));
        let methods = cpu.methods();
        assert_eq!(methods[&Group::All].len(), 1);
        assert_eq!(methods[&Group::All][&frame("a.Main", "read")].self_ns, 314);
        assert_eq!(
            cpu.lines(),
            [
                "a.Main.read 10",
                "a.Main.read;[kernel]_[k] 4",
                "a.Main.read;read [libc.so.6];ksys_read_[k] 20",
                "a.Main.read;read [libc.so.6];ksys_read_[k];read_zero_[k] 300",
            ]
        );
    }

    #[test]
    fn the_jdks_time_is_its_callers_as_far_as_there_is_one() {
        let mut cpu = SampledStacks::default();
        let pay = cpu.stack(0, &frame("shop.Order", "pay"));
        let get = cpu.stack(pay, &frame("java.util.HashMap", "get"));
        let hash = cpu.stack(get, &frame("shop.Key", "hashCode"));
        let run = cpu.stack(0, &frame("java.lang.Thread", "run"));
        let take = cpu.stack(run, &frame("java.util.concurrent.DelayQueue", "take"));
        for (stack, ns) in [(pay, 1), (get, 10), (hash, 100), (take, 1_000)] {
            cpu.add(Group::All, stack, ns, 1);
        }
        let of = |class: &str, method: &str| cpu.methods()[&Group::All][&frame(class, method)];
        let with_jdk =
            |class, method| (of(class, method).with_jdk_ns, of(class, method).with_jdk_samples);
        assert_eq!(with_jdk("shop.Order", "pay"), (11, 2));
        assert_eq!(with_jdk("java.util.HashMap", "get"), (0, 0));
        assert_eq!(with_jdk("shop.Key", "hashCode"), (100, 1));
        assert_eq!(with_jdk("java.util.concurrent.DelayQueue", "take"), (1_000, 1));
        assert_eq!(of("java.util.HashMap", "get").self_ns, 10);
    }
}
