//! Call paths for speedscope: its file format with one profile of type `sampled`, a sample for each call path with
//! its self time as the weight. See <https://www.speedscope.app/file-format-schema.json>.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use super::collapsed::stacks;
use crate::report::Report;

pub fn render(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let stacks = stacks(&report.paths);
    // Frames without time are not in the list, so the others get new numbers.
    let mut frames = Vec::new();
    let mut places = BTreeMap::new();
    let (mut samples, mut weights) = (Vec::new(), Vec::new());
    for (place, node) in stacks.nodes().iter().enumerate().skip(1) {
        if node.self_ns == 0 {
            continue;
        }
        let mut sample: Vec<usize> = Vec::new();
        for node in stacks.path(place) {
            sample.push(*places.entry(node.frame).or_insert_with(|| {
                let source = stacks.frames().get(node.frame).and_then(|frame| {
                    let source = report.methods.sources.get(frame.method.as_ref()?)?;
                    Some(source).filter(|source| !source.file.is_empty())
                });
                frames.push(Frame {
                    name: stacks.label(node),
                    file: source.map(|source| source.file.as_str()),
                    line: source.map(|source| source.line).filter(|line| *line > 0),
                });
                frames.len() - 1
            }));
        }
        sample.reverse();
        samples.push(sample);
        weights.push(node.self_ns);
    }
    let document = Document {
        schema: "https://www.speedscope.app/file-format-schema.json",
        exporter: concat!("analyze ", env!("CARGO_PKG_VERSION")),
        name: report.read.services.join(", "),
        active_profile_index: 0,
        shared: Shared { frames },
        profiles: [Profile {
            kind: "sampled",
            name: "recorded calls",
            unit: "nanoseconds",
            start_value: 0,
            end_value: weights.iter().fold(0, |sum: u64, ns| sum.saturating_add(*ns)),
            samples,
            weights,
        }],
    };
    serde_json::to_writer(&mut *out, &document)?;
    writeln!(out)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'s> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    exporter: &'static str,
    name: String,
    active_profile_index: u32,
    shared: Shared<'s>,
    profiles: [Profile; 1],
}

#[derive(Serialize)]
struct Shared<'s> {
    frames: Vec<Frame<'s>>,
}

#[derive(Serialize)]
struct Frame<'s> {
    name: &'s str,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'s str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Profile {
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'static str,
    unit: &'static str,
    start_value: u64,
    end_value: u64,
    samples: Vec<Vec<usize>>,
    weights: Vec<u64>,
}
