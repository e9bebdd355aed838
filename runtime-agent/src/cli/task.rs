//! `tprofiler task`: the line that orders or ends a profile task.

use std::path::PathBuf;

use clap::Args;
use log_format::error::BadValue;
use log_format::pattern::Pattern;
use log_format::writer::is_unprintable;

use super::endpoints::Endpoints;
use super::values::word;

#[derive(Clone, Debug, Args)]
pub(super) struct TaskArguments {
    /// An entry method like com.shop.OrderController.pay, or a name that --methods or --endpoints gives to methods
    #[arg(long, value_name = "NAME", required_unless_present = "cancel")]
    endpoint: Option<String>,
    /// The endpoint's methods: patterns, separated by commas
    #[arg(long, value_name = "PATTERN", conflicts_with = "endpoints", value_parser = word)]
    methods: Option<String>,
    /// A file with lines like: /api/users = com.shop.UserController.list
    #[arg(long, value_name = "FILE")]
    endpoints: Option<PathBuf>,
    /// When to begin: +10m from now on, or the next 14:00 in the JVM's time zone, for example [default: now]
    #[arg(long, value_name = "TIME", value_parser = word)]
    start: Option<String>,
    /// How long to record, from 1m to 15m
    #[arg(long, value_name = "TIME", default_value = "5m", allow_hyphen_values = true, value_parser = word)]
    duration: String,
    /// Record only requests that take at least so long
    #[arg(long, value_name = "TIME", default_value = "0", allow_hyphen_values = true, value_parser = word)]
    min_duration: String,
    /// The time between two snapshots in the analysis, at least 10ms
    #[arg(long, value_name = "TIME", default_value = "10ms", allow_hyphen_values = true, value_parser = word)]
    dump_period: String,
    /// How many requests to record, from 1 to 9
    #[arg(long, value_name = "N", default_value = "5", allow_hyphen_values = true, value_parser = word)]
    max_samples: String,
    /// The task's id [default: made of the time]
    #[arg(long, value_parser = word)]
    id: Option<String>,
    /// End the task with this id
    #[arg(long, value_name = "ID", conflicts_with_all = ["endpoint", "methods", "endpoints", "start", "duration", "min_duration", "dump_period", "max_samples", "id"])]
    cancel: Option<String>,
}

impl TaskArguments {
    /// Takes the endpoint's methods from the mapping file.
    ///
    /// # Errors
    /// The file cannot be read, or lacks the endpoint.
    pub(super) fn with_endpoints(mut self) -> Result<Self, BadValue> {
        let (Some(file), Some(endpoint)) = (&self.endpoints, &self.endpoint) else {
            return Ok(self);
        };
        let endpoints = Endpoints::read(file)?;
        let methods = endpoints.methods(endpoint).ok_or_else(|| {
            BadValue::because(format!("no line for {endpoint}")).of(file.display())
        })?;
        self.methods = Some(methods.iter().map(Pattern::as_str).collect::<Vec<_>>().join(","));
        Ok(self)
    }

    /// The line for the agent, which checks the values.
    pub(super) fn line(&self) -> String {
        if let Some(id) = &self.cancel {
            return format!("cancel {}", id.replace(is_unprintable, "?"));
        }
        let mut line = "task".to_owned();
        for (key, value) in [
            ("id", self.id.as_ref()),
            ("start", self.start.as_ref()),
            ("duration", Some(&self.duration)),
            ("min_duration", Some(&self.min_duration)),
            ("dump_period", Some(&self.dump_period)),
            ("max_samples", Some(&self.max_samples)),
            ("methods", self.methods.as_ref()),
        ] {
            if let Some(value) = value {
                line = format!("{line} {key}={value}");
            }
        }
        let endpoint = self.endpoint.as_deref().unwrap_or_default();
        format!("{line} endpoint={}", endpoint.replace(is_unprintable, "?"))
    }
}
