//! Calls that were unfinished when they were written. Such a row is written again each time recording stops, and the
//! same call may be seen to end later, so the order of the rows counts.
//!
//! Blocks of rows are read in parallel, so only rows that may belong to an unfinished call are taken in order. They
//! are recognized by the keys of all unfinished rows in this block and those before it, which are searched for before
//! any later block is read. Of the words for a call's end, only `unfinished` has an `f`, so the search costs little
//! where there is none.
//!
//! ```text
//! rows        return return UNFIN return | return END return | return return UNFIN
//! keys of               the first block:   + UNFIN             the third: + UNFIN
//! in order              UNFIN                     END                        UNFIN
//! ```

use std::collections::HashSet;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use log_format::ids::{MethodId, ThreadId};
use log_format::rows::{CallRow, Exit};
use memchr::memchr;

use crate::input::parallel::RowOrder;
use crate::stats::id_map::IdMap;

/// Thread, start and method of a call: unfinished rows with the same key are the same call.
type UnfinishedKey = (ThreadId, u64, MethodId);

fn key(row: &CallRow) -> UnfinishedKey {
    (row.thread, row.start_ns, row.method)
}

/// The unfinished calls of a run.
#[derive(Debug, Default)]
pub struct UnfinishedCalls {
    unfinished: IdMap<UnfinishedKey, CallRow>,
    known: UnfinishedKeys,
    /// Keys of blocks whose rows were not taken yet, with the blocks' numbers.
    ahead: Vec<(u64, UnfinishedKey)>,
}

impl UnfinishedCalls {
    /// Takes the next row, in the order of the files.
    pub fn add(&mut self, row: CallRow) {
        match self.unfinished.entry(key(&row)) {
            Entry::Vacant(entry) if row.exit == Exit::Unfinished => {
                entry.insert(row);
            }
            Entry::Vacant(_) => {}
            // The last one is the longest.
            Entry::Occupied(mut entry) if row.exit == Exit::Unfinished => {
                if entry.get().total_ns < row.total_ns {
                    entry.insert(row);
                }
            }
            Entry::Occupied(entry) => {
                entry.remove();
            }
        }
    }

    /// The calls that are still unfinished, each as it was last written.
    pub fn into_rows(self) -> impl Iterator<Item = CallRow> {
        self.unfinished.into_values()
    }

    fn announce(&mut self, number: u64, keys: HashSet<UnfinishedKey>) {
        self.ahead.extend(keys.iter().map(|key| (number, *key)));
        self.known.0.push(Arc::new(Keys::new(keys)));
        // There are few sets, and each is copied only when its size doubles.
        while let [.., before, last] = self.known.0.as_slice() {
            if before.keys.len() > 2 * last.keys.len() {
                break;
            }
            let ahead: HashSet<UnfinishedKey> = self.ahead.iter().map(|(_, key)| *key).collect();
            let both = before.keys.iter().chain(&last.keys).copied();
            let both = both.filter(|key| self.unfinished.contains_key(key) || ahead.contains(key));
            let both = Arc::new(Keys::new(both.collect()));
            self.known.0.truncate(self.known.0.len() - 2);
            self.known.0.push(both);
        }
    }
}

impl RowOrder<CallRow> for UnfinishedCalls {
    type Ahead = UnfinishedKeys;

    fn look_ahead(
        &mut self,
        number: u64,
        block: &[u8],
        mut row: impl FnMut(&[u8]) -> Option<CallRow>,
    ) -> UnfinishedKeys {
        let (mut keys, mut from) = (HashSet::new(), 0);
        while let Some(found) = memchr(b'f', block.get(from..).unwrap_or_default()) {
            let (before, after) = block.split_at(from + found);
            let begin = memchr::memrchr(b'\n', before).map_or(0, |end| end + 1);
            let end = memchr(b'\n', after).map_or(block.len(), |len| before.len() + len);
            let unfinished = row(block.get(begin..end).unwrap_or_default());
            keys.extend(unfinished.filter(|row| row.exit == Exit::Unfinished).map(|row| key(&row)));
            from = end;
        }
        if !keys.is_empty() {
            self.announce(number, keys);
        }
        self.known.clone()
    }

    fn apply(&mut self, number: u64, rows: Vec<CallRow>) {
        rows.into_iter().for_each(|row| self.add(row));
        self.ahead.retain(|(of, _)| *of > number);
    }

    fn end_file(&mut self) {
        self.ahead.clear();
    }
}

/// Keys of unfinished rows: at least those of calls that are unfinished before or within a block.
#[derive(Clone, Debug, Default)]
pub struct UnfinishedKeys(Vec<Arc<Keys>>);

impl UnfinishedKeys {
    /// Whether a row's place among the others counts.
    #[inline]
    pub fn is_ordered(&self, row: &CallRow) -> bool {
        row.exit == Exit::Unfinished || self.0.iter().any(|keys| keys.contains(row))
    }
}

#[derive(Debug)]
struct Keys {
    keys: HashSet<UnfinishedKey>,
    /// The first and the last start: a call that begins after a stop is not one from before it.
    first_ns: u64,
    last_ns: u64,
}

impl Keys {
    fn new(keys: HashSet<UnfinishedKey>) -> Self {
        let starts = || keys.iter().map(|(_, start_ns, _)| *start_ns);
        let (first_ns, last_ns) = (starts().min().unwrap_or(u64::MAX), starts().max().unwrap_or(0));
        Self { keys, first_ns, last_ns }
    }

    #[inline]
    fn contains(&self, row: &CallRow) -> bool {
        (self.first_ns..=self.last_ns).contains(&row.start_ns) && self.keys.contains(&key(row))
    }
}

#[cfg(test)]
mod tests {
    use log_format::ids::StackId;

    use super::*;

    fn row(start_ns: u64, total_ns: u64, exit: Exit) -> CallRow {
        CallRow {
            start_ns,
            thread: ThreadId::new(1),
            stack: StackId::new(1),
            method: MethodId::new(1),
            total_ns,
            self_ns: 0,
            exit,
            allocated_bytes: None,
        }
    }

    #[test]
    fn a_call_is_open_until_it_is_seen_to_end() {
        let mut calls = UnfinishedCalls::default();
        for (start_ns, total_ns, exit) in [
            (1, 10, Exit::Unfinished),
            (2, 10, Exit::Unfinished),
            (1, 30, Exit::Unfinished),
            (1, 20, Exit::Unfinished),
            (2, 40, Exit::Throw),
            (3, 50, Exit::Return),
            (3, 10, Exit::Unfinished),
        ] {
            calls.add(row(start_ns, total_ns, exit));
        }
        let mut rows: Vec<_> = calls.into_rows().map(|row| (row.start_ns, row.total_ns)).collect();
        rows.sort_unstable();
        assert_eq!(rows, [(1, 30), (3, 10)]);
    }

    #[test]
    fn blocks_know_the_keys_of_those_before() {
        let mut calls = UnfinishedCalls::default();
        // A line is a start and whether it is unfinished: `12 unfinished`.
        let parse = |line: &[u8]| {
            let text = std::str::from_utf8(line).unwrap();
            let (start, exit) = text.split_once(' ')?;
            let exit = if exit == "unfinished" { Exit::Unfinished } else { Exit::Return };
            Some(row(start.parse().ok()?, 1, exit))
        };
        let ended = |start_ns| row(start_ns, 1, Exit::Return);
        let first =
            calls.look_ahead(0, b"1 return\n2 unfinished\n3 uf\nf f f\n4 unfinished\n", parse);
        assert!(first.is_ordered(&ended(2)) && first.is_ordered(&ended(4)));
        assert!(!first.is_ordered(&ended(1)) && !first.is_ordered(&ended(3)));
        let second = calls.look_ahead(1, b"1 return\n4 return\n9 unfinished\n", parse);
        assert!([2, 4, 9].into_iter().all(|start_ns| second.is_ordered(&ended(start_ns))));
        assert!(!first.is_ordered(&ended(9)));
        calls.apply(0, vec![row(2, 1, Exit::Unfinished), row(4, 1, Exit::Unfinished)]);
        calls.apply(1, vec![ended(4), row(9, 1, Exit::Unfinished)]);
        assert!(calls.ahead.is_empty());
        // Ended calls are forgotten, at the latest when as many new ones have come.
        for number in 2..200 {
            let text = format!("{} unfinished\n", 10 * number);
            let known = calls.look_ahead(number, text.as_bytes(), parse);
            assert!(known.is_ordered(&ended(2)) && known.0.len() < 10, "{}", known.0.len());
            calls.apply(number, vec![row(10 * number, 1, Exit::Unfinished), ended(10 * number)]);
        }
        let known: usize = calls.known.0.iter().map(|keys| keys.keys.len()).sum();
        assert!(known < 20, "{known}");
        assert_eq!(calls.into_rows().count(), 2);
    }
}
