//! Durations as users write them in options: `1ms`, `500us`, `2s`.

use std::time::Duration;

use crate::error::BadValue;

/// Reads a whole number with a unit (`ns`, `us`, `ms`, `s`, `m`, `h`), or a bare `0`.
///
/// # Errors
/// What is wrong with `text`.
pub fn parse_duration(text: &str) -> Result<Duration, BadValue> {
    let bad = || BadValue::new(text, "is not a duration like 500us, 1ms or 2s");
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits).ok_or_else(bad)?;
    let number: u64 = number.parse().map_err(|_| bad())?;
    let ns_per_unit: u64 = match unit {
        "" if number == 0 => 1,
        "ns" => 1,
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60 * 1_000_000_000,
        "h" => 3_600 * 1_000_000_000,
        _ => return Err(bad()),
    };
    let ns = number.checked_mul(ns_per_unit);
    ns.map(Duration::from_nanos).ok_or_else(|| BadValue::new(text, "is too long"))
}

/// A duration in nanoseconds. Longer ones become the longest possible, some 584 years.
#[must_use]
pub fn as_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Writes a duration in the form that [`parse_duration`] reads, in the largest unit that divides it.
#[must_use]
pub fn duration_text(ns: u64) -> String {
    const UNITS: [(&str, u64); 6] = [
        ("h", 3_600_000_000_000),
        ("m", 60_000_000_000),
        ("s", 1_000_000_000),
        ("ms", 1_000_000),
        ("us", 1_000),
        ("ns", 1),
    ];
    let whole = UNITS.into_iter().find(|(_, length)| ns > 0 && ns.is_multiple_of(*length));
    whole.map_or_else(|| "0".to_owned(), |(unit, length)| format!("{}{unit}", ns / length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_with_units() {
        for (text, ns) in [
            ("0", 0),
            ("1ns", 1),
            ("500us", 500_000),
            ("1ms", 1_000_000),
            ("2s", 2_000_000_000),
            ("1m", 60_000_000_000),
            ("1h", 3_600_000_000_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_nanos(ns)), "{text}");
        }
    }

    #[test]
    fn durations_are_written_as_they_are_read() {
        for text in ["0", "1ns", "1500us", "64ms", "2s", "90s", "1m", "72h"] {
            let ns = parse_duration(text).unwrap().as_nanos();
            assert_eq!(duration_text(u64::try_from(ns).unwrap()), text);
        }
        assert_eq!(duration_text(as_ns(Duration::MAX)), format!("{}ns", u64::MAX));
    }

    #[test]
    fn anything_else_is_refused_with_its_text() {
        for text in ["", "ms", "1", "-1ms", "1.5ms", "1 ms", "1msx", "99999999999999999999ms"] {
            let error = parse_duration(text).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
        let error = parse_duration("99999999999h").unwrap_err();
        assert_eq!(error.to_string(), "'99999999999h' is too long");
    }
}
