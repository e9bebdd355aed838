//! Reads the waits of a run for locks: their statistics, and the recorded ones.

use std::collections::HashMap;

use log_format::file_names::Table;
use log_format::ids::{MethodId, SampledStackId, ThreadId};
use log_format::rows::{LockKind, LockRow, LockWaitRow};

use crate::input::problems::Problems;
use crate::input::runs::RunInput;
use crate::options::By;
use crate::run::cpu_samples::SampleNames;
use crate::run::names::Names;
use crate::run::selected_rows::{each_row, each_selected, has_table};
use crate::run::selection::Selection;
use crate::run::sites::{SiteMethods, innermost};
use crate::stats::aggregate::Group;
use crate::stats::lock_sums::{LockSite, LockSums, LockWait};
use crate::stats::longest::Length;
use crate::stats::method::Method;
use crate::stats::sampled_stacks::SampledStacks;

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
    if !has_table(run, Table::Locks) && !has_lock_waits(run) {
        return threads;
    }
    // Problems with these names are reported where all names are read.
    let names = Names::read(run, &mut Problems::default());
    let methods = SiteMethods::new(&names, run, selection);
    if !selection.counts_single_events() {
        let intervals = selection.statistics_of(place);
        each_row(run, selection, problems, |row: LockRow| {
            if intervals.contains(row.start_ns)
                && let Some(site) = site(&methods, row.kind, &row.class, row.method)
            {
                let group = selection.group_without_thread(&group, row.start_ns);
                sums.add_statistics(group, site, &row);
            }
        });
    }
    let mut stacks = with_stacks.then(|| Stacks::read(run, problems));
    let mut owners = Owners::new(run);
    each_lock_wait(run, selection, &names, problems, |row| {
        let site = site(&methods, row.kind, &row.class, innermost(row.stack, &names));
        let Some(site) = site else { return };
        if is_for_a_lock(row.kind) {
            if let Some(stacks) = &mut stacks {
                stacks.add(&row, &mut sums.stacks);
            }
            if sums.longest.is_long(row.wait_ns) {
                let length = Length { ns: row.wait_ns, start_ns: row.start_ns, run: place };
                let held_in = owners.at(&row).to_vec();
                sums.longest.add(length, long_wait(&row, place, &names, held_in));
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
    each: impl FnMut(LockWaitRow),
) {
    each_selected(run, selection, names, problems, |row| (row.start_ns, row.thread), each);
}

/// Whether another thread had what was waited for. Other parks are for conditions, queues and the like.
pub fn is_for_a_lock(kind: LockKind) -> bool {
    kind != LockKind::Park
}

/// Whether a run has recorded waits.
pub fn has_lock_waits(run: &RunInput) -> bool {
    has_table(run, Table::LockWaits)
}

/// The name of a wait's owner, if it is known.
pub fn owner_name(row: &LockWaitRow, names: &Names) -> Option<String> {
    (!row.owner.is_none()).then(|| names.thread_name(row.owner))
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

/// The site of a wait for a lock of this class; `None` if it is not selected.
fn site(
    methods: &SiteMethods<'_>,
    kind: LockKind,
    class: &str,
    method: MethodId,
) -> Option<LockSite> {
    let class = || class.to_owned();
    let is_selected = methods.takes(method);
    is_selected.then(|| LockSite { kind, class: class(), method: methods.method(method) })
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
