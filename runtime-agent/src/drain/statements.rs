//! Sums up executions of SQL statements, gives statements their ids, and makes rows.

use std::collections::{HashMap, HashSet};

use log_format::file_names::Hour;
use log_format::ids::{MethodId, StatementId};
use log_format::rows::{SlowSqlRow, SqlRow, StatementRow, counter};

use crate::drain::hot_sums::{EventSum, HotSums};
use crate::drain::samples::{Context, Samples};
use crate::log::run_log::Now;
use crate::sampling::sampler::Sampler;
use crate::statements::{
    self, Counts, SlowStatement, StatementFigures, StatementKey, StatementSum,
};
use crate::sys::clock;

/// The ids of statements, and their names. A statement has another one after it was not used for an hour.
#[derive(Debug, Default)]
pub(crate) struct StatementIds {
    ids: HashMap<StatementKey, StatementId>,
    names: HashMap<StatementId, StatementRow>,
    last: u32,
    /// Bytes of the names.
    bytes: usize,
}

impl StatementIds {
    pub(super) fn of(&mut self, key: StatementKey) -> StatementId {
        if let Some(id) = self.ids.get(&key) {
            return *id;
        }
        self.last += 1;
        let id = StatementId::new(self.last);
        let (url, text) = statements::name(key);
        self.bytes += url.len() + text.len();
        self.names.insert(id, StatementRow { id, url, text });
        self.ids.insert(key, id);
        id
    }

    pub(super) fn row(&self, id: StatementId) -> Option<StatementRow> {
        self.names.get(&id).cloned()
    }

    fn retain(&mut self, is_used: impl Fn(StatementKey) -> bool) {
        for (_, id) in self.ids.extract_if(|key, _| !is_used(*key)) {
            if let Some(row) = self.names.remove(&id) {
                self.bytes -= row.url.len() + row.text.len();
            }
        }
    }

    /// Approximate memory that they use.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
            + self.ids.capacity() * size_of::<(StatementKey, StatementId)>()
            + self.names.capacity() * size_of::<(StatementId, StatementRow)>()
    }
}

/// What was counted, and what was not written.
#[derive(Debug)]
pub(super) struct Statements {
    /// What was counted when the run began.
    before: Counts,
    over_budget: u64,
    /// How many executions there were.
    executions: u64,
    /// All executions of the interval, by statement and method.
    sums: HashMap<(StatementKey, MethodId), StatementSum>,
    /// Statements executed in this hour, and in the one before.
    used: HashSet<StatementKey>,
    used_before: HashSet<StatementKey>,
    hour: Hour,
    /// The number of the last text when it began.
    last_text: u32,
    /// How many, and their time.
    pub(super) hot: HotSums<(StatementKey, MethodId)>,
}

impl Statements {
    /// A run begins: what is left of the one before is not its own.
    pub(super) fn new(now: Now) -> Self {
        statements::forget();
        Self {
            before: Counts::now(),
            over_budget: 0,
            executions: 0,
            sums: HashMap::new(),
            used: HashSet::new(),
            used_before: HashSet::new(),
            hour: Hour::of_unix_ns(now.unix_ns),
            last_text: 0,
            hot: HotSums::new(now),
        }
    }

    /// Adds the executions that have ended since the last call.
    pub(super) fn collect(&mut self, ids: &mut StatementIds) {
        for (key, sum) in statements::take_sums() {
            // While its text is known.
            ids.of(key.0);
            self.used.insert(key.0);
            let count = sum.times.count();
            self.executions += count;
            let [count, amount, throws] =
                [count, sum.times.total_ns(), sum.throws].map(u64::cast_signed);
            self.hot.add_sum(key, EventSum { count, amount, throws });
            self.sums.entry(key).or_insert(StatementSum::NONE).merge(&sum);
        }
    }

    /// The rows of an interval, of what was collected. With the hour, statements end that were not executed in it.
    pub(super) fn take_rows(&mut self, start_ns: u64, ids: &mut StatementIds) -> Vec<SqlRow> {
        let mut sums: Vec<_> = std::mem::take(&mut self.sums).into_iter().collect();
        sums.sort_unstable_by_key(|(key, _)| *key);
        let row = |((statement, method), sum): &((StatementKey, MethodId), StatementSum)| SqlRow {
            start_ns,
            statement: ids.of(*statement),
            method: *method,
            executions: sum.times.count(),
            throws: sum.throws,
            total_ns: sum.times.total_ns(),
            max_ns: sum.times.max_ns(),
            hist: sum.times.histogram(),
        };
        let rows = sums.iter().map(row).collect();
        let hour = Hour::of_unix_ns(clock::unix_ns());
        if hour != self.hour {
            self.hour = hour;
            self.forget_unused(ids);
        }
        rows
    }

    /// Forgets the statements that were executed neither in the hour that is over nor in the one before.
    fn forget_unused(&mut self, ids: &mut StatementIds) {
        let used = || self.used.union(&self.used_before).copied();
        self.last_text = statements::forget_texts(used(), self.last_text);
        let shown: HashSet<StatementKey> =
            self.hot.keys().map(|(key, _)| *key).chain(used()).collect();
        ids.retain(|key| shown.contains(&key));
        self.used_before = std::mem::take(&mut self.used);
    }

    /// Approximate memory that they use.
    pub(super) fn bytes(&self) -> usize {
        self.sums.capacity() * size_of::<((StatementKey, MethodId), StatementSum)>()
            + (self.used.capacity() + self.used_before.capacity()) * size_of::<StatementKey>()
            + self.hot.bytes()
    }

    /// Counts executions that are not written, to leave the hour's budget to recorded calls.
    pub(super) fn add_over_budget(&mut self, rows: &[SlowSqlRow]) {
        self.over_budget += rows.len() as u64;
    }

    /// What was counted since the run began, as far as it was collected.
    pub(super) fn figures(&self) -> StatementFigures {
        let Counts { dropped, lost } = Counts::now();
        StatementFigures {
            executions: self.executions,
            dropped: dropped.saturating_sub(self.before.dropped) + self.over_budget,
            lost: lost.saturating_sub(self.before.lost),
        }
    }

    pub(super) fn counters(&self) -> [(&'static str, u64); 3] {
        let StatementFigures { executions, dropped, lost } = self.figures();
        [
            (counter::SQL_EXECUTIONS, executions),
            (counter::SLOW_SQL_DROPPED, dropped),
            (counter::SQL_LOST, lost),
        ]
    }
}

/// The row of an execution.
pub(super) fn row(
    slow: &SlowStatement,
    ids: &mut StatementIds,
    samples: &mut Samples,
    sampler: &mut Sampler<'_>,
    context: &mut Context<'_>,
) -> SlowSqlRow {
    SlowSqlRow {
        start_ns: context.anchors.unix_ns(slow.began),
        thread: match slow.virtual_thread {
            Some(number) => (context.virtual_thread)(number.get()),
            None => samples.thread(slow.os_id, true, sampler, context),
        },
        statement: ids.of(slow.statement),
        total_ns: clock::ticks_to_ns(slow.ticks),
        exit: slow.exit,
        text: statements::with_literals(slow),
        sampled_stack: samples.stack_of_own(slow.os_id, &slow.stack, sampler),
        stack: samples.path_of(&slow.stack.shadow, context.paths),
    }
}
