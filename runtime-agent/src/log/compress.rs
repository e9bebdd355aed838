//! Compresses the files of closed hours and deletes files, on a thread of lowest priority, so that neither the agent
//! nor the service ever waits for that.
//!
//! ```text
//! NAME.csv            stays until the last step
//! NAME.csv.gz.new     written, forced to the disk, read back and compared
//! NAME.csv.gz         renamed; from here on both forms are there, and readers count them once
//! ```
//! Whatever happens in between, there is always one whole file.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};

use flate2::write::GzEncoder;
use log_format::compression::Compression;
use log_format::error::FileError;
use log_format::file_names::Part;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use crate::log::folder::RunFolder;
use crate::sys::native_thread::{self, Priority};

/// Level 3 compresses rows to 34%, at 55 MB/s when measured; level 6 to 32%, at 20.
const GZIP_LEVEL: u32 = 3;

/// Suffix of a file that is being written.
const UNFINISHED: &str = ".new";

/// A job for the thread: files of a folder, by their plain names.
enum Job {
    Compress(Part, Arc<RunFolder>, Vec<String>),
    Delete(Arc<RunFolder>, Vec<String>),
}

/// The result of compressing a part.
#[derive(Debug)]
pub(crate) struct Compressed {
    pub part: Part,
    /// Bytes saved by compressing its files.
    pub saved: u64,
    /// Errors, one line each.
    pub errors: Vec<FileError>,
}

/// The thread, started with the first job.
#[derive(Debug)]
pub(crate) struct Background {
    compression: Compression,
    jobs: Option<Sender<Job>>,
    done: Receiver<Compressed>,
    done_sender: Sender<Compressed>,
    is_stopped: Arc<AtomicBool>,
}

impl Background {
    pub(crate) fn new(compression: Compression) -> Self {
        let (done_sender, done) = mpsc::channel();
        Self { compression, jobs: None, done, done_sender, is_stopped: Arc::default() }
    }

    /// Compresses files on the thread.
    pub(crate) fn compress(&mut self, part: Part, folder: Arc<RunFolder>, files: Vec<String>) {
        if self.compression != Compression::Off {
            // Without a thread they stay uncompressed.
            let _ = self.send(Job::Compress(part, folder, files));
        }
    }

    /// Deletes files after all earlier jobs.
    pub(crate) fn delete(&mut self, folder: Arc<RunFolder>, files: Vec<String>) {
        if let Err(Job::Delete(folder, files)) = self.send(Job::Delete(folder, files)) {
            delete(&folder, &files);
        }
    }

    /// Results since the last call.
    pub(crate) fn finished(&self) -> Vec<Compressed> {
        self.done.try_iter().collect()
    }

    fn send(&mut self, job: Job) -> Result<(), Job> {
        if self.jobs.is_none() {
            let (jobs, inbox) = mpsc::channel();
            let (compression, done, is_stopped) =
                (self.compression, self.done_sender.clone(), self.is_stopped.clone());
            let work = move || work(&inbox, compression, &done, &is_stopped);
            if native_thread::spawn("tprofiler-gz", Priority::Lowest, work).is_ok() {
                self.jobs = Some(jobs);
            }
        }
        match &self.jobs {
            Some(jobs) => jobs.send(job).map_err(|error| error.0),
            None => Err(job),
        }
    }
}

impl Drop for Background {
    /// Stops the thread, even within a file.
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }
}

fn work(
    jobs: &Receiver<Job>,
    compression: Compression,
    done: &Sender<Compressed>,
    is_stopped: &AtomicBool,
) {
    while let Ok(job) = jobs.recv() {
        match job {
            Job::Delete(folder, files) => delete(&folder, &files),
            Job::Compress(part, folder, files) => {
                let (mut saved, mut errors) = (0, Vec::new());
                for file in files {
                    // A panic in an encoder must lose neither the file nor the thread.
                    let work = || compress(&folder, &file, compression, is_stopped);
                    let result = catch_unwind(AssertUnwindSafe(work));
                    match result.unwrap_or_else(|_| Err(io::Error::other("internal error"))) {
                        Ok(bytes) => saved += bytes,
                        Err(_) if is_stopped.load(Ordering::Relaxed) => return,
                        Err(error) => {
                            errors.push(FileError::at(folder.path().join(file))(error));
                        }
                    }
                }
                // The receiver may be gone.
                let _ = done.send(Compressed { part, saved, errors });
            }
        }
    }
}

/// Deletes files, compressed or not.
fn delete(folder: &RunFolder, files: &[String]) {
    for file in files {
        for compression in Compression::ALL {
            let file = format!("{file}{}", compression.suffix());
            // It is no error if somebody else has deleted them.
            let _ = folder.remove(&format!("{file}{UNFINISHED}"));
            let _ = folder.remove(&file);
        }
    }
}

/// Compresses a file and deletes the plain one. Returns the bytes saved: 0 if the file is gone.
fn compress(
    folder: &RunFolder,
    plain: &str,
    compression: Compression,
    is_stopped: &AtomicBool,
) -> io::Result<u64> {
    let source = match folder.read(plain) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    let bytes = source.metadata()?.len();
    let finished = format!("{plain}{}", compression.suffix());
    let unfinished = format!("{finished}{UNFINISHED}");
    let written = folder
        .create(&unfinished)
        .and_then(|target| write(source, target, compression, is_stopped))
        .and_then(|()| compare(folder, plain, &unfinished, compression, is_stopped))
        .and_then(|compressed| folder.rename(&unfinished, &finished).map(|()| compressed));
    match written {
        Ok(compressed) => {
            folder.remove(plain)?;
            Ok(bytes.saturating_sub(compressed))
        }
        Err(error) => {
            let _ = folder.remove(&unfinished);
            Err(error)
        }
    }
}

fn write(
    source: File,
    target: File,
    compression: Compression,
    is_stopped: &AtomicBool,
) -> io::Result<()> {
    let mut source = BufReader::with_capacity(1 << 16, Stoppable { input: source, is_stopped });
    let target = BufWriter::with_capacity(1 << 16, target);
    let mut written = match compression {
        Compression::Off => return Err(ErrorKind::Unsupported.into()),
        Compression::Gzip => {
            let mut encoder = GzEncoder::new(target, flate2::Compression::new(GZIP_LEVEL));
            io::copy(&mut source, &mut encoder)?;
            encoder.finish()?
        }
        Compression::Zstd => {
            // The encoder panics if it cannot read or write, so it gets memory and no file.
            let mut target = target;
            let mut block = vec![0; ZSTD_FRAME];
            loop {
                let count = fill(&mut source, &mut block)?;
                if count == 0 {
                    break target;
                }
                let block = block.get(..count).unwrap_or_default();
                target.write_all(&compress_to_vec(block, CompressionLevel::Fastest))?;
            }
        }
    };
    written.flush()?;
    written.get_ref().sync_all()
}

/// Bytes compressed at a time.
const ZSTD_FRAME: usize = 4 << 20;

fn fill(source: &mut impl Read, block: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = block.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match source.read(rest)? {
            0 => break,
            count => filled += count,
        }
    }
    Ok(filled)
}

/// Checks that the compressed file decodes to the plain one; returns its size in bytes.
fn compare(
    folder: &RunFolder,
    plain: &str,
    compressed: &str,
    compression: Compression,
    is_stopped: &AtomicBool,
) -> io::Result<u64> {
    let mut plain = Stoppable { input: folder.read(plain)?, is_stopped };
    let compressed = folder.read(compressed)?;
    let bytes = compressed.metadata()?.len();
    let mut decoded = compression.decode(compressed);
    let (mut expected, mut found) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        let count = fill(&mut plain, &mut expected)?;
        if fill(&mut decoded, &mut found)? != count || expected.get(..count) != found.get(..count) {
            return Err(io::Error::other("the compressed copy differs; kept uncompressed"));
        }
        if count == 0 {
            return Ok(bytes);
        }
    }
}

/// An input that fails once the thread is to stop.
struct Stoppable<'s> {
    input: File,
    is_stopped: &'s AtomicBool,
}

impl Read for Stoppable<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.is_stopped.load(Ordering::Relaxed) {
            return Err(io::Error::other("stopped"));
        }
        self.input.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn rows() -> Vec<u8> {
        (0..300_000_u64)
            .flat_map(|i| {
                format!("{},{},{}\n", 1_795_186_458_000 + i * 977, i % 31, i * i % 977).into_bytes()
            })
            .collect()
    }

    fn names(folder: &RunFolder) -> Vec<String> {
        let entries = fs::read_dir(folder.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_replaced_by_its_compressed_form() {
        let going_on = AtomicBool::new(false);
        for compression in [Compression::Gzip, Compression::Zstd] {
            for contents in [rows(), b"a\n".to_vec(), Vec::new()] {
                let logs = tempfile::tempdir().unwrap();
                let folder = RunFolder::for_test(logs.path());
                fs::write(folder.path().join("t.csv"), &contents).unwrap();
                let saved = compress(&folder, "t.csv", compression, &going_on).unwrap();
                let name = format!("t.csv{}", compression.suffix());
                assert_eq!(names(&folder), [name.as_str()]);
                let compressed = folder.path().join(name);
                let left = fs::metadata(&compressed).unwrap().len();
                assert_eq!(saved, (contents.len() as u64).saturating_sub(left));
                let mut read = Vec::new();
                log_format::compression::open(&compressed).unwrap().read_to_end(&mut read).unwrap();
                assert!(read == contents);
                // The file is gone: there is nothing to do.
                assert_eq!(compress(&folder, "t.csv", compression, &going_on).unwrap(), 0);
            }
        }
    }

    #[test]
    fn what_is_stopped_or_fails_leaves_the_plain_file_alone() {
        let logs = tempfile::tempdir().unwrap();
        let folder = RunFolder::for_test(logs.path());
        let plain = folder.path().join("t.csv");
        fs::write(&plain, rows()).unwrap();
        let stopped = AtomicBool::new(true);
        for compression in [Compression::Gzip, Compression::Zstd] {
            assert!(compress(&folder, "t.csv", compression, &stopped).is_err());
        }
        assert_eq!(names(&folder), ["t.csv"]);
        // The compressed file differs from the plain one.
        let (source, target) = (folder.read("t.csv").unwrap(), folder.create("other").unwrap());
        let going_on = AtomicBool::new(false);
        write(source, target, Compression::Gzip, &going_on).unwrap();
        fs::write(&plain, [rows(), b"more\n".to_vec()].concat()).unwrap();
        let error = compare(&folder, "t.csv", "other", Compression::Gzip, &going_on);
        assert!(error.unwrap_err().to_string().contains("kept uncompressed"));
    }

    #[test]
    fn the_thread_works_in_the_order_that_it_was_asked() {
        let logs = tempfile::tempdir().unwrap();
        let folder = Arc::new(RunFolder::for_test(logs.path()));
        let files: Vec<String> = ["a.csv", "b.csv"].map(str::to_owned).into();
        for file in &files {
            fs::write(folder.path().join(file), rows()).unwrap();
        }
        fs::write(folder.path().join("a.csv.gz.new"), "left behind").unwrap();
        fs::write(folder.path().join("c.csv"), "of another").unwrap();
        let mut background = Background::new(Compression::Gzip);
        let part = Part { hour: log_format::file_names::Hour::of_unix_ns(0), number: 1 };
        background.compress(part, folder.clone(), files.clone());
        background.delete(folder.clone(), files);
        let done = background.done.recv().unwrap();
        assert_eq!((done.part, done.errors.len()), (part, 0));
        assert!(done.saved > 1_000_000);
        // It ends when no more jobs can come, and all of them are done by then.
        let Background { jobs, done, done_sender, .. } = &mut background;
        *jobs = None;
        *done_sender = mpsc::channel().0;
        assert!(done.recv().is_err());
        assert_eq!(names(&folder), ["c.csv"]);
    }
}
