//! Messages of SkyWalking's data collect protocol 10, as far as this program needs them. `prost` encodes them; nothing
//! is generated, so no `protoc` is needed. Numbers are those of the `.proto` files in `apm-network-10.1.0.jar`.

use prost::Message;

/// `KeyStringValuePair`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct KeyValue {
    /// The key.
    #[prost(string, tag = "1")]
    pub key: String,
    /// The value.
    #[prost(string, tag = "2")]
    pub value: String,
}

impl KeyValue {
    /// A pair of these texts.
    pub fn new(key: impl Into<String>, value: impl Into<String>) -> Self {
        Self { key: key.into(), value: value.into() }
    }
}

/// `Command`: what the server wants of an agent.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Command {
    /// Its name, as `ProfileTaskQuery`.
    #[prost(string, tag = "1")]
    pub command: String,
    /// Its arguments.
    #[prost(message, repeated, tag = "2")]
    pub args: Vec<KeyValue>,
}

/// `Commands`: the answer to most calls.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Commands {
    /// The commands.
    #[prost(message, repeated, tag = "1")]
    pub commands: Vec<Command>,
}

/// `InstanceProperties` of `ManagementService.reportInstanceProperties`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct InstanceProperties {
    /// Name of the service.
    #[prost(string, tag = "1")]
    pub service: String,
    /// Name of the instance.
    #[prost(string, tag = "2")]
    pub service_instance: String,
    /// What the UI shows of the instance.
    #[prost(message, repeated, tag = "3")]
    pub properties: Vec<KeyValue>,
    /// The service's layer, as `GENERAL`.
    #[prost(string, tag = "4")]
    pub layer: String,
}

/// `InstancePingPkg` of `ManagementService.keepAlive`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct InstancePing {
    /// Name of the service.
    #[prost(string, tag = "1")]
    pub service: String,
    /// Name of the instance.
    #[prost(string, tag = "2")]
    pub service_instance: String,
    /// The service's layer.
    #[prost(string, tag = "3")]
    pub layer: String,
}

/// `ProfileTaskCommandQuery` of `ProfileTask.getProfileTaskCommands`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct TaskQuery {
    /// Name of the service.
    #[prost(string, tag = "1")]
    pub service: String,
    /// Name of the instance.
    #[prost(string, tag = "2")]
    pub service_instance: String,
    /// `CreateTime` of the newest task that the instance knows, in unix milliseconds.
    #[prost(int64, tag = "3")]
    pub last_command_time: i64,
}

/// `ProfileTaskFinishReport` of `ProfileTask.reportTaskFinish`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct TaskFinish {
    /// Name of the service.
    #[prost(string, tag = "1")]
    pub service: String,
    /// Name of the instance.
    #[prost(string, tag = "2")]
    pub service_instance: String,
    /// Id of the task.
    #[prost(string, tag = "3")]
    pub task_id: String,
}

/// `ThreadStack`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ThreadStack {
    /// `class.method:line`, outermost first.
    #[prost(string, repeated, tag = "1")]
    pub code_signatures: Vec<String>,
}

/// `ThreadSnapshot` of `ProfileTask.collectSnapshot`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ThreadSnapshot {
    /// Id of the task.
    #[prost(string, tag = "1")]
    pub task_id: String,
    /// Id of the request's trace segment.
    #[prost(string, tag = "2")]
    pub trace_segment_id: String,
    /// Unix milliseconds.
    #[prost(int64, tag = "3")]
    pub time: i64,
    /// From 0 in each request.
    #[prost(int32, tag = "4")]
    pub sequence: i32,
    /// The stack.
    #[prost(message, optional, tag = "5")]
    pub stack: Option<ThreadStack>,
}

/// `SegmentObject` of `TraceSegmentReportService.collect`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Segment {
    /// Id of the trace.
    #[prost(string, tag = "1")]
    pub trace_id: String,
    /// Id of the segment.
    #[prost(string, tag = "2")]
    pub trace_segment_id: String,
    /// Its spans.
    #[prost(message, repeated, tag = "3")]
    pub spans: Vec<Span>,
    /// Name of the service.
    #[prost(string, tag = "4")]
    pub service: String,
    /// Name of the instance.
    #[prost(string, tag = "5")]
    pub service_instance: String,
}

/// `SpanObject`. Its type 0, the default, is `Entry`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Span {
    /// From 0 in each segment.
    #[prost(int32, tag = "1")]
    pub span_id: i32,
    /// -1 for the first span.
    #[prost(int32, tag = "2")]
    pub parent_span_id: i32,
    /// Unix milliseconds.
    #[prost(int64, tag = "3")]
    pub start_time: i64,
    /// Unix milliseconds.
    #[prost(int64, tag = "4")]
    pub end_time: i64,
    /// The endpoint.
    #[prost(string, tag = "6")]
    pub operation_name: String,
    /// Whether it failed.
    #[prost(bool, tag = "11")]
    pub is_error: bool,
    /// What the UI shows of the span.
    #[prost(message, repeated, tag = "12")]
    pub tags: Vec<KeyValue>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers and types of the `.proto` files, written out by hand in protobuf's wire format.
    #[test]
    fn messages_have_the_bytes_of_the_protocol() {
        let snapshot = ThreadSnapshot {
            task_id: "t".into(),
            trace_segment_id: "s".into(),
            time: 300,
            sequence: 2,
            stack: Some(ThreadStack { code_signatures: vec!["a.B.c:1".into()] }),
        };
        assert_eq!(
            snapshot.encode_to_vec(),
            b"\x0a\x01t\x12\x01s\x18\xac\x02\x20\x02\x2a\x09\x0a\x07a.B.c:1"
        );
        let span = Span { parent_span_id: -1, operation_name: "e".into(), ..Span::default() };
        assert_eq!(span.encode_to_vec(), b"\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x32\x01e");
    }
}
