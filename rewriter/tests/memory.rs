//! The rewriter takes memory in proportion to its input, whatever the input is.
#![allow(missing_docs, unsafe_code, clippy::unwrap_used)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use rewriter::{ClassInfo, MethodInfo, ProbeId, Rewriter, Selector};

/// Counts the bytes that are in use, and the most that ever were.
struct Counting;

static USED: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);
static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: everything is handed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        let used = USED.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(used, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        USED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }
}

struct All;

impl Selector for All {
    fn id(&mut self, _: &ClassInfo<'_>, _: &MethodInfo<'_>) -> Option<ProbeId> {
        ProbeId::new(70_000)
    }
}

/// A class file put together by hand: one method `<init>` or `m` with this code and exception table.
fn class(constructor: bool, code: &[u8], exceptions: &[[u16; 4]], constants: u16) -> Vec<u8> {
    let mut out = vec![0xca, 0xfe, 0xba, 0xbe, 0, 0, 0, 49];
    let u2 = |out: &mut Vec<u8>, value: usize| {
        out.extend_from_slice(&u16::try_from(value).unwrap().to_be_bytes());
    };
    let u4 = |out: &mut Vec<u8>, value: usize| {
        out.extend_from_slice(&u32::try_from(value).unwrap().to_be_bytes());
    };
    u2(&mut out, 10 + usize::from(constants));
    for text in ["A", "java/lang/Object", if constructor { "<init>" } else { "m" }, "()V", "Code"] {
        out.push(1);
        u2(&mut out, text.len());
        out.extend_from_slice(text.as_bytes());
    }
    // 6, 7: the classes; 8: a name and type; 9: the superclass's method.
    out.extend_from_slice(&[7, 0, 1, 7, 0, 2, 12, 0, 3, 0, 4, 10, 0, 7, 0, 8]);
    for _ in 0..constants {
        out.extend_from_slice(&[7, 0, 1]);
    }
    out.extend_from_slice(&[0, 0x21, 0, 6, 0, 7, 0, 0, 0, 0, 0, 1, 0, 1, 0, 3, 0, 4, 0, 1, 0, 5]);
    u4(&mut out, 12 + code.len() + 8 * exceptions.len());
    out.extend_from_slice(&[0xff, 0xff, 0xff, 0xff]);
    u4(&mut out, code.len());
    out.extend_from_slice(code);
    u2(&mut out, exceptions.len());
    for value in exceptions.iter().flatten() {
        out.extend_from_slice(&value.to_be_bytes());
    }
    out.extend_from_slice(&[0, 0, 0, 0]);
    out
}

/// Most bytes used, beyond what was used before, while a class is rewritten.
fn most(class: &[u8]) -> usize {
    let before = USED.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    // Whether it can be rewritten does not matter here.
    let _ = Rewriter::new().rewrite(class, &mut All);
    MOST.load(Ordering::Relaxed) - before
}

/// The counters are the process's: tests take turns.
static TURN: Mutex<()> = Mutex::new(());

#[test]
fn memory_is_a_small_multiple_of_the_input() {
    let _turn = TURN.lock();
    // aload_0, ifnull to the next instruction, over and over: each branch waits with 65,535 locals.
    let branches: Vec<u8> =
        std::iter::repeat_n([0x2a, 0xc6, 0, 3], 16_000).flatten().chain([0xb1]).collect();
    let returns = vec![0xb1; 65_000];
    let handlers: Vec<[u16; 4]> =
        (0..60_000).map(|i| [i % 60_000, 60_001 + i % 4_000, i, 0]).collect();
    let calls: Vec<u8> =
        std::iter::repeat_n([0xb8, 0, 9], 21_000).flatten().chain([0xb1]).collect();
    for (what, class) in [
        ("branches in a constructor", class(true, &branches, &[], 0)),
        ("handlers in a constructor", class(true, &calls, &handlers, 0)),
        ("handlers", class(false, &calls, &handlers, 0)),
        ("returns", class(false, &returns, &[], 0)),
        ("constants", class(false, &[0xb1], &[], 65_000)),
        ("nothing but a header", vec![0xca, 0xfe, 0xba, 0xbe, 0, 0, 0, 49, 0xff, 0xff, 1]),
    ] {
        let most = most(&class);
        println!("{what}: {most} bytes for a class of {}", class.len());
        // A constant of a megabyte, for states of constructors, and what a megabyte of vector grows by.
        assert!(most <= 32 * class.len() + (4 << 20), "{what}: {most} bytes for {}", class.len());
    }
}

#[test]
fn a_class_costs_a_handful_of_allocations() {
    let _turn = TURN.lock();
    let class = class(false, &[0xb8, 0, 9, 0xb1], &[[0, 3, 3, 0]], 100);
    let mut rewriter = Rewriter::new();
    let mut count = || {
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        rewriter.rewrite(&class, &mut All).unwrap();
        ALLOCATIONS.load(Ordering::Relaxed) - before
    };
    let first = count();
    // The buffers are there; what is left is the class that is returned.
    let second = count();
    assert!(second < first && second <= 3, "{first}, then {second}");
}
