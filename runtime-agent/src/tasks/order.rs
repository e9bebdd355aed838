//! What a client orders, as a line of `key=value`, and the checks that SkyWalking's server and agent make.

use std::time::Duration;

use log_format::error::BadValue;
use log_format::pattern::Pattern;
use log_format::units::{duration_text, parse_duration};
use log_format::writer::is_unprintable;

use crate::schedule::time_of_day;

/// Longest id and endpoint, in bytes; the list of patterns may have twice as many. New files of the log repeat them.
const MAX_TEXT: usize = 256;
/// Most patterns of an endpoint.
const MAX_PATTERNS: usize = 16;

/// The shortest and the longest task.
const DURATION: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(15 * 60));
const MIN_DUMP_PERIOD: Duration = Duration::from_millis(10);
const MAX_SAMPLES: u32 = 9;

/// When a task begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// So long after the order.
    In(Duration),
    /// At this moment, in unix milliseconds.
    UnixMs(u64),
    /// At the next such second of the local day.
    SecondOfDay(u32),
}

/// A task that a client wants. Its values are not [checked](Self::check) yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TaskOrder {
    /// If it has one.
    pub id: Option<String>,
    pub endpoint: String,
    /// Patterns of the endpoint's methods; without any, the endpoint is the pattern.
    pub methods: Vec<Pattern>,
    pub start: Start,
    pub duration: Duration,
    pub min_duration: Duration,
    pub dump_period: Duration,
    pub max_samples: u32,
}

impl TaskOrder {
    /// Reads `duration=5m min_duration=200ms ... endpoint=NAME`. The endpoint comes last, and may have spaces. What is
    /// missing has SkyWalking's default.
    ///
    /// # Errors
    /// Which key is unknown, or which value cannot be read.
    pub(crate) fn parse(text: &str) -> Result<Self, BadValue> {
        let mut order = Self {
            id: None,
            endpoint: String::new(),
            methods: Vec::new(),
            start: Start::In(Duration::ZERO),
            duration: Duration::from_secs(5 * 60),
            min_duration: Duration::ZERO,
            dump_period: MIN_DUMP_PERIOD,
            max_samples: 5,
        };
        let mut rest = text.trim();
        while !rest.is_empty() {
            if let Some(endpoint) = rest.strip_prefix("endpoint=") {
                order.endpoint = endpoint.trim().to_owned();
                if order.endpoint.len() > MAX_TEXT {
                    let reason = format!("is longer than {MAX_TEXT} bytes");
                    return Err(BadValue::because(reason).of("endpoint"));
                }
                break;
            }
            let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
            order.set(word)?;
            rest = after.trim_start();
        }
        if order.methods.is_empty() && !order.endpoint.is_empty() {
            order.methods.push(endpoint_pattern(&order.endpoint)?);
        }
        Ok(order)
    }

    fn set(&mut self, word: &str) -> Result<(), BadValue> {
        let unknown = || {
            let shown = word.replace(is_unprintable, "?");
            let keys =
                "id, methods, start, duration, min_duration, dump_period, max_samples, endpoint";
            BadValue::new(shown, format!("is not KEY=VALUE with one of these keys: {keys}"))
        };
        let (key, value) = word.split_once('=').ok_or_else(unknown)?;
        match key {
            "id" => self.id = Some(parse_id(value)?),
            "methods" => self.methods = parse_methods(value)?,
            "start" => self.start = parse_start(value)?,
            "duration" => self.duration = parse_time(value).map_err(|e| e.of(key))?,
            "min_duration" => self.min_duration = parse_time(value).map_err(|e| e.of(key))?,
            "dump_period" => self.dump_period = parse_time(value).map_err(|e| e.of(key))?,
            "max_samples" => {
                let number = value.parse();
                let wrong = |_| BadValue::new(value.to_owned(), "is not a number").of(key);
                self.max_samples = number.map_err(wrong)?;
            }
            _ => return Err(unknown()),
        }
        Ok(())
    }

    /// Why SkyWalking's server and agent would reject it, if they would.
    pub(crate) fn rejection(&self) -> Option<String> {
        let (shortest, longest) = DURATION;
        let text = |duration: Duration| duration_text(log_format::units::as_ns(duration));
        if self.endpoint.is_empty() {
            Some("endpoint: must not be empty".to_owned())
        } else if !(shortest..=longest).contains(&self.duration) {
            Some(format!("duration={}: must be from 1m to 15m", text(self.duration)))
        } else if self.dump_period < MIN_DUMP_PERIOD {
            Some(format!("dump_period={}: must be at least 10ms", text(self.dump_period)))
        } else if !(1..=MAX_SAMPLES).contains(&self.max_samples) {
            Some(format!("max_samples={}: must be from 1 to {MAX_SAMPLES}", self.max_samples))
        } else {
            None
        }
    }
}

/// The pattern of an endpoint that is a method. Answers and traces have methods with their descriptors.
fn endpoint_pattern(endpoint: &str) -> Result<Pattern, BadValue> {
    let name = endpoint.split_once('(').map_or(endpoint, |(name, _)| name);
    Pattern::parse(name).map_err(|_| {
        let shown = endpoint.replace(is_unprintable, "?");
        BadValue::new(shown, "is no method; say with methods which ones are this endpoint")
            .of("endpoint")
    })
}

fn parse_time(value: &str) -> Result<Duration, BadValue> {
    if value.starts_with('-') {
        return Err(BadValue::new(value, "must not be negative"));
    }
    parse_duration(value)
}

fn parse_id(value: &str) -> Result<String, BadValue> {
    let is_id = !value.is_empty()
        && value.len() <= MAX_TEXT
        && value.bytes().all(|byte| byte.is_ascii_graphic());
    let wrong = || BadValue::because(format!("must be 1 to {MAX_TEXT} visible ASCII characters"));
    if is_id { Ok(value.to_owned()) } else { Err(wrong().of("id")) }
}

fn parse_methods(value: &str) -> Result<Vec<Pattern>, BadValue> {
    let patterns: Result<Vec<Pattern>, BadValue> =
        value.split(',').filter(|text| !text.is_empty()).map(Pattern::parse).collect();
    let patterns = patterns.map_err(|error| error.of("methods"))?;
    let stars = value.matches('*').count();
    if patterns.len() > MAX_PATTERNS || value.len() > MAX_TEXT * 2 || stars > MAX_PATTERNS {
        let most = MAX_PATTERNS;
        return Err(BadValue::because(format!("more than {most} patterns or stars")).of("methods"));
    }
    Ok(patterns)
}

fn parse_start(value: &str) -> Result<Start, BadValue> {
    if let Some(after) = value.strip_prefix('+') {
        return parse_duration(after).map(Start::In).map_err(|error| error.of("start"));
    }
    let of_day = value.contains(':').then(|| time_of_day(value)).flatten();
    let start = match of_day {
        Some(second) => Some(Start::SecondOfDay(second)),
        None => value.parse().ok().map(Start::UnixMs),
    };
    start.ok_or_else(|| {
        let shown = value.replace(is_unprintable, "?");
        BadValue::new(shown, "is none of these: a time of the day like 14:00, a time from now on like +10m, unix milliseconds")
            .of("start")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_has_defaults_and_its_endpoint_last() {
        let order = TaskOrder::parse("endpoint=com.shop.Order.pay(J)V").unwrap();
        assert_eq!(order.methods, [Pattern::parse("com.shop.Order.pay").unwrap()]);
        assert_eq!(
            (order.duration.as_secs(), order.max_samples, order.start),
            (300, 5, Start::In(Duration::ZERO))
        );
        let text = "id=t-1 duration=2m min_duration=200ms  dump_period=20ms max_samples=9 \
                    start=14:00 methods=a.B.c,d.E.* endpoint=GET /api users";
        let order = TaskOrder::parse(text).unwrap();
        assert_eq!(order.endpoint, "GET /api users");
        assert_eq!(order.methods.len(), 2);
        assert_eq!(order.start, Start::SecondOfDay(14 * 3600));
        assert_eq!(order.rejection(), None);
        let ms = TaskOrder::parse("start=1790000000000 endpoint=a.B.c").unwrap();
        assert_eq!(ms.start, Start::UnixMs(1_790_000_000_000));
        let later = TaskOrder::parse("start=+10m endpoint=a.B.c").unwrap();
        assert_eq!(later.start, Start::In(Duration::from_secs(600)));
    }

    #[test]
    fn what_cannot_be_read_is_reported() {
        for (text, message) in [
            (
                "endpoint=/api",
                "endpoint: '/api' is no method; say with methods which ones are this endpoint",
            ),
            (
                "speed=1",
                "'speed=1' is not KEY=VALUE with one of these keys: id, methods, start, duration, min_duration, dump_period, max_samples, endpoint",
            ),
            ("min_duration=-5ms", "min_duration: '-5ms' must not be negative"),
            ("max_samples=many", "max_samples: 'many' is not a number"),
            (
                "start=noon",
                "start: 'noon' is none of these: a time of the day like 14:00, a time from now on like +10m, unix milliseconds",
            ),
            ("id=", "id: must be 1 to 256 visible ASCII characters"),
            (
                &format!("methods=a.b endpoint={}", "x".repeat(257)),
                "endpoint: is longer than 256 bytes",
            ),
            ("methods=a/b", "methods: 'a/b' is not a pattern; use dots: a.b"),
        ] {
            let error = TaskOrder::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
    }

    #[test]
    fn skywalkings_checks() {
        for (text, wrong) in [
            ("", Some("endpoint: must not be empty")),
            ("duration=59s endpoint=a.B.c", Some("duration=59s: must be from 1m to 15m")),
            ("duration=1m endpoint=a.B.c", None),
            ("duration=15m endpoint=a.B.c", None),
            ("duration=16m endpoint=a.B.c", Some("duration=16m: must be from 1m to 15m")),
            ("dump_period=9ms endpoint=a.B.c", Some("dump_period=9ms: must be at least 10ms")),
            ("max_samples=10 endpoint=a.B.c", Some("max_samples=10: must be from 1 to 9")),
            ("max_samples=0 endpoint=a.B.c", Some("max_samples=0: must be from 1 to 9")),
            ("min_duration=0 endpoint=a.B.c", None),
        ] {
            assert_eq!(TaskOrder::parse(text).unwrap().rejection().as_deref(), wrong, "{text}");
        }
    }
}
