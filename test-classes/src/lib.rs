//! Runs real Java programs on real JVMs under the agent, and reads what it recorded.
//!
//! The programs are in `java/`; the tests that use them are in `tests/`. A test that lacks something, such as a JDK,
//! panics and names it. One that the machine does not allow (mounts, another user) prints `skipped: ...`, and panics
//! if the variable `CI` is set.

mod agents;
mod artifacts;
mod check;
mod classes;
mod control;
mod jdk;
mod libraries;
mod loops;
mod profile;
mod run;
mod truth_run;

pub use agents::{bytecode_agent, faults, jacoco, java_agent, second_agent, set_clock};
pub use artifacts::{Artifacts, artifacts, project};
pub use check::{Check, Checked, Compared, Pair, check, compare};
pub use classes::{changed_classes, classes, compile, ecj, newest_classes};
pub use control::{Control, NONCE, field, mac, random, tprofiler, tprofiler_json, tprofiler_text};
pub use jdk::{Jdk, compiler, found, jdks, jdks_from};
pub use libraries::{LibraryClass, classes_of, libraries, library};
pub use loops::{Loops, Plain, RECOVERY, Rates, SHARE};
pub use profile::{Counts, MethodName, Profile, Record, truth};
pub use run::{
    Dialogue, Finished, Java, Running, free_port, has_thread, hung_mount, skipped, wait_until,
};
pub use truth_run::{TRUTH, jar_of, run_plain, run_truth};
