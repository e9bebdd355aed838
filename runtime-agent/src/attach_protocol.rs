//! How other processes see the agent: the code that `Agent_OnAttach` returns, which is all that the JVM tells the
//! attaching process, and the kernel's names of the agent's threads.
//!
//! The threads exist as long as the agent is active, can be seen without a connection, and in containers too.

/// The request is done, or has begun.
pub const OK: i32 = 0;
/// An option is wrong, or the log folder cannot be used.
pub const WRONG_OPTIONS: i32 = 1;
/// The agent is already active in this JVM.
pub const ATTACHED_ALREADY: i32 = 2;
/// There is nothing to detach.
pub const NOT_ATTACHED: i32 = 3;
/// The JVM refuses what the agent needs.
pub const REFUSED: i32 = 4;
/// The agent could not be detached.
pub const NOT_DETACHED: i32 = 5;
/// An option is wrong, and the JVM must not start because of it; only for `premain`.
pub const STRICT: i32 = 6;

/// The option string that asks the agent to detach.
pub const DETACH: &str = "detach";

/// The agent thread's name in the kernel while it prepares a run.
pub const BEGINNING: &str = "tprofiler-begin";
/// The agent thread's name during a run.
pub const ATTACHED: &str = "tprofiler";
/// The agent thread's name after a run.
pub const ENDING: &str = "tprofiler-end";

/// The agent's token file, in the run's folder. The agent keeps it open while it listens.
pub const TOKEN_FILE: &str = "control.token";

/// The name of the thread that listens on the control port. The kernel keeps 15 bytes of a name.
#[must_use]
pub fn control_thread(port: u16) -> String {
    format!("tprofiler:{port}")
}

/// The port in the control thread's name; `None` for other threads.
#[must_use]
pub fn control_port(thread: &str) -> Option<u16> {
    thread.strip_prefix("tprofiler:")?.parse().ok()
}

const _: () = assert!(BEGINNING.len() <= 15 && ATTACHED.len() <= 15 && ENDING.len() <= 15);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_control_thread_has_the_port() {
        let name = control_thread(65_535);
        assert!(name.len() <= 15);
        assert_eq!(control_port(&name), Some(65_535));
        assert_eq!(control_port("tprofiler"), None);
        assert_eq!(control_port(BEGINNING), None);
    }
}
