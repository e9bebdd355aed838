//! The name of the service that runs in this JVM: its main class, or the file name of its jar.

use std::sync::OnceLock;

use log_format::writer::is_unprintable;

/// Known once it was noted. A process has one JVM.
static NAME: OnceLock<String> = OnceLock::new();

/// The name, on one line; `unknown` if the JVM does not say.
pub(crate) fn name() -> &'static str {
    NAME.get().map_or("unknown", String::as_str)
}

/// Finds the name in the property `sun.java.command`, and keeps it for [`name`].
pub(crate) fn note(command_line: &str) -> String {
    let first = command_line.split(' ').next().unwrap_or_default();
    let service = first.rsplit('/').next().unwrap_or_default().to_owned();
    if !service.is_empty() {
        // A file name may contain line breaks, a line of an answer may not.
        let _ = NAME.set(service.replace(is_unprintable, "?"));
    }
    service
}
