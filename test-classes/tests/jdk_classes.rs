//! Every class of every installed JDK, with all methods instrumented: the checks find no errors.

use std::collections::HashSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};

use rewriter::Skip;
use test_classes::{Check, Java, Jdk, Pair, check, classes, compare, ends_of_jdks, is_in_lane};

/// All classes of a runtime's image, concatenated, as `tools.DumpClasses` writes them.
fn image(jdk: &Jdk) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("image");
    Java::new(jdk).main(classes(), "tools.DumpClasses").arg(&file).run().expect_quiet_success(jdk);
    fs::read(&file).expect("the image")
}

/// The classes in an image.
fn split(mut image: &[u8]) -> Vec<&[u8]> {
    let mut classes = Vec::new();
    while let Some((length, rest)) = image.split_first_chunk::<4>() {
        let (class, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
        classes.push(class);
        image = rest;
    }
    classes
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

#[test]
fn no_class_of_any_jdk_is_broken() {
    // Builds of the same version share most classes; each is checked once.
    let mut seen = HashSet::new();
    for jdk in ends_of_jdks() {
        let image = image(jdk);
        let classes: Vec<Check<'_>> = split(&image)
            .into_iter()
            .map(|bytes| Check { bytes, is_checked: seen.insert(hash(bytes)) && is_in_lane(bytes) })
            .collect();
        let checked = check(&classes);
        println!(
            "{jdk}: {} classes, {} of them checked with {} methods; {} errors of the originals",
            classes.len(),
            checked.classes,
            checked.methods,
            checked.known
        );
        assert!(checked.wrong.is_empty(), "{jdk}:\n{}", checked.wrong.join("\n"));
        assert_eq!(checked.unreadable, [""; 0], "{jdk}");
        // Classes of an older JDK may refer to types that the checking JDK no longer has.
        assert!(checked.known < 10, "{jdk}: {} errors of the originals", checked.known);
        let by_accident: Vec<_> =
            checked.skipped.iter().filter(|(why, _)| !why.is_by_design()).collect();
        assert!(by_accident.is_empty(), "{jdk}: {by_accident:?}");
        assert!(checked.skipped.contains_key(&Skip::NoCode));
        assert!(classes.len() > 15_000, "{jdk}: only {} classes", classes.len());
    }
}

/// The check finds errors: every byte of a rewritten class is changed, one at a time.
#[test]
fn the_check_finds_changed_bytes() {
    let original = fs::read(classes().join("truth/Exceptions$Resource.class")).expect("a class");
    let checked = check(&[Check { bytes: &original, is_checked: true }]);
    assert!(checked.wrong.is_empty() && checked.classes == 1, "{checked:?}");
    let rewritten = checked.rewritten[0].as_ref().expect("a class with probes");
    let changed: Vec<Vec<u8>> = (0..rewritten.len())
        .map(|at| {
            let mut bytes = rewritten.clone();
            bytes[at] ^= 1;
            bytes
        })
        .collect();
    let pairs = changed.iter().map(|bytes| Pair {
        original: &original,
        rewritten: bytes,
        is_checked: true,
    });
    let found: HashSet<usize> = compare(pairs).wrong.into_iter().map(|(pair, _)| pair).collect();
    let missed: Vec<usize> = (0..changed.len()).filter(|at| !found.contains(at)).collect();
    println!("{} of {} bytes: {missed:?}", missed.len(), changed.len());
    // A max_stack that is one too large, for example, is not an error.
    assert!(missed.len() < changed.len() / 50, "{} of {}: {missed:?}", missed.len(), changed.len());
}
