//! Options for the log's size: megabytes and compression.

use log_format::compression::Compression;
use log_format::error::BadValue;
use log_format::writer::one_line;

/// A megabyte, as disk makers count.
pub(super) const BYTES_PER_MB: u64 = 1_000_000;
/// Less has no room for method statistics and a recorded call every half second.
const LEAST_MB: f64 = 0.5;

const COMPRESSIONS: [(&str, Compression); 3] =
    [("gzip", Compression::Gzip), ("zstd", Compression::Zstd), ("off", Compression::Off)];

pub(super) fn compression(value: &str) -> Result<Compression, BadValue> {
    let known = COMPRESSIONS.into_iter().find(|(name, _)| *name == value);
    known
        .map(|(_, compression)| compression)
        .ok_or_else(|| BadValue::new(one_line(value), "is not gzip, zstd or off").of("compress"))
}

pub(super) fn compression_text(compression: Compression) -> String {
    let known = COMPRESSIONS.into_iter().find(|(_, known)| *known == compression);
    known.map_or_else(String::new, |(name, _)| name.to_owned())
}

/// Reads a number of megabytes, perhaps with a fraction, as bytes; `None` for no limit. An error gives `example`.
pub(super) fn megabytes(key: &str, example: &str, value: &str) -> Result<Option<u64>, BadValue> {
    if value == "off" {
        return Ok(None);
    }
    let number: Option<Option<f64>> =
        value.bytes().all(|b| b.is_ascii_digit() || b == b'.').then(|| value.parse().ok());
    match number.flatten() {
        // A float over 2^64 becomes the largest number, which amounts to no limit.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        Some(mb) if mb >= LEAST_MB => Ok(Some((mb * BYTES_PER_MB as f64) as u64)),
        _ => {
            let reason =
                format!("is not a number of megabytes from 0.5 up, like {example}, or off");
            Err(BadValue::new(one_line(value), reason).of(key))
        }
    }
}

pub(crate) fn megabytes_text(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "off".to_owned(), |bytes| (bytes as f64 / BYTES_PER_MB as f64).to_string())
}
