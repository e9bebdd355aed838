//! Rewrites all methods of many classes, and has the JDK's own class-file library check the result: see
//! `java/newest/CheckClasses.java`.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufWriter, Write};

use rewriter::{ClassInfo, MethodInfo, Mutf8, Outcome, ProbeId, Rewriter, Selector, Skip};

use crate::classes::newest_classes;
use crate::lane::is_full;
use crate::run::Java;

/// A class to check, or one that others refer to.
#[derive(Debug)]
pub struct Check<'a> {
    /// The class file.
    pub bytes: &'a [u8],
    /// Whether to check it.
    pub is_checked: bool,
}

/// Whether this lane checks a class: the fast one takes the same sixth each time.
#[must_use]
pub fn is_in_lane(class: &[u8]) -> bool {
    let mut hasher = DefaultHasher::new();
    class.hash(&mut hasher);
    is_full() || hasher.finish().is_multiple_of(6)
}

/// What was found.
#[derive(Debug, Default)]
pub struct Checked {
    /// Classes that were instrumented and checked.
    pub classes: u64,
    /// Their instrumented methods.
    pub methods: u64,
    /// Verifier errors that the originals have in the same methods.
    pub known: u64,
    /// Errors, one line each. There should be none.
    pub wrong: Vec<String>,
    /// Methods that could not be instrumented, by reason.
    pub skipped: BTreeMap<Skip, Vec<String>>,
    /// Classes that could not be read, with the reason.
    pub unreadable: Vec<String>,
    /// The rewritten classes, in order; `None` for those that are not instrumented and those not checked.
    pub rewritten: Vec<Option<Vec<u8>>>,
}

/// Selects all methods, with consecutive ids; some are large, which takes another instruction.
struct All<'c> {
    last: u32,
    skipped: &'c mut BTreeMap<Skip, Vec<String>>,
}

impl Selector for All<'_> {
    fn id(&mut self, _: &ClassInfo<'_>, _: &MethodInfo<'_>) -> Option<ProbeId> {
        self.last += 1;
        ProbeId::new(self.last)
    }

    fn skipped(
        &mut self,
        class: &ClassInfo<'_>,
        name: Mutf8<'_>,
        descriptor: Mutf8<'_>,
        why: Skip,
    ) {
        self.skipped.entry(why).or_default().push(format!("{}.{name}{descriptor}", class.name));
    }
}

/// Selects nothing, and asserts that no change is reported.
struct Nothing;

impl Selector for Nothing {
    fn selects(&mut self, _: &ClassInfo<'_>, _: &MethodInfo<'_>) -> bool {
        false
    }

    fn id(&mut self, _: &ClassInfo<'_>, _: &MethodInfo<'_>) -> Option<ProbeId> {
        panic!("an id for a method that was not selected")
    }
}

/// Rewrites and checks classes.
///
/// # Panics
/// If there is no runtime that can check them.
pub fn check(classes: &[Check<'_>]) -> Checked {
    let mut checked = Checked::default();
    let mut rewriter = Rewriter::new();
    let mut last = 0;
    for class in classes {
        if !class.is_checked {
            checked.rewritten.push(None);
            continue;
        }
        let mut all = All { last, skipped: &mut checked.skipped };
        let rewritten = match rewriter.rewrite(class.bytes, &mut all) {
            Ok(Outcome::Rewritten(rewritten)) => Some(rewritten.bytes),
            Ok(Outcome::Unchanged) => None,
            Err(error) => {
                checked.unreadable.push(error.to_string());
                None
            }
        };
        last = all.last;
        if let Some(bytes) = &rewritten {
            let again = rewriter.rewrite(class.bytes, &mut Nothing);
            assert_eq!(again, Ok(Outcome::Unchanged), "nothing selected");
            read_by_another_reader(class.bytes, bytes, &mut checked.wrong);
        }
        checked.rewritten.push(rewritten);
    }
    let pairs = classes.iter().zip(&checked.rewritten).map(|(class, rewritten)| Pair {
        original: class.bytes,
        rewritten: rewritten.as_deref().unwrap_or_default(),
        is_checked: class.is_checked,
    });
    let Compared { classes, methods, known, wrong } = compare(pairs);
    checked.wrong.extend(wrong.into_iter().map(|(_, line)| line));
    Checked { classes, methods, known, ..checked }
}

/// Checks that cafebabe reads the same from both forms.
fn read_by_another_reader(before: &[u8], after: &[u8], wrong: &mut Vec<String>) {
    let mut options = cafebabe::ParseOptions::default();
    options.parse_bytecode(true);
    if let (Ok(before), Err(error)) = (
        cafebabe::parse_class_with_options(before, &options),
        cafebabe::parse_class_with_options(after, &options),
    ) {
        wrong.push(format!("{}: cafebabe: {error}", before.this_class));
    }
}

/// A class and its rewritten form.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'a> {
    /// The original class.
    pub original: &'a [u8],
    /// The instrumented class; empty if it is not instrumented.
    pub rewritten: &'a [u8],
    /// Whether to compare the two.
    pub is_checked: bool,
}

/// The result of the JDK's library for pairs.
#[derive(Debug, Default)]
pub struct Compared {
    /// Pairs that were compared.
    pub classes: u64,
    /// Their instrumented methods.
    pub methods: u64,
    /// Verifier errors that the originals have in the same methods.
    pub known: u64,
    /// Errors: the number of the pair, and a line.
    pub wrong: Vec<(usize, String)>,
}

/// It ends before the best compiler pays off.
const CHECKING: [&str; 3] = ["-Xmx4g", "-XX:+UseParallelGC", "-XX:TieredStopAtLevel=1"];

/// Has the JDK's class-file library compare and verify classes.
///
/// # Panics
/// If there is no runtime that has it.
pub fn compare<'a>(pairs: impl IntoIterator<Item = Pair<'a>>) -> Compared {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("classes");
    let mut out = BufWriter::new(fs::File::create(&file).expect("a file"));
    for pair in pairs {
        out.write_all(&[u8::from(pair.is_checked)]).expect("a file");
        for bytes in [pair.original, pair.rewritten] {
            let length = u32::try_from(bytes.len()).expect("a class");
            out.write_all(&length.to_be_bytes()).expect("a file");
            out.write_all(bytes).expect("a file");
        }
    }
    out.into_inner().expect("a file");
    let (jdk, classes) = newest_classes();
    let finished =
        Java::new(jdk).args(CHECKING).main(classes, "newest.CheckClasses").arg(file).run();
    finished.expect_quiet_success("CheckClasses");
    let mut compared = Compared::default();
    for line in finished.stdout.lines() {
        let number = || line.rsplit(' ').next().and_then(|n| n.parse().ok()).expect("a number");
        let (word, rest) = line.split_once(' ').expect("two words");
        match word {
            "classes" => compared.classes = number(),
            "methods" => compared.methods = number(),
            "known" => compared.known = number(),
            "wrong" => {}
            _ => {
                let pair = word.strip_prefix('#').and_then(|n| n.parse().ok());
                compared.wrong.push((pair.expect("a number"), rest.to_owned()));
            }
        }
    }
    compared
}
