//! The command line: what can be given, and how it becomes [`Options`].

use std::path::PathBuf;
use std::sync::Arc;

use analyzer::glob::Glob;
use analyzer::options::{By, CallFilter, Format, Options, SortKey, TOP_IN_TEXT, TreeOrder};
use analyzer::time_range::Moment;
use analyzer::tprofiler::Unit;
use analyzer::zone::Zone;
use clap::{Parser, Subcommand, ValueEnum};
use log_format::pattern::Pattern;
use log_format::rows::Exit;
use log_format::units::{as_ns, parse_duration};

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
    /// Read and show times in the zone of this machine, not in UTC
    #[arg(long)]
    local: bool,
    /// Only methods named by this pattern: com.shop, com.shop.Order.pay, com.shop.*Dao
    #[arg(long, value_name = "PATTERN")]
    method: Option<String>,
    /// Only calls in threads of this name: exec-1, exec-*
    #[arg(long, value_name = "PATTERN")]
    thread: Option<String>,
    /// Only runs on this host; * stands for anything
    #[arg(long, value_name = "PATTERN")]
    host: Option<String>,
    /// Only this run; * stands for anything
    #[arg(long, value_name = "PATTERN")]
    run: Option<String>,
    /// Only calls that ended so
    #[arg(long, value_enum, value_name = "HOW")]
    exit: Option<ExitKind>,
    /// Only calls that took so long or longer: 200ms, 2s
    #[arg(long, value_name = "TIME")]
    above: Option<String>,
    /// Show the call tree of the recorded calls
    #[arg(long, value_enum, value_name = "ORDER", conflicts_with = "slowest")]
    tree: Option<TreeOrder>,
    /// Of call paths, only what is called by methods of this pattern
    #[arg(long, value_name = "PATTERN")]
    root: Option<String>,
    /// Show the N slowest calls, each with its callers and its call tree
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    slowest: Option<u16>,
    /// Have calls that had not ended in forms that have no place of their own for them
    #[arg(long)]
    open: bool,
    /// What times in TProfiler's own logs (tprofiler.log) are in [default: by what is in them]
    #[arg(long, value_enum, value_name = "UNIT")]
    tprofiler_unit: Option<Unit>,
    /// What to print
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Write to this file, whole or not at all
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// What else there is. A folder of the same name is given as `./diff`.
#[derive(Subcommand)]
pub enum Command {
    /// Compare two sets of logs: which methods cost more, and which less
    Diff(DiffArgs),
}

const AFTER_HELP: &str = "Times are UTC, or with --local those of this machine. Exit status: 0 all was read, 1 part of the logs could \
not be read, 2 no report.";

#[derive(Clone, Copy, ValueEnum)]
enum GroupBy {
    /// By hour of UTC
    Hour,
    /// By thread, from the calls at or over the threshold
    Thread,
    /// By run
    Run,
    /// By minute of UTC
    Minute,
    /// By host
    Host,
    /// By class
    Class,
    /// By package
    Package,
}

#[derive(Clone, Copy, ValueEnum)]
enum ExitKind {
    /// With a return
    Return,
    /// With an exception
    Throw,
    /// Not at all: recording stopped before
    Open,
}

impl Cli {
    /// The options that were given.
    ///
    /// # Errors
    /// One line that says which argument is wrong, and why.
    pub fn into_options(self) -> Result<Options, String> {
        let moment = |name: &str, text: Option<String>| -> Result<_, String> {
            let is_utc = text.as_ref().is_some_and(|text| text.ends_with('Z'));
            let moment = text.map(|text| Moment::parse(&text)).transpose();
            let moment = moment.map_err(|reason| format!("--{name}: {reason}"))?;
            Ok(moment.map(|moment| if self.local && !is_utc { moment.in_zone() } else { moment }))
        };
        self.check()?;
        let pattern = |name: &str, text: Option<String>| {
            let pattern = text.map(|text| Pattern::parse(&text)).transpose();
            pattern.map_err(|reason| format!("--{name}: {reason}"))
        };
        let glob = |name: &str, text: Option<String>| {
            let glob = text.map(|text| Glob::parse(&text)).transpose();
            glob.map_err(|reason| format!("--{name}: {reason}"))
        };
        let above = self.above.map(|text| parse_duration(&text)).transpose();
        let top = self.top.map(|text| parse_top(&text)).transpose()?;
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
                Some(GroupBy::Minute) => By::Minute,
                Some(GroupBy::Host) => By::Host,
                Some(GroupBy::Class) => By::Class,
                Some(GroupBy::Package) => By::Package,
            },
            from: moment("from", self.from)?,
            to: moment("to", self.to)?,
            zone: if self.local {
                Zone::local().map_err(|reason| format!("--local: {reason}"))?
            } else {
                Zone::default()
            },
            method: pattern("method", self.method)?,
            host: glob("host", self.host)?,
            run: glob("run", self.run)?,
            calls: CallFilter {
                thread: glob("thread", self.thread)?,
                exit: self.exit.map(|exit| match exit {
                    ExitKind::Return => Exit::Return,
                    ExitKind::Throw => Exit::Throw,
                    ExitKind::Open => Exit::Open,
                }),
                above_ns: above.map_err(|reason| format!("--above: {reason}"))?.map(as_ns),
            },
            tree: self.tree,
            root: pattern("root", self.root)?,
            slowest: self.slowest.map(usize::from),
            open: self.open,
            tprofiler_unit: self.tprofiler_unit,
            format: self.format,
            output: self.output,
            progress: Arc::default(),
        })
    }

    /// Refuses options that would have no effect: who gives one expects it to have one.
    fn check(&self) -> Result<(), String> {
        let is_text = self.format == Format::Text;
        let has_stacks = self.format.is_of_stacks() || self.tree.is_some();
        let of_methods = matches!(
            self.format,
            Format::Text | Format::Csv | Format::Json | Format::Prometheus | Format::Tprofiler
        ) && self.tree.is_none()
            && self.slowest.is_none();
        let has_places_for_open = has_stacks
            || self.slowest.is_some()
            || matches!(self.format, Format::Text | Format::ChromeTrace | Format::Prometheus);
        let refused = [
            (
                self.tree.is_some() && !is_text,
                "--tree is a text; other forms have call paths by --format",
            ),
            (self.slowest.is_some() && !is_text, "--slowest is a text"),
            (
                self.root.is_some() && !has_stacks,
                "--root is for call paths: --tree, or a --format of them",
            ),
            (self.by.is_some() && !of_methods, "--by is for methods, not for call paths"),
            (
                self.by.is_some() && self.format == Format::Tprofiler,
                "--by: TProfiler's files have no column for it",
            ),
            (
                self.local
                    && !is_text
                    && !matches!(self.by, Some(GroupBy::Hour | GroupBy::Minute))
                    && self.from.is_none()
                    && self.to.is_none(),
                "--local: this form has no times but those of --from, --to and --by hour or minute",
            ),
            (self.open && !has_places_for_open, "--open: this form has no place for open calls"),
        ];
        refused.into_iter().find(|(is_so, _)| *is_so).map_or(Ok(()), |(_, why)| Err(why.to_owned()))
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
