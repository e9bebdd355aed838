//! A flame graph as SVG, drawn by `inferno`. The page needs no network; its own script searches and zooms.

use std::io::{self, Write};

use inferno::flamegraph::color::{Color, PaletteMap};
use inferno::flamegraph::{Options, TextTruncateDirection, from_lines};

use super::collapsed::{lines, sampled_lines, stacks};
use crate::options::Flame;
use crate::report::{CallPaths, Report};
use crate::stats::sampled_stacks::{KERNEL_MARK, SampledStacks};

pub fn render(paths: &CallPaths, out: &mut dyn Write) -> io::Result<()> {
    let stacks = stacks(paths);
    draw("Recorded calls", "ns", stacks.total_ns(), &lines(&stacks), out)
}

/// Draws times by whole stacks.
pub fn render_sampled(report: &Report, of: Flame, out: &mut dyn Write) -> io::Result<()> {
    let title = match of {
        Flame::Wall => "Time of all threads, by samples",
        Flame::Lock => "Waits for locks",
        Flame::Alloc => "Allocated bytes, by samples",
        Flame::Trace => "Calls of traced methods, by samples",
        Flame::Exceptions => "Exceptions, where they began to leave instrumented methods",
        Flame::Cpu | Flame::Calls => "CPU time, by samples",
    };
    let times = report.whole_stacks(of).into_iter().map(SampledStacks::total_ns);
    let unit = match of {
        Flame::Alloc => "bytes",
        Flame::Trace => "calls",
        Flame::Exceptions => "exceptions",
        Flame::Cpu | Flame::Wall | Flame::Lock | Flame::Calls => "ns",
    };
    draw(title, unit, times.fold(0, u64::saturating_add), &sampled_lines(report, of), out)
}

/// The colour of the kernel's frames; that of others is between red and yellow.
const KERNEL_COLOR: Color = Color { r: 150, g: 140, b: 220 };

/// Draws collapsed stacks, whose sum is `total_ns` or in another unit.
pub fn draw(
    title: &str,
    unit: &str,
    total_ns: u64,
    lines: &[String],
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut options = Options::default();
    title.clone_into(&mut options.title);
    options.count_name = unit.to_owned();
    options.name_type = "Method:".to_owned();
    options.hash = true;
    let mut colors = PaletteMap::default();
    let frames = lines.iter().filter_map(|line| Some(line.rsplit_once(' ')?.0.split(';')));
    for frame in frames.flatten().filter(|frame| frame.ends_with(KERNEL_MARK)) {
        colors.insert(frame, KERNEL_COLOR);
    }
    options.palette_map = Some(&mut colors);
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
