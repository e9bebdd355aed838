//! Files as TProfiler writes them, for scripts that read these.
//!
//! [`top_methods`] writes `topmethod.log` and `topobject.log` from the report. [`sampler_files`] and [`mysql_log`]
//! read the logs themselves. Only [`render`](super) calls this folder. [`crate::tprofiler`] reads the logs of
//! TProfiler.

pub(super) mod mysql_log;
pub(super) mod sampler_files;
pub(super) mod top_methods;
