//! Statements of JDBC: all are counted, by text without literals and instrumented method; those over the threshold are
//! kept with their stacks.
//!
//! ```text
//! natives     what the probes call
//! in_progress calls of JDBC's methods that have not ended, by thread
//! objects     what is known of connections and statements, by identity hash
//! texts       texts by number, as they came and without literals
//! literals    makes the latter
//! urls        URLs of databases by number, without secrets
//! generations a map that forgets what is not used
//! counts      whether they are counted, how many are lost, and what that costs
//! sums        all executions that have ended
//! slow        those over the threshold, until the agent thread takes them
//! ```
//! `instrument::statement_probes` says which methods have probes.
//!
//! An execution is a call of an `execute` method. Pools and proxies call the driver with the same text: the innermost
//! object counts. Calls of one object in one another are one execution: the outer one. A statement with another text
//! inside (of a trigger, for example) counts by itself.
//!
//! Nothing keeps a statement, connection or loader alive. Two objects can have the same identity hash of 31 bits: of
//! 100,000 statements, one in 20,000 has another's. Then the text of the one that was prepared last counts for both.

mod counts;
mod generations;
mod in_progress;
mod literals;
mod natives;
mod objects;
mod slow;
mod sums;
mod texts;
mod urls;

use std::collections::HashSet;
use std::time::Duration;

use jvmti_bindings::env::JniEnv;

use crate::jvm::statement_class::StatementClass;
use crate::sys::clock;

pub(crate) use self::counts::{Counts, StatementFigures, cost_ns};
pub(crate) use self::in_progress::thread_ended;
pub(crate) use self::natives::in_progress;
pub(crate) use self::slow::{Execution, SlowStatement, add_unfinished, take as take_slow};
pub(crate) use self::sums::{StatementKey, StatementSum, take as take_sums};
use self::texts::TextId;

/// Statements are counted from now on, but not those in progress. The agent thread calls this.
pub(crate) fn begin(jni: &JniEnv, threshold: Duration, with_literals: bool) {
    let Some(class) = StatementClass::get() else { return };
    in_progress::clear();
    let threshold_ns = u64::try_from(threshold.as_nanos()).unwrap_or(u64::MAX);
    slow::set_threshold(clock::ns_to_ticks(threshold_ns));
    texts::keep_literals(with_literals);
    counts::turn_on(true);
    class.set_on(jni, true);
}

/// No more statements are counted. Those in progress stay as they are.
pub(crate) fn end(jni: &JniEnv) {
    if let Some(class) = StatementClass::get() {
        class.set_on(jni, false);
    }
    stop();
}

/// The same, without touching the data.
pub(crate) fn stop() {
    counts::turn_on(false);
}

/// Forgets the calls that have not ended.
pub(crate) fn forget_calls() {
    in_progress::clear();
}

/// Forgets everything but the last number of a text: a run begins, or a detach.
pub(crate) fn forget() {
    in_progress::clear();
    objects::clear();
    texts::clear();
    drop((take_sums(), take_slow()));
}

/// Gives memory of what is not used back. The agent thread calls this in each round.
pub(crate) fn round() {
    objects::age();
    texts::age();
}

/// A second has passed.
pub(crate) fn second() {
    slow::begin_second();
}

/// Forgets the texts that are in none of these keys, that no statement and no call has, and that came before the one
/// with the number `last`. Returns the number of the last one.
pub(crate) fn forget_texts(used: impl Iterator<Item = StatementKey>, last: u32) -> u32 {
    let mut used: HashSet<TextId> = used.map(|key| key.text).collect();
    objects::for_each(|object| _ = used.insert(object.text.id));
    in_progress::for_each_text(|text| _ = used.insert(text.id));
    texts::retain(&used, last)
}

/// The database and the text of a key.
pub(crate) fn name(key: StatementKey) -> (String, String) {
    (urls::name(key.url), texts::name(key.text))
}

/// The text as it came, if that is kept.
pub(crate) fn with_literals(slow: &SlowStatement) -> String {
    texts::raw(slow.raw).unwrap_or_default()
}
