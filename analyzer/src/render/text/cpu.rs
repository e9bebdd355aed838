//! The section on CPU time, from samples.

use std::io::{self, Write};

use log_format::human::{duration, plural};

use super::parts::{heading, number, wrapped};
use crate::render::shared::labels::Labels;
use crate::report::cpu::{CpuReport, SampledMethod};
use crate::report::groups::percent;

/// Writes the section, with `top` rows at most.
pub(super) fn render(
    cpu: &CpuReport,
    top: Option<usize>,
    labels: &Labels,
    out: &mut dyn Write,
) -> io::Result<()> {
    let CpuReport { total_ns, samples, methods, .. } = cpu;
    let kernel = kernel_text(cpu);
    if methods.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let all = plural(*samples, "sample", "samples");
    let all_ns = duration(*total_ns);
    heading(out, &format!("CPU time by samples: {all_ns} in {all}{kernel}; +- is 95%"))?;
    writeln!(out, "\n      self %     +-   total %       self      total   method")?;
    let shown = top.unwrap_or(methods.len());
    for sampled in methods.iter().take(shown) {
        let SampledMethod { method, cpu, .. } = sampled;
        let share = |ns: u64| percent(u128::from(ns), u128::from(*total_ns));
        let figures = format!(
            "  {:>9.1}% {:>5.1}  {:>7.1}% {:>10} {:>10}   ",
            share(cpu.self_ns),
            cpu.margin_percent(*samples),
            share(cpu.total_ns),
            duration(cpu.self_ns),
            duration(cpu.total_ns),
        );
        let name = labels.of(method) + sampled.sign();
        wrapped(out, &figures, &" ".repeat(figures.len()), &name)?;
    }
    if let Some(rest) = methods.len().checked_sub(shown).filter(|rest| *rest > 0) {
        writeln!(out, "    and {}", plural(number(rest), "more method", "more methods"))?;
    }
    Ok(())
}

/// The share of the time in the kernel; empty if no sample says.
pub(super) fn kernel_text(cpu: &CpuReport) -> String {
    let share = |ns: u64| percent(ns.into(), cpu.total_ns.into());
    cpu.kernel_ns.map_or_else(String::new, |ns| format!(", {:.0}% kernel", share(ns)))
}
