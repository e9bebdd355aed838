//! Reads a table with several threads. The result does not depend on their number.
//!
//! ```text
//! one lock    file --> block 1, 2, 3, ...     look_ahead          lines counted, apply: 1, 2, 3, ...
//!                        |                                          ^
//! in parallel            +-> lines --> rows --> sums of the thread  | rows whose order counts
//!                                                +------------------+
//! ```
//!
//! A thread takes the next block under the lock and reads its lines without it. Sums are merged in any order. What
//! depends on the order of lines (their numbers, and rows for which the worker says so) stays with the block and is
//! applied when all blocks before it are done. Each thread holds the text of one block; rows whose order counts wait
//! for the slowest thread, and such rows are few.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use log_format::plain::{PlainLines, PlainRow};
use log_format::reader::{BadLine, LineParser};

use crate::input::file_blocks::{Block, Blocks};
use crate::input::problems::{BAD_LINES_SHOWN, Problems};
use crate::input::table_rows::{BLOCK_BYTES, TablePart, each_line, open, read_size};

/// More threads than this only wait for the file.
const MAX_WORKERS: usize = 16;

/// How many threads read, and how much each takes at once.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Number of threads.
    pub workers: usize,
    /// Length of a block.
    pub block_bytes: usize,
}

impl Default for Pace {
    fn default() -> Self {
        let processors = thread::available_parallelism().map_or(1, Into::into);
        Self { workers: processors.min(MAX_WORKERS), block_bytes: BLOCK_BYTES }
    }
}

/// What a thread does with rows.
pub trait RowWorker<R, A>: Send {
    /// Takes a row. Returns whether its place among the others counts.
    fn add(&mut self, row: &R, ahead: &A) -> bool;

    /// Called at the end of a block.
    fn end_block(&mut self);
}

/// Takes the rows whose order counts, and says which ones they are.
pub trait RowOrder<R>: Send {
    /// What a worker must know of all rows up to the end of its block.
    type Ahead: Send;

    /// Looks at a block, in the order of the file, before blocks after it are read. `row` reads a line.
    fn look_ahead(
        &mut self,
        number: u64,
        block: &[u8],
        row: impl FnMut(&[u8]) -> Option<R>,
    ) -> Self::Ahead;

    /// Takes rows of a block, in the order of the file.
    fn apply(&mut self, number: u64, rows: Vec<R>);

    /// Called after all blocks of a file.
    fn end_file(&mut self);
}

/// For tables whose rows do not depend on each other.
#[derive(Debug)]
pub struct Unordered;

impl<R> RowOrder<R> for Unordered {
    type Ahead = ();

    fn look_ahead(&mut self, _: u64, _: &[u8], _: impl FnMut(&[u8]) -> Option<R>) {}

    fn apply(&mut self, _: u64, _: Vec<R>) {}

    fn end_file(&mut self) {}
}

/// Reads a part of a file as [`read_rows`](crate::input::table_rows::read_rows) does, with one thread for each
/// worker, or fewer if the file is small.
pub fn read_blocks<R, O, W>(
    part: TablePart,
    block_bytes: usize,
    workers: &mut [W],
    order: &mut O,
    problems: &mut Problems,
) where
    R: PlainRow + Send,
    O: RowOrder<R>,
    W: RowWorker<R, O::Ahead>,
{
    match read(part, block_bytes, workers, order, problems) {
        Ok(true) => problems.torn_line(),
        Ok(false) => {}
        Err(error) => problems.unread(part.path, error),
    }
}

/// Reads the file; returns whether it ends within a line.
fn read<R, O, W>(
    part: TablePart,
    block_bytes: usize,
    workers: &mut [W],
    order: &mut O,
    problems: &mut Problems,
) -> io::Result<bool>
where
    R: PlainRow + Send,
    O: RowOrder<R>,
    W: RowWorker<R, O::Ahead>,
{
    let Some((reader, is_plain)) = open::<R>(part, problems)? else {
        return Ok(false);
    };
    if reader.is_torn() {
        return Ok(true);
    }
    let (lines, input) = reader.into_parts();
    let work = Mutex::new(Work {
        path: part.path,
        blocks: Blocks::new(input, block_bytes, read_size(is_plain)),
        order,
        taken: 0,
        applied: 0,
        done: BTreeMap::new(),
        // The header.
        lines: 1,
        problems,
    });
    let blocks = usize::try_from(part.len).unwrap_or(usize::MAX) / block_bytes.max(1);
    let mut workers = workers.iter_mut().take(blocks.saturating_add(1));
    let first = workers.next();
    thread::scope(|scope| {
        for worker in workers {
            let (work, lines) = (&work, lines.clone());
            // If no thread can be started, the others do its work.
            let _ = thread::Builder::new().spawn_scoped(scope, move || help(work, worker, lines));
        }
        if let Some(worker) = first {
            help(&work, worker, lines);
        }
    });
    let work = work.into_inner().unwrap_or_else(PoisonError::into_inner);
    work.order.end_file();
    work.blocks.finish()
}

/// The state that the lock protects.
struct Work<'w, I, R, O> {
    path: &'w Path,
    blocks: Blocks<I>,
    order: &'w mut O,
    /// Number of blocks taken, and how many of them, from the first on, are done.
    taken: u64,
    applied: u64,
    /// Blocks that are done while an earlier one is not.
    done: BTreeMap<u64, Done<R>>,
    /// Lines before the next block to be applied.
    lines: u64,
    problems: &'w mut Problems,
}

/// What a block produces besides sums.
struct Done<R> {
    lines: u64,
    /// The first bad lines, numbered from the block's first line.
    bad: Vec<BadLine>,
    more_bad: u64,
    /// The rows whose order counts.
    rows: Vec<R>,
}

impl<I: Read, R, O: RowOrder<R>> Work<'_, I, R, O> {
    fn take(
        &mut self,
        block: &mut Block,
        row: impl FnMut(&[u8]) -> Option<R>,
    ) -> Option<(u64, O::Ahead)> {
        if !self.blocks.next(block) {
            return None;
        }
        let number = self.taken;
        self.taken += 1;
        Some((number, self.order.look_ahead(number, block.text(), row)))
    }

    fn finish(&mut self, number: u64, done: Done<R>) {
        self.done.insert(number, done);
        while let Some(done) = self.done.remove(&self.applied) {
            for bad in done.bad {
                let line = self.lines.saturating_add(bad.line);
                self.problems.bad_line(self.path, &BadLine { line, ..bad });
            }
            self.problems.bad_lines_not_shown(done.more_bad);
            self.lines = self.lines.saturating_add(done.lines);
            self.order.apply(self.applied, done.rows);
            self.applied += 1;
        }
    }
}

/// Reads blocks until there are none left.
fn help<I, R, O, W>(work: &Mutex<Work<'_, I, R, O>>, worker: &mut W, mut lines: LineParser<R>)
where
    I: Read,
    R: PlainRow,
    O: RowOrder<R>,
    W: RowWorker<R, O::Ahead>,
{
    let plain = PlainLines::of(&lines);
    let mut block = Block::default();
    let mut last = None;
    loop {
        let taken = {
            let mut work = lock(work);
            if let Some((number, done)) = last {
                work.finish(number, done);
            }
            work.take(&mut block, |line| lines.parse(line).ok())
        };
        let Some((number, ahead)) = taken else { return };
        last = Some((number, read_block(block.text(), plain, &mut lines, worker, &ahead)));
        worker.end_block();
    }
}

fn read_block<R: PlainRow, A, W: RowWorker<R, A>>(
    text: &[u8],
    plain: PlainLines,
    lines: &mut LineParser<R>,
    worker: &mut W,
    ahead: &A,
) -> Done<R> {
    let mut done = Done { lines: 0, bad: Vec::new(), more_bad: 0, rows: Vec::new() };
    done.lines = each_line(text, plain, lines, |line, row| match row {
        Ok(row) => {
            if worker.add(&row, ahead) {
                done.rows.push(row);
            }
        }
        Err(_) if done.bad.len() == BAD_LINES_SHOWN => done.more_bad += 1,
        Err(reason) => done.bad.push(BadLine { line, reason }),
    });
    done
}

/// Ignores poisoning: a panic elsewhere leaves nothing under the lock half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
