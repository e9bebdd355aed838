//! The stacks of a JVM in a time, from its log, as the server takes them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use analyzer::input::problems::Problems;
use analyzer::input::runs::{RunInput, discover};
use analyzer::run::stacks_in_time::{OffCpu, OnCpu, WaitSource, off_cpu, on_cpu};
use log_format::file_names::Hour;
use log_format::ids::OsThreadId;

use super::order::Target;
use super::switches::Switches;
use crate::oap::process_messages::{
    KERNEL_SPACE, OffCpuData, OnCpuData, Profiled, StackData, USER_SPACE,
};

const NS_PER_MS: u64 = 1_000_000;
/// Rows of a time may be in the hour of a moment this long before: waits of a minute and more.
const BEFORE_NS: u64 = 120_000_000_000;
/// Most frames of a stack, the innermost.
const MOST_FRAMES: usize = 500;

/// What was profiled.
#[derive(Debug)]
pub(crate) struct Stacks {
    pub(crate) profiled: Vec<Profiled>,
    /// Where the figures come from, or why there are none.
    pub(crate) source: String,
}

/// Reads what a run's log has of a time, in unix milliseconds.
pub(crate) fn read(
    folder: &Path,
    target: Target,
    from_ms: u64,
    to_ms: u64,
    switches: Option<&Switches>,
) -> Stacks {
    let mut problems = Problems::default();
    let (from_ns, to_ns) = (from_ms.saturating_mul(NS_PER_MS), to_ms.saturating_mul(NS_PER_MS));
    let Some(run) = run_from(folder, from_ns, &mut problems) else {
        return Stacks { profiled: Vec::new(), source: "the log is not there".into() };
    };
    match target {
        Target::OnCpu => of_cpu(&run, from_ns, to_ns, &mut problems),
        Target::OffCpu => {
            let (waits, source) = off_cpu(&run, from_ns, to_ns, &mut problems);
            of_waits(waits, source, switches)
        }
    }
}

fn of_cpu(run: &RunInput, from_ns: u64, to_ns: u64, problems: &mut Problems) -> Stacks {
    // Samples are summed up by whole seconds.
    let second = |ns: u64| ns - ns % 1_000_000_000;
    let Some(stacks) = on_cpu(run, second(from_ns), second(to_ns), problems) else {
        return Stacks { profiled: Vec::new(), source: "nothing was sampled (option cpu)".into() };
    };
    let mut ids = Ids::default();
    let profiled = stacks.into_iter().map(|stack| Profiled::OnCpu(ids.on_cpu(stack))).collect();
    Stacks { profiled, source: "CPU samples".into() }
}

fn of_waits(waits: Vec<OffCpu>, source: WaitSource, switches: Option<&Switches>) -> Stacks {
    let mut looks: HashMap<OsThreadId, u64> = HashMap::new();
    for wait in &waits {
        *looks.entry(wait.os_id).or_default() += wait.looks;
    }
    let counted = |os_id: OsThreadId| switches.and_then(|switches| switches.of(os_id));
    let matched = looks.keys().filter(|os_id| counted(**os_id).is_some()).count();
    let source = source_text(source, matched, looks.len(), switches);
    let mut ids = Ids::default();
    let mut sums: HashMap<Vec<String>, (u64, u64)> = HashMap::new();
    for wait in waits {
        let all = looks.get(&wait.os_id).copied().unwrap_or(1).max(1);
        let count = counted(wait.os_id).map_or(wait.looks, |count| part(count, wait.looks, all));
        let sum = sums.entry(wait.symbols).or_default();
        // It was off the processor there, so it left it once.
        *sum = (sum.0.saturating_add(count.max(1)), sum.1.saturating_add(wait.wait_ns));
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by(|(symbols, sum), (others, other)| (other.1, symbols).cmp(&(sum.1, others)));
    let of = |(symbols, (count, wait_ns))| {
        let duration = i64::try_from(wait_ns).unwrap_or(i64::MAX);
        let stacks = vec![ids.stack(USER_SPACE, symbols)];
        Profiled::OffCpu(OffCpuData { stacks, switch_count: as_i32(count), duration })
    };
    Stacks { profiled: sums.into_iter().map(of).collect(), source }
}

/// Where waits come from, and the counts of so many of their threads.
fn source_text(
    source: WaitSource,
    matched: usize,
    threads: usize,
    switches: Option<&Switches>,
) -> String {
    let counts = match matched {
        0 => {
            let why = switches.map_or("the kernel's counts cannot be read", Switches::why_none);
            format!("switches are looks: {why}")
        }
        _ if matched == threads => "switches by the kernel's counts".to_owned(),
        _ => format!("switches by the kernel's counts of {matched} of {threads} threads"),
    };
    match source {
        WaitSource::Looks => format!("looks at threads; {counts}"),
        WaitSource::Locks => {
            let counts = counts.replace("are looks", "are waits");
            format!("recorded waits for locks alone (option wall is off); {counts}")
        }
        WaitSource::Nothing => "threads were not looked at (option wall)".to_owned(),
    }
}

/// `count * part / of`, rounded.
fn part(count: u64, part: u64, of: u64) -> u64 {
    let product = u128::from(count) * u128::from(part) + u128::from(of / 2);
    u64::try_from(product / u128::from(of.max(1))).unwrap_or(u64::MAX)
}

fn as_i32(count: u64) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// Numbers stacks.
#[derive(Default)]
struct Ids(i32);

impl Ids {
    /// The stack in the kernel, if there is one, and the one in the process.
    fn on_cpu(&mut self, OnCpu { symbols, kernel, samples, .. }: OnCpu) -> OnCpuData {
        let in_kernel = (!kernel.is_empty()).then(|| self.stack(KERNEL_SPACE, kernel));
        let stacks = in_kernel.into_iter().chain([self.stack(USER_SPACE, symbols)]).collect();
        OnCpuData { stacks, dump_count: as_i32(samples) }
    }

    fn stack(&mut self, stack_type: i32, mut symbols: Vec<String>) -> StackData {
        self.0 = self.0.saturating_add(1);
        symbols.truncate(MOST_FRAMES);
        StackData { stack_type, id: self.0, symbols }
    }
}

/// The run in a folder without the files of earlier hours.
fn run_from(folder: &Path, from_ns: u64, problems: &mut Problems) -> Option<RunInput> {
    let folders: [PathBuf; 1] = [folder.to_owned()];
    let mut run = discover(&folders, |_| false, problems).pop()?;
    let first = Hour::of_unix_ns(from_ns.saturating_sub(BEFORE_NS));
    run.files.retain(|file| file.part.hour >= first);
    Some(run)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(os_id: u32, symbol: &str, wait_ns: u64, looks: u64) -> OffCpu {
        let os_id = OsThreadId::new(os_id);
        OffCpu { os_id, symbols: vec![symbol.to_owned()], wait_ns, looks }
    }

    fn counts(stacks: &Stacks) -> Vec<(String, i32, i64)> {
        let of = |profiled: &Profiled| match profiled {
            Profiled::OffCpu(data) => {
                (data.stacks[0].symbols.join(" "), data.switch_count, data.duration)
            }
            Profiled::OnCpu(_) => panic!("{profiled:?}"),
        };
        stacks.profiled.iter().map(of).collect()
    }

    #[test]
    fn stacks_in_the_kernel_are_apart() {
        let mut ids = Ids::default();
        let on_cpu = |symbols: &[&str], kernel: &[&str]| OnCpu {
            symbols: symbols.iter().map(ToString::to_string).collect(),
            kernel: kernel.iter().map(ToString::to_string).collect(),
            samples: 3,
            cpu_ns: 30,
        };
        let data = ids.on_cpu(on_cpu(&["a.B.c", "a.B.main"], &["vfs_read", "ksys_read"]));
        let stack = |of: &StackData| (of.stack_type, of.id, of.symbols.join(" "));
        let stacks: Vec<_> = data.stacks.iter().map(stack).collect();
        let expected =
            [(0, 1, "vfs_read ksys_read".to_owned()), (1, 2, "a.B.c a.B.main".to_owned())];
        assert_eq!((stacks, data.dump_count), (expected.into(), 3));
        let data = ids.on_cpu(on_cpu(&["a.B.main"], &[]));
        let stacks: Vec<_> = data.stacks.iter().map(stack).collect();
        assert_eq!(stacks, [(1, 3, "a.B.main".to_owned())]);
    }

    #[test]
    fn switches_are_shared_out_by_looks() {
        let waits = || vec![wait(1, "a", 300, 30), wait(1, "b", 100, 10), wait(2, "a", 50, 5)];
        let looks = of_waits(waits(), WaitSource::Looks, None);
        assert_eq!(counts(&looks), [("a".into(), 35, 350), ("b".into(), 10, 100)]);
        assert_eq!(
            looks.source,
            "looks at threads; switches are looks: the kernel's counts cannot be read"
        );
        assert_eq!(
            [part(100, 30, 40), part(1, 1, 3), part(2, 1, 3), part(u64::MAX, 7, 7)],
            [75, 0, 1, u64::MAX]
        );
        // A process that is not there counts nothing.
        let mut gone = Switches::new(u32::MAX, None);
        gone.look();
        let none = of_waits(waits(), WaitSource::Looks, Some(&gone));
        assert_eq!(counts(&none), counts(&looks));
        assert_eq!(
            none.source,
            "looks at threads; switches are looks: the JVM is not in this /proc"
        );
    }

    #[test]
    fn the_source_says_how_many_threads_were_counted() {
        let own = std::process::id();
        let mut switches = Switches::new(own, None);
        switches.look();
        let source = |os_ids: &[u32], source| {
            let waits = os_ids.iter().map(|os_id| wait(*os_id, "a", 300, 30));
            of_waits(waits.collect(), source, Some(&switches)).source
        };
        assert_eq!(
            source(&[own, own], WaitSource::Looks),
            "looks at threads; switches by the kernel's counts"
        );
        assert_eq!(
            source(&[own, u32::MAX, 0], WaitSource::Locks),
            "recorded waits for locks alone (option wall is off); switches by the kernel's counts of 1 of 3 threads"
        );
    }

    #[test]
    fn a_log_that_is_gone_has_no_stacks() {
        let stacks = read(Path::new("/nonexistent"), Target::OnCpu, 0, 1, None);
        assert_eq!((stacks.profiled.len(), stacks.source), (0, "the log is not there".to_owned()));
    }
}
