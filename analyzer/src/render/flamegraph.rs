//! A flame graph as SVG, drawn by `inferno`. The page needs no network; its own script searches and zooms.

use std::io::{self, Write};

use inferno::flamegraph::{Options, TextTruncateDirection, from_lines};

use super::collapsed::{lines, sampled_lines, stacks};
use crate::options::Flame;
use crate::report::{CallPaths, SampleReport};

pub fn render(paths: &CallPaths, out: &mut dyn Write) -> io::Result<()> {
    let stacks = stacks(paths);
    draw("Recorded calls", stacks.total_ns(), &lines(&stacks), out)
}

/// Draws times by whole stacks, from samples.
pub fn render_sampled(samples: &SampleReport, of: Flame, out: &mut dyn Write) -> io::Result<()> {
    let SampleReport { cpu, off_cpu, .. } = samples;
    let (title, total_ns) = match of {
        Flame::Wall => {
            let total_ns = cpu.total_ns.saturating_add(off_cpu.total_ns);
            ("Time of all threads, by samples", total_ns)
        }
        Flame::Cpu | Flame::Calls => ("CPU time, by samples", cpu.total_ns),
    };
    draw(title, total_ns, &sampled_lines(samples, of), out)
}

fn draw(title: &str, total_ns: u64, lines: &[String], out: &mut dyn Write) -> io::Result<()> {
    let mut options = Options::default();
    title.clone_into(&mut options.title);
    options.count_name = "ns".to_owned();
    options.name_type = "Method:".to_owned();
    options.hash = true;
    // The end of a name is more useful than its package.
    options.text_truncate_direction = TextTruncateDirection::Right;
    // inferno adds them up without a check for overflow.
    if total_ns == u64::MAX {
        return Err(io::Error::other("the times in these logs are too large to be drawn"));
    }
    from_lines(&mut options, lines.iter().map(String::as_str), &mut *out)
        .map_err(|error| io::Error::new(error.kind(), error.to_string()))?;
    writeln!(out)
}
