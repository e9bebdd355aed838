//! The command `EBPFProfilingTaskQuery`: profile a process for a fixed time.

use thiserror::Error;

use crate::command::argument;
use crate::oap::messages::Command;

/// Name of the command.
pub(crate) const NAME: &str = "EBPFProfilingTaskQuery";

/// The longest task, in seconds: the server takes at most an hour.
const MOST_SECONDS: u64 = 3_600;

/// What is profiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    OnCpu,
    OffCpu,
}

/// A task as the server has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProfilingOrder {
    pub(crate) id: String,
    /// Ids of the processes to profile.
    pub(crate) processes: Vec<String>,
    pub(crate) target: Target,
    /// In unix milliseconds.
    pub(crate) start_ms: u64,
    pub(crate) seconds: u64,
}

/// What is wrong with a task.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub(crate) struct BadOrder(String);

impl ProfilingOrder {
    /// Reads the arguments of a command.
    ///
    /// # Errors
    /// What is missing, wrong, or nothing that this program can do.
    pub(crate) fn of(command: &Command) -> Result<Self, BadOrder> {
        let text = |key: &str| {
            argument(command, key).ok_or_else(|| BadOrder(format!("the command lacks {key}")))
        };
        let number = |key: &str| {
            let value = text(key)?;
            value.parse::<u64>().map_err(|_| BadOrder(format!("{key}: '{value}' is not a number")))
        };
        let target = match text("TargetType")? {
            "ON_CPU" => Target::OnCpu,
            "OFF_CPU" => Target::OffCpu,
            other => return Err(BadOrder(format!("{other} is not profiled here"))),
        };
        let trigger = text("TriggerType")?;
        if trigger != "FIXED_TIME" {
            return Err(BadOrder(format!("the trigger {trigger} is not supported")));
        }
        let seconds = number("FixedTriggerDuration")?;
        if seconds == 0 || seconds > MOST_SECONDS {
            return Err(BadOrder(format!("{seconds} s: must be from 1 to {MOST_SECONDS}")));
        }
        Ok(Self {
            id: text("TaskId")?.to_owned(),
            processes: text("ProcessId")?.split(',').map(str::to_owned).collect(),
            target,
            start_ms: number("TaskStartTime")?,
            seconds,
        })
    }
}

/// When a task was changed, in unix milliseconds; 0 if the command does not say.
pub(crate) fn update_time(command: &Command) -> i64 {
    argument(command, "TaskUpdateTime").and_then(|value| value.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oap::messages::KeyValue;

    fn command(changed: &[(&str, &str)]) -> Command {
        let values = [
            ("SerialNumber", "1"),
            ("TaskId", "t"),
            ("ProcessId", "a,b"),
            ("TaskUpdateTime", "5"),
            ("TriggerType", "FIXED_TIME"),
            ("TargetType", "OFF_CPU"),
            ("TaskStartTime", "1000"),
            ("FixedTriggerDuration", "60"),
        ];
        let args = values.map(|(key, value)| {
            let value = changed.iter().find(|(of, _)| *of == key).map_or(value, |(_, value)| value);
            KeyValue::new(key, value)
        });
        Command { command: NAME.to_owned(), args: args.into() }
    }

    #[test]
    fn a_command_is_an_order() {
        let order = ProfilingOrder::of(&command(&[])).unwrap();
        let processes = ["a", "b"].map(str::to_owned).to_vec();
        let (id, target) = ("t".to_owned(), Target::OffCpu);
        let expected = ProfilingOrder { id, processes, target, start_ms: 1_000, seconds: 60 };
        assert_eq!((order, update_time(&command(&[]))), (expected, 5));
    }

    #[test]
    fn what_cannot_be_done_is_reported() {
        for (changed, message) in [
            (("TargetType", "NETWORK"), "NETWORK is not profiled here"),
            (
                ("TriggerType", "CONTINUOUS_PROFILING"),
                "the trigger CONTINUOUS_PROFILING is not supported",
            ),
            (("FixedTriggerDuration", "0"), "0 s: must be from 1 to 3600"),
            (("TaskStartTime", "now"), "TaskStartTime: 'now' is not a number"),
        ] {
            let error = ProfilingOrder::of(&command(&[changed])).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
        let none = Command { command: NAME.to_owned(), args: Vec::new() };
        assert_eq!(
            ProfilingOrder::of(&none).unwrap_err().to_string(),
            "the command lacks TargetType"
        );
    }
}
