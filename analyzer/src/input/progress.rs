//! Shows the progress of the reading at a terminal. A bar appears on stderr after one second, and is removed before
//! anything else is written:
//!
//! ```text
//! analyze: 4.31 GB of 20.00 GB, 1.12 GB/s, 14s left
//! ```

use std::io::{self, IsTerminal, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use log_format::file_names::Table;

use crate::input::runs::{DataFile, RunInput};

/// Readings that are shorter than this show no bar.
const WAIT: Duration = Duration::from_secs(1);

const BETWEEN: Duration = Duration::from_millis(200);

/// Bytes of logs, as stored on disk.
#[derive(Debug, Default)]
pub struct Progress {
    read: AtomicU64,
    all: AtomicU64,
}

impl Progress {
    /// Adds the tables of these kinds, of all of these runs, to the bytes to read.
    pub fn expect<'r>(&self, runs: impl IntoIterator<Item = &'r RunInput>, tables: &[Table]) {
        let files = runs.into_iter().flat_map(|run| &run.files);
        self.expect_files(files.filter(|file| tables.contains(&file.table)));
    }

    /// Adds these files to the bytes to read.
    pub fn expect_files<'r>(&self, files: impl Iterator<Item = &'r DataFile>) {
        self.all.fetch_add(files.map(|file| file.len).sum(), Ordering::Relaxed);
    }

    fn add(&self, bytes: usize) {
        self.read.fetch_add(u64::try_from(bytes).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn update(&self, bar: &ProgressBar) {
        let read = self.read.load(Ordering::Relaxed);
        // Files may have grown since they were found.
        let all = self.all.load(Ordering::Relaxed).max(read);
        bar.update(|state| {
            state.set_len(all);
            state.set_pos(read);
        });
    }
}

/// An input whose bytes count as read.
pub struct Counted<I> {
    input: I,
    progress: Arc<Progress>,
}

impl<I> Counted<I> {
    /// Counts the bytes of `input`.
    pub fn new(input: I, progress: &Arc<Progress>) -> Self {
        Self { input, progress: Arc::clone(progress) }
    }
}

impl<I: Read> Read for Counted<I> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.progress.add(read);
        Ok(read)
    }
}

/// The bar is shown while this lives.
#[derive(Debug)]
pub struct Shown {
    /// Nothing is sent; dropping it ends the bar.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Shows the progress on stderr, if that is a terminal.
#[must_use]
pub fn show(progress: &Arc<Progress>) -> Shown {
    if io::stderr().is_terminal() {
        show_on(ProgressDrawTarget::stderr(), WAIT, progress)
    } else {
        Shown { end: None, thread: None }
    }
}

fn show_on(target: ProgressDrawTarget, wait: Duration, progress: &Arc<Progress>) -> Shown {
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::hidden());
    let template =
        "analyze: {decimal_bytes} of {decimal_total_bytes}, {decimal_bytes_per_sec}, {eta} left";
    // Without the template, indicatif uses its own bar.
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    let (end, ended) = channel::<()>();
    let progress = Arc::clone(progress);
    let draw = move || {
        let (begin, mut target, mut has_rate) = (Instant::now(), Some(target), false);
        while ended.recv_timeout(BETWEEN) == Err(RecvTimeoutError::Timeout) {
            // Names are read first and are not counted: the long part of the reading comes after them.
            if progress.read.load(Ordering::Relaxed) == 0 {
                continue;
            }
            if has_rate
                && begin.elapsed() >= wait
                && let Some(target) = target.take()
            {
                bar.set_draw_target(target);
            }
            progress.update(&bar);
            if !has_rate {
                bar.reset_eta();
                has_rate = true;
            }
        }
        bar.finish_and_clear();
    };
    // If no thread can be started, there is no bar.
    Shown { end: Some(end), thread: Builder::new().spawn(draw).ok() }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            // The thread returns nothing.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use indicatif::TermLike;

    use super::*;

    /// Keeps what is written, and reports each write.
    #[derive(Clone, Debug)]
    struct Screen(Arc<Mutex<String>>, Sender<()>);

    impl TermLike for Screen {
        fn width(&self) -> u16 {
            100
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.0.lock().unwrap().push_str(text);
            let _ = self.1.send(());
            Ok(())
        }
        fn clear_line(&self) -> io::Result<()> {
            self.0.lock().unwrap().clear();
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_bar_tells_bytes_rate_and_time_and_goes_away() {
        let progress = Arc::new(Progress::default());
        progress.all.store(20_000_000_000, Ordering::Relaxed);
        let mut input = Counted::new(&[7; 3_000_000][..], &progress);
        input.read_to_end(&mut Vec::new()).unwrap();
        let (written, has_written) = channel();
        let screen = Screen(Arc::default(), written);
        let target = ProgressDrawTarget::term_like(Box::new(screen.clone()));
        let shown = show_on(target, Duration::ZERO, &progress);
        let mut text = String::new();
        while !text.contains("left") {
            has_written.recv().unwrap();
            text.clone_from(&screen.0.lock().unwrap());
        }
        drop(shown);
        assert!(text.contains("analyze: 3.00 MB of 20.00 GB, "), "{text}");
        assert!(text.contains("B/s, "), "{text}");
        assert_eq!(*screen.0.lock().unwrap(), "");
    }

    #[test]
    fn nothing_is_drawn_of_what_is_over_at_once() {
        let (written, has_written) = channel();
        let screen = Screen(Arc::default(), written);
        let target = ProgressDrawTarget::term_like(Box::new(screen));
        drop(show_on(target, Duration::from_secs(3_600), &Arc::default()));
        assert!(has_written.try_recv().is_err());
    }
}
