//! The command line of `analyze diff`: its arguments, and their conversion to [`DiffOptions`].

use std::path::PathBuf;

use analyzer::diff::{DiffOptions, Least, Limit, Per};
use analyzer::options::Unit;
use analyzer::options::time_range::Moment;
use analyzer::options::{Format, TOP_IN_TEXT};
use clap::Args;
use log_format::error::BadValue;
use log_format::pattern::Pattern;
use log_format::units::{as_ns, parse_duration};

use super::values::{one_of, parse_top};

/// Compares two sets of logs: which methods cost more, and which less
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct DiffArgs {
    /// The logs from before: a folder of runs, a run's folder, or a file
    #[arg(value_name = "BEFORE")]
    before: PathBuf,
    /// The logs from after; with --before and --after, those of BEFORE if not given
    #[arg(value_name = "AFTER")]
    after: Option<PathBuf>,
    /// Only this time of BEFORE: 14:00..14:30; either end may be missing
    #[arg(long = "before", value_name = "FROM..TO")]
    before_time: Option<String>,
    /// Only this time of AFTER
    #[arg(long = "after", value_name = "FROM..TO")]
    after_time: Option<String>,
    /// What is compared
    #[arg(long, value_enum, default_value = "hour")]
    per: Per,
    /// Show at most N methods of each section of the text; 0 shows all [default: 20]
    #[arg(long, value_name = "N")]
    top: Option<String>,
    /// Only methods named by this pattern: com.shop, com.shop.Order.pay, com.shop.*Dao, or by a short name:
    /// pay, Order, Order.pay
    #[arg(long, value_name = "PATTERN")]
    method: Option<String>,
    /// Unit of the times in TProfiler's own logs (tprofiler.log) [default: guessed from the log]
    #[arg(long, value_enum, value_name = "UNIT")]
    tprofiler_unit: Option<Unit>,
    /// Output format [default: by the end of FILE's name, else text]
    #[arg(long, value_parser = one_of(&FORMATS))]
    format: Option<Format>,
    /// Write to this file, whole or not at all
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Exit with status 3 if a method, or all together, costs over this much more: 20%
    #[arg(long, value_name = "PERCENT")]
    fail_above: Option<String>,
    /// With --fail-above: only what costs at least this much more, in percent of the time that AFTER recorded; or
    /// in time, like 1s, in an hour or in all of AFTER if it is shorter
    #[arg(long, value_name = "TIME", default_value = "0.02%", requires = "fail_above")]
    min_time: String,
}

const FORMATS: [Format; 3] = [Format::Text, Format::Csv, Format::Json];

const AFTER_HELP: &str = "Times are self times. Exit status: 0 all was read, 1 part of the logs could \
not be read, 2 no comparison, 3 something is slower than --fail-above allows.";

impl DiffArgs {
    /// Converts the arguments to options.
    ///
    /// # Errors
    /// Which argument is wrong, and why.
    pub fn into_options(self) -> Result<DiffOptions, BadValue> {
        let top = self.top.map(|text| parse_top(&text)).transpose()?;
        let pattern = self.method.map(|text| Pattern::parse(&text)).transpose();
        let least = match parse_percent(&self.min_time).filter(|_| self.min_time.ends_with('%')) {
            Some(percent) => Least::Percent(percent),
            None => Least::Ns(as_ns(parse_duration(&self.min_time).map_err(|_| {
                BadValue::new(self.min_time, "is neither like 0.1% nor like 1s").of("--min-time")
            })?)),
        };
        let format = match (self.format, self.output.as_deref()) {
            (Some(format), _) => format,
            (None, Some(output)) => match Format::of_file(output)? {
                format if FORMATS.contains(&format) => format,
                _ => {
                    let reason = "is of a format that diff cannot write: use .txt, .csv or .json, or --format";
                    let name = output.display().to_string();
                    return Err(BadValue::new(name, reason).of("--output"));
                }
            },
            (None, None) => Format::default(),
        };
        let limit = self.fail_above.map(|text| {
            parse_percent(&text).map(|percent| Limit { percent, least }).ok_or_else(|| {
                BadValue::new(text, "is not a percentage like 20%").of("--fail-above")
            })
        });
        let times = [("--before", self.before_time), ("--after", self.after_time)];
        let [before_time, after_time] = times.map(|(option, text)| {
            text.map_or(Ok((None, None)), |text| parse_times(&text)).map_err(|e| e.of(option))
        });
        let (before_time, after_time) = (before_time?, after_time?);
        let after = match self.after {
            Some(after) => after,
            None if before_time != after_time => self.before.clone(),
            None => {
                let reason = "there is one set of logs: add AFTER, or two times of it with --before and --after";
                return Err(BadValue::because(reason));
            }
        };
        Ok(DiffOptions {
            before: vec![self.before],
            after: vec![after],
            before_time,
            after_time,
            per: self.per,
            method: pattern.map_err(|error| error.of("--method"))?,
            top: Some(top.unwrap_or(TOP_IN_TEXT)).filter(|top| *top > 0),
            tprofiler_unit: self.tprofiler_unit,
            format,
            file: self.output,
            limit: limit.transpose()?,
        })
    }
}

/// `14:00..14:30`; either end may be missing.
fn parse_times(text: &str) -> Result<(Option<Moment>, Option<Moment>), BadValue> {
    let (from, to) = text
        .split_once("..")
        .ok_or_else(|| BadValue::new(text, "is not two times like 14:00..14:30"))?;
    let moment = |text: &str| (!text.is_empty()).then(|| Moment::parse(text)).transpose();
    Ok((moment(from)?, moment(to)?))
}

/// `20%`, `12.5%` or `20`.
fn parse_percent(text: &str) -> Option<f64> {
    let number = text.strip_suffix('%').unwrap_or(text);
    let is_plain = number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    number.parse::<f64>().ok().filter(|percent| is_plain && percent.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_plain_numbers() {
        for (text, percent) in [("20%", 20.0), ("12.5%", 12.5), ("0", 0.0), ("300", 300.0)] {
            assert_eq!(parse_percent(text), Some(percent));
        }
        for text in ["", "%", "-1%", "+1", "1e3", "inf", "nan", "20 %", "20%%", "."] {
            assert_eq!(parse_percent(text), None, "{text}");
        }
    }
}
