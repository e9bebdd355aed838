//! The command line: what can be given, and how it becomes [`Options`].

use std::path::PathBuf;

use analyzer::options::{By, Format, Options, SortKey, TOP_IN_TEXT};
use analyzer::time_range::Moment;
use analyzer::tprofiler::Unit;
use clap::{Parser, Subcommand, ValueEnum};
use log_format::pattern::Pattern;

use crate::diff_cli::DiffArgs;

/// Says which methods cost the time, from the profiler's logs
#[derive(Parser)]
#[command(name = "analyze", version, after_help = AFTER_HELP)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
#[command(subcommand_negates_reqs = true)]
pub struct Cli {
    /// Another thing to do than a report
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Folders of runs, runs' folders, or single files of a run; or TProfiler's logs
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Sort methods by this, largest first
    #[arg(long, value_enum, default_value = "self")]
    sort: SortKey,
    /// Show so many methods (of each group) and open calls; 0 shows all [default: 20 in text, else 0]
    #[arg(long, value_name = "N")]
    top: Option<String>,
    /// Split the figures into groups
    #[arg(long, value_enum, value_name = "KEY")]
    by: Option<GroupBy>,
    /// Only from this time on: 2026-11-20T14:00Z, 2026-11-20, or 14:00 on the last day of the logs
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Only before this time
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// Only methods named by this pattern: com.shop, com.shop.Order.pay, com.shop.*Dao
    #[arg(long, value_name = "PATTERN")]
    method: Option<String>,
    /// What times in TProfiler's own logs (tprofiler.log) are in [default: by what is in them]
    #[arg(long, value_enum, value_name = "UNIT")]
    tprofiler_unit: Option<Unit>,
    /// What to print
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

/// What else there is. A folder of the same name is given as `./diff`.
#[derive(Subcommand)]
pub enum Command {
    /// Compare two sets of logs: which methods cost more, and which less
    Diff(DiffArgs),
}

const AFTER_HELP: &str = "All times are UTC. Exit status: 0 all was read, 1 part of the logs could \
not be read, 2 no report.";

#[derive(Clone, Copy, ValueEnum)]
enum GroupBy {
    /// By hour of UTC
    Hour,
    /// By thread, from the calls at or over the threshold
    Thread,
    /// By run
    Run,
}

impl Cli {
    /// The options that were given.
    ///
    /// # Errors
    /// One line that says which argument is wrong, and why.
    pub fn into_options(self) -> Result<Options, String> {
        let moment = |name: &str, text: Option<String>| {
            let moment = text.map(|text| Moment::parse(&text)).transpose();
            moment.map_err(|reason| format!("--{name}: {reason}"))
        };
        let top = self.top.map(|text| parse_top(&text)).transpose()?;
        let pattern = self.method.map(|text| Pattern::parse(&text)).transpose();
        let default_top = if self.format == Format::Text { TOP_IN_TEXT } else { 0 };
        Ok(Options {
            paths: self.paths,
            sort: self.sort,
            top: Some(top.unwrap_or(default_top)).filter(|top| *top > 0),
            by: match self.by {
                None => By::Nothing,
                Some(GroupBy::Hour) => By::Hour,
                Some(GroupBy::Thread) => By::Thread,
                Some(GroupBy::Run) => By::Run,
            },
            from: moment("from", self.from)?,
            to: moment("to", self.to)?,
            method: pattern.map_err(|reason| format!("--method: {reason}"))?,
            tprofiler_unit: self.tprofiler_unit,
            format: self.format,
        })
    }
}

/// The number of `--top`.
///
/// # Errors
/// One line that says what is wrong with it.
pub fn parse_top(text: &str) -> Result<usize, String> {
    text.parse()
        .map_err(|_| format!("--top: '{text}' is not a number of rows, like 20 or 0 for all"))
}
