//! Reads the waits of a run for locks: their statistics, and the recorded ones.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use log_format::ids::{MethodId, SampledStackId, ThreadId};
use log_format::names::{Hour, Table};
use log_format::rows::{LockKind, LockRow, LockWaitRow};

use crate::input::problems::Problems;
use crate::input::runs::{DataFile, RunInput};
use crate::input::table_rows::{TablePart, read_part, read_rows};
use crate::options::By;
use crate::run::cpu_samples::SampleNames;
use crate::run::names::Names;
use crate::run::selection::Selection;
use crate::stats::aggregate::Group;
use crate::stats::lock_sums::{LockSite, LockSums, LockWait};
use crate::stats::method::Method;
use crate::stats::sampled_stacks::SampledStacks;

const HOUR_NS: u64 = 3_600_000_000_000;

/// Adds the selected waits of the run at index `place` in the list of runs, each to its group; `with_stacks` if their
/// stacks are needed too. Returns the names of their threads if these are groups.
pub fn read_locks(
    run: &RunInput,
    place: usize,
    selection: &Selection,
    group: impl Fn(u64, ThreadId) -> Group,
    with_stacks: bool,
    problems: &mut Problems,
    sums: &mut LockSums,
) -> HashMap<ThreadId, String> {
    let mut threads = HashMap::new();
    if !run.files.iter().any(|file| matches!(file.table, Table::Locks | Table::LockWaits)) {
        return threads;
    }
    // Problems with these names are reported where all names are read.
    let names = Names::read(run, &mut Problems::default());
    let sites = Sites::new(&names, run, selection);
    if !selection.counts_single_events() {
        let intervals = selection.statistics_of(place);
        for file in files(run, Table::Locks) {
            read_part(part(file, selection), problems, |row: LockRow| {
                if intervals.contains(row.start_ns)
                    && let Some(site) = sites.of(row.kind, &row.class, row.method)
                {
                    sums.add_statistics(
                        selection.group_without_thread(&group, row.start_ns),
                        site,
                        &row,
                    );
                }
                Ok(())
            });
        }
    }
    let mut stacks = with_stacks.then(|| Stacks::read(run, problems));
    let mut owners = Owners::new(run);
    each_lock_wait(run, selection, &names, problems, |row| {
        let site = sites.of(row.kind, &row.class, site_of(&row, &names));
        let Some(site) = site else { return };
        if is_for_a_lock(row.kind) {
            if let Some(stacks) = &mut stacks {
                stacks.add(&row, &mut sums.stacks);
            }
            if sums.is_long(row.wait_ns) {
                sums.add_long(long_wait(&row, place, &names, owners.at(&row).to_vec()));
            }
        }
        if selection.by == By::Thread {
            threads.entry(row.thread).or_insert_with(|| names.thread(row.thread));
        }
        let group = group(row.start_ns, row.thread);
        sums.add_recorded(group, site, &row, owner_name(&row, &names), owners.at(&row));
    });
    threads
}

/// Passes each recorded wait of a run to `each` whose start and thread are selected, in the order of the files.
pub fn each_lock_wait(
    run: &RunInput,
    selection: &Selection,
    names: &Names,
    problems: &mut Problems,
    mut each: impl FnMut(LockWaitRow),
) {
    let pattern = selection.calls.thread.as_ref();
    let threads: Option<HashSet<ThreadId>> = pattern.map(|pattern| names.threads_named_by(pattern));
    for file in files(run, Table::LockWaits) {
        read_part(part(file, selection), problems, |row: LockWaitRow| {
            let is_selected = threads.as_ref().is_none_or(|threads| threads.contains(&row.thread));
            if is_selected && selection.range.contains(row.start_ns) {
                each(row);
            }
            Ok(())
        });
    }
}

/// Passes every recorded wait of a run to `each`, of the files that can have waits from `begin_ns` to `end_ns`.
pub fn each_wait_within(
    run: &RunInput,
    begin_ns: u64,
    end_ns: u64,
    problems: &mut Problems,
    mut each: impl FnMut(LockWaitRow),
) {
    let hours = Hour::of_unix_ns(begin_ns)..=Hour::of_unix_ns(end_ns.saturating_add(HOUR_NS));
    for file in files(run, Table::LockWaits).filter(|file| hours.contains(&file.part.hour)) {
        read_rows(&file.path, file.len, problems, |row| {
            each(row);
            Ok(())
        });
    }
}

/// Whether another thread had what was waited for. Other parks are for conditions, queues and the like.
pub fn is_for_a_lock(kind: LockKind) -> bool {
    kind != LockKind::Park
}

/// Whether a run has recorded waits.
pub fn has_lock_waits(run: &RunInput) -> bool {
    files(run, Table::LockWaits).next().is_some()
}

/// The name of a wait's owner, if it is known.
pub fn owner_name(row: &LockWaitRow, names: &Names) -> Option<String> {
    (!row.owner.is_none()).then(|| names.thread_name(row.owner))
}

/// The innermost measured method in progress during a wait, or none.
pub fn site_of(row: &LockWaitRow, names: &Names) -> MethodId {
    if row.stack.is_none() {
        MethodId::NONE
    } else {
        names.path(row.stack).next().unwrap_or_default()
    }
}

fn long_wait(row: &LockWaitRow, place: usize, names: &Names, held_in: Vec<Method>) -> LockWait {
    LockWait {
        run: place,
        thread: names.thread(row.thread),
        owner: (!row.owner.is_none()).then(|| names.thread(row.owner)),
        held_in,
        class: row.class.clone(),
        start_ns: row.start_ns,
        wait_ns: row.wait_ns,
    }
}

fn files(run: &RunInput, table: Table) -> impl Iterator<Item = &DataFile> {
    run.files.iter().filter(move |file| file.table == table)
}

fn part<'f>(file: &'f DataFile, selection: &'f Selection) -> TablePart<'f> {
    TablePart { path: &file.path, len: file.len, progress: Some(&selection.progress) }
}

/// Where the owners of a run's locks were when they were asked for.
pub struct Owners<'r> {
    run: &'r RunInput,
    /// Read when the first wait has one.
    names: Option<SampleNames>,
    known: HashMap<SampledStackId, Vec<Method>>,
}

/// Methods of an owner in a report, from the innermost: the one that took the lock may have called others.
const OF_OWNER: usize = 3;

impl<'r> Owners<'r> {
    /// Those of this run.
    #[must_use]
    pub fn new(run: &'r RunInput) -> Self {
        Self { run, names: None, known: HashMap::new() }
    }

    /// The innermost methods outside the JDK that the owner was in, the innermost first; none if they are not known.
    pub fn at(&mut self, row: &LockWaitRow) -> &[Method] {
        let Some(stack) = row.owner_stack.filter(|stack| !stack.is_none()) else { return &[] };
        let Self { run, names, known } = self;
        known.entry(stack).or_insert_with(|| {
            // Problems with these names are reported where all names are read.
            let read = || SampleNames::read(run, &mut Problems::default());
            names.get_or_insert_with(read).innermost(stack, OF_OWNER)
        })
    }
}

/// The selected sites of a run.
struct Sites<'n> {
    names: &'n Names,
    label: Arc<str>,
    /// Ids of the selected methods; `None` selects all, and waits without a method.
    selected: Option<HashSet<MethodId>>,
}

impl<'n> Sites<'n> {
    fn new(names: &'n Names, run: &RunInput, selection: &Selection) -> Self {
        let selected = selection.method.as_ref().map(|pattern| names.ids_named_by(pattern));
        Self { names, label: run.label.as_str().into(), selected }
    }

    /// The site of a wait for a lock of this class; `None` if it is not selected.
    fn of(&self, kind: LockKind, class: &str, method: MethodId) -> Option<LockSite> {
        let is_selected = self.selected.as_ref().is_none_or(|ids| ids.contains(&method));
        is_selected.then(|| LockSite {
            kind,
            class: class.to_owned(),
            method: (!method.is_none()).then(|| self.names.method_or_unknown(method, &self.label)),
        })
    }
}

/// The stacks of a run's waits that are known among those of all runs.
struct Stacks {
    names: SampleNames,
    known: HashMap<String, HashMap<SampledStackId, usize>>,
}

impl Stacks {
    fn read(run: &RunInput, problems: &mut Problems) -> Self {
        Self { names: SampleNames::read(run, problems), known: HashMap::new() }
    }

    /// Adds a wait: its lock is the frame on top.
    fn add(&mut self, row: &LockWaitRow, to: &mut SampledStacks) {
        let (names, id) = (&self.names, row.sampled_stack);
        if !self.known.contains_key(&row.class) {
            self.known.insert(row.class.clone(), HashMap::new());
        }
        let Some(of_class) = self.known.get_mut(&row.class) else { return };
        let stack = *of_class.entry(id).or_insert_with(|| {
            let lock = Method::named("", &format!("[lock {}]", row.class), "");
            let below = names.add_stack(id, to);
            to.stack(below, &lock)
        });
        to.add(Group::All, stack, row.wait_ns, 1);
    }
}
