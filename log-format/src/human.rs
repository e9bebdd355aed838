//! Numbers for people: three significant digits and a unit.

/// Units of durations, their length in nanoseconds, and how many of them make the next one.
const UNITS: [(&str, f64, f64); 7] = [
    ("ns", 1.0, 1_000.0),
    ("us", 1e3, 1_000.0),
    ("ms", 1e6, 1_000.0),
    ("s", 1e9, 60.0),
    ("min", 60e9, 60.0),
    ("h", 3_600e9, 24.0),
    ("d", 86_400e9, f64::INFINITY),
];

/// A duration in the largest unit in which it is at least 1: `1.23 s`, `45.6 ms`.
#[must_use]
pub fn duration(ns: u64) -> String {
    if ns < 1_000 {
        return format!("{ns} ns");
    }
    let ns = ns as f64;
    let mut text = String::new();
    for (unit, length, of_next) in UNITS {
        let value = ns / length;
        text = format!("{} {unit}", three_digits(value));
        // Not `of_next` itself: 999.5 us would be written as 1000 us.
        if value < of_next * 0.9995 {
            break;
        }
    }
    text
}

fn three_digits(value: f64) -> String {
    if value < 9.995 {
        format!("{value:.2}")
    } else if value < 99.95 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

/// Bytes in the largest unit in which they are at least 1: `4.85 MB`, `100 MB`.
#[must_use]
pub fn bytes(number: u64) -> String {
    if number < 1_000 {
        return format!("{number} bytes");
    }
    in_thousands(number as f64, [" bytes", " kB", " MB", " GB", " TB", " PB", " EB"])
}

/// A number in the largest fitting unit, each a thousand times the last.
fn in_thousands(mut value: f64, units: [&str; 7]) -> String {
    let mut text = String::new();
    for unit in units {
        text = format!("{}{unit}", three_digits(value));
        if value < 999.5 {
            break;
        }
        value /= 1e3;
    }
    text
}

/// A number with separators, `1,234,567`; from ten million on with a unit, `12.3 M`.
#[must_use]
pub fn count(number: u128) -> String {
    if number < 10_000_000 {
        return separated(number);
    }
    in_thousands(number as f64, ["", " k", " M", " G", " T", " P", " E"])
}

/// All digits of a number with separators.
#[must_use]
pub fn separated(number: u128) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.char_indices() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number and what it counts: `1 run` or `2 runs`.
#[must_use]
pub fn plural(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", separated(number.into()), if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits_and_a_unit() {
        for (ns, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1.00 us"),
            (12_345, "12.3 us"),
            (999_499, "999 us"),
            (999_500, "1.00 ms"),
            (9_994_999, "9.99 ms"),
            (9_995_000, "10.0 ms"),
            (1_234_000_000, "1.23 s"),
            (59_900_000_000, "59.9 s"),
            (60_000_000_000, "1.00 min"),
            (3_540_000_000_000, "59.0 min"),
            (3_600_000_000_000, "1.00 h"),
            (90_000_000_000_000, "1.04 d"),
            (u64::MAX, "213504 d"),
        ] {
            assert_eq!(duration(ns), text, "{ns}");
        }
    }

    #[test]
    fn bytes_have_three_digits_and_a_unit() {
        for (number, text) in [
            (0, "0 bytes"),
            (999, "999 bytes"),
            (1_000, "1.00 kB"),
            (4_849_664, "4.85 MB"),
            (100_000_000, "100 MB"),
            (999_500_000, "1.00 GB"),
            (u64::MAX, "18.4 EB"),
        ] {
            assert_eq!(bytes(number), text);
        }
    }

    #[test]
    fn counts_have_separators_or_a_unit() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (9_999_999, "9,999,999"),
            (10_000_000, "10.0 M"),
            (999_500_000, "1.00 G"),
            (u128::from(u64::MAX), "18.4 E"),
        ] {
            assert_eq!(count(number), text);
        }
        assert_eq!(separated(12_345_678), "12,345,678");
        assert_eq!(plural(1, "run", "runs"), "1 run");
        assert_eq!(plural(1_200, "run", "runs"), "1,200 runs");
    }
}
