//! SkyWalking's server, the OAP: its messages, and the connection to it.

mod backoff;
mod link;
pub mod messages;
pub mod process_messages;

pub(crate) use self::backoff::Backoff;
pub(crate) use self::link::{Link, Refused};

/// Paths of the gRPC methods that this program calls.
pub(crate) mod method {
    pub(crate) const REPORT_PROPERTIES: &str =
        "/skywalking.v3.ManagementService/reportInstanceProperties";
    pub(crate) const KEEP_ALIVE: &str = "/skywalking.v3.ManagementService/keepAlive";
    pub(crate) const GET_TASKS: &str = "/skywalking.v3.ProfileTask/getProfileTaskCommands";
    pub(crate) const COLLECT_SNAPSHOTS: &str = "/skywalking.v3.ProfileTask/collectSnapshot";
    pub(crate) const REPORT_FINISH: &str = "/skywalking.v3.ProfileTask/reportTaskFinish";
    pub(crate) const REPORT_PROCESSES: &str = "/skywalking.v3.EBPFProcessService/reportProcesses";
    pub(crate) const PROCESS_KEEP_ALIVE: &str = "/skywalking.v3.EBPFProcessService/keepAlive";
    pub(crate) const QUERY_PROFILING: &str = "/skywalking.v3.EBPFProfilingService/queryTasks";
    pub(crate) const COLLECT_PROFILING: &str =
        "/skywalking.v3.EBPFProfilingService/collectProfilingData";
    pub(crate) const COLLECT_SEGMENTS: &str = "/skywalking.v3.TraceSegmentReportService/collect";
}
