//! What must be so of any bytes: the fuzz target and the replay of its corpus ask for it alike.

use rewriter::{ClassInfo, MethodId, MethodInfo, Outcome, Rewriter, Selector};

/// Selects everything, with ids of both sizes.
struct All(u32);

impl Selector for All {
    fn id(&mut self, _: &ClassInfo<'_>, method: &MethodInfo<'_>) -> Option<MethodId> {
        let _ = method.is_trivial_accessor();
        self.0 += 20_000;
        MethodId::new(self.0)
    }
}

struct Nothing;

impl Selector for Nothing {
    fn id(&mut self, _: &ClassInfo<'_>, _: &MethodInfo<'_>) -> Option<MethodId> {
        None
    }
}

/// Rewrites `class`, whatever it is. `true` if it could be.
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
    assert_eq!(rewriter.rewrite(&rewritten.bytes, &mut Nothing), Ok(Outcome::Unchanged));
    // What has probes can be given probes again.
    assert!(rewriter.rewrite(&rewritten.bytes, &mut All(0)).is_ok());
    true
}
