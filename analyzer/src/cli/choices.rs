//! Values of options that differ from the library's own.

use analyzer::options::By;
use clap::ValueEnum;
use log_format::rows::Exit;

/// The grouping of the figures.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum GroupBy {
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
    /// By what threads did: running, blocked, waiting, parked and so on, from samples
    State,
}

impl From<GroupBy> for By {
    fn from(by: GroupBy) -> Self {
        match by {
            // Figures have no state: only samples have one.
            GroupBy::State => Self::Nothing,
            GroupBy::Hour => Self::Hour,
            GroupBy::Thread => Self::Thread,
            GroupBy::Run => Self::Run,
            GroupBy::Minute => Self::Minute,
            GroupBy::Host => Self::Host,
            GroupBy::Class => Self::Class,
            GroupBy::Package => Self::Package,
        }
    }
}

/// How a call ended.
#[derive(Clone, Copy, ValueEnum)]
pub enum ExitKind {
    /// With a return
    Return,
    /// With an exception
    Throw,
    /// In progress when recording stopped
    Unfinished,
}

impl From<ExitKind> for Exit {
    fn from(kind: ExitKind) -> Self {
        match kind {
            ExitKind::Return => Self::Return,
            ExitKind::Throw => Self::Throw,
            ExitKind::Unfinished => Self::Unfinished,
        }
    }
}
