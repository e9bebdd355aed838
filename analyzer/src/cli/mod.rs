//! The command line: its arguments, and their conversion to [`Options`].

mod choices;
mod diff;
mod tasks;
mod values;

use std::io;
use std::path::PathBuf;

use analyzer::error::NoReport;
use analyzer::options::glob::Glob;
use analyzer::options::tasks::TaskOptions;
use analyzer::options::time_range::Moment;
use analyzer::options::zone::Zone;
use analyzer::options::{
    By, CallFilter, CsvRows, DataFilter, Flame, Format, Layout, Options, Output, SortKey,
    TOP_IN_TEXT, TreeOrder, Unit,
};
use anstream::{AutoStream, ColorChoice};
use clap::{Parser, Subcommand};
use command_line::Generate;
use log_format::error::BadValue;
use log_format::pattern::Pattern;
use log_format::rows::Exit;
use log_format::units::{as_ns, parse_duration};

use self::choices::{ExitKind, GroupBy};
pub use self::diff::DiffArgs;
use self::tasks::TaskArgs;
use self::values::{parse_slowest, parse_top};

/// Report which methods cost the time, from the profiler's logs
#[derive(Parser)]
#[command(name = "analyze", version, long_version = command_line::VERSION, after_help = AFTER_HELP)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
#[command(subcommand_negates_reqs = true)]
pub struct Cli {
    /// What to do instead of a report
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Folders of runs, runs' folders, or single files of a run; or TProfiler's logs
    #[arg(required_unless_present = "generate", value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Sort methods and SQL statements by this, largest first [default: self]
    #[arg(long, value_enum)]
    sort: Option<SortKey>,
    /// Show at most N methods (of each group) and unfinished calls; 0 shows all [default: 20 in text, else 0]
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
    /// Only methods named by this pattern: com.shop, com.shop.Order.pay, com.shop.*Dao, or by a short name:
    /// pay, Order, Order.pay
    #[arg(long, value_name = "PATTERN")]
    method: Option<String>,
    /// Only calls in threads of this name: exec-1, exec-*, 'exec-1 #12'
    #[arg(long, value_name = "PATTERN")]
    thread: Option<String>,
    /// Only runs on this host; * stands for anything
    #[arg(long, value_name = "PATTERN")]
    host: Option<String>,
    /// Only this run; * stands for anything
    #[arg(long, value_name = "PATTERN")]
    run: Option<String>,
    /// Only calls that ended this way
    #[arg(long, value_enum, value_name = "HOW")]
    exit: Option<ExitKind>,
    /// Only recorded calls that took at least this long: 200ms, 2s
    #[arg(long, value_name = "TIME")]
    above: Option<String>,
    /// Show the call tree of the recorded calls
    #[arg(long, value_enum, value_name = "ORDER", conflicts_with = "slowest")]
    tree: Option<TreeOrder>,
    /// Only the parts of call paths below methods of this pattern
    #[arg(long, value_name = "PATTERN")]
    root: Option<String>,
    /// Show the N slowest calls (1 to 1000), each with its callers and its call tree
    #[arg(long, value_name = "N")]
    slowest: Option<String>,
    /// Show all notes at the end of the text: what was not measured, and when
    #[arg(long)]
    notes: bool,
    /// Include unfinished calls in formats that cannot mark them
    #[arg(long)]
    unfinished: bool,
    /// Unit of the times in TProfiler's own logs (tprofiler.log) [default: guessed from the log]
    #[arg(long, value_enum, value_name = "UNIT")]
    tprofiler_unit: Option<Unit>,
    /// With --format csv, what its rows are of [default: methods]
    #[arg(long, value_enum, value_name = "WHAT")]
    rows: Option<CsvRows>,
    /// A flame graph, and what it shows; with --format collapsed or pprof its stacks [default: calls]
    #[arg(long, value_enum, value_name = "WHAT")]
    flame: Option<Flame>,
    #[command(flatten)]
    tasks: TaskArgs,
    /// Output format [default: by the end of FILE's name, else text]
    #[arg(long = "format", value_enum, value_name = "FORMAT")]
    given_format: Option<Format>,
    #[arg(skip)]
    format: Format,
    /// Print the manual page or the completions of a shell: analyze --generate man > analyze.1
    #[arg(long, value_enum, value_name = "WHAT", exclusive = true)]
    pub generate: Option<Generate>,
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

const AFTER_HELP: &str = "\
Examples:
  analyze logs/                                            what to look at first, and the hottest methods
  analyze logs/ --format html -o report.html               everything in one page, for a browser
  analyze logs/ --from 14:00 --to 15:00 --by minute        what was different in that hour
  analyze logs/ --slowest 5 --thread 'http-*'              the slowest requests, with all that they called
  analyze logs/ --tree top-down --root com.shop.Handler    where the time of these calls went
  analyze logs/ --method com.shop.dao --sort calls         who asks the database so often
  analyze logs/ --exit throw --by thread                   which calls ended with an exception, and where
  analyze logs/ --by state --thread 'http-*'               what these threads did and waited for
  analyze logs/ --task 3 --request 2                       where a profile task saw the time of this request go
  analyze old/ --format tprofiler -o results/              TProfiler's reports, from its logs or this profiler's
  analyze diff before/ after/ --fail-above 20%             what became slower, for a CI job

Times are UTC, or with --local those of this machine. Exit status: 0 all was read, 1 part of the logs could \
not be read, 2 no report; of diff also 3 something is slower than --fail-above allows.";

impl Cli {
    /// With the format that the file's name says, if none is given.
    ///
    /// # Errors
    /// The name says none.
    pub fn with_format(mut self) -> Result<Self, BadValue> {
        self.format = match (self.given_format, &self.output) {
            (Some(format), _) => format,
            (None, Some(output)) => Format::of_file(output)?,
            (None, None) => Format::default(),
        };
        Ok(self)
    }

    /// Converts the arguments to options of a report on profile tasks, if that is asked for.
    ///
    /// # Errors
    /// Which argument is wrong, and why.
    pub fn task_options(&self) -> Result<Option<TaskOptions>, NoReport> {
        let TaskArgs { task, tasks, .. } = &self.tasks;
        if task.is_none() && !tasks {
            return Ok(None);
        }
        let is_known = match task {
            Some(_) => self.format.is_of_tasks(),
            None => matches!(self.format, Format::Text | Format::Json),
        };
        if !is_known {
            return Err(BadValue::because(match task {
                Some(_) => "--task has only --format text, html, json, collapsed and flamegraph",
                None => "--tasks has only --format text and json",
            })
            .into());
        }
        let (request, ranges) = self.tasks.parse()?;
        Ok(Some(TaskOptions {
            paths: self.paths.clone(),
            id: task.clone(),
            request,
            ranges,
            host: glob("--host", self.host.as_deref())?,
            run: glob("--run", self.run.as_deref())?,
            zone: self.zone()?,
            format: self.format,
            color: self.is_colored(),
            file: self.output.clone(),
        }))
    }

    fn zone(&self) -> Result<Zone, NoReport> {
        Ok(if self.local { Zone::local()? } else { Zone::default() })
    }

    fn is_colored(&self) -> bool {
        self.output.is_none() && AutoStream::choice(&io::stdout()) != ColorChoice::Never
    }

    /// Converts the arguments to options.
    ///
    /// # Errors
    /// Which argument is wrong, and why.
    pub fn into_options(mut self) -> Result<Options, NoReport> {
        if self.flame.is_some() && self.format == Format::Text {
            self.format = Format::Flamegraph;
        }
        let moment = |name: &str, text: Option<String>| -> Result<_, BadValue> {
            let is_utc = text.as_ref().is_some_and(|text| text.ends_with('Z'));
            let moment = text.map(|text| Moment::parse(&text)).transpose();
            let moment = moment.map_err(|error| error.of(name))?;
            Ok(moment.map(|moment| if self.local && !is_utc { moment.in_zone() } else { moment }))
        };
        self.check()?;
        let pattern = |name: &str, text: Option<String>| {
            let pattern = text.map(|text| Pattern::parse(&text)).transpose();
            pattern.map_err(|error| error.of(name))
        };
        let (zone, color) = (self.zone()?, self.is_colored());
        let above = self.above.map(|text| parse_duration(&text)).transpose();
        let top = self.top.map(|text| parse_top(&text)).transpose()?;
        let default_top = if self.format == Format::Text { TOP_IN_TEXT } else { 0 };
        let filter = DataFilter {
            from: moment("--from", self.from)?,
            to: moment("--to", self.to)?,
            method: pattern("--method", self.method)?,
            host: glob("--host", self.host.as_deref())?,
            run: glob("--run", self.run.as_deref())?,
            calls: CallFilter {
                thread: glob("--thread", self.thread.as_deref())?,
                exit: self.exit.map(Exit::from),
                above_ns: above.map_err(|error| error.of("--above"))?.map(as_ns),
            },
            root: pattern("--root", self.root)?,
        };
        let layout = Layout {
            by: self.by.map_or(By::Nothing, By::from),
            states: self.by == Some(GroupBy::State),
            compared: false,
            sort: self.sort.unwrap_or_default(),
            top: Some(top.unwrap_or(default_top)).filter(|top| *top > 0),
            tree: self.tree,
            slowest: self.slowest.map(|text| parse_slowest(&text)).transpose()?,
            notes: self.notes,
            zone,
        };
        let output = Output {
            format: self.format,
            flame: self.flame.unwrap_or_default(),
            rows: self.rows.unwrap_or_default(),
            color,
            file: self.output,
        };
        Ok(Options {
            paths: self.paths,
            tprofiler_unit: self.tprofiler_unit,
            filter,
            unfinished: self.unfinished,
            layout,
            output,
        })
    }

    /// Refuses options that would have no effect: the user expects one.
    fn check(&self) -> Result<(), BadValue> {
        let is_text = self.format == Format::Text;
        let has_stacks = self.format.is_of_stacks() || self.tree.is_some();
        let of_methods = matches!(
            self.format,
            Format::Text | Format::Csv | Format::Json | Format::Prometheus | Format::Tprofiler
        ) && self.tree.is_none()
            && self.slowest.is_none();
        let marks_unfinished =
            has_stacks || self.slowest.is_some() || self.format.marks_unfinished();
        let refused = [
            (
                self.tree.is_some() && !is_text,
                "--tree prints text; for call paths in other formats, use --format",
            ),
            (self.slowest.is_some() && !is_text, "--slowest prints text"),
            (self.notes && !is_text, "--notes is for a text; other formats have all notes"),
            (
                self.root.is_some() && !has_stacks,
                "--root is for call paths: --tree, or a --format of them",
            ),
            (
                self.by.is_some() && self.format == Format::Html,
                "--by: the page has everything in one, and charts by hour and minute",
            ),
            (self.by.is_some() && !of_methods, "--by is for methods, not for call paths"),
            (
                self.by.is_some() && self.format == Format::Tprofiler,
                "--by: TProfiler's files have no column for it",
            ),
            (
                self.local
                    && !is_text
                    && self.format != Format::Html
                    && !matches!(self.by, Some(GroupBy::Hour | GroupBy::Minute))
                    && self.from.is_none()
                    && self.to.is_none(),
                "--local: this format has no times but those of --from, --to and --by hour or minute",
            ),
            (
                self.format == Format::Html && (self.sort.is_some() || self.top.is_some()),
                "--sort and --top: the page has every method, and sorts by any column",
            ),
            (
                self.sort.is_some() && !of_methods,
                "--sort is for methods, not for single calls and call paths",
            ),
            (
                self.top.is_some() && (self.format.is_of_stacks() || self.format.is_of_events()),
                "--top: this format has everything",
            ),
            (
                self.unfinished && !marks_unfinished,
                "--unfinished: this format has no unfinished calls",
            ),
        ];
        let mut refused =
            refused.into_iter().chain(self.flame_refused()).chain(self.states_refused());
        refused.find(|r| r.0).map_or(Ok(()), |(_, why)| Err(BadValue::because(why)))
    }

    fn states_refused(&self) -> [(bool, &'static str); 3] {
        let by_state = self.by == Some(GroupBy::State);
        let of_calls = self.exit.is_some() || self.above.is_some() || self.unfinished;
        [
            (
                by_state && !matches!(self.format, Format::Text | Format::Csv | Format::Json),
                "--by state has only --format text, csv and json",
            ),
            (
                by_state && of_calls,
                "--exit, --above and --unfinished are for calls; --by state has samples",
            ),
            (by_state && self.sort.is_some(), "--sort: by state, methods are sorted by their time"),
        ]
    }

    fn flame_refused(&self) -> [(bool, &'static str); 4] {
        let of_others = self.rows.is_some_and(|rows| rows != CsvRows::Methods);
        let is_drawn =
            matches!(self.format, Format::Flamegraph | Format::Collapsed | Format::Pprof);
        let is_sampled = self.flame.is_some_and(|flame| flame != Flame::Calls);
        let of_calls = self.method.is_some()
            || self.root.is_some()
            || self.exit.is_some()
            || self.above.is_some()
            || self.unfinished;
        [
            (
                self.flame.is_some() && !is_drawn,
                "--flame has only --format flamegraph (the default), collapsed and pprof",
            ),
            (
                is_sampled && of_calls,
                "--method, --root, --exit, --above and --unfinished are for --flame calls",
            ),
            (self.rows.is_some() && self.format != Format::Csv, "--rows has only --format csv"),
            (
                of_others
                    && matches!(self.by, Some(GroupBy::Class | GroupBy::Package | GroupBy::State)),
                "--by class, package and state are for --rows methods",
            ),
        ]
    }
}

fn glob(name: &str, text: Option<&str>) -> Result<Option<Glob>, BadValue> {
    text.map(Glob::parse).transpose().map_err(|error| error.of(name))
}
