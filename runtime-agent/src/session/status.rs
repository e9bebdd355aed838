//! What `status` shows, and where each figure comes from.

use crate::drain::recorder::Recorder;
use crate::hotspot::allocated_bytes;
use crate::instrument::class_hook::ClassCounts;
use crate::instrument::guards::Guards;
use crate::instrument::retransformation::Retransformation;
use crate::overhead::controller::OverheadController;
use crate::probe::{self, lost_calls, mounts};
use crate::request::{MemoryFigures, RecordingFigures, SelfTestFigures, Status};
use crate::sampling::sampler::Sampler;
use crate::self_test::{compiled_out, cpu_time};
use crate::session::recording_switch::RecordingSwitch;
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
    pub cost: &'e OverheadController,
    pub sampler: Option<&'e Sampler<'e>>,
}

/// The status of now, with these hints before others.
pub(super) fn read(of: Sources<'_>, mut hints: Vec<String>) -> Status {
    let Sources { recorder, recording, classes, class_counts, guards, cost, sampler } = of;
    if classes.has_unchecked_threads() {
        hints.push(UNCHECKED_THREADS.to_owned());
    }
    Status {
        // First, because taking the threads' calls may raise thresholds.
        calls: recorder.calls(),
        exceptions: recorder.exception_figures(),
        recording: RecordingFigures {
            is_on: probe::is_recording(),
            since_ns: recording.since_ns(),
            thresholds: recorder.thresholds(),
            traces: recorder.traces(),
        },
        memory: memory_figures(),
        muting: guards.muting(),
        overhead: cost.figures(recording.is_on()),
        instrumented: class_counts.figures(),
        loaded_classes: classes.figures(),
        log: recorder.log_figures(),
        clock: recorder.clock_figures(),
        sampling: sampler.map(|sampler| recorder.sampling_figures(sampler)),
        self_tests: self_test_figures(),
        hints,
    }
}

fn memory_figures() -> MemoryFigures {
    let (used_bytes, max_bytes) = memory::used_and_max();
    MemoryFigures { used_bytes, max_bytes, threads_not_measured: lost_calls::threads() }
}

fn self_test_figures() -> SelfTestFigures {
    SelfTestFigures {
        folded: compiled_out::folded(),
        renewed: compiled_out::renewed(),
        is_near: probe::is_thread_word_near(),
        allocated: allocated_bytes::found(),
        events: mounts::events(),
        cpu_ns: cpu_time::used_ns(),
    }
}
