//! Resolves the ids in recorded calls: methods, call paths and threads, and their names in the log.

use std::collections::HashMap;
use std::sync::Arc;

use log_format::rows::{MethodRow, StackRow, ThreadRow};
use log_format::writer::one_line;

use crate::drain::call_paths::CallPaths;
use crate::drain::thread_ids::ThreadIds;
use crate::drain::thread_reader::{JavaThreads, KnownThread};
use crate::instrument::methods::Methods;
use crate::log::run_log::Names;
use crate::probe::thread::ThreadName;

/// Everything that has an id in the log.
pub(crate) struct Known {
    pub methods: Arc<Methods>,
    pub paths: CallPaths,
    /// By address of the thread's data; an address is reused only after `forget`.
    pub threads: HashMap<usize, KnownThread>,
    pub ids: ThreadIds,
    /// Names of threads that have ended and may have recorded calls in the slice, by id.
    pub ended: HashMap<u32, ThreadRow>,
    pub java: Box<dyn JavaThreads>,
}

impl Known {
    pub(crate) fn new(methods: Arc<Methods>, java: Box<dyn JavaThreads>) -> Self {
        Self {
            methods,
            paths: CallPaths::new(),
            threads: HashMap::new(),
            ids: ThreadIds::default(),
            ended: HashMap::new(),
            java,
        }
    }
}

impl Known {
    /// Approximate memory that grows with threads and call paths, without that of the threads themselves.
    pub(crate) fn bytes(&self) -> usize {
        let threads = self.threads.capacity() * size_of::<(usize, KnownThread)>();
        let of_threads: usize = self.threads.values().map(KnownThread::bytes).sum();
        let ended = self.ended.capacity() * size_of::<(u32, ThreadRow)>();
        threads + of_threads + ended + self.paths.bytes() + self.ids.bytes()
    }
}

impl Names for Known {
    fn method(&self, id: u32) -> Option<MethodRow> {
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

    fn thread(&self, id: u32) -> Option<ThreadRow> {
        if let Some(ThreadName { name, java_id }) = self.ids.virtual_thread(id) {
            let (java_id, name) = (*java_id, one_line(name));
            return Some(ThreadRow { id, java_id, os_id: 0, name, kind: "virtual".to_owned() });
        }
        if let Some(row) = self.ended.get(&id) {
            return Some(row.clone());
        }
        let known = self.threads.values().find(|known| known.id == id)?;
        Some(known.row(&*self.java))
    }

    fn stack(&self, id: u32) -> Option<StackRow> {
        let (parent, method) = self.paths.get(id)?;
        Some(StackRow { id, parent, method })
    }
}
