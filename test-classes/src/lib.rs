//! Runs real Java programs on real JVMs under the agent, and reads what it recorded.
//!
//! The programs are in `java/`; the tests that use them are in `tests/`, one file for a part of the product. Begin to
//! read at [`Java`], which starts a program, and [`Profile`], which reads what was recorded. A test that lacks
//! something, such as a JDK, panics and names it. One that the machine does not allow (mounts, another user) prints
//! `skipped: ...`, and panics if the variable `CI` is set.

mod agents;
mod artifacts;
pub mod attaching;
mod check;
mod classes;
mod control;
mod jdk;
mod lane;
mod libraries;
mod loops;
mod profile;
mod run;
mod samples;
mod service;
mod skywalking;
mod sql_run;
mod statements;
mod tasks;
mod truth_run;

pub use agents::{
    bytecode_agent, fault_handler, faults, jacoco, java_agent, second_agent, set_clock,
};
pub use artifacts::{Artifacts, artifacts, project, tprofiler_of_skywalking};
pub use check::{Check, Checked, Compared, Pair, check, compare, is_in_lane};
pub use classes::{
    agent_jar, changed_classes, classes, compile, ecj, install_agent_jar, jar_in, newest_classes,
    sql_classes,
};
pub use control::{
    Control, NONCE, error_line, field, mac, random, tprofiler, tprofiler_json, tprofiler_text,
    without_notice,
};
pub use jdk::{Jdk, at_once, compiler, ends_of_jdks, found, jdks, jdks_by_turns, jdks_from};
pub use lane::{is_full, rounds};
pub use libraries::{LibraryClass, async_profiler, classes_of, libraries, library};
pub use loops::{Loops, Plain, RECOVERY, SHARE};
pub use profile::{Counts, MethodName, Profile, Record, rows, truth};
pub use run::{
    Dialogue, Finished, Java, Running, free_port, has_thread, hung_mount, may_load, rings, skipped,
    tasks_of, timers, wait_until,
};
pub use samples::{
    ExceptionExample, LockWait, Sampled, TracedCalls, exception_examples, lock_waits, off_cpu,
    samples, sources, traced_calls,
};
pub use service::{Service, TOKEN_NEEDED};
pub use skywalking::{Bridge, Kafka, Oap, TreeElement, service_id};
pub use sql_run::{SqlRun, run_sql, sql_expected, sql_java, sql_java_with};
pub use statements::{Executed, SlowStatement, Sums, executions, secrets, slow_statements, sums};
pub use tasks::{Request, Task, TaskCall, tasks};
pub use truth_run::{TRUTH, jar_of, run_plain, run_truth};
