//! Names of runs, hours and files in a log folder.
//!
//! ```text
//! <run>  = 20261120T145418Z-web07-4242      start in UTC, host, pid; "-2", "-3" on collision
//! <file> = 20261120T14Z.calls.csv           hour in UTC, table
//!          20261120T14Z-2.calls.csv         second part of an hour, see [`Part`]
//!          20261120T14Z.calls.csv.gz        the same file as without `.gz`, compressed
//! ```

use std::fmt;
use std::str::FromStr;

use time::{Date, Month, OffsetDateTime, Time};

use crate::compression::Compression;

/// Name of the file that describes a run.
pub const RUN_JSON: &str = "run.json";

const NS_PER_HOUR: u64 = 3_600_000_000_000;
const NS_PER_S: u64 = 1_000_000_000;

/// A table of a run; each has one file an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// `methods.csv`: names of method ids.
    Methods,
    /// `threads.csv`: names of thread ids.
    Threads,
    /// `stacks.csv`: call paths.
    Stacks,
    /// `calls.csv`: calls at or over the threshold.
    Calls,
    /// `stats.csv`: exact statistics of all calls, by method and interval.
    Stats,
    /// `counters.csv`: what the agent did and lost.
    Counters,
    /// `events.csv`: what happened to methods and classes.
    Events,
    /// `frames.csv`: frames of sampled stacks.
    Frames,
    /// `sampled_stacks.csv`: whole stacks of samples.
    SampledStacks,
    /// `samples.csv`: samples of threads.
    Samples,
    /// `locks.csv`: exact statistics of all waits for monitors, by class and interval.
    Locks,
    /// `lock_waits.csv`: waits for monitors at or over the threshold of `lock`.
    LockWaits,
    /// `allocations.csv`: samples of allocated objects.
    Allocations,
    /// `exceptions.csv`: exact counts of exceptions that left methods, by class and interval.
    Exceptions,
    /// `exception_examples.csv`: some of these exceptions, with stacks.
    ExceptionExamples,
    /// `traces.csv`: stacks of calls of traced methods.
    Traces,
    /// `statements.csv`: texts of SQL statements.
    Statements,
    /// `sql.csv`: exact statistics of all SQL statements, by interval.
    Sql,
    /// `slow_sql.csv`: SQL statements at or over the threshold of `sql`.
    SlowSql,
    /// `tasks.csv`: profile tasks, a row for each change of their state.
    Tasks,
    /// `task_requests.csv`: the requests that profile tasks recorded.
    TaskRequests,
    /// `task_calls.csv`: the calls of these requests.
    TaskCalls,
}

impl Table {
    /// All tables, names before the rows that use them.
    pub const ALL: [Self; 22] = [
        Self::Methods,
        Self::Threads,
        Self::Stacks,
        Self::Calls,
        Self::Stats,
        Self::Counters,
        Self::Events,
        Self::Frames,
        Self::SampledStacks,
        Self::Samples,
        Self::Locks,
        Self::LockWaits,
        Self::Allocations,
        Self::Exceptions,
        Self::ExceptionExamples,
        Self::Traces,
        Self::Statements,
        Self::Sql,
        Self::SlowSql,
        Self::Tasks,
        Self::TaskRequests,
        Self::TaskCalls,
    ];

    /// The table's name in file names.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Methods => "methods",
            Self::Threads => "threads",
            Self::Stacks => "stacks",
            Self::Calls => "calls",
            Self::Stats => "stats",
            Self::Counters => "counters",
            Self::Events => "events",
            Self::Frames => "frames",
            Self::SampledStacks => "sampled_stacks",
            Self::Samples => "samples",
            Self::Locks => "locks",
            Self::LockWaits => "lock_waits",
            Self::Allocations => "allocations",
            Self::Exceptions => "exceptions",
            Self::ExceptionExamples => "exception_examples",
            Self::Traces => "traces",
            Self::Statements => "statements",
            Self::Sql => "sql",
            Self::SlowSql => "slow_sql",
            Self::Tasks => "tasks",
            Self::TaskRequests => "task_requests",
            Self::TaskCalls => "task_calls",
        }
    }
}

/// An hour of UTC, counted from the start of 1970. Its text form is `20261120T14Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hour(u32);

impl Hour {
    /// The hour that holds a moment in unix nanoseconds.
    #[must_use]
    pub fn of_unix_ns(unix_ns: u64) -> Self {
        // A u64 of nanoseconds ends in the year 2554: 5,124,095 hours.
        Self(u32::try_from(unix_ns / NS_PER_HOUR).unwrap_or(u32::MAX))
    }

    /// The hour's first moment, in unix nanoseconds.
    #[must_use]
    pub fn start_unix_ns(self) -> u64 {
        u64::from(self.0).saturating_mul(NS_PER_HOUR)
    }

    /// Name of this hour's file of `table`.
    #[must_use]
    pub fn file_name(self, table: Table) -> String {
        Part { hour: self, number: 1 }.file_name(table)
    }
}

impl fmt::Display for Hour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let t = utc(self.start_unix_ns());
        write!(f, "{:04}{:02}{:02}T{:02}Z", t.year(), u8::from(t.month()), t.day(), t.hour())
    }
}

impl FromStr for Hour {
    type Err = NotAnHour;

    fn from_str(text: &str) -> Result<Self, NotAnHour> {
        parse_hour(text).ok_or(NotAnHour)
    }
}

/// The text is not an hour like `20261120T14Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAnHour;

impl fmt::Display for NotAnHour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not an hour like 20261120T14Z")
    }
}

impl std::error::Error for NotAnHour {}

fn parse_hour(text: &str) -> Option<Hour> {
    let digits = |range: std::ops::Range<usize>| {
        let part = text.get(range)?;
        part.bytes().all(|b| b.is_ascii_digit()).then(|| part.parse::<u16>().ok())?
    };
    if text.len() != 12 || text.get(8..9) != Some("T") || text.get(11..12) != Some("Z") {
        return None;
    }
    let month = Month::try_from(u8::try_from(digits(4..6)?).ok()?).ok()?;
    let date = Date::from_calendar_date(
        i32::from(digits(0..4)?),
        month,
        u8::try_from(digits(6..8)?).ok()?,
    );
    let time = Time::from_hms(u8::try_from(digits(9..11)?).ok()?, 0, 0).ok()?;
    let seconds = date.ok()?.with_time(time).assume_utc().unix_timestamp();
    Some(Hour(u32::try_from(seconds / 3600).ok()?))
}

/// The part of an hour that was written at a stretch. Normally an hour has one part. It gets another when the clock
/// is set back into an hour whose files are closed. Parts are self-contained, as hours are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Part {
    /// The hour.
    pub hour: Hour,
    /// From 1 on, in the order of writing.
    pub number: u32,
}

impl Part {
    /// Name of this part's file of `table`, not compressed.
    #[must_use]
    pub fn file_name(self, table: Table) -> String {
        format!("{self}.{}.csv", table.name())
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number {
            1 => self.hour.fmt(f),
            number => write!(f, "{}-{number}", self.hour),
        }
    }
}

/// The meaning of a table file's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileName {
    /// The part and its hour.
    pub part: Part,
    /// The table.
    pub table: Table,
    /// How the file is compressed; it is the same file in any form.
    pub compression: Compression,
}

/// Parses a file name; `None` if it is not a file of a run's tables.
#[must_use]
pub fn parse_file_name(name: &str) -> Option<FileName> {
    let (compression, plain) = Compression::of_name(name);
    let (part, rest) = plain.split_once('.')?;
    let table = rest.strip_suffix(".csv")?;
    let table = Table::ALL.into_iter().find(|t| t.name() == table)?;
    let (hour, number) = match part.split_once('-') {
        None => (part, 1),
        Some((hour, number)) => (hour, parse_part_number(number)?),
    };
    Some(FileName { part: Part { hour: hour.parse().ok()?, number }, table, compression })
}

fn parse_part_number(text: &str) -> Option<u32> {
    let number: u32 = text.parse().ok()?;
    // Only one form is valid, so that no two names are the same part.
    (number > 1 && number.to_string() == text).then_some(number)
}

/// Name of a run's folder. `attempt` counts from 1 and distinguishes runs that would otherwise have the same name.
/// Bytes of `host` that do not belong in a file name become `_`.
#[must_use]
pub fn run_name(start_unix_ns: u64, host: &str, pid: u32, attempt: u32) -> String {
    let t = utc(start_unix_ns);
    let host: String = host
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '.' || c == '-' { c } else { '_' })
        .collect();
    let suffix = if attempt > 1 { format!("-{attempt}") } else { String::new() };
    format!(
        "{:04}{:02}{:02}T{:02}{:02}{:02}Z-{host}-{pid}{suffix}",
        t.year(),
        u8::from(t.month()),
        t.day(),
        t.hour(),
        t.minute(),
        t.second(),
    )
}

/// A moment in unix nanoseconds as `2026-11-20T14:54:18Z`.
#[must_use]
pub fn utc_text(unix_ns: u64) -> String {
    let t = utc(unix_ns);
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
        t.year(),
        u8::from(t.month()),
        t.day(),
        t.hour(),
        t.minute(),
        t.second(),
    )
}

fn utc(unix_ns: u64) -> OffsetDateTime {
    i64::try_from(unix_ns / NS_PER_S)
        .ok()
        .and_then(|s| OffsetDateTime::from_unix_timestamp(s).ok())
        .unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-20T14:54:18Z, from `date -u -d @1795186458`.
    const NS: u64 = 1_795_186_458 * NS_PER_S;

    #[test]
    fn names_of_runs_hours_and_files() {
        assert_eq!(run_name(NS, "web07", 4242, 1), "20261120T145418Z-web07-4242");
        assert_eq!(run_name(NS, "a/b c", 1, 2), "20261120T145418Z-a_b_c-1-2");
        assert_eq!(Hour::of_unix_ns(NS).file_name(Table::Calls), "20261120T14Z.calls.csv");
        assert_eq!(utc_text(NS), "2026-11-20T14:54:18Z");
    }

    #[test]
    fn file_names_are_read_back() {
        let hour = Hour::of_unix_ns(NS);
        for table in Table::ALL {
            for (number, compression) in
                [(1, Compression::Off), (1, Compression::Gzip), (12, Compression::Zstd)]
            {
                let part = Part { hour, number };
                let name = part.file_name(table) + compression.suffix();
                assert_eq!(parse_file_name(&name), Some(FileName { part, table, compression }));
            }
        }
        let second = Part { hour, number: 2 };
        assert_eq!(second.file_name(Table::Calls), "20261120T14Z-2.calls.csv");
        for other in [
            "run.json",
            "20261120T14Z.calls.csv.xz",
            "20261120T14Z.calls.csv.gz.new",
            "20261120T14Z.calls.csv.gz.zst",
            "20261120T14Z-1.calls.csv",
            "20261120T14Z-02.calls.csv",
            "20261120T14Z-+2.calls.csv",
            "20261120T14Z-.calls.csv",
            "20261120T14Z.future.csv",
            "20261120T24Z.calls.csv",
            "20261320T14Z.calls.csv",
            "+0261120T14Z.calls.csv",
            "20261120T14.calls.csv",
            "2026112éT14Z.calls.csv",
            "calls.csv",
        ] {
            assert_eq!(parse_file_name(other), None, "{other}");
        }
    }
}
