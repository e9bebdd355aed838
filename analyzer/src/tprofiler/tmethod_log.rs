//! Reads `tmethod.log`: the names of TProfiler's method numbers.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use log_format::ids::MethodId;
use log_format::reader::{BadLine, BadRow};

use super::files::open;
use crate::input::problems::Problems;
use crate::stats::method::MethodName;

/// A method of `tmethod.log`: class, name, and the line that TProfiler last saw in it.
type NameRow = (String, String, u64);

/// Reads names by number. TProfiler writes no descriptors: if several methods of a class share a name, their lines
/// distinguish them.
pub(super) fn read(path: &Path, problems: &mut Problems) -> HashMap<MethodId, Arc<MethodName>> {
    let mut rows = HashMap::new();
    if let Err(error) = read_rows(path, &mut rows, problems) {
        problems.unread(path, error);
    }
    let mut first_lines: HashMap<(&str, &str), (u64, bool)> = HashMap::new();
    for (class, name, line) in rows.values() {
        let (first, are_several) = first_lines.entry((class, name)).or_insert((*line, false));
        *are_several |= *first != *line;
    }
    let is_overloaded =
        |class, name| first_lines.get(&(class, name)).is_some_and(|(_, are_several)| *are_several);
    rows.iter()
        .map(|(id, (class, name, line))| {
            let descriptor =
                if is_overloaded(class, name) { format!(":{line}") } else { String::new() };
            let name = MethodName { class: class.clone(), method: name.clone(), descriptor };
            (*id, Arc::new(name))
        })
        .collect()
}

fn read_rows(
    path: &Path,
    rows: &mut HashMap<MethodId, NameRow>,
    problems: &mut Problems,
) -> io::Result<()> {
    let mut lines = open(path, u64::MAX)?;
    while let Some(line) = lines.next_line()? {
        let refused = match line.and_then(parse) {
            Ok(None) => None,
            Ok(Some((id, row))) => match rows.get_mut(&id) {
                None => {
                    rows.insert(id, row);
                    None
                }
                Some(known) if (&known.0, &known.1) == (&row.0, &row.1) => {
                    // It may have been written while its class was still being read.
                    known.2 = row.2;
                    None
                }
                Some(_) => Some(BadRow::Id("method", id.get())),
            },
            Err(reason) => Some(reason),
        };
        if let Some(reason) = refused {
            problems.bad_line(path, &BadLine { line: lines.number(), reason });
        }
    }
    if lines.is_torn() {
        problems.torn_line();
    }
    Ok(())
}

/// A line of `tmethod.log`; `None` if it names nothing.
fn parse(line: &str) -> Result<Option<(MethodId, NameRow)>, BadRow> {
    if line.starts_with("instrumentclass:") {
        return Ok(None);
    }
    let parsed = (|| {
        let (id, rest) = line.split_once(' ')?;
        let (class, rest) = rest.split_once(':')?;
        let (name, line) = rest.rsplit_once(':')?;
        let row = (class.replace('/', "."), name.to_owned(), line.parse().ok()?);
        (!class.is_empty() && !name.is_empty()).then_some((MethodId::new(id.parse().ok()?), row))
    })();
    let (id, row) = parsed.ok_or("not number, class, method and line")?;
    // A number that was assigned before its method was known.
    let is_named = (row.0.as_str(), row.1.as_str()) != ("null", "null");
    Ok(is_named.then_some((id, row)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_a_class_a_method_and_a_line() {
        let row = |class: &str, name: &str, line| (class.to_owned(), name.to_owned(), line);
        assert_eq!(
            parse("7 a/B:<init>:42"),
            Ok(Some((MethodId::new(7), row("a.B", "<init>", 42))))
        );
        assert_eq!(
            parse("7 a/B:is it:not:42"),
            Ok(Some((MethodId::new(7), row("a.B", "is it:not", 42))))
        );
        assert_eq!(parse("7 null:null:0"), Ok(None));
        assert_eq!(parse("instrumentclass:3 instrumentmethod:9"), Ok(None));
        for line in ["", "7", "7 a/B", "7 a/B:m", "7 a/B:m:x", "x a/B:m:1", "7 ::1"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
