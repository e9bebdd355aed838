//! What answers say of profile tasks.

use log_format::file_names::utc_text;
use log_format::human;
use log_format::rows::TaskRow;
use log_format::writer::one_line;
use serde_json::{Value, json};

use super::answer::Answer;
use crate::request::Found;

pub(super) fn add_found_tasks(answer: &mut Answer, found: &Found) {
    match found {
        Found::Task(task) => {
            answer.line("task", text(task));
            answer.value("task", value(task));
        }
        Found::Tasks(tasks) => {
            for task in tasks {
                answer.line("task", text(task));
            }
            answer.value("tasks", tasks.iter().map(value).collect::<Vec<_>>());
        }
        _ => {}
    }
}

fn text(task: &TaskRow) -> String {
    let TaskRow { start_ns, duration_ns, min_duration_ns, dump_period_ns, .. } = task;
    let reason = if task.reason.is_empty() { "" } else { "; reason: " };
    let least = match min_duration_ns {
        0 => "of any duration".to_owned(),
        ns => format!("of at least {}", human::duration(*ns)),
    };
    one_line(&format!(
        "{} {}, {} of {} requests of {} {least}, start {}, duration {}, dump period {}{reason}{}",
        task.task,
        task.state.name(),
        task.requests,
        task.max_samples,
        task.endpoint,
        utc_text(*start_ns),
        human::duration(*duration_ns),
        human::duration(*dump_period_ns),
        task.reason,
    ))
}

fn value(task: &TaskRow) -> Value {
    json!({
        "id": task.task,
        "state": task.state,
        "endpoint": task.endpoint,
        "methods": task.methods,
        "start_ns": task.start_ns,
        "duration_ns": task.duration_ns,
        "min_duration_ns": task.min_duration_ns,
        "dump_period_ns": task.dump_period_ns,
        "max_samples": task.max_samples,
        "requests": task.requests,
        "reason": task.reason,
    })
}
