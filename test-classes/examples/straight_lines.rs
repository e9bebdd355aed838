//! Tells for every method in jars and folders whether it is a trivial leaf, for `scripts/bench-leaves.sh`:
//! `class<TAB>method<TAB>descriptor<TAB>leaf` or `other`, one line each.

use std::fs;
use std::path::{Path, PathBuf};

use rewriter::{ClassInfo, MethodInfo, ProbeId, Rewriter, Selector};
use test_classes::classes_of;

struct Told;

impl Selector for Told {
    fn selects(&mut self, class: &ClassInfo<'_>, method: &MethodInfo<'_>) -> bool {
        let kind = if method.is_straight_line() { "leaf" } else { "other" };
        let class = class.name.to_str().replace('/', ".");
        println!("{class}\t{}\t{}\t{kind}", method.name, method.descriptor);
        false
    }

    fn id(&mut self, _: &ClassInfo<'_>, _: &MethodInfo<'_>) -> Option<ProbeId> {
        None
    }
}

/// The class files in a folder.
fn class_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            class_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "class") {
            found.push(path);
        }
    }
}

fn main() {
    let mut rewriter = Rewriter::default();
    for path in std::env::args_os().skip(1).map(PathBuf::from) {
        let classes: Vec<Vec<u8>> = if path.is_dir() {
            let mut files = Vec::new();
            class_files(&path, &mut files);
            files.iter().map(|file| fs::read(file).expect("a class")).collect()
        } else {
            classes_of(&path).into_iter().map(|class| class.bytes).collect()
        };
        for class in classes {
            // Classes that cannot be read have no methods to instrument.
            let _ = rewriter.rewrite(&class, &mut Told);
        }
    }
}
