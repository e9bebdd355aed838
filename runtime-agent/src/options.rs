//! The agent's options, as they stand behind `-agentpath:libtprofiler.so=`.
//!
//! `docs/options.md` is the authority on what they mean.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use log_format::compression::Compression;
use log_format::pattern::{Filter, Pattern};
use log_format::units::parse_duration;

/// The port that is tried first, as TProfiler's was.
pub const DEFAULT_PORT: u16 = 50_000;

/// Options in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The classes and methods to give probes.
    pub filter: Filter,
    /// Calls that take at least so long are recorded one by one.
    pub threshold: Duration,
    /// The folder that gets a folder for this run.
    pub logs: PathBuf,
    /// The first control port to try; `None` for no control.
    pub port: Option<u16>,
    /// Whether recording begins at once.
    pub start: bool,
    /// Whether a wrong option stops the JVM instead of the agent.
    pub strict: bool,
    /// Bytes that the log of an hour may take; `None` for no limit.
    pub hour_bytes: Option<u64>,
    /// Bytes that the run's log may take.
    pub run_bytes: Option<u64>,
    /// How long closed hours are kept.
    pub keep: Option<Duration>,
    /// How closed hours are compressed.
    pub compress: Compression,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            filter: Filter::default(),
            threshold: Duration::from_millis(1),
            logs: PathBuf::from("logs"),
            port: Some(DEFAULT_PORT),
            start: true,
            strict: false,
            hour_bytes: Some(100 * BYTES_PER_MB),
            run_bytes: Some(2_048 * BYTES_PER_MB),
            keep: Some(Duration::from_hours(72)),
            compress: Compression::Gzip,
        }
    }
}

/// What is wrong with an option string, and whether the JVM is to stop for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadOptions {
    /// One line.
    pub message: String,
    /// `strict` was given, before or behind what is wrong.
    pub strict: bool,
}

impl Options {
    /// Reads an option string: `key=value` pairs with commas between them. `include` and `exclude`
    /// may repeat; of the others the last one counts.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn parse(text: &str) -> Result<Self, BadOptions> {
        let mut options = Self::default();
        let mut wrong = None;
        for pair in text.split(',').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            if let Err(message) = options.set(key, value) {
                wrong.get_or_insert(message);
            }
        }
        match wrong {
            None => Ok(options),
            Some(message) => Err(BadOptions { message, strict: options.strict }),
        }
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "include" => self.filter.include.push(Pattern::parse(value)?),
            "exclude" => self.filter.exclude.push(Pattern::parse(value)?),
            "threshold" => {
                self.threshold = parse_duration(value).map_err(|e| format!("threshold: {e}"))?;
            }
            "logs" if value.is_empty() => return Err("logs: a folder is needed".to_owned()),
            "logs" => self.logs = PathBuf::from(value),
            "port" if value == "off" => self.port = None,
            "port" => match value.parse() {
                Ok(port) if port > 0 => self.port = Some(port),
                _ => return Err(format!("port: '{value}' is not a port from 1 to 65535, or off")),
            },
            "start" => self.start = switch(key, value)?,
            "strict" if value.is_empty() => self.strict = true,
            "strict" => self.strict = switch(key, value)?,
            "max_mb_per_hour" => self.hour_bytes = megabytes(key, value)?,
            "max_mb" => self.run_bytes = megabytes(key, value)?,
            "keep" if value == "off" => self.keep = None,
            "keep" => self.keep = Some(parse_duration(value).map_err(|e| format!("keep: {e}"))?),
            "compress" => {
                self.compress = COMPRESSIONS
                    .into_iter()
                    .find_map(|(name, compression)| (name == value).then_some(compression))
                    .ok_or_else(|| format!("compress: '{value}' is not gzip, zstd or off"))?;
            }
            _ => {
                return Err(format!(
                    "unknown option '{key}'; options are include, exclude, threshold, logs, \
                     port, start, strict, max_mb_per_hour, max_mb, keep, compress"
                ));
            }
        }
        Ok(())
    }

    /// The options by name, as they are written to `run.json`.
    #[must_use]
    pub fn to_map(&self) -> BTreeMap<String, String> {
        let patterns =
            |list: &[Pattern]| list.iter().map(Pattern::as_str).collect::<Vec<_>>().join(",");
        let switch = |on: bool| if on { "on" } else { "off" }.to_owned();
        let or_off = |text: Option<String>| text.unwrap_or_else(|| "off".to_owned());
        let compress = COMPRESSIONS.iter().find(|(_, c)| *c == self.compress);
        [
            ("include", patterns(&self.filter.include)),
            ("exclude", patterns(&self.filter.exclude)),
            ("threshold", format!("{}ns", self.threshold.as_nanos())),
            ("logs", self.logs.display().to_string()),
            ("port", self.port.map_or_else(|| "off".to_owned(), |port| port.to_string())),
            ("start", switch(self.start)),
            ("strict", switch(self.strict)),
            ("max_mb_per_hour", or_off(self.hour_bytes.map(megabytes_text))),
            ("max_mb", or_off(self.run_bytes.map(megabytes_text))),
            ("keep", or_off(self.keep.map(|keep| format!("{}s", keep.as_secs())))),
            ("compress", compress.map_or_else(String::new, |(name, _)| (*name).to_owned())),
        ]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
    }
}

/// A megabyte, as disks are sold.
const BYTES_PER_MB: u64 = 1_000_000;
/// Less than this has no room for totals and a record every half second.
const LEAST_MB: f64 = 0.5;

const COMPRESSIONS: [(&str, Compression); 3] =
    [("gzip", Compression::Gzip), ("zstd", Compression::Zstd), ("off", Compression::Off)];

/// Reads a number of megabytes, which may have a fraction, as bytes.
fn megabytes(key: &str, value: &str) -> Result<Option<u64>, String> {
    if value == "off" {
        return Ok(None);
    }
    let number: Option<Option<f64>> =
        value.bytes().all(|b| b.is_ascii_digit() || b == b'.').then(|| value.parse().ok());
    match number.flatten() {
        // A float beyond 2^64 becomes the largest number, which is as good as no limit.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        Some(mb) if mb >= LEAST_MB => Ok(Some((mb * BYTES_PER_MB as f64) as u64)),
        _ => Err(format!("{key}: '{value}' is not a number of megabytes from 0.5 up, or off")),
    }
}

fn megabytes_text(bytes: u64) -> String {
    (bytes as f64 / BYTES_PER_MB as f64).to_string()
}

fn switch(key: &str, value: &str) -> Result<bool, String> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("{key}: '{value}' is neither on nor off")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_with_repeated_keys_and_defaults() {
        assert_eq!(Options::parse(""), Ok(Options::default()));
        let options = Options::parse(
            "include=com.shop,include=org.x.*Dao,exclude=com.shop.util,threshold=500us,\
             logs=/var/log/shop,port=50010,port=50020,start=off,strict",
        )
        .unwrap();
        assert_eq!(options.filter.include.len(), 2);
        assert_eq!(options.filter.exclude.len(), 1);
        assert_eq!(options.threshold, Duration::from_micros(500));
        assert_eq!(options.logs, PathBuf::from("/var/log/shop"));
        assert_eq!(options.port, Some(50_020));
        assert!(!options.start && options.strict);
        assert_eq!(Options::parse("port=off").unwrap().port, None);
    }

    #[test]
    fn what_is_wrong_is_named_in_one_line() {
        for (text, message) in [
            ("colour=red", "unknown option 'colour'"),
            ("include", "'' is not a pattern"),
            ("include=com..shop", "'com..shop' is not a pattern"),
            ("threshold=fast", "threshold: 'fast' is not a duration"),
            ("threshold=1", "threshold: '1' is not a duration"),
            ("port=0", "port: '0' is not a port"),
            ("port=99999", "port: '99999' is not a port"),
            ("start=yes", "start: 'yes' is neither on nor off"),
            ("logs=", "logs: a folder is needed"),
            ("max_mb_per_hour=0.4", "max_mb_per_hour: '0.4' is not a number of megabytes from 0.5"),
            ("max_mb=-1", "max_mb: '-1' is not a number of megabytes"),
            ("max_mb=inf", "max_mb: 'inf' is not a number of megabytes"),
            ("keep=3", "keep: '3' is not a duration"),
            ("compress=lzma", "compress: 'lzma' is not gzip, zstd or off"),
        ] {
            let bad = Options::parse(text).unwrap_err();
            assert!(bad.message.starts_with(message), "{}", bad.message);
            assert!(!bad.message.contains('\n'));
            assert!(!bad.strict);
        }
    }

    #[test]
    fn limits_of_the_log() {
        let options =
            Options::parse("max_mb_per_hour=0.5,max_mb=10,keep=2h,compress=zstd").unwrap();
        assert_eq!(options.hour_bytes, Some(500_000));
        assert_eq!(options.run_bytes, Some(10_000_000));
        assert_eq!(options.keep, Some(Duration::from_hours(2)));
        assert_eq!(options.compress, Compression::Zstd);
        let map = options.to_map();
        for (key, value) in
            [("max_mb_per_hour", "0.5"), ("max_mb", "10"), ("keep", "7200s"), ("compress", "zstd")]
        {
            assert_eq!(map[key], value);
        }
        let off = Options::parse("max_mb_per_hour=off,max_mb=off,keep=off,compress=off").unwrap();
        assert_eq!((off.hour_bytes, off.run_bytes, off.keep), (None, None, None));
        assert_eq!(Options::parse("max_mb=1").unwrap().to_map()["compress"], "gzip");
        // What is written can be read again.
        for options in [options, off] {
            let text: Vec<String> = options
                .to_map()
                .iter()
                .filter(|(key, value)| !value.is_empty() || *key == "strict")
                .map(|(key, value)| format!("{key}={value}"))
                .collect();
            assert_eq!(Options::parse(&text.join(",")), Ok(options));
        }
    }

    #[test]
    fn strict_counts_wherever_it_stands() {
        assert!(Options::parse("colour=red,strict").unwrap_err().strict);
        assert!(Options::parse("strict=on,colour=red").unwrap_err().strict);
        assert!(!Options::parse("strict,colour=red,strict=off").unwrap_err().strict);
    }
}
