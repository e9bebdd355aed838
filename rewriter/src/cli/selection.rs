//! Selects methods by the command's options, numbers them, and notes what is skipped.

use log_format::pattern::Filter;

use super::summary::{Summary, Unchanged};
use crate::probe::OFFLINE;
use crate::{ClassInfo, Error, MethodInfo, Mutf8, Outcome, ProbeId, Rewriter, Selector, Skip};

/// Rewrites class after class; ids continue from one to the next.
pub(super) struct ClassRewriter<'o> {
    rewriter: Rewriter,
    filter: &'o Filter,
    skip_accessors: bool,
    last_id: u32,
    pub summary: Summary,
}

impl<'o> ClassRewriter<'o> {
    pub(super) fn new(filter: &'o Filter, skip_accessors: bool) -> Self {
        Self {
            rewriter: Rewriter::new(),
            filter,
            skip_accessors,
            last_id: OFFLINE - 1,
            summary: Summary::default(),
        }
    }

    /// The instrumented class, or `None` if it does not change.
    pub(super) fn class(&mut self, place: &str, bytes: &[u8]) -> Option<Vec<u8>> {
        self.summary.classes += 1;
        let mut selection = Selection {
            filter: self.filter,
            skip_accessors: self.skip_accessors,
            last_id: self.last_id,
            any_seen: false,
            any_selected: false,
            skipped: Vec::new(),
        };
        let outcome = self.rewriter.rewrite(bytes, &mut selection);
        let Selection { last_id, any_seen, any_selected, skipped, .. } = selection;
        if let Err(error) = outcome {
            self.unreadable_class(place, &error);
            return None;
        }
        self.last_id = last_id;
        for (skip, name) in skipped {
            *self.summary.skipped.entry(skip).or_default() += 1;
            if !skip.is_by_design() {
                self.summary.skipped_names.push((skip, name));
            }
        }
        match outcome {
            Ok(Outcome::Rewritten(rewritten)) => {
                self.summary.rewritten += 1;
                self.summary.methods += u64::from(rewritten.methods);
                Some(rewritten.bytes)
            }
            _ => {
                let reason = if any_selected || !any_seen {
                    Unchanged::NoMethod
                } else {
                    Unchanged::NotSelected
                };
                *self.summary.unchanged.entry(reason).or_default() += 1;
                None
            }
        }
    }

    fn unreadable_class(&mut self, place: &str, error: &Error) {
        *self.summary.unchanged.entry(Unchanged::Unreadable).or_default() += 1;
        self.summary.unreadable.push(format!("{place}: {error}"));
    }

    /// Notes a class that could not be accessed.
    pub(super) fn unreadable(&mut self, what: String) {
        self.summary.unreadable.push(what);
    }
}

struct Selection<'o> {
    filter: &'o Filter,
    skip_accessors: bool,
    last_id: u32,
    /// Whether the class has methods,
    any_seen: bool,
    /// and whether the patterns name one of them.
    any_selected: bool,
    skipped: Vec<(Skip, String)>,
}

impl Selector for Selection<'_> {
    fn selects(&mut self, class: &ClassInfo<'_>, method: &MethodInfo<'_>) -> bool {
        self.any_seen = true;
        let selected = self.filter.method(&class.name.to_str(), &method.name.to_str());
        self.any_selected |= selected;
        selected && !(self.skip_accessors && method.is_trivial_accessor())
    }

    fn id(&mut self, _: &ClassInfo<'_>, _: &MethodInfo<'_>) -> Option<ProbeId> {
        self.last_id += 1;
        ProbeId::new(self.last_id)
    }

    fn skipped(
        &mut self,
        class: &ClassInfo<'_>,
        name: Mutf8<'_>,
        descriptor: Mutf8<'_>,
        why: Skip,
    ) {
        self.any_seen = true;
        let (class, name) = (class.name.to_str(), name.to_str());
        if self.filter.method(&class, &name) {
            self.any_selected = true;
            let class = class.replace('/', ".");
            self.skipped.push((why, format!("{class}.{name}{descriptor}")));
        }
    }
}
