//! Compresses the files of closed hours and deletes files, on a thread that steps back behind the
//! service's, so that neither is ever waited for.
//!
//! ```text
//! NAME.csv            stays until the last step
//! NAME.csv.gz.new     written, forced to the disk, read back and compared
//! NAME.csv.gz         renamed; from here on readers have it both ways, and count it once
//! ```
//! Whatever happens in between, one whole file is there.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};

use flate2::write::GzEncoder;
use log_format::compression::Compression;
use log_format::names::Part;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use crate::native_thread::{self, Priority};

/// Level 3 compresses rows to 34%, at 55 MB/s where it was measured; level 6 to 32%, at 20.
const GZIP_LEVEL: u32 = 3;

/// What a file is called behind its name while it is being written.
const UNFINISHED: &str = ".new";

/// What the thread is asked to do.
enum Job {
    Compress(Part, Vec<PathBuf>),
    Delete(Vec<PathBuf>),
}

/// What became of a part that was to be compressed.
#[derive(Debug)]
pub(crate) struct Compressed {
    pub part: Part,
    /// Bytes that its files take less than before.
    pub saved: u64,
    /// What went wrong, one line each.
    pub errors: Vec<String>,
}

/// The thread, which starts when there is something to do.
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

    /// Has files compressed.
    pub(crate) fn compress(&mut self, part: Part, files: Vec<PathBuf>) {
        if self.compression != Compression::Off {
            // Without a thread they stay as they are.
            let _ = self.send(Job::Compress(part, files));
        }
    }

    /// Has files deleted, after what was asked for before.
    pub(crate) fn delete(&mut self, files: Vec<PathBuf>) {
        if let Err(Job::Delete(files)) = self.send(Job::Delete(files)) {
            delete(&files);
        }
    }

    /// What was compressed since the last time.
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
    /// The thread leaves what it is at, and ends.
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
            Job::Delete(files) => delete(&files),
            Job::Compress(part, files) => {
                let (mut saved, mut errors) = (0, Vec::new());
                for file in files {
                    // A fault of an encoder is no reason to lose the file, nor the thread.
                    let result =
                        catch_unwind(AssertUnwindSafe(|| compress(&file, compression, is_stopped)));
                    match result.unwrap_or_else(|_| Err(io::Error::other("internal error"))) {
                        Ok(bytes) => saved += bytes,
                        Err(_) if is_stopped.load(Ordering::Relaxed) => return,
                        Err(error) => errors.push(format!("{}: {error}", file.display())),
                    }
                }
                // Nobody may be left to hear it.
                let _ = done.send(Compressed { part, saved, errors });
            }
        }
    }
}

/// Deletes files in whatever form they are there.
fn delete(files: &[PathBuf]) {
    for file in files {
        for compression in Compression::ALL {
            let file = with_suffix(file, compression.suffix());
            // What somebody else has deleted is gone as well.
            let _ = fs::remove_file(with_suffix(&file, UNFINISHED));
            let _ = fs::remove_file(&file);
        }
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Compresses a file and deletes the plain one; gives the bytes that this saves. A file that is not
/// there any more saves nothing.
fn compress(plain: &Path, compression: Compression, is_stopped: &AtomicBool) -> io::Result<u64> {
    let source = match File::open(plain) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    let bytes = source.metadata()?.len();
    let finished = with_suffix(plain, compression.suffix());
    let unfinished = with_suffix(&finished, UNFINISHED);
    let written = write(source, &unfinished, compression, is_stopped)
        .and_then(|()| compare(plain, &unfinished, compression, is_stopped))
        .and_then(|()| fs::metadata(&unfinished))
        .and_then(|metadata| fs::rename(&unfinished, &finished).map(|()| metadata.len()));
    match written {
        Ok(compressed) => {
            fs::remove_file(plain)?;
            Ok(bytes.saturating_sub(compressed))
        }
        Err(error) => {
            let _ = fs::remove_file(&unfinished);
            Err(error)
        }
    }
}

fn write(
    source: File,
    target: &Path,
    compression: Compression,
    is_stopped: &AtomicBool,
) -> io::Result<()> {
    let mut source = BufReader::with_capacity(1 << 16, Stoppable { input: source, is_stopped });
    let target = BufWriter::with_capacity(1 << 16, File::create(target)?);
    let mut written = match compression {
        Compression::Off => return Err(ErrorKind::Unsupported.into()),
        Compression::Gzip => {
            let mut encoder = GzEncoder::new(target, flate2::Compression::new(GZIP_LEVEL));
            io::copy(&mut source, &mut encoder)?;
            encoder.finish()?
        }
        Compression::Zstd => {
            // The encoder panics when it cannot read or write, so it does neither with a file.
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

/// Bytes that are compressed at a time.
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

/// Makes sure that what was written is what was there.
fn compare(
    plain: &Path,
    compressed: &Path,
    compression: Compression,
    is_stopped: &AtomicBool,
) -> io::Result<()> {
    let mut plain = Stoppable { input: File::open(plain)?, is_stopped };
    let mut decoded = compression.decode(File::open(compressed)?);
    let (mut expected, mut found) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        let count = fill(&mut plain, &mut expected)?;
        if fill(&mut decoded, &mut found)? != count || expected.get(..count) != found.get(..count) {
            return Err(io::Error::other("it would not be the same compressed; it stays as it is"));
        }
        if count == 0 {
            return Ok(());
        }
    }
}

/// An input that fails once nobody wants it any more.
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
    use super::*;

    fn rows() -> Vec<u8> {
        (0..300_000_u64)
            .flat_map(|i| {
                format!("{},{},{}\n", 1_795_186_458_000 + i * 977, i % 31, i * i % 977).into_bytes()
            })
            .collect()
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
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
                let folder = tempfile::tempdir().unwrap();
                let plain = folder.path().join("t.csv");
                fs::write(&plain, &contents).unwrap();
                let saved = compress(&plain, compression, &going_on).unwrap();
                let name = format!("t.csv{}", compression.suffix());
                assert_eq!(names(folder.path()), [name.as_str()]);
                let compressed = folder.path().join(name);
                let left = fs::metadata(&compressed).unwrap().len();
                assert_eq!(saved, (contents.len() as u64).saturating_sub(left));
                let mut read = Vec::new();
                log_format::compression::open(&compressed).unwrap().read_to_end(&mut read).unwrap();
                assert!(read == contents);
                // It is gone, and nothing is to be done.
                assert_eq!(compress(&plain, compression, &going_on).unwrap(), 0);
            }
        }
    }

    #[test]
    fn what_is_stopped_or_fails_leaves_the_plain_file_alone() {
        let folder = tempfile::tempdir().unwrap();
        let plain = folder.path().join("t.csv");
        fs::write(&plain, rows()).unwrap();
        let stopped = AtomicBool::new(true);
        for compression in [Compression::Gzip, Compression::Zstd] {
            assert!(compress(&plain, compression, &stopped).is_err());
        }
        assert_eq!(names(folder.path()), ["t.csv"]);
        // What was written is not what was there.
        let other = folder.path().join("other");
        write(File::open(&plain).unwrap(), &other, Compression::Gzip, &AtomicBool::new(false))
            .unwrap();
        fs::write(&plain, [rows(), b"more\n".to_vec()].concat()).unwrap();
        let error = compare(&plain, &other, Compression::Gzip, &AtomicBool::new(false));
        assert!(error.unwrap_err().to_string().contains("stays as it is"));
    }

    #[test]
    fn the_thread_works_in_the_order_that_it_was_asked() {
        let folder = tempfile::tempdir().unwrap();
        let files: Vec<PathBuf> = ["a.csv", "b.csv"].map(|name| folder.path().join(name)).into();
        for file in &files {
            fs::write(file, rows()).unwrap();
        }
        fs::write(folder.path().join("a.csv.gz.new"), "left behind").unwrap();
        fs::write(folder.path().join("c.csv"), "of another").unwrap();
        let mut background = Background::new(Compression::Gzip);
        let part = Part { hour: log_format::names::Hour::of_unix_ns(0), number: 1 };
        background.compress(part, files.clone());
        background.delete(files);
        let done = background.done.recv().unwrap();
        assert_eq!((done.part, done.errors.len()), (part, 0));
        assert!(done.saved > 1_000_000);
        // It ends when nobody can ask any more, and then everything is done.
        let Background { jobs, done, done_sender, .. } = &mut background;
        *jobs = None;
        *done_sender = mpsc::channel().0;
        assert!(done.recv().is_err());
        assert_eq!(names(folder.path()), ["c.csv"]);
    }
}
