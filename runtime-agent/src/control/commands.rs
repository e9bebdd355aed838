//! Parses the commands that clients send, one a line.

use std::time::Duration;

use log_format::error::BadValue;
use log_format::pattern::Pattern;
use log_format::units;
use log_format::writer::is_unprintable;
use thiserror::Error;

use crate::drain::time_slices::Period;
use crate::options::{parse_alloc, parse_every, parse_overhead, parse_threshold};
use crate::request::{Request, Top};
use crate::tasks::{TaskCommand, TaskOrder};

pub(super) const HELP: &str = "\
start: begin recording
stop: end recording; calls in progress are written as unfinished
flush: write everything so far to the disk
detach: end recording, restore classes, and close this port
status: show whether recording is on, and counters; without the token no names and paths
top [N] [minute] [sql]: show the methods with the most self time, since the run began or of the last minute; or SQL
inflight [MS | DURATION]: show calls in progress for at least this long (1 s)
threads: show what threads do, those that use most CPU time first
methods PATTERN: show the state of methods: instrumented, throttled, muted, excluded and so on
threshold [DURATION | PATTERN:DURATION]: show from which duration on calls are recorded, or set it
mute [PATTERN]: show what is muted, or stop counting calls of these methods
unmute PATTERN: count them again
overhead [SHARE | off]: show the throttled methods, or set the overhead budget, like 2%
alloc [SIZE | off]: show whether allocations are sampled, or sample one object per this many bytes, like 512k
trace [PATTERN [N]]: show which methods are traced, or take the stack of one in N of their calls
untrace [PATTERN]: stop tracing these methods, or all
task [KEY=VALUE ...] endpoint=NAME: for some minutes, record the slow requests of an endpoint with all their calls
tasks: show the profile tasks
cancel ID: end a profile task
options: show the options in force
json COMMAND: the same answer for programs, as a line of JSON
auth NONCE: have the agent prove that it knows the token
mac HMAC COMMAND: prove it too; every command but status and help needs that
help: this list
";

/// Methods that `top` shows by default, and at most.
const TOP: usize = 10;
const MAX_TOP: usize = 1_000;
/// Default of `inflight`: how long a call must have run.
const IN_FLIGHT: Duration = Duration::from_secs(1);
/// Longest pattern, in bytes, and most stars in it: the agent thread matches it against all methods.
const MAX_PATTERN: usize = 256;
const MAX_STARS: usize = 8;

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Command {
    /// What to ask the agent thread; `None` for help.
    pub request: Option<Request>,
    pub shows: Shows,
    pub is_json: bool,
}

/// What an answer contains besides its agent and whether profiling is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shows {
    Nothing,
    Status,
    Thresholds,
    Muted,
    /// The overhead budget, and the methods that it throttled.
    Overhead,
    /// How allocations are sampled.
    Allocations,
    /// Which methods are traced.
    Traces,
    /// A profile task, or all.
    Tasks,
    Options,
    /// The result of a detach.
    Restored,
    /// What was found.
    Found,
}

/// What is wrong with a line.
#[derive(Debug, PartialEq, Eq, Error)]
pub(super) enum Wrong {
    /// There is no such command.
    #[error("unknown command; try help")]
    Command,
    /// There is such a command, but its argument is wrong.
    #[error(transparent)]
    Value(#[from] BadValue),
}

/// The command on a line.
pub(super) fn parse(line: &str) -> Result<Command, Wrong> {
    let (line, is_json) = match line.strip_prefix("json ") {
        Some(rest) => (rest.trim_start(), true),
        None => (line, false),
    };
    if line == "help" && !is_json {
        return Ok(Command { request: None, shows: Shows::Nothing, is_json });
    }
    let (word, rest) = line.split_once(' ').map_or((line, ""), |(word, rest)| (word, rest.trim()));
    let (request, shows) = match (word, rest) {
        ("start", "") => (Request::Start, Shows::Nothing),
        ("stop", "") => (Request::Stop, Shows::Nothing),
        ("flush", "") => (Request::Flush, Shows::Nothing),
        ("status", "") => (Request::Status, Shows::Status),
        ("detach", "") => (Request::Detach, Shows::Restored),
        ("overhead", "") => (Request::Throttled, Shows::Overhead),
        ("overhead", value) => (Request::Overhead(parse_overhead(value)?), Shows::Overhead),
        ("alloc", "") => (Request::Status, Shows::Allocations),
        ("alloc", value) => (Request::Alloc(parse_alloc(value)?), Shows::Allocations),
        ("trace", "") => (Request::Traces, Shows::Traces),
        ("trace", value) => (trace(value)?, Shows::Traces),
        ("untrace", "") => (Request::Untrace, Shows::Traces),
        ("untrace", pattern) => (Request::Trace(parse_pattern(word, pattern)?, 0), Shows::Traces),
        ("task", order) => {
            let order = TaskOrder::parse(order).map_err(|error| error.of(word))?;
            (Request::Task(TaskCommand::Add(order)), Shows::Tasks)
        }
        ("tasks", "") => (Request::Task(TaskCommand::List), Shows::Tasks),
        ("cancel", "") => {
            return Err(BadValue::because("a task's id is needed").of(word).into());
        }
        ("cancel", id) => (Request::Task(TaskCommand::Cancel(id.to_owned())), Shows::Tasks),
        ("options", "") => (Request::Status, Shows::Options),
        ("threshold", "") => (Request::Status, Shows::Thresholds),
        ("threshold", value) => {
            let (of, threshold) = parse_threshold(value)?;
            if let Some(pattern) = &of {
                check_size(word, pattern)?;
            }
            (Request::Threshold(of, threshold), Shows::Thresholds)
        }
        ("mute", "") => (Request::Status, Shows::Muted),
        ("methods" | "unmute", "") => {
            return Err(BadValue::because("a pattern is needed").of(word).into());
        }
        ("mute" | "unmute", pattern) => {
            (Request::Mute(parse_pattern(word, pattern)?, word == "mute"), Shows::Muted)
        }
        ("methods", pattern) => {
            // Answers have methods with their descriptors.
            let name = pattern.split_once('(').map_or(pattern, |(name, _)| name);
            (Request::Methods(parse_pattern(word, name)?), Shows::Found)
        }
        ("threads", "") => (Request::Threads, Shows::Found),
        ("top", rest) => (top(rest)?, Shows::Found),
        ("inflight", rest) => (in_flight(rest)?, Shows::Found),
        _ => return Err(Wrong::Command),
    };
    Ok(Command { request: Some(request), shows, is_json })
}

fn parse_pattern(word: &str, text: &str) -> Result<Pattern, BadValue> {
    let pattern = Pattern::parse(text).map_err(|error| error.of(word))?;
    check_size(word, &pattern)?;
    Ok(pattern)
}

/// Refuses a pattern that takes too long to match.
fn check_size(word: &str, pattern: &Pattern) -> Result<(), BadValue> {
    let (bytes, stars) = (pattern.as_str().len(), pattern.as_str().matches('*').count());
    if bytes > MAX_PATTERN || stars > MAX_STARS {
        let reason = format!(
            "pattern of {bytes} bytes with {stars} stars; use at most {MAX_PATTERN} bytes and \
             {MAX_STARS} stars"
        );
        return Err(BadValue::because(reason).of(word));
    }
    Ok(())
}

fn top(rest: &str) -> Result<Request, BadValue> {
    let mut top = Top { period: Period::Run, count: TOP, only_sql: false };
    for word in rest.split_whitespace() {
        match word.parse::<usize>() {
            _ if word == "minute" => top.period = Period::Minute,
            _ if word == "sql" => top.only_sql = true,
            Ok(number) if (1..=MAX_TOP).contains(&number) => top.count = number,
            _ => {
                let reason = format!("is neither a number from 1 to {MAX_TOP} nor minute nor sql");
                return Err(BadValue::new(word.replace(is_unprintable, "?"), reason).of("top"));
            }
        }
    }
    Ok(Request::Top(top))
}

fn trace(rest: &str) -> Result<Request, BadValue> {
    // As the option has it, or as words.
    let (pattern, every) = rest.split_once([' ', ':']).unwrap_or((rest, "1"));
    let pattern = parse_pattern("trace", pattern)?;
    Ok(Request::Trace(pattern, parse_every(every.trim_start())?))
}

fn in_flight(rest: &str) -> Result<Request, BadValue> {
    let least = match rest {
        "" => Some(IN_FLIGHT),
        text => match text.parse::<u64>() {
            Ok(ms) => ms.checked_mul(1_000_000).map(Duration::from_nanos),
            Err(_) => units::parse_duration(text).ok(),
        },
    };
    least.map(Request::InFlight).ok_or_else(|| {
        let reason = "is neither milliseconds nor a duration like 2s";
        BadValue::new(rest.replace(is_unprintable, "?"), reason).of("inflight")
    })
}

/// The command that a word means in TProfiler's dialect. The log names methods before the first row about them, so
/// flushing the methods means flushing everything.
pub(super) fn of_tprofiler(word: &str) -> Option<Request> {
    match word {
        "start" => Some(Request::Start),
        "stop" => Some(Request::Stop),
        "status" => Some(Request::Status),
        "flushmethod" => Some(Request::Flush),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::CpuShare;

    fn request(line: &str) -> Option<Request> {
        parse(line).unwrap_or_else(|e| panic!("{line}: {e:?}")).request
    }

    #[test]
    fn commands_with_their_values() {
        let top = |period, count| Some(Request::Top(Top { period, count, only_sql: false }));
        assert_eq!(request("top"), top(Period::Run, 10));
        assert_eq!(request("top 5"), top(Period::Run, 5));
        assert_eq!(request("top minute"), top(Period::Minute, 10));
        assert_eq!(request("top 1000  minute"), top(Period::Minute, 1000));
        let sql = Top { period: Period::Run, count: 3, only_sql: true };
        assert_eq!(request("top sql 3"), Some(Request::Top(sql)));
        assert_eq!(request("inflight"), Some(Request::InFlight(Duration::from_secs(1))));
        assert_eq!(request("inflight 250"), Some(Request::InFlight(Duration::from_millis(250))));
        assert_eq!(request("inflight 2s"), Some(Request::InFlight(Duration::from_secs(2))));
        assert_eq!(request("threads"), Some(Request::Threads));
        assert_eq!(request("inflight 0"), Some(Request::InFlight(Duration::ZERO)));
        let pattern = Pattern::parse("com.shop.*").unwrap();
        assert_eq!(request("mute com.shop.*"), Some(Request::Mute(pattern.clone(), true)));
        assert_eq!(request("unmute  com.shop.*"), Some(Request::Mute(pattern, false)));
        assert_eq!(request("overhead"), Some(Request::Throttled));
        assert_eq!(
            request("overhead 0.5%"),
            Some(Request::Overhead(Some(CpuShare::from_millionths(5_000))))
        );
        assert_eq!(request("overhead off"), Some(Request::Overhead(None)));
        assert_eq!(request("alloc"), Some(Request::Status));
        assert_eq!(request("alloc 512k"), Some(Request::Alloc(Some(512 << 10))));
        assert_eq!(request("alloc off"), Some(Request::Alloc(None)));
        let pattern = Pattern::parse("com.shop.Order.pay").unwrap();
        let trace = |every| Some(Request::Trace(pattern.clone(), every));
        assert_eq!(request("trace"), Some(Request::Traces));
        assert_eq!(request("trace com.shop.Order.pay:7"), trace(7));
        assert_eq!(request("trace com.shop.Order.pay"), trace(1));
        assert_eq!(request("trace com.shop.Order.pay  100"), trace(100));
        assert_eq!(request("untrace com.shop.Order.pay"), trace(0));
        assert_eq!(request("untrace"), Some(Request::Untrace));
        assert_eq!(request("help"), None);
        let json = parse("json top 3").unwrap();
        assert_eq!((json.request, json.is_json), (request("top 3"), true));
        assert!(!parse("status").unwrap().is_json);
    }

    #[test]
    fn a_wrong_value_is_distinguished_from_an_unknown_command() {
        for (line, message) in [
            ("top 0", "top: '0' is neither a number from 1 to 1000 nor minute nor sql"),
            ("top hour", "top: 'hour' is neither a number from 1 to 1000 nor minute nor sql"),
            ("json top 1001", "top: '1001' is neither a number from 1 to 1000 nor minute nor sql"),
            ("inflight 1d", "inflight: '1d' is neither milliseconds nor a duration like 2s"),
            (
                "inflight 99999999999999",
                "inflight: '99999999999999' is neither milliseconds nor a duration like 2s",
            ),
            ("trace a/b", "trace: 'a/b' is not a pattern; use dots: a.b"),
            ("trace a.b 0", "trace: '0' is not a number of calls from 1 to 1000000000, like 100"),
            ("unmute", "unmute: a pattern is needed"),
            ("methods", "methods: a pattern is needed"),
            ("methods a/b", "methods: 'a/b' is not a pattern; use dots: a.b"),
            ("mute a/b", "mute: 'a/b' is not a pattern; use dots: a.b"),
            (
                "mute @a.B",
                "mute: '@a.B' is not a pattern; only include and exclude take annotations",
            ),
        ] {
            let error = parse(line).unwrap_err();
            assert!(matches!(error, Wrong::Value(_)) && error.to_string() == message, "{error}");
        }
        for line in ["", "stop now", "json", "json help", "json json status", "flushmethod", "TOP"]
        {
            assert_eq!(parse(line), Err(Wrong::Command), "{line}");
        }
    }

    #[test]
    fn long_patterns_and_those_with_many_stars_are_refused() {
        let longest = "a".repeat(256);
        let pattern = format!("**{}**", "*.x".repeat(4));
        for word in ["mute ", "unmute ", "methods ", "threshold ", "trace ", "untrace "] {
            let value = |pattern: &str| match word {
                "threshold " => format!("{word}{pattern}:1ms"),
                _ => format!("{word}{pattern}"),
            };
            for good in [&longest, &pattern] {
                assert!(parse(&value(good)).is_ok(), "{good}");
            }
            for (bad, size) in [
                (format!("{longest}a"), "257 bytes with 0 stars"),
                (format!("{pattern}*"), "17 bytes with 9 stars"),
            ] {
                let message = format!("{word}pattern of {size}; use at most 256 bytes and 8 stars");
                let message = message.replacen(' ', ": ", 1);
                assert_eq!(parse(&value(&bad)).unwrap_err().to_string(), message);
            }
        }
    }

    #[test]
    fn tprofiler_has_four_words() {
        assert_eq!(of_tprofiler("flushmethod"), Some(Request::Flush));
        for word in ["flush", "detach", "top", "status ", ""] {
            assert_eq!(of_tprofiler(word), None, "{word}");
        }
    }
}
