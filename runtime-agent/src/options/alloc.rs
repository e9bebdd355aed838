//! The option `alloc`: how many bytes are between two sampled allocations.

use std::ops::RangeInclusive;

use log_format::error::BadValue;
use log_format::writer::is_unprintable;

/// Units, the largest first.
const UNITS: [(&str, u64); 3] = [("g", 1 << 30), ("m", 1 << 20), ("k", 1 << 10)];
const SIZES: RangeInclusive<u64> = 1 << 10..=1 << 30;

/// Reads it, in bytes; `None` for `off`.
///
/// # Errors
/// What is wrong with `value`.
pub(crate) fn parse_alloc(value: &str) -> Result<Option<u64>, BadValue> {
    if value == "off" {
        return Ok(None);
    }
    let of_unit = |(unit, bytes): (&str, u64)| {
        let digits = value.strip_suffix(unit).filter(|digits| !digits.starts_with('+'))?;
        digits.parse::<u64>().ok()?.checked_mul(bytes)
    };
    let size = UNITS.into_iter().find_map(of_unit).filter(|bytes| SIZES.contains(bytes));
    size.map(Some).ok_or_else(|| {
        let reason = "is neither off nor from 1k to 1g, like 512k";
        BadValue::new(value.replace(is_unprintable, "?"), reason).of("alloc")
    })
}

/// The option's text.
pub(crate) fn alloc_text(bytes: Option<u64>) -> String {
    let Some(bytes) = bytes else { return "off".to_owned() };
    let unit = UNITS.into_iter().find(|(_, unit)| bytes.is_multiple_of(*unit));
    unit.map_or_else(|| bytes.to_string(), |(name, unit)| format!("{}{name}", bytes / unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in
            [("1k", 1 << 10), ("512k", 512 << 10), ("3m", 3 << 20), ("1g", 1 << 30)]
        {
            assert_eq!(parse_alloc(text), Ok(Some(bytes)));
            assert_eq!(alloc_text(Some(bytes)), text);
        }
        assert_eq!(parse_alloc("off"), Ok(None));
        assert_eq!(alloc_text(None), "off");
        assert_eq!(parse_alloc("1024k"), parse_alloc("1m"));
        for bad in
            ["", "k", "0k", "512", "2g", "+1k", "-1k", "1.5m", "512kb", "99999999999999999999g"]
        {
            let error = parse_alloc(bad).unwrap_err().to_string();
            assert!(error.contains("is neither off nor from 1k to 1g, like 512k"), "{error}");
        }
    }
}
