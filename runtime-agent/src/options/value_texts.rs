//! Reads and shows values of options that several share.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use log_format::error::BadValue;
use log_format::pattern::Pattern;
use log_format::units::{self, parse_duration};

use crate::options::filters::Annotation;
use log_format::writer::one_line;

pub(super) fn wrong<T>(key: &str, value: &str, why: &'static str) -> Result<T, BadValue> {
    Err(BadValue::new(one_line(value), why).of(key))
}

pub(super) fn needed(key: &str, value: &str, what: &str) -> Result<String, BadValue> {
    match value {
        "" => Err(BadValue::because(format!("{what} is needed")).of(key)),
        _ => Ok(value.to_owned()),
    }
}

pub(super) fn switch(key: &str, value: &str) -> Result<bool, BadValue> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => wrong(key, value, "is neither on nor off"),
    }
}

pub(super) fn on_off(is_on: bool) -> String {
    if is_on { "on" } else { "off" }.to_owned()
}

/// Reads `off`, or a duration in a range.
pub(super) fn off_or_within(
    key: &'static str,
    value: &str,
    range: &RangeInclusive<Duration>,
    why: &'static str,
) -> Result<Option<Duration>, BadValue> {
    if value == "off" {
        return Ok(None);
    }
    match parse_duration(value) {
        Ok(duration) if range.contains(&duration) => Ok(Some(duration)),
        _ => wrong(key, value, why).map(|()| None),
    }
}

pub(super) fn interval_text(interval: Option<Duration>) -> String {
    interval.map_or_else(|| "off".to_owned(), duration)
}

pub(super) fn duration(duration: Duration) -> String {
    units::duration_text(units::as_ns(duration))
}

pub(super) fn path(path: Option<&PathBuf>) -> String {
    path.map(|path| path.display().to_string()).unwrap_or_default()
}

pub(super) fn patterns(patterns: &[Pattern], annotations: &[Annotation]) -> String {
    let patterns = patterns.iter().map(Pattern::to_string);
    let all = patterns.chain(annotations.iter().map(Annotation::to_string));
    all.collect::<Vec<_>>().join(",")
}
