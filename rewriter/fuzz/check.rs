//! What must be so of any bytes: the fuzz target and the replay of its corpus ask for it alike.

use rewriter::{ClassInfo, MethodInfo, Outcome, ProbeId, Rewriter, Selector};

/// Selects everything, with ids of both sizes.
struct All(u32);

impl Selector for All {
    fn id(&mut self, class: &ClassInfo<'_>, method: &MethodInfo<'_>) -> Option<ProbeId> {
        let _ = method.is_trivial_accessor();
        let _ = (class.annotations().count(), method.annotations().count());
        self.0 += 20_000;
        ProbeId::new(self.0)
    }
}

struct Nothing;

impl Selector for Nothing {
    fn id(&mut self, _: &ClassInfo<'_>, _: &MethodInfo<'_>) -> Option<ProbeId> {
        None
    }
}

/// Rewrites `class`, whatever it is. `true` if what came of it could be given probes once more: only
/// that reads all its parts.
///
/// # Panics
/// If what is written cannot be read, or is not what it should be.
pub fn check(class: &[u8]) -> bool {
    let _ = rewriter::class_name(class);
    let mut rewriter = Rewriter::new();
    let Ok(Outcome::Rewritten(rewritten)) = rewriter.rewrite(class, &mut All(0)) else {
        return false;
    };
    assert!(rewritten.bytes.len() > class.len());
    let written = without_its_name(rewritten.bytes);
    assert_eq!(rewriter.rewrite(&written, &mut Nothing), Ok(Outcome::Unchanged));
    // It may have become too large by now, but not unreadable.
    let again = rewriter.rewrite(&written, &mut All(0));
    assert!(again.is_ok(), "{again:?}");
    matches!(again, Ok(Outcome::Rewritten(_)))
}

/// The class with another name for the probe class, wherever it stands. One that has probes would be
/// left alone.
fn without_its_name(mut class: Vec<u8>) -> Vec<u8> {
    let name = rewriter::probe::CLASS.as_bytes();
    let places: Vec<usize> = class
        .windows(name.len())
        .enumerate()
        .filter(|(_, b)| *b == name)
        .map(|(at, _)| at)
        .collect();
    assert!(!places.is_empty(), "a class with probes names the probe class");
    for at in places {
        if let Some(first) = class.get_mut(at) {
            *first = b'J';
        }
    }
    class
}
