//! Time zones for input and output: UTC, or that of the machine (`TZ`, else `/etc/localtime`). The logs are always in
//! UTC.

use std::env;
use std::sync::Arc;

use log_format::file_names::{Hour, utc_text};
use thiserror::Error;
use tz::TimeZone;

const NS_PER_S: u64 = 1_000_000_000;
const NS_PER_MINUTE: u64 = 60 * NS_PER_S;
const NS_PER_HOUR: u64 = 60 * NS_PER_MINUTE;
const NS_PER_DAY: u64 = 24 * NS_PER_HOUR;

/// A time zone.
#[derive(Clone, Debug, Default)]
pub struct Zone(Option<Arc<TimeZone>>);

impl Zone {
    /// The zone of this machine.
    ///
    /// # Errors
    /// It is not known.
    pub fn local() -> Result<Self, UnknownZone> {
        let name = env::var("TZ").ok().filter(|name| !name.is_empty());
        let zone = match &name {
            Some(name) => TimeZone::from_posix_tz(name),
            None => TimeZone::local(),
        };
        let of = name.map_or_else(|| "/etc/localtime".to_owned(), |name| format!("TZ={name}"));
        zone.map(|zone| Self(Some(Arc::new(zone)))).map_err(|source| UnknownZone { of, source })
    }

    /// Whether this is UTC itself, not a zone with the same offset.
    #[must_use]
    pub fn is_utc(&self) -> bool {
        self.0.is_none()
    }

    /// How far local clocks are ahead of UTC at a moment, in seconds.
    #[must_use]
    pub fn offset_s(&self, unix_ns: u64) -> i64 {
        let Some(zone) = &self.0 else { return 0 };
        let at = i64::try_from(unix_ns / NS_PER_S).unwrap_or(i64::MAX);
        zone.find_local_time_type(at).map_or(0, |kind| i64::from(kind.ut_offset()))
    }

    /// What local clocks show at a moment, as if they showed UTC.
    fn shown_ns(&self, unix_ns: u64) -> u64 {
        shifted(unix_ns, self.offset_s(unix_ns))
    }

    /// The moment at which local clocks show this time. If an hour occurs twice, it is the second one; a time in a
    /// skipped hour is taken as if the clocks had not been set yet.
    #[must_use]
    pub fn moment_ns(&self, shown_ns: u64) -> u64 {
        let guess = shifted(shown_ns, -self.offset_s(shown_ns));
        shifted(shown_ns, -self.offset_s(guess))
    }

    /// The moment at which the local hour began.
    #[must_use]
    pub fn hour_start_ns(&self, unix_ns: u64) -> u64 {
        unix_ns.saturating_sub(self.shown_ns(unix_ns) % NS_PER_HOUR)
    }

    /// What local clocks show at the midnight at which a day began, as if they showed UTC.
    #[must_use]
    pub fn shown_midnight_ns(&self, unix_ns: u64) -> u64 {
        let shown_ns = self.shown_ns(unix_ns);
        shown_ns - shown_ns % NS_PER_DAY
    }

    /// A moment to the second: `2026-11-20T14:00:00Z`, or `2026-11-20T15:00:00+01:00`.
    #[must_use]
    pub fn text(&self, unix_ns: u64) -> String {
        let text = utc_text(self.shown_ns(unix_ns));
        self.with_offset(unix_ns, text.strip_suffix('Z').unwrap_or(&text))
    }

    /// A moment to the millisecond.
    #[must_use]
    pub fn text_ms(&self, unix_ns: u64) -> String {
        let text = utc_text(self.shown_ns(unix_ns));
        let ms = unix_ns / 1_000_000 % 1_000;
        let text = format!("{}.{ms:03}", text.strip_suffix('Z').unwrap_or(&text));
        self.with_offset(unix_ns, &text)
    }

    /// A moment to the minute.
    #[must_use]
    pub fn text_minute(&self, unix_ns: u64) -> String {
        let text = utc_text(self.shown_ns(unix_ns));
        self.with_offset(unix_ns, text.strip_suffix(":00Z").unwrap_or(&text))
    }

    fn with_offset(&self, unix_ns: u64, text: &str) -> String {
        if self.is_utc() {
            return format!("{text}Z");
        }
        let offset_s = self.offset_s(unix_ns);
        let sign = if offset_s < 0 { '-' } else { '+' };
        let minutes = offset_s.unsigned_abs() / 60;
        format!("{text}{sign}{:02}:{:02}", minutes / 60, minutes % 60)
    }
}

/// Why the zone of this machine is not known.
#[derive(Debug, Error)]
#[error("{of}: {source}")]
pub struct UnknownZone {
    /// Where it should be.
    of: String,
    source: tz::Error,
}

fn shifted(ns: u64, by_s: i64) -> u64 {
    let by_ns = by_s.unsigned_abs().saturating_mul(NS_PER_S);
    if by_s < 0 { ns.saturating_sub(by_ns) } else { ns.saturating_add(by_ns) }
}

/// The start of an hour as `2026-11-20T14:00Z`.
#[must_use]
pub fn hour_text(hour: Hour) -> String {
    let text = utc_text(hour.start_unix_ns());
    text.strip_suffix(":00Z").map_or_else(|| text.clone(), |minutes| format!("{minutes}Z"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-10-25T00:30:00Z: in Berlin the clocks show 02:30, and again an hour later.
    const BEFORE: u64 = 1_792_888_200 * NS_PER_S;

    fn berlin() -> Zone {
        let zone = TimeZone::from_posix_tz("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        Zone(Some(Arc::new(zone)))
    }

    #[test]
    fn moments_are_written_as_clocks_show_them() {
        assert_eq!(Zone::default().text(BEFORE), "2026-10-25T00:30:00Z");
        assert_eq!(Zone::default().text_ms(BEFORE + 1_500_000), "2026-10-25T00:30:00.001Z");
        assert_eq!(berlin().text(BEFORE), "2026-10-25T02:30:00+02:00");
        assert_eq!(berlin().text_minute(BEFORE + NS_PER_HOUR), "2026-10-25T02:30+01:00");
        let nepal = Zone(Some(Arc::new(TimeZone::from_posix_tz("<+0545>-5:45").unwrap())));
        assert_eq!(nepal.text_minute(BEFORE), "2026-10-25T06:15+05:45");
        assert_eq!(nepal.text_minute(nepal.hour_start_ns(BEFORE)), "2026-10-25T06:00+05:45");
    }

    #[test]
    fn shown_times_become_moments() {
        for ns in [BEFORE - NS_PER_HOUR, BEFORE + NS_PER_HOUR, BEFORE + NS_PER_DAY] {
            assert_eq!(berlin().moment_ns(berlin().shown_ns(ns)), ns);
            assert_eq!(Zone::default().moment_ns(ns), ns);
        }
        // This hour occurs twice: the second one.
        assert_eq!(berlin().moment_ns(berlin().shown_ns(BEFORE)), BEFORE + NS_PER_HOUR);
        let midnight = berlin().moment_ns(berlin().shown_midnight_ns(BEFORE));
        assert_eq!(berlin().text(midnight), "2026-10-25T00:00:00+02:00");
    }
}
