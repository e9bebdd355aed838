//! Rewrites all classes of an image in memory, again and again, and prints what a class costs, and
//! how often it goes to the allocator.
//!
//! Usage: `rewrite_image FILE ROUNDS`. The file holds length, four bytes, and bytes of each class.
#![allow(missing_docs, unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use rewriter::{ClassInfo, MethodInfo, Outcome, ProbeId, Rewriter, Selector};

/// Counts what is asked of the system's allocator.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: everything is handed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // There is one thread, and this is measured too.
        ALLOCATIONS.store(ALLOCATIONS.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }
}

struct All(u32);

impl Selector for All {
    fn id(&mut self, _: &ClassInfo<'_>, _: &MethodInfo<'_>) -> Option<ProbeId> {
        self.0 += 1;
        ProbeId::new(self.0)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let image = std::fs::read(arguments.next().ok_or("no file")?)?;
    let rounds: u32 = arguments.next().ok_or("no rounds")?.parse()?;
    let mut classes = Vec::new();
    let mut rest = &image[..];
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let (class, after) =
            after.split_at_checked(u32::from_be_bytes(*length) as usize).ok_or("a cut image")?;
        classes.push(class);
        rest = after;
    }
    let mut rewriter = Rewriter::new();
    let mut times = Vec::new();
    let (mut methods, mut written, mut allocations) = (0u64, 0usize, 0u64);
    for _ in 0..rounds {
        (methods, written) = (0, 0);
        allocations = ALLOCATIONS.load(Ordering::Relaxed);
        let mut all = All(0);
        let begun = Instant::now();
        for class in &classes {
            if let Outcome::Rewritten(rewritten) = rewriter.rewrite(class, &mut all)? {
                methods += u64::from(rewritten.methods);
                written += rewritten.bytes.len();
            }
        }
        times.push(begun.elapsed().as_secs_f64());
        allocations = ALLOCATIONS.load(Ordering::Relaxed) - allocations;
    }
    times.sort_by(f64::total_cmp);
    let median = times.get(times.len() / 2).copied().ok_or("no rounds")?;
    println!(
        "{:.2} us a class: {} classes of {:.1} MB, {methods} methods, {:.1} MB written, {:.0} MB/s, \
         {:.1} allocations a class",
        median / classes.len() as f64 * 1e6,
        classes.len(),
        image.len() as f64 / 1e6,
        written as f64 / 1e6,
        image.len() as f64 / 1e6 / median,
        allocations as f64 / classes.len() as f64,
    );
    Ok(())
}
