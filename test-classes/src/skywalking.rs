//! Real servers of SkyWalking and Kafka, and `tprofiler skywalking` beside them.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::artifacts::{project, tprofiler_of_skywalking};
use crate::run::{free_port, wait_until};

/// A process whose output is in a file. It is killed when dropped.
#[derive(Debug)]
struct Server {
    child: Child,
    output: PathBuf,
}

impl Server {
    fn start(mut command: Command, output: PathBuf) -> Self {
        let file = File::create(&output).expect("a file");
        command.stdin(Stdio::null()).stdout(file.try_clone().expect("a file")).stderr(file);
        let child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        Self { child, output }
    }

    fn output(&self) -> String {
        fs::read_to_string(&self.output).expect("output")
    }

    fn wait_for(&mut self, what: &str, mut is_so: impl FnMut() -> bool) {
        wait_until(what, || {
            let end = self.child.try_wait().expect("the state of a child");
            assert_eq!(end, None, "{what}: {}", self.output());
            is_so()
        });
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args([&format!("-{name}"), &pid]).status();
        assert!(status.is_ok_and(|status| status.success()), "kill -{name}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A Kafka broker.
#[derive(Debug)]
pub struct Kafka {
    /// `127.0.0.1:PORT`.
    pub address: String,
    _server: Server,
    _folder: TempDir,
}

impl Kafka {
    /// Starts it.
    pub fn start() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let data = folder.path().join("data");
        fs::create_dir(&data).expect("a folder");
        let port = free_port();
        let mut command = Command::new(project().join("scripts/kafka.sh"));
        command.env("KAFKA_PORT", port.to_string()).env("KAFKA_DATA", data);
        let mut server = Server::start(command, folder.path().join("output"));
        server.wait_for("Kafka is ready", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Self { address: format!("127.0.0.1:{port}"), _server: server, _folder: folder }
    }
}

/// A SkyWalking server.
#[derive(Debug)]
pub struct Oap {
    /// `127.0.0.1:PORT` of gRPC.
    pub address: String,
    http_port: u16,
    variables: Vec<(&'static str, String)>,
    server: Server,
    folder: TempDir,
}

impl Oap {
    /// Starts one that keeps its data in a file, with more variables for `scripts/oap.sh`.
    pub fn start(more: &[(&'static str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (grpc_port, http_port) = (free_port(), free_port());
        let mut variables = vec![
            ("OAP_GRPC_PORT", grpc_port.to_string()),
            ("OAP_HTTP_PORT", http_port.to_string()),
            ("OAP_H2", format!("file:{}", folder.path().join("h2").display())),
        ];
        variables.extend(more.iter().map(|(name, value)| (*name, (*value).to_owned())));
        let server = Self::server(&variables, &folder, 1);
        let address = format!("127.0.0.1:{grpc_port}");
        let mut oap = Self { address, http_port, variables, server, folder };
        oap.wait();
        oap
    }

    fn server(variables: &[(&str, String)], folder: &TempDir, number: u32) -> Server {
        let mut command = Command::new(project().join("scripts/oap.sh"));
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        Server::start(command, folder.path().join(format!("output-{number}")))
    }

    fn wait(&mut self) {
        let port = self.http_port;
        let ready = || try_graphql(port, "query { version }", &json!({})).is_some();
        self.server.wait_for("the SkyWalking server is ready", ready);
    }

    /// Kills it with SIGKILL.
    pub fn kill(&mut self) {
        self.server.signal("KILL");
        let _ = self.server.child.wait();
    }

    /// Starts it again.
    pub fn restart(&mut self) {
        self.server = Self::server(&self.variables, &self.folder, 2);
        self.wait();
    }

    /// The data that a GraphQL query returns.
    ///
    /// # Panics
    /// If it fails.
    pub fn graphql(&self, query: &str, variables: &Value) -> Value {
        let answer = try_graphql(self.http_port, query, variables).expect("an answer");
        assert_eq!(answer.get("errors"), None, "{query}: {answer}");
        answer["data"].clone()
    }

    /// Creates a profile task of a minute with a dump period of 10 ms. Returns its id once the server has accepted it:
    /// tasks of a service must not overlap.
    pub fn create_task(&self, service: &str, endpoint: &str, min_ms: u32, samples: u32) -> String {
        let query = "mutation($r: ProfileTaskCreationRequest) {\
                     task: createProfileTask(creationRequest: $r) { id errorReason } }";
        let request = json!({
            "serviceId": service_id(service), "endpointName": endpoint, "duration": 1,
            "minDurationThreshold": min_ms, "dumpPeriod": 10, "maxSamplingCount": samples,
        });
        let mut id = None;
        wait_until("the server accepts a task", || {
            let answer = self.graphql(query, &json!({ "r": request }));
            id = answer["task"]["id"].as_str().map(str::to_owned);
            if id.is_none() {
                std::thread::sleep(Duration::from_secs(1));
            }
            id.is_some()
        });
        id.expect("an id")
    }

    /// What the server says of a task: `NOTIFIED`, `EXECUTION_FINISHED`, in order.
    pub fn task_log(&self, task: &str) -> Vec<String> {
        let query = "query($t: String) {\
                     log: getProfileTaskLogs(taskID: $t) { operationType operationTime } }";
        let log = self.graphql(query, &json!({ "t": task }));
        let mut entries: Vec<(u64, String)> = log["log"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|entry| {
                let time = entry["operationTime"].as_u64().expect("a time");
                (time, entry["operationType"].as_str().expect("a type").to_owned())
            })
            .collect();
        entries.sort();
        entries.into_iter().map(|(_, kind)| kind).collect()
    }

    /// The first spans of the segments of a task, the oldest first.
    pub fn spans(&self, task: &str) -> Vec<Value> {
        let query = "query($t: ID!) { segments: getProfileTaskSegments(taskID: $t) {\
                     instanceName spans { segmentId startTime endTime endpointName isError \
                     tags { key value } } } }";
        let found = self.graphql(query, &json!({ "t": task }));
        let segments = found["segments"].as_array().cloned().unwrap_or_default();
        let mut spans: Vec<Value> = segments
            .into_iter()
            .map(|segment| {
                let mut span = segment["spans"][0].clone();
                span["instanceName"] = segment["instanceName"].clone();
                span
            })
            .collect();
        spans.sort_by_key(|span| span["startTime"].as_u64());
        spans
    }

    /// The analysis of a whole span: the elements of its only tree.
    pub fn analysis(&self, span: &Value) -> Vec<TreeElement> {
        let query = "query($q: [SegmentProfileAnalyzeQuery!]!) {\
                     analysis: getSegmentsProfileAnalyze(queries: $q) { tip trees { elements {\
                     id parentId codeSignature duration durationChildExcluded count } } } }";
        let range = json!({ "start": span["startTime"], "end": span["endTime"] });
        let part = json!([{ "segmentId": span["segmentId"], "timeRange": range }]);
        let found = self.graphql(query, &json!({ "q": part }));
        let trees = found["analysis"]["trees"].as_array().cloned().unwrap_or_default();
        assert!(trees.len() < 2, "{found}");
        let elements = trees.first().map(|tree| tree["elements"].as_array().expect("a list"));
        elements.into_iter().flatten().map(TreeElement::of).collect()
    }

    /// The names of a service's instances, and their properties.
    pub fn instances(&self, service: &str) -> Vec<(String, Vec<(String, String)>)> {
        let query = "query($s: ID!, $d: Duration!) { instances: listInstances(serviceId: $s, duration: $d) {\
                     name attributes { name value } } }";
        let duration = json!({ "start": "2020-01-01", "end": "2120-01-01", "step": "DAY" });
        let found = self.graphql(query, &json!({ "s": service_id(service), "d": duration }));
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let instances = found["instances"].as_array().cloned().unwrap_or_default();
        instances
            .iter()
            .map(|instance| {
                let attributes = instance["attributes"].as_array().expect("a list");
                let pairs = attributes.iter().map(|a| (text(&a["name"]), text(&a["value"])));
                (text(&instance["name"]), pairs.collect())
            })
            .collect()
    }
}

/// An element of an analysis tree.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TreeElement {
    /// Its id in the tree.
    pub id: u64,
    /// Its caller's, 0 for the root.
    pub parent_id: u64,
    /// Code signature.
    pub signature: String,
    /// Milliseconds.
    pub duration: u64,
    /// The same without its callees'.
    pub self_duration: u64,
    /// Snapshots.
    pub count: u64,
}

impl TreeElement {
    fn of(element: &Value) -> Self {
        // Ids are strings, numbers are numbers.
        let number = |key: &str| {
            let value = &element[key];
            value.as_u64().or_else(|| value.as_str()?.parse().ok()).expect("a number")
        };
        Self {
            id: number("id"),
            parent_id: number("parentId"),
            signature: element["codeSignature"].as_str().expect("text").to_owned(),
            duration: number("duration"),
            self_duration: number("durationChildExcluded"),
            count: number("count"),
        }
    }
}

/// `tprofiler skywalking`.
#[derive(Debug)]
pub struct Bridge {
    server: Server,
}

impl Bridge {
    /// Starts it for a service and a log folder, with more arguments. Its output goes to a file in `folder`.
    pub fn start(oap: &str, service: &str, folder: &Path, more: &[&str]) -> Self {
        let mut command = Command::new(tprofiler_of_skywalking());
        command.args(["skywalking", "--oap", oap, "--service", service]);
        command.arg("--logs").arg(folder.join("logs")).args(more);
        if !more.contains(&"--poll") {
            command.args(["--poll", "1s"]);
        }
        Self { server: Server::start(command, folder.join("bridge")) }
    }

    /// Its messages so far.
    pub fn messages(&self) -> String {
        self.server.output()
    }

    /// Waits until a message contains a text.
    pub fn wait_for(&mut self, text: &str) {
        let output = self.server.output.clone();
        let what = format!("tprofiler skywalking says {text:?}");
        self.server.wait_for(&what, || fs::read_to_string(&output).expect("output").contains(text));
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.server.child.id()
    }

    /// Ends it with a signal. Returns its exit status and its messages.
    ///
    /// # Panics
    /// If it takes longer than two seconds.
    pub fn end(mut self, signal: &str) -> (Option<i32>, String) {
        self.server.signal(signal);
        let begin = std::time::Instant::now();
        let status = self.server.child.wait().expect("the state of a child");
        assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
        (status.code(), self.messages())
    }
}

/// The id that the server gives to a service.
/// The server's id of a service.
pub fn service_id(service: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for bytes in service.as_bytes().chunks(3) {
        let word = bytes.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte));
        let word = word << (8 * (3 - bytes.len()));
        for place in 0..4 {
            let digit = usize::try_from(word >> (18 - 6 * place) & 63).expect("small");
            text.push(if place > bytes.len() { '=' } else { char::from(DIGITS[digit]) });
        }
    }
    text + ".1"
}

/// The answer to a query; `None` if the server is not there or not ready.
fn try_graphql(port: u16, query: &str, variables: &Value) -> Option<Value> {
    let body = json!({ "query": query, "variables": variables }).to_string();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(60))).ok()?;
    let head = format!(
        "POST /graphql HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let answer = String::from_utf8(answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let is_chunked = head.to_lowercase().contains("transfer-encoding: chunked");
    let body = if is_chunked { unchunked(body)? } else { body.to_owned() };
    serde_json::from_str(&body).ok()
}

fn unchunked(mut body: &str) -> Option<String> {
    let mut text = String::new();
    loop {
        let (length, rest) = body.split_once("\r\n")?;
        let length = usize::from_str_radix(length, 16).ok()?;
        if length == 0 {
            return Some(text);
        }
        text.push_str(rest.get(..length)?);
        body = rest.get(length + 2..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_services_are_base64() {
        // From Python's base64.
        assert_eq!(service_id("shop"), "c2hvcA==.1");
        assert_eq!(service_id("shops"), "c2hvcHM=.1");
        assert_eq!(service_id("shop-1"), "c2hvcC0x.1");
    }

    #[test]
    fn chunks_are_joined() {
        assert_eq!(unchunked("3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n").unwrap(), "abc0123456789");
        assert_eq!(unchunked("3\r\nab"), None);
    }
}
