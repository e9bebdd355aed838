//! The lines of `tsampler.log`: a thread with its state and date, and the frames of its stack, the innermost first.
//!
//! ```text
//! Thread TAB 12 TAB exec-1 TAB TIMED_WAITING TAB Fri Nov 20 14:00:00 CST 2026
//! java.base/java.lang.Thread.sleep(Native Method)
//! com.shop.Order.pay(Order.java:42)
//! ```

use std::fmt;

use log_format::ids::JavaThreadId;
use log_format::reader::BadRow;
use log_format::writer::one_line;
use time::{Date, Month, OffsetDateTime};

use crate::stats::thread_dumps::{DumpedFrame, DumpedThread, ThreadState};

/// The first line of a `tsampler.log` written from samples. TProfiler's analysis skips it: it counts lines that begin
/// with `Thread`, `com` or `org`.
pub const EXPORT_MARK: &str = "# written by analyze from samples.csv";

/// What a line about a thread begins with.
const THREAD: &str = "Thread\t";

/// Why a line is neither of both.
const NO_THREAD: &str = "not Thread, id, name, state and date";
const NO_FRAME: &str = "not a frame like com.shop.Order.pay(Order.java:42)";

/// A line of `tsampler.log`.
#[derive(Debug, PartialEq, Eq)]
pub enum SamplerLine {
    /// A thread and the time of its dump.
    Thread {
        /// The thread and its state.
        thread: DumpedThread,
        /// What its clock showed, in seconds since 1970 as if it showed UTC: the name of a zone does not say how far
        /// ahead it is.
        shown_s: i64,
    },
    /// A frame of the last thread.
    Frame(DumpedFrame),
}

impl SamplerLine {
    /// Parses a line.
    ///
    /// # Errors
    /// Which of both it looks like, and is not.
    pub fn parse(line: &str) -> Result<Self, BadRow> {
        match line.strip_prefix(THREAD) {
            Some(fields) => thread(fields).ok_or(NO_THREAD.into()),
            None => frame(line.trim()).map(Self::Frame).ok_or(NO_FRAME.into()),
        }
    }

    /// Whether a line is about a thread, well formed or not.
    #[must_use]
    pub fn is_of_thread(line: &str) -> bool {
        line.starts_with(THREAD)
    }
}

/// As TProfiler writes it; the date is in UTC.
pub struct ThreadLine<'t>(pub &'t DumpedThread, pub u64);

impl fmt::Display for ThreadLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(DumpedThread { id, name, state }, unix_s) = self;
        let (name, state) = (one_line(name), state.java_name());
        write!(f, "{THREAD}{id}\t{name}\t{state}\t{}", date_text(*unix_s))
    }
}

fn thread(fields: &str) -> Option<SamplerLine> {
    let (id, rest) = fields.split_once('\t')?;
    // A name may have tabs.
    let (rest, date) = rest.rsplit_once('\t')?;
    let (name, state) = rest.rsplit_once('\t')?;
    let id: u64 = id.parse().ok()?;
    let thread = DumpedThread {
        id: JavaThreadId::new(id),
        name: name.to_owned(),
        state: ThreadState::of_java(state)?,
    };
    Some(SamplerLine::Thread { thread, shown_s: shown_s(date.trim_end())? })
}

/// A frame without the loader and the module that newer JDKs write in front: `app//com.shop.Order.pay(Order.java)`.
fn frame(line: &str) -> Option<DumpedFrame> {
    let (name, place) = line.strip_suffix(')')?.rsplit_once('(')?;
    let mut name = name;
    while let Some((_, rest)) = name.split_once('/') {
        // A hidden class has a number behind its name: `com.shop.Order$$Lambda/0x00007f001.run`.
        if rest.starts_with(|c: char| c.is_ascii_digit()) {
            break;
        }
        name = rest;
    }
    let (class, method) = name.rsplit_once('.')?;
    let frame = || DumpedFrame { class: class.into(), method: method.into(), place: place.into() };
    (!class.is_empty() && !method.is_empty()).then(frame)
}

/// Names of `java.util.Date`, the first those of Monday and January.
const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The time that `java.util.Date.toString()` shows, `Fri Nov 20 14:00:00 CST 2026`, whatever its zone.
fn shown_s(date: &str) -> Option<i64> {
    let mut words = date.split(' ');
    let mut next = || words.next();
    let (day_name, month, day, time, zone, year) =
        (next()?, next()?, next()?, next()?, next()?, next()?);
    if next().is_some() || !DAYS.contains(&day_name) || zone.is_empty() {
        return None;
    }
    let month = (1..).zip(MONTHS).find_map(|(number, name)| (name == month).then_some(number))?;
    let year = year.parse().ok().filter(|year| (1970..=9999).contains(year))?;
    let date =
        Date::from_calendar_date(year, Month::try_from(month).ok()?, day.parse().ok()?).ok()?;
    let mut parts = time.split(':').map(|part| part.parse::<u8>().ok());
    let mut part = || parts.next().flatten();
    let time = date.with_hms(part()?, part()?, part()?).ok()?;
    parts.next().is_none().then(|| time.assume_utc().unix_timestamp())
}

/// A moment as `java.util.Date.toString()` shows it in UTC.
fn date_text(unix_s: u64) -> String {
    let at = i64::try_from(unix_s).ok().and_then(|s| OffsetDateTime::from_unix_timestamp(s).ok());
    let at = at.unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let day = DAYS.get(usize::from(at.weekday().number_days_from_monday())).unwrap_or(&"Mon");
    let month = MONTHS.get(usize::from(u8::from(at.month()) - 1)).unwrap_or(&"Jan");
    let (hour, minute, second) = at.to_hms();
    format!("{day} {month} {:02} {hour:02}:{minute:02}:{second:02} UTC {}", at.day(), at.year())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-20T14:00:00Z.
    const T14_S: u64 = 1_795_183_200;

    fn frame_text(line: &str) -> Option<String> {
        match SamplerLine::parse(line) {
            Ok(SamplerLine::Frame(frame)) => {
                Some(format!("{} {} {}", frame.class, frame.method, frame.place))
            }
            _ => None,
        }
    }

    #[test]
    fn a_thread_has_an_id_a_name_a_state_and_a_date() {
        let thread = |name: &str, state| DumpedThread {
            id: JavaThreadId::new(12),
            name: name.to_owned(),
            state,
        };
        let shown_s = i64::try_from(T14_S).unwrap();
        for (line, expected) in [
            (
                "Thread\t12\texec-1\tRUNNABLE\tFri Nov 20 14:00:00 CST 2026",
                thread("exec-1", ThreadState::Runnable),
            ),
            (
                "Thread\t12\ta\tb\tTIMED_WAITING\tFri Nov 20 14:00:00 GMT+08:00 2026 ",
                thread("a\tb", ThreadState::TimedWaiting),
            ),
        ] {
            let read = SamplerLine::parse(line).unwrap();
            assert_eq!(read, SamplerLine::Thread { thread: expected, shown_s });
        }
        let large = "Thread\t4294967296\tmain\tRUNNABLE\tFri Nov 20 14:00:00 CST 2026";
        let Ok(SamplerLine::Thread { thread, .. }) = SamplerLine::parse(large) else {
            panic!("{large}");
        };
        assert_eq!(thread.id, JavaThreadId::new(1 << 32));
        for line in [
            "Thread\t",
            "Thread\tx\tmain\tRUNNABLE\tFri Nov 20 14:00:00 CST 2026",
            "Thread\t18446744073709551616\tmain\tRUNNABLE\tFri Nov 20 14:00:00 CST 2026",
            "Thread\t1\tmain\tRUNNING\tFri Nov 20 14:00:00 CST 2026",
            "Thread\t1\tmain\tRUNNABLE\tFri Nov 31 14:00:00 CST 2026",
            "Thread\t1\tmain\tRUNNABLE\tFri Nov 20 24:00:00 CST 2026",
            "Thread\t1\tmain\tRUNNABLE\tFri Nov 20 14:00:00:00 CST 2026",
            "Thread\t1\tmain\tRUNNABLE\tFri Nov 20 14:00:00 CST 99999999",
            "Thread\t1\tmain\tRUNNABLE\tFri Nov 20 14:00:00 2026",
            "Thread\t1\tmain\tRUNNABLE\t2026-11-20T14:00:00Z",
        ] {
            assert_eq!(SamplerLine::parse(line), Err(NO_THREAD.into()), "{line}");
        }
    }

    #[test]
    fn frames_lose_their_loader_and_module() {
        for (line, text) in [
            ("com.shop.Order.pay(Order.java:42)", "com.shop.Order pay Order.java:42"),
            ("\tcom.shop.Order.<init>(Unknown Source)", "com.shop.Order <init> Unknown Source"),
            (
                "java.base@17.0.2/java.lang.Thread.sleep(Native Method)",
                "java.lang.Thread sleep Native Method",
            ),
            ("app//com.shop.A.b(A.java)", "com.shop.A b A.java"),
            ("loader/shop@1/com.shop.A.b(A.java)", "com.shop.A b A.java"),
            (
                "com.shop.A$$Lambda/0x00007f0010.run(Unknown Source)",
                "com.shop.A$$Lambda/0x00007f0010 run Unknown Source",
            ),
            ("com.shop.A$$Lambda$14/801.run(A)", "com.shop.A$$Lambda$14/801 run A"),
        ] {
            assert_eq!(frame_text(line).as_deref(), Some(text), "{line}");
        }
        for line in ["", "=", "main(A.java:1)", ".main(A.java:1)", "A.(A.java:1)", "A.b(A.java:1"] {
            assert_eq!(SamplerLine::parse(line), Err(NO_FRAME.into()), "{line}");
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let name = "a\tb\u{1b}".to_owned();
        let thread = DumpedThread { id: JavaThreadId::new(7), name, state: ThreadState::Blocked };
        for (unix_s, date) in [
            (T14_S, "Fri Nov 20 14:00:00 UTC 2026"),
            (0, "Thu Jan 01 00:00:00 UTC 1970"),
            (T14_S + 86_400 * 40 + 7, "Wed Dec 30 14:00:07 UTC 2026"),
        ] {
            let line = ThreadLine(&thread, unix_s).to_string();
            assert_eq!(line, format!("Thread\t7\ta\\u0009b\\u001b\tBLOCKED\t{date}"));
            let Ok(SamplerLine::Thread { thread, shown_s }) = SamplerLine::parse(&line) else {
                panic!("{line}");
            };
            assert_eq!(u64::try_from(shown_s).unwrap(), unix_s);
            assert_eq!(ThreadLine(&thread, unix_s).to_string(), line);
        }
    }
}
