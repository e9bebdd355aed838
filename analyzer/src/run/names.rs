//! The names of one run: its methods, threads and call paths.
//!
//! Ids are valid for one run only, so every lookup uses the run's own [`Names`]; there is no way to look up an id
//! without its run.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use log_format::compression::Compression;
use log_format::file_names::{FileName, Table};
use log_format::ids::{JavaThreadId, MethodId, OsThreadId, StackId, ThreadId};
use log_format::pattern::Pattern;
use log_format::reader::BadRow;
use log_format::rows::{MethodRow, StackRow, ThreadRow};

use crate::input::problems::Problems;
use crate::input::runs::{RunInput, entries, table_of};
use crate::input::table_rows::{TablePart, read_plain, read_rows};
use crate::options::glob::Glob;
use crate::options::time_range::TimeRange;
use crate::run::muted::Muted;
use crate::run::throttled::Throttled;
use crate::stats::method::{Callers, Method, MethodName, PathKind, Source};

/// Callers kept of a call that is shown with its callers.
const CALLERS_SHOWN: usize = 8;

/// The names of one run.
#[derive(Debug, Default)]
pub struct Names {
    methods: HashMap<MethodId, Arc<MethodName>>,
    sources: HashMap<MethodId, Source>,
    threads: HashMap<ThreadId, NamedThread>,
    stacks: HashMap<StackId, Stack>,
    /// Whether there is a file of methods.
    pub has_methods_file: bool,
}

/// A thread as the log names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedThread {
    /// Its last name.
    pub name: String,
    /// What `Thread.getId()` returns, if that is known.
    pub java_id: JavaThreadId,
    /// The kernel's id, or 0.
    pub os_id: OsThreadId,
    /// Whether it is a virtual thread.
    pub is_virtual: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stack {
    parent: StackId,
    method: MethodId,
}

impl Names {
    /// Reads the names of a run, of all of its hours. Files created after the run was found are read too: rows to be
    /// counted may use their names.
    #[must_use]
    pub fn read(run: &RunInput, problems: &mut Problems) -> Self {
        Self::read_tables(run, &[Table::Methods, Table::Threads, Table::Stacks], problems)
    }

    /// Reads only the names of a run's methods.
    #[must_use]
    pub fn read_methods_of(run: &RunInput, problems: &mut Problems) -> Self {
        Self::read_tables(run, &[Table::Methods], problems)
    }

    /// Reads only the names of a run's threads.
    #[must_use]
    pub fn read_threads_of(run: &RunInput, problems: &mut Problems) -> Self {
        Self::read_tables(run, &[Table::Threads], problems)
    }

    fn read_tables(run: &RunInput, tables: &[Table], problems: &mut Problems) -> Self {
        let mut names = Self::default();
        for (table, path) in &name_files(run, tables, problems) {
            match table {
                Table::Methods => names.read_methods(path, problems),
                Table::Threads => names.read_threads(path, problems),
                Table::Stacks => names.read_stacks(path, problems),
                Table::Calls
                | Table::Stats
                | Table::Counters
                | Table::Events
                | Table::Frames
                | Table::SampledStacks
                | Table::Samples
                | Table::Locks
                | Table::LockWaits
                | Table::Allocations
                | Table::Exceptions
                | Table::ExceptionExamples
                | Table::Traces
                | Table::Statements
                | Table::Sql
                | Table::SlowSql
                | Table::Tasks
                | Table::TaskRequests
                | Table::TaskCalls => {}
            }
        }
        names
    }

    fn read_methods(&mut self, path: &Path, problems: &mut Problems) {
        self.has_methods_file = true;
        let part = TablePart { path, len: u64::MAX, progress: None };
        read_plain(part, problems, |row: MethodRow| {
            let name =
                MethodName { class: row.class, method: row.method, descriptor: row.descriptor };
            let other = BadRow::Id("method", row.id.get());
            insert(&mut self.methods, row.id, Arc::new(name), other)?;
            self.sources.insert(row.id, Source { file: row.source, line: row.line });
            Ok(())
        });
    }

    fn read_threads(&mut self, path: &Path, problems: &mut Problems) {
        read_rows(path, u64::MAX, problems, |row: ThreadRow| {
            // A thread may be renamed; files are read in the order of their hours.
            let is_virtual = row.kind == "virtual";
            let ThreadRow { id, java_id, os_id, name, .. } = row;
            self.threads.insert(id, NamedThread { name, java_id, os_id, is_virtual });
            Ok(())
        });
    }

    fn read_stacks(&mut self, path: &Path, problems: &mut Problems) {
        let part = TablePart { path, len: u64::MAX, progress: None };
        read_plain(part, problems, |row: StackRow| {
            let stack = Stack { parent: row.parent, method: row.method };
            insert(&mut self.stacks, row.id, stack, BadRow::Id("call path", row.id.get()))
        });
    }

    /// The name of a method, if the run has it.
    #[must_use]
    pub fn method(&self, id: MethodId) -> Option<&Arc<MethodName>> {
        self.methods.get(&id)
    }

    /// The names of all methods, unordered.
    pub fn methods(&self) -> impl Iterator<Item = &MethodName> {
        self.methods.values().map(Arc::as_ref)
    }

    /// The ids of all methods that a pattern matches.
    #[must_use]
    pub fn ids_named_by(&self, pattern: &Pattern) -> HashSet<MethodId> {
        let named = |name: &MethodName| pattern.method(&name.class, &name.method);
        self.methods.iter().filter(|(_, name)| named(name)).map(|(id, _)| *id).collect()
    }

    /// The ids of the methods that were throttled or muted for part of `range`.
    #[must_use]
    pub fn ids_of_partial(
        &self,
        throttled: &Throttled,
        muted: &Muted,
        range: &TimeRange,
    ) -> HashSet<MethodId> {
        let throttled: HashSet<String> =
            throttled.in_range(range, range).map(|method| method.name).collect();
        if throttled.is_empty() && muted.in_range(range, range).next().is_none() {
            return HashSet::new();
        }
        let is_partial = |name: &MethodName| {
            throttled.contains(&name.log_name())
                || muted.of_method(&name.class, &name.method, range, range).is_some()
        };
        self.methods.iter().filter(|(_, name)| is_partial(name)).map(|(id, _)| *id).collect()
    }

    /// The method with this id in the run with this label.
    #[must_use]
    pub fn method_or_unknown(&self, id: MethodId, run: &Arc<str>) -> Method {
        match self.methods.get(&id) {
            Some(name) => Method::Named(Arc::clone(name)),
            None => Method::Unknown { run: Arc::clone(run), id },
        }
    }

    /// The methods with a name, and where their source is.
    pub fn sources(&self) -> impl Iterator<Item = (&Arc<MethodName>, &Source)> {
        self.sources.iter().filter_map(|(id, source)| Some((self.methods.get(id)?, source)))
    }

    /// Where a method's source is, if the run says.
    #[must_use]
    pub fn source(&self, id: MethodId) -> Option<&Source> {
        self.sources.get(&id)
    }

    /// The ids of all threads that a pattern matches, by name, or as reports print them: `main #1`, `thread #7`.
    #[must_use]
    pub fn threads_named_by(&self, pattern: &Glob) -> HashSet<ThreadId> {
        let is_named = |(id, thread): &(&ThreadId, &NamedThread)| {
            pattern.matches(&thread.name)
                || pattern.has_number() && pattern.matches(&self.thread(**id))
        };
        self.threads.iter().filter(is_named).map(|(id, _)| *id).collect()
    }

    /// A thread's name and id, `main #1`; a thread without a name is `thread #1`.
    #[must_use]
    pub fn thread(&self, id: ThreadId) -> String {
        match self.threads.get(&id) {
            Some(thread) if !thread.name.is_empty() => format!("{} #{id}", thread.name),
            _ => format!("thread #{id}"),
        }
    }

    /// A thread's name alone; a thread without a name is `thread #1`.
    #[must_use]
    pub fn thread_name(&self, id: ThreadId) -> String {
        match self.threads.get(&id) {
            Some(thread) if !thread.name.is_empty() => thread.name.clone(),
            _ => format!("thread #{id}"),
        }
    }

    /// What the log says of a thread.
    #[must_use]
    pub fn named_thread(&self, id: ThreadId) -> Option<&NamedThread> {
        self.threads.get(&id)
    }

    /// Whether a call of `method` with the call path `stack` is the outermost one of a recursion.
    #[must_use]
    pub fn path_kind(&self, stack: StackId, method: MethodId) -> PathKind {
        let mut path = self.path(stack);
        if path.next() != Some(method) {
            return PathKind::Unknown;
        }
        let mut last = method;
        for caller in path {
            if caller == method {
                return PathKind::Recursive;
            }
            last = caller;
        }
        if last.is_none() { PathKind::Unknown } else { PathKind::Outermost }
    }

    /// The nearest callers of a call of `method` with the call path `stack`, in the run with this label.
    #[must_use]
    pub fn callers(&self, stack: StackId, method: MethodId, run: &Arc<str>) -> Callers {
        let mut path = self.path(stack);
        // A path that was not kept does not end in the method; it has no callers to show.
        if path.next() != Some(method) {
            return Callers { methods: Vec::new(), has_more: true };
        }
        let mut ids: Vec<MethodId> = path.take(CALLERS_SHOWN + 1).collect();
        let is_cut = ids.len() > CALLERS_SHOWN;
        ids.truncate(CALLERS_SHOWN);
        let is_broken = ids.last() == Some(&MethodId::NONE);
        ids.retain(|id| !id.is_none());
        let methods = ids.into_iter().map(|id| self.method_or_unknown(id, run)).collect();
        Callers { methods, has_more: is_cut || is_broken }
    }

    /// The largest id of a method.
    #[must_use]
    pub fn last_method(&self) -> MethodId {
        self.methods.keys().max().copied().unwrap_or_default()
    }

    /// The largest id of a call path.
    #[must_use]
    pub fn last_stack(&self) -> StackId {
        self.stacks.keys().max().copied().unwrap_or_default()
    }

    /// The methods of a call path, from the method itself outwards. A caller that the run does not know ends the path
    /// with [`MethodId::NONE`].
    pub fn path(&self, stack: StackId) -> impl Iterator<Item = MethodId> + '_ {
        let mut next = Some(stack);
        let mut steps = 0;
        std::iter::from_fn(move || {
            let id = next?;
            // Rows that name each other as parents would loop forever.
            steps += 1;
            let known = self.stacks.get(&id).filter(|_| steps <= self.stacks.len());
            let method = known.map_or(MethodId::NONE, |stack| stack.method);
            next = known
                .map(|stack| stack.parent)
                .filter(|parent| !parent.is_none() && !method.is_none());
            Some(method)
        })
    }
}

/// A run's files of these tables, by hour; if a file exists both plain and compressed, the plain one.
pub(super) fn name_files(
    run: &RunInput,
    tables: &[Table],
    problems: &mut Problems,
) -> Vec<(Table, PathBuf)> {
    let files = match entries(&run.folder) {
        Ok(files) => files,
        Err(error) => {
            problems.unread(&run.folder, error);
            return Vec::new();
        }
    };
    let mut by_part = BTreeMap::new();
    for path in files {
        let Some(FileName { part, table, compression }) = table_of(&path) else { continue };
        if run.names_from.is_none_or(|first| part.hour >= first)
            && tables.contains(&table)
            && (compression == Compression::Off || !by_part.contains_key(&(part, table)))
        {
            by_part.insert((part, table), path);
        }
    }
    by_part.into_iter().map(|((_, table), path)| (table, path)).collect()
}

/// Adds a row. If the id already has another meaning, the row is refused with `other`: the first one counts.
pub(super) fn insert<I: Eq + Hash, V: PartialEq>(
    map: &mut HashMap<I, V>,
    id: I,
    value: V,
    other: BadRow,
) -> Result<(), BadRow> {
    match map.entry(id) {
        Entry::Vacant(entry) => {
            entry.insert(value);
            Ok(())
        }
        Entry::Occupied(entry) if *entry.get() == value => Ok(()),
        Entry::Occupied(_) => Err(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stacks(rows: &[(u32, u32, u32)]) -> Names {
        let rows = rows.iter().map(|(id, parent, method)| {
            let stack = Stack { parent: StackId::new(*parent), method: MethodId::new(*method) };
            (StackId::new(*id), stack)
        });
        Names { stacks: rows.collect(), ..Names::default() }
    }

    #[test]
    fn a_path_leads_outwards_and_always_ends() {
        // 1: a    2: a > b    3: a > b > a    4: not kept    5: above 9, which is missing
        // 6 and 7: parents of each other
        let names = stacks(&[
            (1, 0, 10),
            (2, 1, 11),
            (3, 2, 10),
            (4, 0, 0),
            (5, 9, 10),
            (6, 7, 11),
            (7, 6, 12),
        ]);
        let path = |id| names.path(StackId::new(id)).map(MethodId::get).collect::<Vec<_>>();
        assert_eq!(path(3), [10, 11, 10]);
        assert_eq!(path(4), [0]);
        assert_eq!(path(5), [10, 0]);
        assert_eq!(path(99), [0]);
        assert_eq!(path(6).last(), Some(&0));
    }

    #[test]
    fn recursion_is_seen_in_the_path() {
        let names = stacks(&[(1, 0, 10), (2, 1, 11), (3, 2, 10), (4, 0, 0), (5, 9, 10)]);
        let path_kind = |stack, method| names.path_kind(StackId::new(stack), MethodId::new(method));
        assert_eq!(path_kind(1, 10), PathKind::Outermost);
        assert_eq!(path_kind(2, 11), PathKind::Outermost);
        assert_eq!(path_kind(3, 10), PathKind::Recursive);
        assert_eq!(path_kind(4, 10), PathKind::Unknown);
        assert_eq!(path_kind(5, 10), PathKind::Unknown);
        assert_eq!(path_kind(1, 11), PathKind::Unknown);
    }

    #[test]
    fn an_id_keeps_its_first_meaning() {
        let mut map = HashMap::new();
        let mut add = |value| insert(&mut map, 1, value, BadRow::Id("method", 1));
        assert_eq!(add('a'), Ok(()));
        assert_eq!(add('a'), Ok(()));
        assert_eq!(
            add('b').unwrap_err().to_string(),
            "method 1 has another name in an earlier row"
        );
        assert_eq!(map[&1], 'a');
    }
}
