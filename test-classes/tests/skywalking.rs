//! `tprofiler skywalking` with real servers of SkyWalking and Kafka and a program that knows its own times: what the
//! server's analysis shows is what the program did.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use test_classes::{
    Bridge, Dialogue, Java, Jdk, Kafka, Oap, Profile, TreeElement, artifacts, at_once, classes,
    ends_of_jdks, free_port, jdks, tprofiler_json, tprofiler_of_skywalking, tprofiler_text,
    wait_until,
};

const PERIOD_MS: u64 = 10;
const PAY: &str = "programs.Endpoints.pay";

/// The program with its agent, in a folder with the mapping file.
struct Shop {
    dialogue: Dialogue,
    port: u16,
    folder: TempDir,
}

/// The times of a request in milliseconds, as the program knows them.
#[derive(Debug)]
struct Known(Vec<(String, f64)>);

impl Known {
    fn parse(answer: &str) -> Self {
        let words: Vec<&str> = answer.split(' ').collect();
        let times = words[1..]
            .chunks(2)
            .map(|pair| (pair[0].to_owned(), pair[1].parse::<f64>().expect("a number") / 1_000.0));
        Self(times.collect())
    }

    fn of(&self, name: &str) -> f64 {
        self.0.iter().find(|(known, _)| known == name).expect("a time").1
    }
}

fn agent_options(folder: &Path, port: u16, more: &str) -> String {
    let logs = folder.join("logs");
    format!("include=programs.Endpoints,port={port},logs={},overhead=off{more}", logs.display())
}

impl Shop {
    fn start(jdk: &Jdk, more: &str) -> Self {
        let (folder, port) = (tempfile::tempdir().expect("a temporary folder"), free_port());
        let options = agent_options(folder.path(), port, more);
        let dialogue = Self::program(Java::new(jdk).agent(&options));
        fs::write(folder.path().join("endpoints"), format!("# shop\n/api/pay = {PAY}\n"))
            .expect("a file");
        Self { dialogue, port, folder }
    }

    fn program(java: Java) -> Dialogue {
        let mut dialogue = java.main(classes(), "programs.Endpoints").talk();
        // The agent listens then.
        dialogue.ask("short");
        dialogue
    }

    fn ask(&mut self, line: &str) -> Known {
        Known::parse(&self.dialogue.ask(line))
    }

    fn bridge(&self, oap: &str, service: &str, more: &[&str]) -> Bridge {
        let endpoints = self.folder.path().join("endpoints").display().to_string();
        let arguments = ["--instance", "web07", "--endpoints", &endpoints];
        Bridge::start(oap, service, self.folder.path(), &[&arguments, more].concat())
    }

    /// The tree of a task's request, as `analyze` has it.
    fn tree(&self, task: &str, request: usize) -> Vec<TreeElement> {
        let output = Command::new(&artifacts().analyze)
            .args(["--task", task, "--request", &request.to_string(), "--format", "json"])
            .arg(self.folder.path().join("logs"))
            .output()
            .expect("analyze runs");
        assert!(output.status.success(), "{output:?}");
        elements(&serde_json::from_slice::<Value>(&output.stdout).expect("JSON")["trees"])
    }
}

fn sorted(tree: &[TreeElement]) -> Vec<TreeElement> {
    let mut tree = tree.to_vec();
    tree.sort();
    tree
}

fn elements(trees: &Value) -> Vec<TreeElement> {
    let elements = trees
        .as_array()
        .expect("trees")
        .iter()
        .flat_map(|tree| tree["elements"].as_array().expect("elements").clone());
    let number = |element: &Value, key: &str| element[key].as_u64().expect("a number");
    let element = |element: Value| TreeElement {
        id: number(&element, "id"),
        parent_id: number(&element, "parent_id"),
        signature: element["code_signature"].as_str().expect("text").to_owned(),
        duration: number(&element, "duration_ms"),
        self_duration: number(&element, "self_ms"),
        count: number(&element, "count"),
    };
    elements.map(element).collect()
}

/// Waits until the server has these many requests of a task, with their snapshots.
fn wait_for_spans(oap: &Oap, task: &str, count: usize) -> Vec<Value> {
    wait_until("the server has the requests", || {
        thread::sleep(Duration::from_millis(500));
        let spans = oap.spans(task);
        spans.len() == count && spans.iter().all(|span| is_whole(&oap.analysis(span), span))
    });
    oap.spans(task)
}

/// Whether the server has all snapshots of a span.
fn is_whole(tree: &[TreeElement], span: &Value) -> bool {
    let ms = |key: &str| span[key].as_u64().expect("a time");
    let expected = (ms("endTime") - ms("startTime")) / PERIOD_MS;
    tree.first().is_some_and(|root| root.count >= expected)
}

fn wait_for_log(oap: &Oap, task: &str) {
    wait_until("the task's log", || {
        thread::sleep(Duration::from_millis(500));
        oap.task_log(task) == ["NOTIFIED", "EXECUTION_FINISHED"]
    });
}

/// The element of the call of `name` in its caller has the time that the program knows, within one dump period.
fn expect_time(tree: &[TreeElement], name: &str, known: &Known) {
    let is_of = |element: &&TreeElement| {
        element.signature.starts_with(&format!("programs.Endpoints.{name}:"))
    };
    let element = tree.iter().find(is_of).unwrap_or_else(|| panic!("{name}: {tree:?}"));
    let known_ms = known.of(name);
    // The server counts from the first snapshot to the last: a period less than they stand for.
    let shown = (element.duration + PERIOD_MS) as f64;
    assert!((shown - known_ms).abs() <= PERIOD_MS as f64 + 1.0, "{element:?}: {known_ms}");
    assert_eq!(element.duration, (element.count - 1) * PERIOD_MS, "{element:?}");
}

fn expect_pay(tree: &[TreeElement], known: &Known) {
    for name in ["pay", "stock", "price"] {
        expect_time(tree, name, known);
    }
}

#[test]
#[ignore = "full lane: it starts a SkyWalking server"]
fn the_servers_analysis_shows_what_the_program_did() {
    let oap = Oap::start(&[]);
    at_once(jdks(), |jdk| {
        let mut shop = Shop::start(jdk, "");
        let service = format!("shop-{}", jdk.version);
        let mut bridge = shop.bridge(&oap.address, &service, &["--property", "zone=b"]);
        bridge.wait_for("instance web07: following run");
        wait_until("the instance", || oap.instances(&service).len() == 1);
        let instances = oap.instances(&service);
        let (name, properties) = &instances[0];
        assert_eq!(name, "web07");
        assert!(properties.contains(&("zone".to_owned(), "b".to_owned())), "{properties:?}");

        let first = oap.create_task(&service, "/api/pay", 100, 2);
        bridge.wait_for(&format!("task {first} (/api/pay): ordered"));
        let known = shop.ask("pay");
        shop.ask("short");
        let throwing = shop.ask("throwing");
        let spans = wait_for_spans(&oap, &first, 2);
        let trees: Vec<_> = spans.iter().map(|span| oap.analysis(span)).collect();
        expect_pay(&trees[0], &known);
        expect_time(&trees[1], "stock", &throwing);
        for (number, tree) in (1..).zip(&trees) {
            let mut analyzed = shop.tree(&first, number);
            analyzed.sort();
            assert_eq!(sorted(tree), analyzed, "{jdk}: OAP and analyze --task");
        }
        assert_eq!((&spans[0]["isError"], &spans[1]["isError"]), (&false.into(), &true.into()));
        assert_eq!(spans[0]["endpointName"], "/api/pay");
        assert_eq!(spans[0]["instanceName"], "web07");
        wait_for_log(&oap, &first);

        // The endpoint is a method, and a name that nothing says the methods of.
        let second = oap.create_task(&service, PAY, 300, 9);
        bridge.wait_for(&format!("task {second} ({PAY}): ordered"));
        let known = shop.ask("pay");
        let spans = wait_for_spans(&oap, &second, 1);
        expect_pay(&oap.analysis(&spans[0]), &known);
        // It ends by time.
        bridge.wait_for(&format!("task {second} ({PAY}): finished (time), 1 requests"));
        wait_for_log(&oap, &second);
        let third = oap.create_task(&service, "/api/other", 300, 9);
        wait_for_log(&oap, &third);
        let said = bridge.messages();
        let rejected = format!("task {third} is rejected: /api/other: ");
        assert!(said.contains(&rejected), "{said}");
        assert!(said.contains("endpoints has no line for it"), "{said}");
        let (status, said) = bridge.end("TERM");
        assert_eq!(status, Some(0), "{said}");
        shop.dialogue.end().expect_quiet_success(jdk);
    });
}

#[test]
#[ignore = "full lane: it starts a SkyWalking server"]
fn a_server_that_is_killed_and_comes_back_gets_all() {
    let jdk = ends_of_jdks()[0];
    let mut oap = Oap::start(&[]);
    let mut shop = Shop::start(jdk, "");
    let mut bridge = shop.bridge(&oap.address, "shop", &[]);
    let task = oap.create_task("shop", "/api/pay", 100, 3);
    bridge.wait_for("ordered from instance web07");
    let mut known = vec![shop.ask("pay")];
    wait_for_spans(&oap, &task, 1);
    oap.kill();
    known.push(shop.ask("pay"));
    bridge.wait_for("lost 127.0.0.1:");
    known.push(shop.ask("pay"));
    bridge.wait_for("finished (count), 3 requests");
    oap.restart();
    bridge.wait_for("connected to 127.0.0.1:");
    let spans = wait_for_spans(&oap, &task, 3);
    for (span, known) in spans.iter().zip(&known) {
        expect_pay(&oap.analysis(span), known);
    }
    wait_for_log(&oap, &task);
    let next = oap.create_task("shop", "/api/pay", 100, 1);
    bridge.wait_for(&format!("task {next} (/api/pay): ordered"));
    let known = shop.ask("pay");
    expect_pay(&oap.analysis(&wait_for_spans(&oap, &next, 1)[0]), &known);
    let (status, said) = bridge.end("INT");
    assert_eq!(status, Some(0), "{said}");
    for text in ["lost 127.0.0.1:", "connected to 127.0.0.1:"] {
        assert_eq!(said.matches(text).count(), 1, "{said}");
    }
}

#[test]
#[ignore = "full lane: it starts a SkyWalking server"]
fn a_task_that_finished_without_the_bridge_is_sent_by_the_next_one() {
    let jdk = ends_of_jdks()[0];
    let oap = Oap::start(&[]);
    let mut shop = Shop::start(jdk, "");
    let mut bridge = shop.bridge(&oap.address, "shop", &[]);
    let task = oap.create_task("shop", "/api/pay", 100, 1);
    bridge.wait_for(&format!("task {task} (/api/pay): ordered"));
    let (status, said) = bridge.end("TERM");
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("ended; 1 tasks were open\n"), "{said}");
    let known = shop.ask("pay");
    wait_until("the task's end", || {
        tprofiler_json(shop.port, &["tasks"])["tasks"][0]["state"] == "finished"
    });
    let mut bridge = shop.bridge(&oap.address, "shop", &[]);
    bridge.wait_for(&format!("task {task} (/api/pay): finished in the agent already, going on"));
    expect_pay(&oap.analysis(&wait_for_spans(&oap, &task, 1)[0]), &known);
    // The server has told both of them.
    wait_until("the task's log", || {
        thread::sleep(Duration::from_millis(500));
        oap.task_log(&task) == ["NOTIFIED", "NOTIFIED", "EXECUTION_FINISHED"]
    });
    let (status, said) = bridge.end("TERM");
    assert_eq!(status, Some(0), "{said}");
    assert_eq!(said.matches("finished in the agent already").count(), 1, "{said}");
    assert!(said.ends_with("ended\n"), "{said}");
}

#[test]
#[ignore = "full lane: it starts a SkyWalking server"]
fn a_task_ends_with_its_agent() {
    let jdk = ends_of_jdks()[0];
    let oap = Oap::start(&[]);
    let mut shop = Shop::start(jdk, "");
    let mut bridge = shop.bridge(&oap.address, "shop", &[]);
    let task = oap.create_task("shop", "/api/pay", 100, 9);
    bridge.wait_for("ordered from instance web07");
    let known = shop.ask("pay");
    shop.dialogue.ask("hang");
    thread::sleep(Duration::from_millis(300));
    let pid = shop.dialogue.program.pid().to_string();
    tprofiler_text(&["detach", &pid]);
    bridge.wait_for("has ended");
    let spans = wait_for_spans(&oap, &task, 2);
    let pays: Vec<&Value> = spans.iter().filter(|span| tag(span, "unfinished").is_none()).collect();
    assert_eq!(pays.len(), 1, "{spans:?}");
    expect_pay(&oap.analysis(pays[0]), &known);
    wait_for_log(&oap, &task);
    let said = bridge.messages();
    assert_eq!(said.matches("(agent ended), 2 requests").count(), 1, "{said}");

    // Another agent in the same JVM is the same instance, and gets the next task. Its class has a loop that runs.
    let options = agent_options(shop.folder.path(), shop.port, "");
    tprofiler_text(&["attach", &pid, &options, "--even-running"]);
    let next = oap.create_task("shop", "/api/pay", 100, 1);
    bridge.wait_for(&format!("task {next} (/api/pay): ordered from instance web07"));
    let known = shop.ask("pay");
    let spans = wait_for_spans(&oap, &next, 1);
    expect_pay(&oap.analysis(&spans[0]), &known);
    wait_for_log(&oap, &next);

    // A JVM that is killed has a task that ends too.
    let last = oap.create_task("shop", "/api/pay", 100, 9);
    bridge.wait_for(&format!("task {last} (/api/pay): ordered"));
    shop.dialogue.program.signal("KILL");
    // Its successor has its name at once.
    let options = agent_options(shop.folder.path(), free_port(), "");
    let successor = Shop::program(Java::new(jdk).agent(&options));
    bridge.wait_for(&format!("task {last} (/api/pay) ends with the agent: 0 requests"));
    wait_for_log(&oap, &last);
    let said = bridge.messages();
    assert_eq!(said.matches("ordered from instance web07").count(), 3, "{said}");
    assert_eq!(said.matches("instance web07: following run").count(), 3, "{said}");
    assert!(!said.contains("web07@"), "{said}");
    successor.end().expect_quiet_success(jdk);
}

fn tag(span: &Value, key: &str) -> Option<String> {
    let tags = span["tags"].as_array().expect("tags");
    let tag = tags.iter().find(|tag| tag["key"] == key)?;
    tag["value"].as_str().map(str::to_owned)
}

#[test]
#[ignore = "full lane: it starts servers of SkyWalking and Kafka"]
fn snapshots_go_through_kafka() {
    let kafka = Kafka::start();
    let oap = Oap::start(&[("OAP_KAFKA", &kafka.address)]);
    let mut shop = Shop::start(ends_of_jdks()[0], ",cpu=10ms,wall=50ms");
    let mut bridge = shop.bridge(&oap.address, "shop", &["--kafka", &kafka.address]);
    let task = oap.create_task("shop", "/api/pay", 100, 2);
    bridge.wait_for("ordered from instance web07");
    let known = [shop.ask("pay"), shop.ask("pay")];
    let spans = wait_for_spans(&oap, &task, 2);
    for (span, known) in spans.iter().zip(&known) {
        let tree = oap.analysis(span);
        expect_pay(&tree, known);
        // Frames of the JDK come from samples.
        assert!(tree.iter().any(|e| e.signature.starts_with("java.lang.Thread.sleep")), "{tree:?}");
    }
    wait_for_log(&oap, &task);
}

#[test]
#[ignore = "full lane: it starts a SkyWalking server"]
fn a_server_may_ask_for_a_token() {
    let token = "not-to-be-shown-1";
    let port = free_port().to_string();
    let oap = Oap::start(&[("OAP_AGENT_PORT", &port), ("OAP_AUTHENTICATION", token)]);
    let address = format!("127.0.0.1:{port}");
    let mut shop = Shop::start(ends_of_jdks()[0], "");
    let mut without = shop.bridge(&address, "shop", &[]);
    without.wait_for("the server does not accept the authentication token");
    without.end("TERM");
    let file = shop.folder.path().join("authentication");
    fs::write(&file, format!("{token}\n")).expect("a file");
    let file = file.display().to_string();
    let mut bridge = shop.bridge(&address, "shop", &["--authentication-file", &file]);
    let task = oap.create_task("shop", "/api/pay", 100, 1);
    bridge.wait_for("ordered from instance web07");
    let known = shop.ask("pay");
    let spans = wait_for_spans(&oap, &task, 1);
    expect_pay(&oap.analysis(&spans[0]), &known);
    let (_, said) = bridge.end("TERM");
    assert!(!said.contains(token), "{said}");
}

/// Each is reported once, and the instance is there all the same.
#[test]
#[ignore = "full lane: it starts a SkyWalking server"]
fn a_server_without_profiling_is_not_asked_any_more() {
    let oap = Oap::start(&[("OAP_PROFILING", "-")]);
    let shop = Shop::start(ends_of_jdks()[0], "");
    let mut bridge = shop.bridge(&oap.address, "shop", &[]);
    let refused = ["no profile tasks (UNIMPLEMENTED)", "the server has no eBPF receiver"];
    refused.iter().for_each(|text| bridge.wait_for(text));
    // Some polls.
    thread::sleep(Duration::from_secs(5));
    wait_until("the instance", || {
        thread::sleep(Duration::from_millis(500));
        oap.instances("shop").iter().any(|(name, _)| name == "web07")
    });
    let (status, messages) = bridge.end("TERM");
    assert_eq!(status, Some(0), "{messages}");
    for text in refused {
        assert_eq!(messages.matches(text).count(), 1, "{messages}");
    }
}

/// Certificates of an authority of its own for a server at 127.0.0.1 and for a client, in a folder.
fn make_certificates(folder: &Path) {
    let openssl = |line: &str| {
        let output = Command::new("openssl").args(line.split(' ')).current_dir(folder).output();
        let output = output.expect("openssl runs");
        assert!(output.status.success(), "{line}: {output:?}");
    };
    openssl(
        "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority -keyout ca.key -out ca.pem",
    );
    fs::write(folder.join("server.ext"), "subjectAltName=IP:127.0.0.1\n").expect("a file");
    fs::write(folder.join("client.ext"), "subjectAltName=DNS:client\n").expect("a file");
    for name in ["server", "client"] {
        let files = format!("-keyout {name}.key -out {name}.csr");
        openssl(&format!("req -new -newkey rsa:2048 -nodes -subj /CN={name} {files}"));
        let files = format!("-in {name}.csr -extfile {name}.ext -out {name}.pem");
        openssl(&format!("x509 -req -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 {files}"));
    }
}

/// The first of the server's addresses is that of nobody. The server and its client show each other certificates.
#[test]
#[ignore = "full lane: it starts a SkyWalking server"]
fn a_server_may_ask_for_tls_and_have_several_addresses() {
    let certificates = tempfile::tempdir().expect("a temporary folder");
    make_certificates(certificates.path());
    let [ca, cert, key, server_cert, server_key] =
        ["ca.pem", "client.pem", "client.key", "server.pem", "server.key"]
            .map(|name| certificates.path().join(name).display().to_string());
    let port = free_port().to_string();
    let oap = Oap::start(&[
        ("OAP_AGENT_PORT", &port),
        ("OAP_TLS", "true"),
        ("OAP_TLS_KEY", &server_key),
        ("OAP_TLS_CERT", &server_cert),
        ("OAP_TLS_CA", &ca),
    ]);
    let address = format!("127.0.0.1:{port}");
    let mut shop = Shop::start(ends_of_jdks()[0], "");
    for (arguments, said) in [
        (&[][..], "does it want --tls, or --cert?)"),
        (&["--tls"][..], "invalid peer certificate: UnknownIssuer"),
        (&["--ca", &ca][..], "cannot reach 127.0.0.1:"),
    ] {
        let mut refused = shop.bridge(&address, "shop", arguments);
        refused.wait_for(said);
        let (_, messages) = refused.end("TERM");
        println!("{arguments:?}: {messages}");
        assert!(!messages.contains("is reported"), "{messages}");
    }
    let addresses = format!("127.0.0.1:{},{address}", free_port());
    let mut bridge =
        shop.bridge(&addresses, "shop", &["--ca", &ca, "--cert", &cert, "--key", &key]);
    bridge.wait_for(&format!("connected to {address}"));
    let task = oap.create_task("shop", "/api/pay", 100, 1);
    bridge.wait_for("ordered from instance web07");
    let known = shop.ask("pay");
    let spans = wait_for_spans(&oap, &task, 1);
    expect_pay(&oap.analysis(&spans[0]), &known);
    let (_, messages) = bridge.end("TERM");
    println!("{messages}");
}

fn skywalking(arguments: &[&str]) -> Output {
    let mut command = Command::new(tprofiler_of_skywalking());
    command.arg("skywalking").args(arguments).output().expect("tprofiler runs")
}

#[test]
fn what_cannot_begin_is_reported_in_a_line() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let bad = folder.path().join("endpoints");
    fs::write(&bad, "/a = a.B.c\n/api\n").expect("a file");
    let bad = bad.display().to_string();
    let with = |more: &[&'static str]| -> Vec<String> {
        let all = [&["--oap", "127.0.0.1:1", "--service", "shop", "--logs", "."], more].concat();
        all.iter().map(|text| (*text).to_owned()).collect()
    };
    let ca = with(&["--ca", "/nonexistent/ca.pem"]);
    let mut endpoints = with(&["--endpoints"]);
    endpoints.push(bad.clone());
    let address = ["--oap", "nowhere", "--service", "shop", "--logs", "."].map(str::to_owned);
    for (arguments, said) in [
        (address.to_vec(), "--oap nowhere: not HOST:PORT, as in 127.0.0.1:11800".to_owned()),
        (ca, "/nonexistent/ca.pem: No such file or directory (os error 2)".to_owned()),
        (endpoints, format!("--endpoints: {bad}:2: not NAME = METHOD[, METHOD ...]")),
    ] {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = skywalking(&arguments);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert_eq!(stderr, format!("tprofiler skywalking: {said}\n"));
    }
    assert_eq!(skywalking(&["--oap", "127.0.0.1:1"]).status.code(), Some(2));
    let help = String::from_utf8(skywalking(&["--help"]).stdout).expect("text");
    assert!(help.contains("Usage: tprofiler skywalking"), "{help}");
}

#[test]
fn a_missing_program_is_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let alone = folder.path().join("tprofiler");
    fs::copy(&artifacts().tprofiler, &alone).expect("a copy");
    let output = Command::new(&alone).args(["skywalking", "--help"]).output().expect("it runs");
    let folder = folder.path().canonicalize().expect("a folder");
    let program = folder.join("tprofiler-skywalking");
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        format!(
            "tprofiler: {} not found; install it in the folder of tprofiler\n",
            program.display()
        )
    );
    assert_eq!(output.status.code(), Some(1));
}

/// Neither a server that is away nor one that never answers keeps it from following agents, or from ending.
#[test]
fn it_ends_at_once_without_a_server() {
    let jdk = ends_of_jdks()[0];
    let shop = Shop::start(jdk, "");
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = silent.local_addr().expect("an address").to_string();
    for (address, signal) in [("127.0.0.1:1", "INT"), (&*silent, "TERM")] {
        let mut bridge = shop.bridge(address, "shop", &[]);
        bridge.wait_for("instance web07: following run");
        if address == "127.0.0.1:1" {
            bridge.wait_for(
                "cannot reach 127.0.0.1:1: Connection refused (os error 111); trying again",
            );
        }
        let (status, said) = bridge.end(signal);
        assert_eq!(status, Some(0), "{said}");
        assert!(said.ends_with("tprofiler skywalking: ended\n"), "{said}");
    }
    shop.dialogue.end().expect_quiet_success(jdk);
}

/// CPU time of a process in seconds.
fn cpu_s(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("a process");
    let fields: Vec<&str> = stat.rsplit(' ').collect();
    let numbers: Vec<&str> = fields.into_iter().rev().collect();
    let ticks = |index: usize| numbers[index].parse::<f64>().expect("a number");
    (ticks(13) + ticks(14)) / 100.0
}

#[test]
#[ignore = "full lane: it starts a SkyWalking server"]
fn it_rests_while_there_is_no_task() {
    let oap = Oap::start(&[]);
    let shop = Shop::start(ends_of_jdks()[0], "");
    let mut bridge = shop.bridge(&oap.address, "shop", &["--poll", "20s"]);
    bridge.wait_for("instance web07: following run");
    thread::sleep(Duration::from_secs(5));
    let (before, begin) = (cpu_s(bridge.pid()), Instant::now());
    thread::sleep(Duration::from_secs(60));
    let share = (cpu_s(bridge.pid()) - before) / begin.elapsed().as_secs_f64();
    let run = Profile::runs(&shop.folder.path().join("logs"));
    println!("{share:.5} of a processor with {} run", run.len());
    assert!(share < 0.003, "{share}");
    assert!(bridge.messages().lines().count() == 2, "{}", bridge.messages());
}
