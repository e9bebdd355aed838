//! What is recorded beside CPU time and waiting while sampling is on: lock waits, SQL statements, allocations and
//! traced calls. Keeps them to the sampler's cap.

use std::collections::HashMap;
use std::time::Duration;

use jvmti_bindings::env::{JniEnv, Jvmti};
use jvmti_bindings::prelude::jvmti;

use super::interval::{Interval, Spent};
use super::lock_brake::{LockBrake, Step};
use super::owners::Owners;
use super::paused_waits::PausedWaits;
use super::unfinished_statements;
use crate::allocations;
use crate::error::JvmError;
use crate::hotspot::own_stack::OwnStack;
use crate::hotspot::tables::Tables;
use crate::hotspot::thread_list::ThreadList;
use crate::instrument::statement_probes;
use crate::locks::{self, Key};
use crate::options::{CpuShare, SamplingOptions};
use crate::probe::traced;
use crate::statements;
use crate::stderr::message;
use crate::traces;

/// Lock waits, SQL statements, allocations and traced calls.
pub(crate) struct Events<'j> {
    jvmti: &'j Jvmti,
    jni: &'j JniEnv,
    /// The threshold of lock waits, and whether they include parks.
    lock: Option<Duration>,
    parks: bool,
    /// The threshold of SQL statements, and whether recorded ones have their literals.
    sql: Option<Duration>,
    sql_literals: bool,
    owners: Option<Owners<'j>>,
    lock_brake: LockBrake,
    paused_waits: PausedWaits,
    /// How many bytes are between two sampled allocations; `None` for no such samples.
    allocations: Option<Interval>,
    /// How many times as few calls are traced, so that they keep to the cap.
    traces: Interval,
    /// The most of the CPU time that each may take.
    cap: Option<CpuShare>,
    is_on: bool,
}

impl<'j> Events<'j> {
    pub(super) fn new(jvmti: &'j Jvmti, jni: &'j JniEnv, options: SamplingOptions) -> Self {
        let SamplingOptions { lock, parks, sql, sql_literals, cap, alloc, .. } = options;
        Self {
            jvmti,
            jni,
            lock,
            parks,
            sql,
            sql_literals,
            owners: None,
            lock_brake: LockBrake::new(cap),
            paused_waits: PausedWaits::default(),
            allocations: alloc.map(|bytes| Interval::new(bytes, cap)),
            traces: Interval::new(1, cap),
            cap,
            is_on: false,
        }
    }

    pub(super) fn begin(&mut self, tables: &Tables) {
        self.begin_locks(tables);
        if let Some(threshold) = self.sql {
            statements::begin(self.jni, threshold, self.sql_literals);
        }
        traces::turn_on(true);
        if let Err(error) = self.begin_allocations() {
            message!("alloc: {error}");
        }
        self.is_on = true;
    }

    pub(super) fn end(&mut self) {
        self.is_on = false;
        locks::end(self.jvmti, self.jni);
        // First, so that none ends meanwhile.
        statements::end(self.jni);
        unfinished_statements::record(self.jvmti, || {
            ThreadList::new(&Tables::read()?, self.jvmti, self.jni).ok()
        });
        statements::forget_calls();
        allocations::end(self.jvmti);
        traces::turn_on(false);
        self.owners = None;
    }

    /// Keeps to the cap; must be called each second. `cpu_times` returns those of threads that are looked at.
    pub(super) fn second(&mut self, cpu_times: impl Fn() -> HashMap<usize, u64>) {
        self.brake_locks(cpu_times);
        statements::second();
        statement_probes::decide(self.jni);
        self.adapt_allocations();
        self.adapt_traces();
    }

    fn begin_locks(&mut self, tables: &Tables) {
        self.lock_brake.begin();
        self.paused_waits = PausedWaits::default();
        if self.count_lock_waits() {
            let list = ThreadList::new(tables, self.jvmti, self.jni).ok();
            let threshold = self.lock.unwrap_or_default();
            self.owners = list.map(|list| Owners::new(list, self.jvmti, self.jni, threshold));
        }
    }

    /// Whether parks are to be counted.
    pub(crate) fn counts_parks(&self) -> bool {
        self.parks && self.lock.is_some()
    }

    /// Waits for locks are counted from now on; `false` if they are not.
    fn count_lock_waits(&self) -> bool {
        let Some(threshold) = self.lock else { return false };
        let begun = locks::begin(self.jvmti, self.jni, threshold, self.counts_parks());
        if let Err(error) = &begun {
            message!("lock: the JVM refuses it: {error:?}; waits are not counted");
        }
        begun.is_ok()
    }

    /// Keeps to the cap where there are very many waits.
    fn brake_locks(&mut self, cpu_times: impl Fn() -> HashMap<usize, u64>) {
        if self.owners.is_none() {
            return;
        }
        match self.lock_brake.second() {
            Step::GoOn => {}
            Step::Pause => {
                locks::pause(self.jvmti, self.jni);
                self.paused_waits = PausedWaits::begin(cpu_times());
            }
            Step::Resume => {
                let (paused, now) = (std::mem::take(&mut self.paused_waits), cpu_times());
                let still_waits = |java_thread| paused.still_waits(java_thread, &now);
                if let Err(error) = locks::resume(self.jvmti, self.jni, still_waits) {
                    message!("lock: the JVM refuses it: {error:?}; waits are not counted");
                }
            }
        }
    }

    /// Threads that waited for locks when waits were last paused.
    pub(super) const fn paused_waits(&self) -> &PausedWaits {
        &self.paused_waits
    }

    /// Asks who has the monitors for which threads wait.
    pub(crate) fn find_owners(&mut self) {
        self.owners.iter_mut().for_each(Owners::round);
    }

    /// Where the owner was for which a thread waited since `began`, when the agent asked for it.
    pub(crate) fn take_owner_stack(&mut self, key: Key, began: u64) -> Option<OwnStack> {
        self.owners.as_mut()?.take_stack(key, began)
    }

    /// The threshold of SQL statements, if they are counted.
    pub(crate) const fn sql(&self) -> Option<Duration> {
        self.sql
    }

    fn begin_allocations(&mut self) -> Result<(), JvmError> {
        let Some(interval) = &mut self.allocations else { return Ok(()) };
        interval.begin(Spent::until_now(allocations::cost_ns()));
        let begun = allocations::begin(self.jvmti, self.jni, interval.chosen());
        if begun == Err(jvmti::jvmtiError::NOT_AVAILABLE) {
            const OTHER: &str = "to sample allocations: another agent does";
            return Err(JvmError::Refused(OTHER.to_owned()));
        }
        Ok(begun?)
    }

    /// How many bytes between two sampled allocations were asked for.
    pub(crate) fn alloc(&self) -> Option<u64> {
        self.allocations.map(Interval::chosen)
    }

    /// Samples allocations with so many bytes in between from now on, or none.
    ///
    /// # Errors
    /// The JVM refuses it.
    pub(crate) fn set_allocations(&mut self, bytes: Option<u64>) -> Result<(), JvmError> {
        allocations::end(self.jvmti);
        self.allocations = bytes.map(|bytes| Interval::new(bytes, self.cap));
        if self.is_on { self.begin_allocations() } else { Ok(()) }
    }

    /// Keeps to the cap where much is allocated.
    fn adapt_allocations(&mut self) {
        let Some(interval) = &mut self.allocations else { return };
        if let Some(bytes) = interval.second(Spent::until_now(allocations::cost_ns()))
            && allocations::interval().is_some()
        {
            // The interval stays as it is.
            let _ = allocations::set_interval(self.jvmti, bytes);
        }
    }

    /// Keeps to the cap where traced methods are called often.
    fn adapt_traces(&mut self) {
        let spent = Spent::until_now(traces::cost_ns());
        if !traced::is_any() {
            self.traces.begin(spent);
            traced::set_factor(1);
        } else if let Some(factor) = self.traces.second(spent) {
            traced::set_factor(factor);
        }
    }
}
