//! Describes this JVM for `run.json`.

use jvmti_bindings::env::Jvmti;
use log_format::FORMAT_VERSION;
use log_format::run::{CpuSampling, Run};

use crate::error::Error;
use crate::jvm::service;
use crate::log::folder::LogFolder;
use crate::options::{LogOptions, Options};
use crate::sampling::engine_choice::Chosen;
use crate::session::claim::Arrival;
use crate::sys::clock;

/// Creates the log folder if needed, and checks that it can hold runs that the group may read.
///
/// # Errors
/// Why not.
pub(crate) fn check_writable(log: &LogOptions) -> Result<(), Error> {
    Ok(LogFolder::open(&log.folder, log.group.as_deref())?.check()?)
}

/// Describes the run that begins now. The port is not known yet.
pub(crate) fn describe(
    jvmti: &Jvmti,
    options: &Options,
    arrival: Arrival,
    engine: Option<&Chosen>,
) -> Run {
    let property = |name: &str| jvmti.get_system_property(name).unwrap_or_default();
    let command_line = property("sun.java.command");
    let service = service::note(&command_line);
    Run {
        format_version: FORMAT_VERSION,
        agent_version: env!("CARGO_PKG_VERSION").to_owned(),
        service,
        jvm: format!(
            "{} {} ({})",
            property("java.vm.name"),
            property("java.vm.version"),
            property("java.vm.vendor"),
        ),
        command_line,
        host: host(),
        pid: std::process::id(),
        port: None,
        start_ns: clock::unix_ns(),
        clock: clock::source().to_owned(),
        attached: arrival != Arrival::AtStart,
        cpu: CpuSampling {
            engine: engine.map(|chosen| chosen.engine.name().to_owned()),
            engine_reason: engine.and_then(|chosen| chosen.reason.clone()),
            kernel_frames: engine.map(|chosen| chosen.kernel.are_there),
            kernel_reason: engine.and_then(|chosen| chosen.kernel.reason.clone()),
        },
        options: options.to_map(),
    }
}

fn host() -> String {
    match rustix::system::uname().nodename().to_string_lossy().into_owned() {
        name if name.is_empty() => "localhost".to_owned(),
        name => name,
    }
}
