//! Resolves the ids in recorded calls: methods, call paths and threads, and their names in the log.

use std::collections::HashMap;
use std::sync::Arc;

use log_format::ids::{
    FrameId, MethodId, OsThreadId, SampledStackId, StackId, StatementId, ThreadId,
};
use log_format::rows::{FrameRow, MethodRow, SampledStackRow, StackRow, StatementRow, ThreadRow};
use log_format::writer::one_line;

use crate::drain::call_paths::CallPaths;
use crate::drain::samples::Samples;
use crate::drain::statements::StatementIds;
use crate::drain::thread_ids::ThreadIds;
use crate::drain::thread_reader::{JavaThreads, ThreadReading};
use crate::instrument::methods::Methods;
use crate::log::part_files::Names;
use crate::probe::thread::ThreadName;

/// Everything that has an id in the log.
pub(crate) struct Registry {
    pub methods: Arc<Methods>,
    pub paths: CallPaths,
    /// By address of the thread's data; an address is reused only after `forget`.
    pub threads: HashMap<usize, ThreadReading>,
    /// How many threads there had been so far when all were met.
    pub threads_met: u64,
    /// Ids of these threads, by the kernel's number.
    pub by_os_id: HashMap<OsThreadId, ThreadId>,
    pub ids: ThreadIds,
    /// Names of threads that have ended and may have recorded calls in the slice, by id.
    pub ended: HashMap<ThreadId, ThreadRow>,
    pub java: Box<dyn JavaThreads>,
    pub samples: Samples,
    pub statements: StatementIds,
}

impl Registry {
    pub(crate) fn new(methods: Arc<Methods>, java: Box<dyn JavaThreads>) -> Self {
        Self {
            methods,
            paths: CallPaths::new(),
            threads: HashMap::new(),
            threads_met: 0,
            by_os_id: HashMap::new(),
            ids: ThreadIds::default(),
            ended: HashMap::new(),
            java,
            samples: Samples::new(),
            statements: StatementIds::default(),
        }
    }
}

impl Registry {
    /// Approximate memory that grows with threads and call paths, without that of the threads themselves.
    pub(crate) fn bytes(&self) -> usize {
        let threads = self.threads.capacity() * size_of::<(usize, ThreadReading)>();
        let of_threads: usize = self.threads.values().map(ThreadReading::bytes).sum();
        let ended = self.ended.capacity() * size_of::<(ThreadId, ThreadRow)>();
        threads
            + of_threads
            + ended
            + self.paths.bytes()
            + self.ids.bytes()
            + self.samples.bytes()
            + self.statements.bytes()
    }
}

impl Names for Registry {
    fn method(&self, id: MethodId) -> Option<MethodRow> {
        let method = self.methods.get(id)?;
        Some(MethodRow {
            id,
            loader: one_line(&method.class.loader),
            class: one_line(&method.class.name),
            method: one_line(&method.name),
            descriptor: one_line(&method.descriptor),
            source: one_line(&method.class.source),
            line: method.line,
        })
    }

    fn thread(&self, id: ThreadId) -> Option<ThreadRow> {
        if let Some(ThreadName { name, java_id }) = self.ids.virtual_thread(id) {
            let (java_id, name) = (*java_id, one_line(name));
            return Some(ThreadRow {
                id,
                java_id,
                os_id: OsThreadId::NONE,
                name,
                kind: "virtual".to_owned(),
            });
        }
        if let Some(row) = self.ended.get(&id) {
            return Some(row.clone());
        }
        let known = self.threads.values().find(|known| known.id == id);
        known.map(|known| known.row(&*self.java)).or_else(|| self.samples.threads().row(id))
    }

    fn is_named(&self, id: ThreadId) -> bool {
        self.ids.virtual_thread(id).is_some_and(|thread| !thread.name.is_empty())
    }

    fn stack(&self, id: StackId) -> Option<StackRow> {
        let (parent, method) = self.paths.get(id)?;
        Some(StackRow { id, parent, method })
    }

    fn frame(&self, id: FrameId) -> Option<FrameRow> {
        self.samples.stacks().frame_row(id)
    }

    fn statement(&self, id: StatementId) -> Option<StatementRow> {
        self.statements.row(id)
    }

    fn sampled_stack(&self, id: SampledStackId) -> Option<SampledStackRow> {
        self.samples.stacks().stack_row(id)
    }
}
