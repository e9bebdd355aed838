//! Makes the logs of one run in any size; the same ones from the same seed. For `scripts/bench-analyzer.sh`, and to
//! try the analyzer with 20 GB.
//!
//! ```text
//! make_logs FOLDER MEGABYTES [METHODS] [THREADS] [HOURS] [SEED]
//! ```
//!
//! MEGABYTES is the size of calls.csv. Most calls are of few methods, as usual; every method has some in every hour.
//! Durations are from 1 ms on, rarely seconds. No method is its own caller, so programs that do not know call paths
//! get the same sums.

use std::error::Error;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use log_format::file_names::{Hour, RUN_JSON};
use log_format::histogram::{Histogram, bucket_of};
use log_format::ids::{JavaThreadId, MethodId, OsThreadId, StackId, ThreadId};
use log_format::rows::{CallRow, CounterRow, MethodRow, Row, StackRow, StatsRow, ThreadRow};
use log_format::run::Run;
use log_format::writer::{write_header, write_rows};

const MS: u64 = 1_000_000;
const HOUR: u64 = 3_600_000 * MS;
/// 2026-11-20T00:00:00Z.
const START: u64 = 1_795_132_800_000 * MS;
/// Call paths for each method, as many as the agent keeps at most.
const PATHS_OF_METHOD: u32 = 4;
const MAX_PATHS: u32 = 200_000;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    let folder = PathBuf::from(args.next().ok_or("where to?")?);
    let megabytes: u64 = args.next().ok_or("how many megabytes?")?.parse()?;
    let mut next = |default: u64| args.next().map_or(Ok(default), |text| text.parse());
    let (methods, threads, hours, seed) = (next(2_000)?, next(200)?, next(1)?, next(1)?);
    let size = Size {
        methods: u32::try_from(methods.max(1))?,
        threads: u32::try_from(threads.max(1))?,
        hours: hours.max(1),
        bytes: megabytes * 1_000_000,
    };
    fs::create_dir_all(&folder)?;
    let about = Run {
        format_version: 1,
        service: "made.jar".into(),
        host: "made".into(),
        start_ns: START,
        ..Run::default()
    };
    fs::write(folder.join(RUN_JSON), about.to_json())?;
    let mut random = Random(seed);
    for hour in 0..size.hours {
        write_hour(&folder, START + hour * HOUR, &size, &mut random)?;
    }
    Ok(())
}

struct Size {
    methods: u32,
    threads: u32,
    hours: u64,
    bytes: u64,
}

impl Size {
    fn paths(&self) -> u32 {
        (self.methods.saturating_mul(PATHS_OF_METHOD)).min(MAX_PATHS.max(self.methods))
    }

    /// The method that a call path ends in.
    fn method_of(&self, path: u32) -> u32 {
        (path - 1) % self.methods + 1
    }
}

/// Pseudo-random numbers (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 1 to `bound`, small ones far more often than large ones.
    fn mostly_small(&mut self, bound: u32) -> u32 {
        let mut at = u64::MAX >> 32;
        for _ in 0..3 {
            at = (at * (self.next() >> 32)) >> 32;
        }
        u32::try_from((at * u64::from(bound)) >> 32).map_or(1, |at| at.min(bound - 1) + 1)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }
}

fn table<R: Row>(folder: &Path, hour: Hour) -> Outcome<BufWriter<File>> {
    let file = File::create(folder.join(hour.file_name(R::TABLE)))?;
    let mut out = BufWriter::with_capacity(1 << 20, file);
    let mut header = Vec::new();
    write_header::<R>(&mut header);
    out.write_all(&header)?;
    Ok(out)
}

fn write<R: Row>(folder: &Path, hour: Hour, rows: impl Iterator<Item = R>) -> Outcome<()> {
    let mut out = table::<R>(folder, hour)?;
    for row in rows {
        let mut text = Vec::new();
        write_rows(&mut text, &[row])?;
        out.write_all(&text)?;
    }
    Ok(out.flush()?)
}

fn write_hour(folder: &Path, start_ns: u64, size: &Size, random: &mut Random) -> Outcome<()> {
    let hour = Hour::of_unix_ns(start_ns);
    let methods = (1..=size.methods).map(|id| MethodRow {
        id: MethodId::new(id),
        loader: "app".into(),
        class: format!("com.shop.module{}.package{}.Class{}", id % 17, id % 113, id / 12),
        method: format!("method{id}"),
        descriptor: "(Ljava/lang/String;I)Ljava/util/List;".into(),
        source: format!("Class{}.java", id / 12),
        line: id % 900,
    });
    write(folder, hour, methods)?;
    let threads = (1..=size.threads).map(|id| ThreadRow {
        id: ThreadId::new(id),
        java_id: JavaThreadId::new(id.into()),
        os_id: OsThreadId::new(4_000 + id),
        name: format!("http-nio-8080-exec-{id}"),
        kind: "platform".into(),
    });
    write(folder, hour, threads)?;
    // Callers have a lower number, so no path is a circle and none has a method twice.
    let stacks = (1..=size.paths()).map(|id| {
        let method = size.method_of(id);
        let parent = if method < 8 { 0 } else { method / 3 };
        StackRow {
            id: StackId::new(id),
            parent: StackId::new(parent),
            method: MethodId::new(method),
        }
    });
    write(folder, hour, stacks)?;
    let counters = (0..60).flat_map(|minute| {
        let row = |name: &str, value| CounterRow {
            start_ns: start_ns + minute * HOUR / 60,
            name: name.into(),
            value,
        };
        [row("threshold_ns", MS), row("records", 7)]
    });
    write(folder, hour, counters)?;
    let totals = write_calls(folder, start_ns, size, random)?;
    let stats = totals.into_iter().filter(|row| row.calls > 0);
    write(folder, hour, stats)
}

/// Writes the recorded calls of an hour, and their method statistics in the hour's first minute.
fn write_calls(
    folder: &Path,
    start_ns: u64,
    size: &Size,
    random: &mut Random,
) -> Outcome<Vec<StatsRow>> {
    let of_method = |method| StatsRow {
        start_ns,
        method: MethodId::new(method),
        calls: 0,
        throws: 0,
        total_ns: 0,
        self_ns: 0,
        max_ns: 0,
        hist: Histogram::default(),
    };
    let mut totals: Vec<StatsRow> = (1..=size.methods).map(of_method).collect();
    let bytes = size.bytes / size.hours;
    let step_ns = HOUR / (bytes / 48).max(1);
    let mut out = table::<CallRow>(folder, Hour::of_unix_ns(start_ns))?;
    let (mut end_ns, mut written, mut row) = (start_ns, 0, 0);
    let mut line = Vec::new();
    while written < bytes {
        row += 1;
        // Each method gets a turn, however rare it is.
        let method = match u32::try_from(row) {
            Ok(method) if method <= size.methods => method,
            _ => random.mostly_small(size.methods),
        };
        let paths = u64::from((size.paths() - method) / size.methods) + 1;
        let stack = u64::from(method) + random.below(paths) * u64::from(size.methods);
        let doubled = random.next().leading_zeros().min(12);
        let total_ns = (MS << doubled) + random.below(MS << doubled);
        let self_ns = if random.below(4) == 0 { total_ns } else { random.below(total_ns) };
        let throws = random.below(100) == 0;
        end_ns = (end_ns + random.below(2 * step_ns)).min(start_ns + HOUR - 1);
        line.clear();
        // Without the csv crate's checks, because there are many.
        for number in [
            end_ns - total_ns,
            1 + random.below(size.threads.into()),
            stack,
            method.into(),
            total_ns,
            self_ns,
        ] {
            push_number(&mut line, number);
            line.push(b',');
        }
        line.extend_from_slice(if throws { b"throw\n" } else { b"return\n" });
        out.write_all(&line)?;
        written += u64::try_from(line.len())?;
        let place = usize::try_from(method - 1)?;
        let Some(sums) = totals.get_mut(place) else { continue };
        sums.calls += 1;
        sums.throws += u64::from(throws);
        sums.total_ns += total_ns;
        sums.self_ns += self_ns;
        sums.max_ns = sums.max_ns.max(total_ns);
        sums.hist.add(bucket_of(total_ns), 1);
    }
    out.flush()?;
    Ok(totals)
}

fn push_number(line: &mut Vec<u8>, number: u64) {
    let begin = line.len();
    let mut rest = number;
    loop {
        let digit = u8::try_from(rest % 10).unwrap_or(0);
        line.push(b'0' + digit);
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if let Some(digits) = line.get_mut(begin..) {
        digits.reverse();
    }
}
