//! Randomly changed classes: the rewriter does not panic, and HotSpot accepts the rewritten form of each class that
//! it accepts.
//!
//! It runs for 20 seconds, or for `FUZZ_SECONDS`, and at least once with each JDK. The seed is always the same, unless
//! `FUZZ_SEED` sets another.

use std::fs;
use std::panic::catch_unwind;
use std::path::Path;
use std::time::{Duration, Instant};

use rewriter::{ClassInfo, MethodInfo, Outcome, ProbeId, Rewriter, Selector};
use test_classes::{Java, Jdk, classes, jdks, newest_classes, project};

/// Classes in a batch; one JVM links a batch.
const BATCH: usize = 4000;

struct All(u32);

impl Selector for All {
    fn id(&mut self, _: &ClassInfo<'_>, _: &MethodInfo<'_>) -> Option<ProbeId> {
        self.0 += 1;
        ProbeId::new(self.0)
    }
}

/// xorshift64*: a failure can be reproduced from its seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() >> 33).expect("31 bits") % end
    }

    fn byte(&mut self) -> u8 {
        self.next().to_be_bytes()[0]
    }
}

/// Changes a class in a few places, mostly small numbers and opcodes.
fn mutate(class: &mut [u8], random: &mut Random) {
    for _ in 0..=random.below(3) {
        let at = 10 + random.below(class.len() - 10);
        match random.below(6) {
            0 => class[at] ^= 1 << random.below(8),
            1 => class[at] = random.byte(),
            2 => class[at] = class[at].wrapping_add(1),
            3 => class[at] = class[at].wrapping_sub(1),
            // An instruction without operands.
            4 => {
                class[at] =
                    [0x00, 0x01, 0x03, 0x57, 0x59, 0x5f, 0xac, 0xb0, 0xb1, 0xbf][random.below(10)]
            }
            _ => {
                let other = 10 + random.below(class.len() - 10);
                class[at] = class[other];
            }
        }
    }
}

/// The initial classes: our own, shapes, and some of the JDK's compiler, whose packages an application may define.
fn seeds() -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (jdk, newest) = newest_classes();
    Java::new(jdk)
        .main(newest, "newest.MakeShapes")
        .arg(folder.path())
        .run()
        .expect_quiet_success(jdk);
    let mut seeds = Vec::new();
    for folder in [classes().join("truth"), classes().join("programs"), folder.path().to_owned()] {
        for entry in fs::read_dir(folder).expect("a folder") {
            seeds.push(fs::read(entry.expect("an entry").path()).expect("a class"));
        }
    }
    let image = tempfile::tempdir().expect("a temporary folder");
    let oldest = jdks().first().expect("a JDK");
    let file = image.path().join("image");
    Java::new(oldest)
        .main(classes(), "tools.DumpClasses")
        .arg(&file)
        .run()
        .expect_quiet_success(oldest);
    let image = fs::read(&file).expect("the image");
    let mut rest = &image[..];
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let (class, after) = after.split_at(u32::from_be_bytes(*length) as usize);
        let name = rewriter::class_name(class).expect("a class").to_str();
        if name.starts_with("jdk/") || name.starts_with("sun/") || name.starts_with("com/sun/") {
            seeds.push(class.to_vec());
        }
        rest = after;
    }
    seeds.retain(|class| (100..20_000).contains(&class.len()));
    assert!(seeds.len() > 2_000, "{} seeds", seeds.len());
    seeds
}

/// Links pairs in a JVM; panics with the first whose original is accepted and rewritten form refused. Returns the
/// number of accepted ones.
fn link(jdk: &Jdk, pairs: &[(Vec<u8>, Vec<u8>)], folder: &Path) -> u64 {
    let file = folder.join("pairs");
    let mut bytes = Vec::new();
    for class in pairs.iter().flat_map(|(original, rewritten)| [original, rewritten]) {
        bytes.extend_from_slice(&u32::try_from(class.len()).expect("a class").to_be_bytes());
        bytes.extend_from_slice(class);
    }
    fs::write(&file, bytes).expect("a file");
    // The agent brings the probe class; it instruments nothing itself.
    let options = format!("exclude=**,start=off,port=off,logs={}", folder.join("logs").display());
    let finished =
        Java::new(jdk).agent(&options).main(classes(), "tools.LinkPairs").arg(&file).run();
    finished.expect_quiet_success(jdk);
    let mut accepted = None;
    for line in finished.stdout.lines() {
        let Some(rest) = line.strip_prefix("refused ") else {
            // The JVM may print messages about such classes too.
            accepted = line.strip_prefix("accepted ").map(|n| n.parse().expect("a number"));
            continue;
        };
        let (pair, rest) = rest.split_once(' ').expect("a pair and a reason");
        let (original, rewritten) = &pairs[pair.parse::<usize>().expect("a number")];
        let kept = std::env::temp_dir().join(format!("refused-{}.class", std::process::id()));
        fs::write(&kept, original).expect("a file");
        fs::write(kept.with_extension("rewritten"), rewritten).expect("a file");
        panic!("{jdk} accepts {} and refuses what was made of it: {rest}", kept.display());
    }
    accepted.expect("a count on the last line")
}

#[test]
fn what_hotspot_accepts_before_it_accepts_afterwards() {
    let number = |name| std::env::var(name).ok().map(|v| v.parse::<u64>().expect("a number"));
    let duration = Duration::from_secs(number("FUZZ_SECONDS").unwrap_or(20));
    let seed = number("FUZZ_SEED").unwrap_or(1);
    println!("FUZZ_SEED={seed}");
    let mut random = Random(seed.wrapping_mul(2) + 1);
    let seeds = seeds();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (mut mutants, mut rewritten, mut accepted) = (0u64, 0, 0);
    let begun = Instant::now();
    for (batch, jdk) in jdks().iter().cycle().enumerate() {
        if batch >= jdks().len() && begun.elapsed() > duration {
            break;
        }
        let mut pairs = Vec::new();
        while pairs.len() < BATCH {
            let mut class = seeds[random.below(seeds.len())].clone();
            mutate(&mut class, &mut random);
            mutants += 1;
            let outcome = catch_unwind(|| Rewriter::new().rewrite(&class, &mut All(0)));
            match outcome {
                Ok(Ok(Outcome::Rewritten(result))) => pairs.push((class, result.bytes)),
                Ok(_) => {}
                Err(_) => {
                    let kept =
                        std::env::temp_dir().join(format!("panics-{}.class", std::process::id()));
                    fs::write(&kept, &class).expect("a file");
                    panic!("the rewriter panics on {}", kept.display());
                }
            }
        }
        rewritten += pairs.len();
        accepted += link(jdk, &pairs, folder.path());
    }
    println!(
        "{mutants} classes, {rewritten} of them rewritten, {accepted} of those accepted by HotSpot"
    );
    assert!(accepted > 1_000, "{accepted} of {mutants} accepted");
}

/// Regressions: classes that HotSpot accepts, but that were not rewritten, or refused afterwards.
#[test]
fn what_was_refused_once_is_accepted() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut pairs = Vec::new();
    for entry in fs::read_dir(project().join("test-classes/regressions")).expect("a folder") {
        let class = fs::read(entry.expect("an entry").path()).expect("a file");
        match Rewriter::new().rewrite(&class, &mut All(0)) {
            Ok(Outcome::Rewritten(result)) => pairs.push((class, result.bytes)),
            other => panic!("{other:?}"),
        }
    }
    assert!(!pairs.is_empty());
    for jdk in jdks() {
        assert_eq!(link(jdk, &pairs, folder.path()), pairs.len() as u64, "{jdk}");
    }
}
