//! Arguments of reports on profile tasks.

use analyzer::options::tasks::Offsets;
use clap::Args;
use log_format::error::BadValue;

/// Options of a report that have no meaning for tasks.
const OTHERS: [&str; 17] = [
    "sort",
    "top",
    "by",
    "from",
    "to",
    "method",
    "thread",
    "exit",
    "above",
    "tree",
    "root",
    "slowest",
    "notes",
    "unfinished",
    "tprofiler_unit",
    "rows",
    "flame",
];

#[derive(Args)]
pub struct TaskArgs {
    /// Show the profile task with this id: its requests, and the tree of their snapshots
    #[arg(long, value_name = "ID", conflicts_with_all = OTHERS, conflicts_with = "tasks")]
    pub task: Option<String>,
    /// List the profile tasks
    #[arg(long, conflicts_with_all = OTHERS)]
    pub tasks: bool,
    /// With --task, only its request of this number
    #[arg(long, value_name = "N", requires = "task")]
    request: Option<u32>,
    /// With --task, only these milliseconds after a request's start, like 100..250; several add up
    #[arg(long, value_name = "MS..MS", requires = "task")]
    range: Vec<String>,
}

impl TaskArgs {
    /// The request and the times to show.
    ///
    /// # Errors
    /// What is wrong with one of the values.
    pub fn parse(&self) -> Result<(Option<u32>, Vec<Offsets>), BadValue> {
        let ranges = self.range.iter().map(|text| Offsets::parse(text));
        let ranges: Result<_, _> = ranges.collect();
        Ok((self.request, ranges.map_err(|error: BadValue| error.of("--range"))?))
    }
}
