//! Moments of `--from` and `--to`, and the range between two. All are UTC; a range excludes its end.

use std::fmt;
use std::ops::Range;

use log_format::error::BadValue;
use log_format::file_names::Hour;
use time::{Date, Month};

use crate::options::zone::Zone;

const NS_PER_S: u64 = 1_000_000_000;
const NS_PER_DAY: u64 = 24 * 3_600 * NS_PER_S;

/// A moment as given on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Unix nanoseconds.
    At(u64),
    /// Nanoseconds after midnight of the day of the newest data.
    OfDay(u64),
    /// Like `At`, as a clock of the chosen zone shows it.
    ShownAt(u64),
    /// Like `OfDay`, as a clock of the chosen zone shows it.
    ShownOfDay(u64),
}

impl Moment {
    /// Parses `2026-11-20T14:00Z`, `2026-11-20T14:00:30Z`, `2026-11-20` or `14:00`. The `Z` is optional.
    ///
    /// # Errors
    /// What is wrong with `text`.
    pub fn parse(text: &str) -> Result<Self, BadValue> {
        parse(text).ok_or_else(|| {
            BadValue::new(text, "is not a time like 2026-11-20T14:00Z, 2026-11-20 or 14:00")
        })
    }

    /// The moment in unix nanoseconds, if the newest data is from the hour `newest`.
    #[must_use]
    pub fn unix_ns(self, newest: Hour, zone: &Zone) -> u64 {
        match self {
            Self::At(unix_ns) => unix_ns,
            Self::ShownAt(shown_ns) => zone.moment_ns(shown_ns),
            Self::ShownOfDay(ns) => {
                let midnight_ns = zone.shown_midnight_ns(newest.start_unix_ns());
                zone.moment_ns(midnight_ns.saturating_add(ns))
            }
            Self::OfDay(ns) => {
                let newest_ns = newest.start_unix_ns();
                (newest_ns - newest_ns % NS_PER_DAY).saturating_add(ns)
            }
        }
    }
}

impl Moment {
    /// The moment at which clocks of the chosen zone show the given time.
    #[must_use]
    pub fn in_zone(self) -> Self {
        match self {
            Self::At(ns) => Self::ShownAt(ns),
            Self::OfDay(ns) => Self::ShownOfDay(ns),
            shown => shown,
        }
    }
}

fn parse(text: &str) -> Option<Moment> {
    let plain = text.strip_suffix('Z').unwrap_or(text);
    if let Some((date, time)) = plain.split_once('T') {
        return Some(Moment::At(day_ns(date)?.checked_add(time_ns(time)?)?));
    }
    if plain.contains(':') {
        return Some(Moment::OfDay(time_ns(plain)?));
    }
    Some(Moment::At(day_ns(plain)?))
}

/// Midnight of `2026-11-20`, in unix nanoseconds.
fn day_ns(text: &str) -> Option<u64> {
    if text.len() != 10 || text.get(4..5) != Some("-") || text.get(7..8) != Some("-") {
        return None;
    }
    let year = i32::try_from(number(text, 0..4)?).ok()?;
    let month = Month::try_from(u8::try_from(number(text, 5..7)?).ok()?).ok()?;
    let day = u8::try_from(number(text, 8..10)?).ok()?;
    let date = Date::from_calendar_date(year, month, day).ok()?;
    let seconds = date.midnight().assume_utc().unix_timestamp();
    u64::try_from(seconds).ok()?.checked_mul(NS_PER_S)
}

/// `14:00` or `14:00:30`, in nanoseconds after midnight.
fn time_ns(text: &str) -> Option<u64> {
    let seconds = match text.len() {
        5 => 0,
        8 if text.get(5..6) == Some(":") => number(text, 6..8)?,
        _ => return None,
    };
    let (hour, minute) = (number(text, 0..2)?, number(text, 3..5)?);
    if text.get(2..3) != Some(":") || hour > 23 || minute > 59 || seconds > 59 {
        return None;
    }
    Some(((hour * 60 + minute) * 60 + seconds) * NS_PER_S)
}

/// The digits at `range`; `parse` alone would accept a sign too.
fn number(text: &str, range: Range<usize>) -> Option<u64> {
    let digits = text.get(range)?;
    digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// From one moment until before another, in unix nanoseconds; a missing end is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeRange {
    /// The first moment in the range.
    pub from_ns: Option<u64>,
    /// The first moment after the range.
    pub to_ns: Option<u64>,
}

impl TimeRange {
    /// The range between two moments, if the newest data is from the hour `newest`.
    ///
    /// # Errors
    /// The range is empty.
    pub fn new(from: Option<Moment>, to: Option<Moment>, newest: Hour) -> Result<Self, BadValue> {
        Self::in_zone(from, to, newest, &Zone::default())
    }

    /// The same with moments in a zone.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn in_zone(
        from: Option<Moment>,
        to: Option<Moment>,
        newest: Hour,
        zone: &Zone,
    ) -> Result<Self, BadValue> {
        let unix_ns = |moment: Option<Moment>| moment.map(|moment| moment.unix_ns(newest, zone));
        let range = Self { from_ns: unix_ns(from), to_ns: unix_ns(to) };
        match (range.from_ns, range.to_ns) {
            (Some(from), Some(to)) if from >= to => {
                let (from, to) = (zone.text(from), zone.text(to));
                Err(BadValue::because(format!("--from {from} is not before --to {to}")))
            }
            _ => Ok(range),
        }
    }

    /// The part of the range from `from_ns` until before `to_ns`.
    #[must_use]
    pub fn within(&self, from_ns: u64, to_ns: u64) -> Self {
        Self {
            from_ns: Some(self.from_ns.map_or(from_ns, |ns| ns.max(from_ns))),
            to_ns: Some(self.to_ns.map_or(to_ns, |ns| ns.min(to_ns))),
        }
    }

    /// The shortest range that contains both.
    #[must_use]
    pub fn around(&self, other: &Self) -> Self {
        let both = |ours: Option<u64>, others: Option<u64>, least: fn(u64, u64) -> u64| {
            Some(least(ours?, others?))
        };
        Self {
            from_ns: both(self.from_ns, other.from_ns, u64::min),
            to_ns: both(self.to_ns, other.to_ns, u64::max),
        }
    }

    /// The range in words, with times in a zone.
    #[must_use]
    pub fn text(&self, zone: &Zone) -> String {
        match (self.from_ns, self.to_ns) {
            (Some(from), Some(to)) => format!("from {} to {}", zone.text(from), zone.text(to)),
            (Some(from), None) => format!("from {}", zone.text(from)),
            (None, Some(to)) => format!("until {}", zone.text(to)),
            (None, None) => "at any time".to_owned(),
        }
    }

    /// Whether the range contains all time.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a moment in unix nanoseconds lies in the range.
    #[must_use]
    pub fn contains(&self, unix_ns: u64) -> bool {
        self.from_ns.is_none_or(|from| from <= unix_ns) && self.to_ns.is_none_or(|to| unix_ns < to)
    }

    /// How much of the time from `start_ns` until `end_ns` is in the range.
    #[must_use]
    pub fn part_ns(&self, start_ns: u64, end_ns: u64) -> u64 {
        let from = self.from_ns.map_or(start_ns, |from| from.max(start_ns));
        let to = self.to_ns.map_or(end_ns, |to| to.min(end_ns));
        to.saturating_sub(from)
    }

    /// Whether the range overlaps the one from `start_ns` until before `end_ns`; `None` is the end of time.
    #[must_use]
    pub fn overlaps(&self, start_ns: u64, end_ns: Option<u64>) -> bool {
        let begins_before_end = self.to_ns.is_none_or(|to| start_ns < to);
        let ends_after_start = match (self.from_ns, end_ns) {
            (Some(from), Some(end)) => from < end,
            _ => true,
        };
        begins_before_end && ends_after_start
    }
}

impl fmt::Display for TimeRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(&Zone::default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-20T14:00:00Z, from `date -u -d 2026-11-20T14:00Z +%s`.
    const NS: u64 = 1_795_183_200 * NS_PER_S;

    #[test]
    fn moments_in_each_form() {
        let midnight = NS - 14 * 3_600 * NS_PER_S;
        for (text, moment) in [
            ("2026-11-20T14:00Z", Moment::At(NS)),
            ("2026-11-20T14:00", Moment::At(NS)),
            ("2026-11-20T14:00:30Z", Moment::At(NS + 30 * NS_PER_S)),
            ("2026-11-20", Moment::At(midnight)),
            ("14:00", Moment::OfDay(14 * 3_600 * NS_PER_S)),
            ("00:00:01Z", Moment::OfDay(NS_PER_S)),
        ] {
            assert_eq!(Moment::parse(text), Ok(moment), "{text}");
        }
        assert_eq!(
            Moment::parse("14:00").unwrap().unix_ns(Hour::of_unix_ns(NS + 1), &Zone::default()),
            NS
        );
        assert_eq!(Moment::At(5).unix_ns(Hour::of_unix_ns(NS), &Zone::default()), 5);
    }

    #[test]
    fn anything_else_is_refused_with_its_text() {
        for text in [
            "",
            "Z",
            "14",
            "24:00",
            "14:60",
            "14:00:60",
            "2026-13-01",
            "2026-02-29",
            "1969-12-31",
            "2026-11-20T",
            "2026-11-20T14",
            "2026-11-20 14:00",
            "+026-11-20",
            "now",
            "2026-11-20ZZ",
            "2026-1é-2",
            "9999-01-01",
        ] {
            let error = Moment::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("'{text}' is not a time")), "{error}");
        }
    }

    #[test]
    fn the_end_is_not_part_of_the_range() {
        let hour = Hour::of_unix_ns(NS);
        let range = TimeRange::new(Some(Moment::At(10)), Some(Moment::At(20)), hour).unwrap();
        let inside: Vec<u64> = (8..22).filter(|ns| range.contains(*ns)).collect();
        assert_eq!(inside, (10..20).collect::<Vec<_>>());
        assert!(TimeRange::default().contains(0) && TimeRange::default().contains(u64::MAX));
        assert!(TimeRange::new(Some(Moment::At(10)), Some(Moment::At(10)), hour).is_err());
    }

    #[test]
    fn ranges_that_only_touch_do_not_overlap() {
        let range = TimeRange { from_ns: Some(10), to_ns: Some(20) };
        for (start, end, expected) in [
            (0, Some(10), false),
            (0, Some(11), true),
            (19, Some(30), true),
            (20, Some(30), false),
            (0, None, true),
            (20, None, false),
        ] {
            assert_eq!(range.overlaps(start, end), expected, "{start} {end:?}");
        }
    }
}
