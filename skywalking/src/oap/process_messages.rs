//! Messages of the protocol's eBPF services, as [`messages`](super::messages).

use prost::{Message, Oneof};

use super::messages::KeyValue;

/// `EBPFProcessReportList` of `EBPFProcessService.reportProcesses`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ProcessReport {
    /// The processes.
    #[prost(message, repeated, tag = "1")]
    pub processes: Vec<ProcessProperties>,
    /// The reporter's id.
    #[prost(string, tag = "2")]
    pub agent_id: String,
}

/// `EBPFProcessProperties`, always of a host's process.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ProcessProperties {
    /// The process.
    #[prost(message, optional, tag = "1")]
    pub host_process: Option<HostProcess>,
}

/// `EBPFHostProcessMetadata`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct HostProcess {
    /// What it is.
    #[prost(message, optional, tag = "1")]
    pub entity: Option<ProcessEntity>,
    /// Its id on the host.
    #[prost(int32, tag = "2")]
    pub pid: i32,
    /// What is known of it.
    #[prost(message, repeated, tag = "3")]
    pub properties: Vec<KeyValue>,
}

/// `EBPFProcessEntityMetadata`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ProcessEntity {
    /// The service's layer.
    #[prost(string, tag = "1")]
    pub layer: String,
    /// Name of the service.
    #[prost(string, tag = "2")]
    pub service: String,
    /// Name of the instance.
    #[prost(string, tag = "3")]
    pub instance: String,
    /// Name of the process.
    #[prost(string, tag = "4")]
    pub process: String,
    /// Labels by which tasks choose processes.
    #[prost(string, repeated, tag = "5")]
    pub labels: Vec<String>,
}

/// `EBPFReportProcessDownstream`: the ids that the server gave.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ReportedProcesses {
    /// In the order of the report.
    #[prost(message, repeated, tag = "1")]
    pub processes: Vec<ReportedProcess>,
}

/// `EBPFProcessDownstream`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ReportedProcess {
    /// The id.
    #[prost(string, tag = "1")]
    pub id: String,
}

/// `EBPFProcessPingPkgList` of `EBPFProcessService.keepAlive`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ProcessPings {
    /// The processes.
    #[prost(message, repeated, tag = "1")]
    pub processes: Vec<ProcessPing>,
    /// The reporter's id.
    #[prost(string, tag = "2")]
    pub agent_id: String,
}

/// `EBPFProcessPingPkg`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ProcessPing {
    /// The process.
    #[prost(message, optional, tag = "1")]
    pub entity: Option<ProcessEntity>,
    /// What is known of it.
    #[prost(message, repeated, tag = "2")]
    pub properties: Vec<KeyValue>,
}

/// `EBPFProfilingTaskQuery` of `EBPFProfilingService.queryTasks`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ProfilingQuery {
    /// The reporter's id.
    #[prost(string, tag = "1")]
    pub agent_id: String,
    /// `TaskUpdateTime` of the newest task that is known, in unix milliseconds.
    #[prost(int64, tag = "2")]
    pub latest_update_time: i64,
}

/// `EBPFProfilingData` of `EBPFProfilingService.collectProfilingData`: one stack.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ProfilingData {
    /// The task.
    #[prost(message, optional, tag = "1")]
    pub task: Option<ProfilingTask>,
    /// The stack.
    #[prost(oneof = "Profiled", tags = "2, 3")]
    pub profiled: Option<Profiled>,
}

/// What of the stack is known.
#[derive(Clone, PartialEq, Eq, Oneof)]
pub enum Profiled {
    /// Samples on the processor.
    #[prost(message, tag = "2")]
    OnCpu(OnCpuData),
    /// Times off it.
    #[prost(message, tag = "3")]
    OffCpu(OffCpuData),
}

/// `EBPFProfilingTaskMetadata`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ProfilingTask {
    /// Id of the task.
    #[prost(string, tag = "1")]
    pub task_id: String,
    /// Id of the process.
    #[prost(string, tag = "2")]
    pub process_id: String,
    /// When its profiling began, in unix milliseconds.
    #[prost(int64, tag = "3")]
    pub start_time: i64,
    /// When the stack was taken, in unix milliseconds.
    #[prost(int64, tag = "4")]
    pub current_time: i64,
}

/// `EBPFProfilingStackMetadata`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct StackData {
    /// 0 in the kernel, 1 in the process.
    #[prost(int32, tag = "1")]
    pub stack_type: i32,
    /// A number.
    #[prost(int32, tag = "2")]
    pub id: i32,
    /// Innermost first.
    #[prost(string, repeated, tag = "3")]
    pub symbols: Vec<String>,
}

/// [`StackData::stack_type`] of a stack in the kernel.
pub const KERNEL_SPACE: i32 = 0;
/// [`StackData::stack_type`] of a stack in the process.
pub const USER_SPACE: i32 = 1;

/// `EBPFOnCPUProfiling`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct OnCpuData {
    /// The stack.
    #[prost(message, repeated, tag = "1")]
    pub stacks: Vec<StackData>,
    /// How many samples have it.
    #[prost(int32, tag = "2")]
    pub dump_count: i32,
}

/// `EBPFOffCPUProfiling`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct OffCpuData {
    /// The stack.
    #[prost(message, repeated, tag = "1")]
    pub stacks: Vec<StackData>,
    /// How often a thread left the processor there.
    #[prost(int32, tag = "2")]
    pub switch_count: i32,
    /// For how long, in nanoseconds.
    #[prost(int64, tag = "3")]
    pub duration: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that `protoc --encode` of the real `.proto` files gives for the same message.
    #[test]
    fn messages_have_the_bytes_of_the_protocol() {
        let stack = StackData { stack_type: USER_SPACE, id: 7, symbols: vec!["a.B.c".into()] };
        let data = OffCpuData { stacks: vec![stack], switch_count: 3, duration: 300 };
        let data = ProfilingData {
            task: Some(ProfilingTask {
                task_id: "t".into(),
                current_time: 5,
                ..Default::default()
            }),
            profiled: Some(Profiled::OffCpu(data)),
        };
        let bytes = b"\x0a\x05\x0a\x01t\x20\x05\x1a\x12\x0a\x0b\x08\x01\x10\x07\x1a\x05a.B.c\x10\x03\x18\xac\x02";
        assert_eq!(data.encode_to_vec(), bytes);
    }
}
