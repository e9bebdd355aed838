//! The command `ProfileTaskQuery`: a task, the checks that SkyWalking's agent makes, and the line for our agent.

use std::time::Duration;

use log_format::pattern::Pattern;
use log_format::writer::is_unprintable;
use thiserror::Error;

use crate::oap::messages::Command;

/// Name of the command.
pub(crate) const NAME: &str = "ProfileTaskQuery";

/// Minutes of the shortest and the longest task.
const MINUTES: (i64, i64) = (1, 15);
const MIN_DUMP_PERIOD_MS: i64 = 10;
/// SkyWalking's agent takes fewer than ten.
const MAX_SAMPLES: i64 = 9;
/// Longest endpoint, in bytes: the agent reads lines of 4,096.
const MAX_ENDPOINT: usize = 1024;
/// Longest id, in bytes, as of the agent.
const MAX_ID: usize = 256;

/// A task as the server has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerTask {
    pub(crate) id: String,
    pub(crate) endpoint: String,
    minutes: i64,
    min_duration_ms: i64,
    dump_period_ms: i64,
    max_samples: i64,
    start_ms: i64,
}

/// What is wrong with a task.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub(crate) struct BadTask(String);

impl ServerTask {
    /// Reads the arguments of a command and checks them.
    ///
    /// # Errors
    /// The first argument that is missing or has a wrong value.
    pub(crate) fn of(command: &Command) -> Result<Self, BadTask> {
        let text = |key: &str| {
            argument(command, key).ok_or_else(|| BadTask(format!("the command lacks {key}")))
        };
        let number = |key: &str| {
            let value = text(key)?;
            value.parse::<i64>().map_err(|_| BadTask(format!("{key}: '{value}' is not a number")))
        };
        let task = Self {
            id: text("TaskId")?.to_owned(),
            endpoint: text("EndpointName")?.to_owned(),
            minutes: number("Duration")?,
            min_duration_ms: number("MinDurationThreshold")?,
            dump_period_ms: number("DumpPeriod")?,
            max_samples: number("MaxSamplingCount")?,
            start_ms: number("StartTime")?,
        };
        task.check().map_or(Ok(task), Err)
    }

    fn check(&self) -> Option<BadTask> {
        let Self { id, endpoint, minutes, min_duration_ms, dump_period_ms, max_samples, .. } = self;
        let (shortest, longest) = MINUTES;
        let reason = if id.is_empty() || id.len() > MAX_ID || !is_word(id) {
            format!("TaskId: must be 1 to {MAX_ID} visible ASCII characters without spaces")
        } else if endpoint.trim().is_empty() {
            "the endpoint must not be empty".to_owned()
        } else if endpoint.len() > MAX_ENDPOINT {
            format!("an endpoint of {} bytes; at most {MAX_ENDPOINT}", endpoint.len())
        } else if !(shortest..=longest).contains(minutes) {
            format!("duration of {minutes} minutes: must be from {shortest} to {longest}")
        } else if *min_duration_ms < 0 {
            format!("threshold of {min_duration_ms} ms: must not be negative")
        } else if *dump_period_ms < MIN_DUMP_PERIOD_MS {
            format!("dump period of {dump_period_ms} ms: must be at least {MIN_DUMP_PERIOD_MS}")
        } else if !(1..=MAX_SAMPLES).contains(max_samples) {
            format!("{max_samples} samples: must be from 1 to {MAX_SAMPLES}")
        } else {
            return None;
        };
        Some(BadTask(reason))
    }

    /// Whether its time is over.
    pub(crate) fn is_over(&self, now_ms: i64) -> bool {
        now_ms >= self.start_ms.saturating_add(self.minutes.saturating_mul(60_000))
    }

    /// How long it may last from now on, if it has begun.
    pub(crate) fn duration(&self) -> Duration {
        Duration::from_secs(u64::try_from(self.minutes).unwrap_or(0).saturating_mul(60))
    }

    /// The line that orders it from the agent. Without `methods`, the endpoint is the method.
    pub(crate) fn line(&self, methods: Option<&[Pattern]>) -> String {
        let methods = methods.unwrap_or_default().iter().map(Pattern::as_str);
        let methods = match methods.collect::<Vec<_>>().join(",") {
            none if none.is_empty() => String::new(),
            methods => format!(" methods={methods}"),
        };
        format!(
            "json task id={} start={} duration={}m min_duration={}ms dump_period={}ms max_samples={}{methods} \
             endpoint={}",
            self.id,
            self.start_ms.max(0),
            self.minutes,
            self.min_duration_ms,
            self.dump_period_ms,
            self.max_samples,
            // Control characters cannot make it a second line.
            self.endpoint.replace(is_unprintable, "?"),
        )
    }
}

/// Whether it is one word of visible ASCII. An id becomes part of the agent's line as it is.
fn is_word(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The value of a command's argument.
pub(crate) fn argument<'c>(command: &'c Command, key: &str) -> Option<&'c str> {
    command.args.iter().find(|argument| argument.key == key).map(|argument| &*argument.value)
}

/// When the server created the task, in unix milliseconds; 0 if the command does not say.
pub(crate) fn create_ms(command: &Command) -> i64 {
    argument(command, "CreateTime").and_then(|value| value.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oap::messages::KeyValue;

    /// A command as OAP 10.1.0 sends it.
    fn command(change: &[(&str, &str)]) -> Command {
        let mut arguments = vec![
            ("SerialNumber", "f5a6a7e0-0a5c-4e5e-8a5e-0d4f5b8f8e3c"),
            ("EndpointName", "/api/users"),
            ("Duration", "5"),
            ("MinDurationThreshold", "200"),
            ("DumpPeriod", "10"),
            ("MaxSamplingCount", "5"),
            ("StartTime", "1764337783000"),
            ("CreateTime", "1764337783123"),
            ("TaskId", "1764337783123_c2hvcA==.1"),
        ];
        for (key, value) in change {
            arguments.retain(|(known, _)| known != key);
            if !value.is_empty() {
                arguments.push((key, value));
            }
        }
        let args = arguments.into_iter().map(|(key, value)| KeyValue::new(key, value)).collect();
        Command { command: NAME.into(), args }
    }

    #[test]
    fn a_command_becomes_a_line_for_the_agent() {
        let task = ServerTask::of(&command(&[])).unwrap();
        assert_eq!(
            task.line(None),
            "json task id=1764337783123_c2hvcA==.1 start=1764337783000 duration=5m min_duration=200ms \
             dump_period=10ms max_samples=5 endpoint=/api/users"
        );
        let methods = ["com.shop.A.list", "com.shop.B.*"].map(|text| Pattern::parse(text).unwrap());
        let line = task.line(Some(&methods));
        assert!(line.ends_with(" methods=com.shop.A.list,com.shop.B.* endpoint=/api/users"));
        assert_eq!(create_ms(&command(&[])), 1_764_337_783_123);
        assert!(!task.is_over(1_764_337_783_000 + 299_999));
        assert!(task.is_over(1_764_337_783_000 + 300_000));
    }

    #[test]
    fn an_endpoint_cannot_become_a_second_line() {
        let task = ServerTask::of(&command(&[("EndpointName", "/a b\ndetach")])).unwrap();
        assert!(task.line(None).ends_with(" endpoint=/a b?detach"));
    }

    #[test]
    fn an_id_is_one_word() {
        let long = "x".repeat(257);
        for id in ["a b", "a\tb", "a\ndetach", "t\u{e9}", "a\u{7f}", &long] {
            let error = ServerTask::of(&command(&[("TaskId", id)])).unwrap_err();
            assert_eq!(
                error.to_string(),
                "TaskId: must be 1 to 256 visible ASCII characters without spaces"
            );
        }
        let longest = "x".repeat(256);
        for id in [&*longest, "1764337783123_c2hvcA==.1"] {
            assert_eq!(ServerTask::of(&command(&[("TaskId", id)])).unwrap().id, id);
        }
    }

    #[test]
    fn the_checks_of_skywalkings_agent() {
        for (key, value, reason) in [
            ("TaskId", "", "the command lacks TaskId"),
            ("EndpointName", " ", "the endpoint must not be empty"),
            ("Duration", "five", "Duration: 'five' is not a number"),
            ("Duration", "0", "duration of 0 minutes: must be from 1 to 15"),
            ("Duration", "16", "duration of 16 minutes: must be from 1 to 15"),
            ("MinDurationThreshold", "-1", "threshold of -1 ms: must not be negative"),
            ("DumpPeriod", "9", "dump period of 9 ms: must be at least 10"),
            ("MaxSamplingCount", "10", "10 samples: must be from 1 to 9"),
            ("MaxSamplingCount", "0", "0 samples: must be from 1 to 9"),
        ] {
            let error = ServerTask::of(&command(&[(key, value)])).unwrap_err();
            assert_eq!(error.to_string(), reason);
        }
        let long = "x".repeat(1025);
        let error = ServerTask::of(&command(&[("EndpointName", &long)])).unwrap_err();
        assert_eq!(error.to_string(), "an endpoint of 1025 bytes; at most 1024");
        for (key, value) in
            [("Duration", "15"), ("MinDurationThreshold", "0"), ("MaxSamplingCount", "9")]
        {
            ServerTask::of(&command(&[(key, value)])).unwrap();
        }
    }
}
