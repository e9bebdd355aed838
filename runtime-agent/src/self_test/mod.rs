//! Tests whether the HotSpot and C library internals that the agent relies on work in this process.
//!
//! Each trick has a test at the start and a plain mode. `unknown` selects the plain mode. The table in
//! docs/architecture.md says what each relies on and what happens without it.

pub(crate) mod compiled_out;
pub(crate) mod cpu_time;
pub(crate) mod jdk;
pub(crate) mod verdict;

use std::sync::Once;

use jvmti_bindings::env::Jvmti;

pub(crate) use self::jdk::NEWEST_TESTED;
use crate::options::{Pretend, ProbeChoice};
use crate::stderr::message;

/// Begins an attachment: decides whether probes are fast. Says so once if they are plain because the JDK is newer than
/// any tested one.
pub(crate) fn begin(jvmti: &Jvmti, form: ProbeChoice, pretend: &Pretend) -> bool {
    static SAID: Once = Once::new();
    cpu_time::forget();
    let newest = pretend.newest_tested.unwrap_or(NEWEST_TESTED);
    let version = jdk::version(jvmti);
    let is_tested = version.is_some_and(|version| version <= newest);
    if !is_tested && form == ProbeChoice::Auto {
        let jdk = version.map_or_else(|| "this JDK".to_owned(), |version| format!("JDK {version}"));
        SAID.call_once(|| {
            message!(
                "{jdk} is newer than JDK {newest}, the newest that the agent was tested on: probes are plain, \
                 and throttled methods cost more; probe=fast overrides this"
            );
        });
    }
    match form {
        ProbeChoice::Auto => is_tested,
        ProbeChoice::Fast => true,
        ProbeChoice::Plain => false,
    }
}
