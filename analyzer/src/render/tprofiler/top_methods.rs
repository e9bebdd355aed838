//! TProfiler's `topmethod.log` and `topobject.log`, for scripts that read them:
//!
//! ```text
//! com/shop/Order:pay:84 <tab> calls <tab> average ms <tab> total ms
//! ```
//!
//! Times exclude instrumented callees, as TProfiler's do, in whole milliseconds, halves rounded up; the average is
//! that of the rounded total. The largest total comes first. `topobject.log` has only the constructors.

use std::cmp::Reverse;
use std::io::{self, Write};

use log_format::writer::one_line;

use crate::report::MethodTables;
use crate::report::groups::MethodReport;
use crate::stats::method::Method;

pub fn render(tables: &MethodTables, constructors: bool, out: &mut dyn Write) -> io::Result<()> {
    let methods = tables.groups.iter().flat_map(|group| &group.methods);
    let mut methods: Vec<&MethodReport> = methods
        .filter(|method| !constructors || method.method.parts().1.contains("<init>"))
        .collect();
    methods.sort_by_key(|method| Reverse(method.figures.self_ns));
    for method in methods {
        let line = match tables.sources.get(&method.method) {
            Some(source) => source.line.to_string(),
            // TProfiler's own logs have no descriptors; the line takes their place.
            None => method.method.parts().2.strip_prefix(':').unwrap_or("0").to_owned(),
        };
        let name = match &method.method {
            Method::Named(name) => {
                format!("{}:{}:{line}", name.class.replace('.', "/"), name.method)
            }
            unknown => unknown.parts().1.into_owned(),
        };
        let calls = method.figures.calls;
        let total_ms = rounded(method.figures.self_ns, 1_000_000);
        let average_ms = rounded(total_ms, calls);
        writeln!(out, "{}\t{calls}\t{average_ms}\t{total_ms}", one_line(&name))?;
    }
    Ok(())
}

/// A quotient, halves rounded up.
fn rounded(number: u64, by: u64) -> u64 {
    let by = by.max(1);
    let (whole, rest) = (number / by, number % by);
    whole + u64::from(rest >= by.div_ceil(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_rounded_up() {
        for (number, by, quotient) in [(0, 2, 0), (1, 2, 1), (4, 3, 1), (5, 3, 2), (7, 0, 7)] {
            assert_eq!(rounded(number, by), quotient, "{number} / {by}");
        }
        assert_eq!(rounded(u64::MAX, 1), u64::MAX);
    }
}
