//! The files of one part of an hour: their rows, and names before the rows that use them, each once.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;

use log_format::file_names::Table;
use log_format::ids::{FrameId, MethodId, SampledStackId, StackId, StatementId, ThreadId};
use log_format::rows::{
    CallRow, FrameRow, MethodRow, Row, SampledStackRow, StackRow, StatementRow, TaskCallRow,
    TaskRequestRow, ThreadRow,
};

use crate::log::sampled_row::SampledRow;
use crate::log::table_file::TableFile;

/// Resolves the ids in rows to names.
pub(crate) trait Names {
    /// The method with an id.
    fn method(&self, id: MethodId) -> Option<MethodRow>;
    /// The thread with an id, with its current name.
    fn thread(&self, id: ThreadId) -> Option<ThreadRow>;
    /// Whether a virtual thread has its name by now.
    fn is_named(&self, id: ThreadId) -> bool;
    /// The call path with an id.
    fn stack(&self, id: StackId) -> Option<StackRow>;
    /// The frame of sampled stacks with an id.
    fn frame(&self, id: FrameId) -> Option<FrameRow>;
    /// The SQL statement with an id.
    fn statement(&self, id: StatementId) -> Option<StatementRow>;
    /// The sampled stack with an id.
    fn sampled_stack(&self, id: SampledStackId) -> Option<SampledStackRow>;
}

/// Whether the row of a thread has its name; that of a platform thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HasName(bool);

#[derive(Debug, Default)]
pub(super) struct PartFiles {
    pub tables: BTreeMap<Table, TableFile>,
    methods: HashSet<MethodId>,
    threads: HashMap<ThreadId, HasName>,
    stacks: HashSet<StackId>,
    frames: HashSet<FrameId>,
    sampled_stacks: HashSet<SampledStackId>,
    statements: HashSet<StatementId>,
    /// Bytes written.
    pub bytes: u64,
    /// Bytes added since `RunLog::take_added`.
    pub added: u64,
    /// Whether rows were added since the last flush.
    pub is_touched: bool,
    /// When there last were, on CLOCK_MONOTONIC.
    pub touched_ns: u64,
}

impl PartFiles {
    pub(super) fn is_behind(&self) -> bool {
        self.tables.values().any(TableFile::is_behind)
    }

    pub(super) fn add<R: Row>(&mut self, rows: &[R]) {
        self.added += self.tables.entry(R::TABLE).or_insert_with(TableFile::new::<R>).add(rows);
        self.is_touched = true;
    }

    /// Writes all names again at their next use.
    pub(super) fn forget_names(&mut self) {
        self.methods.clear();
        self.threads.clear();
        self.stacks.clear();
        self.frames.clear();
        self.sampled_stacks.clear();
        self.statements.clear();
    }

    /// Begins new files because the old ones are gone. Adds their names again, because rows that wait need them.
    pub(super) fn forget_files(&mut self, names: &dyn Names) {
        self.bytes = 0;
        for file in self.tables.values_mut() {
            file.forget();
        }
        for id in std::mem::take(&mut self.methods) {
            self.name_method(id, names);
        }
        for (id, _) in std::mem::take(&mut self.threads) {
            self.name_thread(id, names);
        }
        for id in std::mem::take(&mut self.stacks) {
            self.name_stack(id, names);
        }
        self.frames.clear();
        for id in std::mem::take(&mut self.sampled_stacks) {
            self.name_sampled_stack(id, names);
        }
        for id in std::mem::take(&mut self.statements) {
            self.name_statement(id, names);
        }
    }

    pub(super) fn name_statement(&mut self, id: StatementId, names: &dyn Names) {
        if !self.statements.contains(&id)
            && let Some(row) = names.statement(id)
        {
            self.statements.insert(id);
            self.add(&[row]);
        }
    }

    pub(super) fn name_sampled(&mut self, rows: &[impl SampledRow], names: &dyn Names) {
        for row in rows {
            let (thread, other) = row.threads();
            let (sampled_stack, stack) = row.stacks();
            self.name_thread(thread, names);
            other.into_iter().for_each(|other| self.name_thread(other, names));
            self.name_stack(stack, names);
            self.name_sampled_stack(sampled_stack, names);
            row.statement().into_iter().for_each(|id| self.name_statement(id, names));
            row.other_stack().into_iter().for_each(|id| self.name_sampled_stack(id, names));
        }
    }

    fn name_sampled_stack(&mut self, id: SampledStackId, names: &dyn Names) {
        let chain = new_callers(
            (id, SampledStackId::NONE),
            &mut self.sampled_stacks,
            |id| names.sampled_stack(id),
            |row| row.parent,
        );
        for row in &chain {
            if self.frames.insert(row.frame)
                && let Some(frame) = names.frame(row.frame)
            {
                self.add(&[frame]);
            }
        }
        if !chain.is_empty() {
            self.add(&chain);
        }
    }

    pub(super) fn name_method(&mut self, id: MethodId, names: &dyn Names) {
        if !id.is_none()
            && self.methods.insert(id)
            && let Some(row) = names.method(id)
        {
            self.add(&[row]);
        }
    }

    pub(super) fn name_calls(&mut self, rows: &[CallRow], names: &dyn Names) {
        for row in rows {
            self.name_thread(row.thread, names);
            self.name_stack(row.stack, names);
            self.name_method(row.method, names);
        }
    }

    pub(super) fn name_request(
        &mut self,
        request: &TaskRequestRow,
        calls: &[TaskCallRow],
        names: &dyn Names,
    ) {
        self.name_thread(request.thread, names);
        for row in calls {
            self.name_stack(row.stack, names);
            self.name_method(row.method, names);
        }
    }

    pub(super) fn name_thread(&mut self, id: ThreadId, names: &dyn Names) {
        let written = self.threads.get(&id).copied();
        // A virtual thread's name may come later.
        let is_written = written.is_some_and(|HasName(has_name)| has_name || !names.is_named(id));
        if !is_written && let Some(row) = names.thread(id) {
            self.threads.insert(id, HasName(row.kind != "virtual" || !row.name.is_empty()));
            self.add(&[row]);
        }
    }

    fn name_stack(&mut self, id: StackId, names: &dyn Names) {
        let chain = new_callers(
            (id, StackId::NONE),
            &mut self.stacks,
            |id| names.stack(id),
            |row| row.parent,
        );
        for row in &chain {
            self.name_method(row.method, names);
        }
        if !chain.is_empty() {
            self.add(&chain);
        }
    }
}

/// The rows of a stack and of its callers that are not in `written` yet, and adds them there; the outermost first, as
/// they are written. Each row has its caller's id, the last one `none`.
fn new_callers<I: Copy + Eq + Hash, R>(
    (id, none): (I, I),
    written: &mut HashSet<I>,
    row_of: impl Fn(I) -> Option<R>,
    caller: impl Fn(&R) -> I,
) -> Vec<R> {
    let mut chain = Vec::new();
    let mut next = id;
    while next != none && written.insert(next) {
        let Some(row) = row_of(next) else { break };
        next = caller(&row);
        chain.push(row);
    }
    chain.reverse();
    chain
}
