//! Counts and names what the command did.

use std::collections::BTreeMap;
use std::fmt;

use crate::Skip;

/// Result of a run of the command.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Classes that were read, successfully or not.
    pub classes: u64,
    /// Classes that were instrumented.
    pub rewritten: u64,
    /// Unchanged classes, by reason.
    pub unchanged: BTreeMap<Unchanged, u64>,
    /// Methods that were instrumented.
    pub methods: u64,
    /// Methods that were selected but not instrumented, by reason.
    pub skipped: BTreeMap<Skip, u64>,
    /// Those of them that are not skipped by design: reason and name.
    pub skipped_names: Vec<(Skip, String)>,
    /// Jars in jars, which are copied unchanged.
    pub nested_jars: u64,
    /// Files and entries that are neither classes nor jars, which are copied unchanged.
    pub other_files: u64,
    /// Files and entries that could not be read, with the error.
    pub unreadable: Vec<String>,
    /// Signature files of jars that were omitted because they became invalid.
    pub dropped_signatures: Vec<String>,
}

/// Why a class is not instrumented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unchanged {
    /// The patterns name neither the class nor any of its methods.
    NotSelected,
    /// No method of it can be instrumented.
    NoMethod,
    /// It could not be read.
    Unreadable,
}

impl fmt::Display for Unchanged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotSelected => "not selected",
            Self::NoMethod => "no method to instrument",
            Self::Unreadable => "unreadable",
        })
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |f: &mut fmt::Formatter<'_>, indent: usize, what: &str, count: u64| {
            writeln!(f, "{:indent$}{what:<width$} {count:>9}", "", width = 44 - indent)
        };
        line(f, 0, "classes seen", self.classes)?;
        line(f, 0, "classes rewritten", self.rewritten)?;
        line(f, 0, "classes left unchanged", self.unchanged.values().sum())?;
        for (reason, count) in &self.unchanged {
            line(f, 2, &reason.to_string(), *count)?;
        }
        line(f, 0, "methods instrumented", self.methods)?;
        line(f, 0, "methods not instrumented", self.skipped.values().sum())?;
        for (reason, count) in &self.skipped {
            line(f, 2, reason.text(), *count)?;
            for (_, name) in self.skipped_names.iter().filter(|(r, _)| r == reason) {
                writeln!(f, "    {name}")?;
            }
        }
        line(f, 0, "nested jars copied as they are", self.nested_jars)?;
        line(f, 0, "other files copied as they are", self.other_files)?;
        if !self.dropped_signatures.is_empty() {
            line(f, 0, "signature files dropped", count(&self.dropped_signatures))?;
            for name in &self.dropped_signatures {
                writeln!(f, "  {name}")?;
            }
        }
        line(f, 0, "unreadable inputs", count(&self.unreadable))?;
        for what in &self.unreadable {
            writeln!(f, "  {what}")?;
        }
        Ok(())
    }
}

fn count(list: &[String]) -> u64 {
    u64::try_from(list.len()).unwrap_or(u64::MAX)
}
