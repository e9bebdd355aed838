//! Call paths for `go tool pprof`: its protobuf, compressed with gzip. A sample is a call path with two values:
//! recorded calls, and their self time; or it is a whole stack, with the number of samples or waits and their time. The
//! field numbers are from
//! <https://github.com/google/pprof/blob/main/proto/profile.proto>.

use std::collections::HashMap;
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;

use super::collapsed::stacks;
use crate::options::Flame;
use crate::render::shared::missing;
use crate::report::Report;
use crate::stats::method::Method;
use crate::stats::sampled_stacks::is_kernel;
use crate::stats::stacks::Stacks;

pub fn render(report: &Report, of: Flame, out: &mut dyn Write) -> io::Result<()> {
    let profile = match of {
        Flame::Calls => profile(report, &stacks(&report.paths)),
        Flame::Cpu
        | Flame::Wall
        | Flame::Lock
        | Flame::Alloc
        | Flame::Trace
        | Flame::Exceptions => sampled(report, of),
    };
    let mut encoder = GzEncoder::new(out, Compression::default());
    encoder.write_all(&profile.encode_to_vec())?;
    encoder.finish()?;
    Ok(())
}

#[derive(Clone, PartialEq, Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(int64, repeated, tag = "13")]
    comment: Vec<i64>,
    #[prost(int64, tag = "14")]
    default_sample_type: i64,
}

#[derive(Clone, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    /// The innermost first.
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
    #[prost(int64, tag = "2")]
    line: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
    #[prost(int64, tag = "4")]
    filename: i64,
    #[prost(int64, tag = "5")]
    start_line: i64,
}

/// The file of the kernel's functions.
const KERNEL_FILE: &str = "[kernel]";

fn profile(report: &Report, stacks: &Stacks) -> Profile {
    let mut strings = Strings::default();
    strings.place("");
    let sample_type = [("calls", "count"), ("time", "nanoseconds")]
        .map(|(kind, unit)| ValueType { kind: strings.place(kind), unit: strings.place(unit) });
    let mut profile = Profile {
        sample_type: sample_type.into(),
        time_nanos: signed(report.read.start_ns),
        comment: missing::all(report).iter().map(|line| strings.place(line)).collect(),
        default_sample_type: strings.place("time"),
        ..Profile::default()
    };
    // A frame is a function, and a location with the same number. The first is the root's, unused.
    for (id, frame) in (0..).zip(stacks.frames()).skip(1) {
        let source = frame.method.as_ref().and_then(|method| report.methods.sources.get(method));
        let line = source.map_or(0, |source| i64::from(source.line));
        profile.function.push(Function {
            id,
            name: strings.place(&frame.label),
            system_name: match &frame.method {
                Some(Method::Named(name)) => {
                    strings.place(&format!("{}.{}{}", name.class, name.method, name.descriptor))
                }
                // If both names are the same, pprof takes them for C++ and cuts what is in brackets.
                _ => 0,
            },
            filename: source.map_or(0, |source| strings.place(&source.file)),
            start_line: line,
        });
        profile.location.push(Location { id, line: vec![Line { function_id: id, line }] });
    }
    for (place, node) in stacks.nodes().iter().enumerate().skip(1) {
        if node.calls > 0 || node.self_ns > 0 {
            let ids = stacks.path(place).map(|node| u64::try_from(node.frame).unwrap_or(0));
            let value = vec![signed(node.calls), signed(node.self_ns)];
            profile.sample.push(Sample { location_id: ids.collect(), value });
        }
    }
    profile.string_table = strings.table;
    profile
}

/// Samples or waits, with their number and time.
fn sampled(report: &Report, of: Flame) -> Profile {
    let mut strings = Strings::default();
    strings.place("");
    let (number, kind, unit) = match of {
        Flame::Wall => ("samples", "wall", "nanoseconds"),
        Flame::Lock => ("waits", "lock", "nanoseconds"),
        Flame::Alloc => ("samples", "alloc_space", "bytes"),
        Flame::Trace => ("samples", "traced_calls", "count"),
        Flame::Exceptions => ("examples", "exceptions", "count"),
        Flame::Cpu | Flame::Calls => ("samples", "cpu", "nanoseconds"),
    };
    let sample_type = [(number, "count"), (kind, unit)]
        .map(|(kind, unit)| ValueType { kind: strings.place(kind), unit: strings.place(unit) });
    let mut profile = Profile {
        sample_type: sample_type.into(),
        time_nanos: signed(report.read.start_ns),
        comment: missing::all(report).iter().map(|line| strings.place(line)).collect(),
        default_sample_type: strings.place(kind),
        ..Profile::default()
    };
    let mut ids: HashMap<&Method, u64> = HashMap::new();
    for stacks in report.whole_stacks(of) {
        for (frames, ns, samples) in stacks.stacks() {
            let ids = frames.into_iter().map(|method| {
                let next = ids.len() as u64 + 1;
                *ids.entry(method).or_insert_with(|| {
                    let name = strings.place(&method.dotted());
                    let filename = if is_kernel(method) { strings.place(KERNEL_FILE) } else { 0 };
                    let function = Function { id: next, name, filename, ..Function::default() };
                    profile.function.push(function);
                    let line = vec![Line { function_id: next, line: 0 }];
                    profile.location.push(Location { id: next, line });
                    next
                })
            });
            let location_id = ids.collect();
            profile.sample.push(Sample { location_id, value: vec![signed(samples), signed(ns)] });
        }
    }
    profile.string_table = strings.table;
    profile
}

/// Only garbage is larger: 292 years.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The table of strings, each stored once.
#[derive(Default)]
struct Strings {
    table: Vec<String>,
    places: HashMap<String, i64>,
}

impl Strings {
    fn place(&mut self, text: &str) -> i64 {
        if let Some(place) = self.places.get(text) {
            return *place;
        }
        let place = i64::try_from(self.table.len()).unwrap_or(0);
        self.table.push(text.to_owned());
        self.places.insert(text.to_owned(), place);
        place
    }
}
