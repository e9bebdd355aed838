//! What `status` shows, and where each figure comes from.

use crate::drain::recorder::Recorder;
use crate::instrument::class_hook::ClassCounts;
use crate::instrument::guards::Guards;
use crate::instrument::retransformation::Retransformation;
use crate::jvm::pauses;
use crate::overhead::Overhead;
use crate::probe::mute::{self, Cause};
use crate::probe::{self, lost_calls};
use crate::request::Status;
use crate::sampling::sampler::Sampler;
use crate::self_test;
use crate::session::recording_switch::RecordingSwitch;
use crate::sys::clock;
use crate::sys::memory;

const UNCHECKED_THREADS: &str = "virtual threads that stayed parked for two seconds were not looked at; a loop of \
     theirs may be slow until it returns";

/// The parts of the agent loop that have the figures.
pub(super) struct Sources<'e> {
    pub recorder: &'e mut Recorder,
    pub recording: &'e RecordingSwitch<'e>,
    pub classes: &'e Retransformation<'e>,
    pub class_counts: &'e ClassCounts,
    pub guards: &'e Guards,
    pub overhead: &'e Overhead,
    pub sampler: Option<&'e Sampler<'e>>,
}

/// The status of now, with these hints before others.
pub(super) fn read(of: Sources<'_>, mut hints: Vec<String>) -> Status {
    let Sources { recorder, recording, classes, class_counts, guards, overhead, sampler } = of;
    let sums = recorder.sums();
    let (threshold_ns, own) = recorder.thresholds();
    let changes = classes.counts();
    if changes.has_unchecked_threads {
        hints.push(UNCHECKED_THREADS.to_owned());
    }
    Status {
        hints,
        is_recording: probe::is_recording(),
        threshold_ns,
        own_thresholds: own.into_iter().map(|own| (own.pattern, own.ns)).collect(),
        raised_to_ns: recorder.raised_to_ns(),
        since_ns: recording.since_ns(),
        classes: class_counts.classes(),
        methods: class_counts.methods(),
        calls: sums.calls,
        recorded_calls: sums.records,
        recorded_calls_dropped: sums.recorded_calls_dropped,
        lost_calls: sums.lost_calls,
        threads_not_measured: lost_calls::threads(),
        memory: memory::used_and_max(),
        unseen_ends: sums.unseen_ends,
        mute_rules: guards.rules().to_vec(),
        muted_methods: guards.muted_count(),
        muted_calls: mute::dropped_calls(Cause::User),
        throttled_calls: mute::dropped_calls(Cause::Agent),
        overhead: overhead.budget(),
        overhead_share: if recording.is_on() { overhead.share() } else { 0.0 },
        throttled_methods: overhead.throttled().len() as u64,
        methods_not_instrumented: class_counts.not_instrumented(),
        leaves: class_counts.leaves(),
        io_errors: recorder.log().io_errors,
        logs: recorder.log().folder().path().display().to_string(),
        bytes_this_hour: recorder.budget().spent(),
        hour_budget: recorder.budget().hour_bytes(),
        recorded_calls_over_budget: sums.recorded_calls_over_budget,
        deleted_hours: recorder.log().deleted_hours(),
        retransformed_classes: changes.changed,
        not_retransformed: changes.refused + changes.skipped,
        not_seen_loaded: 0,
        postponed: classes.postponed(),
        caught_loops: changes.caught,
        pauses: pauses::figures(),
        stack_looks: pauses::looks(),
        clock: clock::source(),
        clock_jumps: recorder.clock_jumps(),
        sampling: sampler.map(|sampler| recorder.sampling_figures(sampler)),
        timers_refused: Sampler::counts().1,
        self_tests: self_test::Results::now(),
    }
}
