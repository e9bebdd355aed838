//! Limits as shares of the process's CPU time: `2%`, `0.5%` or `off`.

use log_format::error::BadValue;
use log_format::writer::one_line;

/// One percent, in millionths.
const PERCENT: f64 = 10_000.0;

/// A share of the process's CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CpuShare {
    millionths: u32,
}

impl CpuShare {
    pub(crate) const fn from_millionths(millionths: u32) -> Self {
        Self { millionths }
    }

    /// The part of the whole: 0.02 is 2%.
    pub(crate) fn of_one(self) -> f64 {
        f64::from(self.millionths) / 1e6
    }
}

/// Reads the overhead budget; `None` for no budget.
///
/// # Errors
/// What is wrong with `value`.
pub(crate) fn parse_overhead(value: &str) -> Result<Option<CpuShare>, BadValue> {
    parse_share("overhead", "2%", value)
}

/// Reads the share of an option; `None` for `off`. An error gives `example`.
///
/// # Errors
/// What is wrong with `value`.
pub(super) fn parse_share(
    option: &'static str,
    example: &str,
    value: &str,
) -> Result<Option<CpuShare>, BadValue> {
    if value == "off" {
        return Ok(None);
    }
    let is_plain = |text: &&str| text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let percent =
        value.strip_suffix('%').filter(is_plain).and_then(|text| text.parse::<f64>().ok());
    match percent {
        // No digits are lost in this range.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        Some(percent) if (0.1..=100.0).contains(&percent) => {
            Ok(Some(CpuShare::from_millionths((percent * PERCENT).round() as u32)))
        }
        _ => {
            let reason = format!(
                "is neither a share of the CPU time from 0.1% to 100%, like {example}, nor off"
            );
            Err(BadValue::new(one_line(value), reason).of(option))
        }
    }
}

/// Writes a share in the form that [`parse_share`] reads.
pub(crate) fn share_text(share: Option<CpuShare>) -> String {
    share.map_or_else(
        || "off".to_owned(),
        |share| format!("{}%", f64::from(share.millionths) / PERCENT),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_the_cpu_time() {
        for (text, millionths) in [
            ("2%", 20_000),
            ("0.5%", 5_000),
            ("0.1%", 1_000),
            ("100%", 1_000_000),
            ("12.25%", 122_500),
        ] {
            let share = CpuShare::from_millionths(millionths);
            assert_eq!(parse_overhead(text), Ok(Some(share)), "{text}");
            assert_eq!(share_text(Some(share)), text);
        }
        assert_eq!((parse_overhead("off"), share_text(None)), (Ok(None), "off".to_owned()));
        for text in
            ["", "2", "0%", "0.09%", "101%", "-2%", "+2%", "1e1%", "2 %", "on", "%", "nan%", ".%"]
        {
            let error = parse_overhead(text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("overhead: '{text}' is neither")), "{error}");
        }
    }
}
