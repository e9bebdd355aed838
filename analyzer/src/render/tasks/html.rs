//! A profile task as one page for a browser, without scripts and other files.

use std::io::{self, Write};

use log_format::human::{count, duration};
use log_format::writer::one_line;

use super::parts::{depth_first, exact_title, facts, label, notes, of_requests, row, title};
use crate::options::tasks::TaskOptions;
use crate::tasks::ExactCalls;
use crate::tasks::find::TaskReport;
use crate::tasks::trees::{Element, Tree};

const HEAD: &str = "\
<!DOCTYPE html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">
<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">
<link rel=\"icon\" href=\"data:,\">
";

const STYLE: &str = concat!(include_str!("../html/page/style.css"), include_str!("tree.css"));

/// Deeper elements are not indented further.
const MAX_DEPTH: usize = 60;

pub fn task(report: &TaskReport, options: &TaskOptions, out: &mut dyn Write) -> io::Result<()> {
    let title = escaped(&title(report));
    write!(out, "{HEAD}<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n")?;
    writeln!(out, "<header><h1>{title}</h1></header>\n<main>\n<dl class=\"facts panel\">")?;
    for (name, text) in facts(report, &options.zone) {
        writeln!(out, "<dt>{name}</dt><dd>{}</dd>", escaped(&text))?;
    }
    writeln!(out, "</dl>\n<h2>Requests</h2>\n<table>")?;
    let names = ["request", "start", "duration", "exit", "snapshots", "calls", "thread"];
    cells(&names.map(str::to_owned), "th", out)?;
    for cut in &report.requests {
        cells(&row(cut, &options.zone), "td", out)?;
    }
    writeln!(out, "</table>")?;
    let notes = notes(report, &options.zone);
    if !notes.is_empty() {
        writeln!(out, "<ul class=\"bad\">")?;
        notes.iter().try_for_each(|note| writeln!(out, "<li>{}</li>", escaped(note)))?;
        writeln!(out, "</ul>")?;
    }
    if !report.exact.is_empty() {
        exact(report, out)?;
    }
    writeln!(out, "<h2>{}</h2>", escaped(&of_requests(report)))?;
    if report.trees.is_empty() {
        writeln!(out, "<p>no snapshot</p>")?;
    }
    report.trees.iter().try_for_each(|of| tree(of, out))?;
    writeln!(out, "</main>\n</body>\n</html>")
}

fn cells(cells: &[String], tag: &str, out: &mut dyn Write) -> io::Result<()> {
    let cell = |cell: &String| format!("<{tag} class=\"left fact\">{}</{tag}>", escaped(cell));
    writeln!(out, "<tr>{}</tr>", cells.iter().map(cell).collect::<String>())
}

fn exact(report: &TaskReport, out: &mut dyn Write) -> io::Result<()> {
    let all = &report.exact;
    writeln!(out, "<h2>{}</h2>\n<table class=\"tree\">", exact_title(report))?;
    let names = ["code", "total", "self", "calls"].map(|name| format!("<th>{name}</th>")).concat();
    writeln!(out, "<tr>{names}</tr>")?;
    let whole_ns = all.first().map_or(1, |first| first.total_ns.max(1));
    for of in all {
        let ExactCalls { depth, calls, total_ns, self_ns, .. } = of;
        let name = escaped(&label(of));
        let percent = *total_ns as f64 * 100.0 / whole_ns as f64;
        writeln!(
            out,
            "<tr><td title=\"{name}\" style=\"--depth:{};--share:{percent:.1}%\">{name}</td><td>{}</td>\
             <td>{}</td><td>{}</td></tr>",
            (*depth).min(MAX_DEPTH),
            duration(*total_ns),
            duration(*self_ns),
            count((*calls).into()),
        )?;
    }
    writeln!(out, "</table>")
}

fn tree(tree: &Tree, out: &mut dyn Write) -> io::Result<()> {
    let Some(root) = tree.elements.first() else { return Ok(()) };
    writeln!(out, "<table class=\"tree\">")?;
    let names = ["code", "duration", "self", "snapshots", "id", "caller"];
    let names = names.map(|name| format!("<th>{name}</th>")).concat();
    writeln!(out, "<tr>{names}</tr>")?;
    for (depth, element) in depth_first(tree) {
        writeln!(out, "{}", line(element, depth, root))?;
    }
    writeln!(out, "</table>")
}

/// An element with a bar: its share of the root's snapshots.
fn line(element: &Element, depth: usize, root: &Element) -> String {
    let Element { id, parent_id, .. } = element;
    let number = |number: u64| count(number.into());
    let name = escaped(&element.code_signature);
    let percent = element.count as f64 * 100.0 / root.count.max(1) as f64;
    format!(
        "<tr><td title=\"{name}\" style=\"--depth:{};--share:{percent:.1}%\">{name}</td><td>{}</td>\
         <td>{}</td><td>{}</td><td>{id}</td><td>{parent_id}</td></tr>",
        depth.min(MAX_DEPTH),
        number(element.duration_ms),
        number(element.self_ms),
        number(element.count),
    )
}

/// A text that is none of the page's own marks.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in one_line(text).chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            _ => escaped.push(c),
        }
    }
    escaped
}
