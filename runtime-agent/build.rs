//! Generates the probe class: the guard in Java in front of the agent's native methods. There are two forms; the agent
//! defines one of them. This is the fast one:
//!
//! ```java
//! public final class $TProfiler {               // package java.lang.invoke
//!     @Stable private static byte[] compiledOut;    // by method id; never another array
//!     @Stable private static MutableCallSite state;      // its target is `off`, or another handle
//!     @Stable private static MutableCallSite trial;      // for the self-test only
//!     @Stable private static MethodHandle off;
//!     private static volatile boolean on;
//!     private static byte[] muted;             // by method id; the agent sets it before `on`
//!     @Hidden @ForceInline public static void Start(int id) {       // and End, Caught, Initialized
//!         int method = id << 2 >>> 2;                               // without BEFORE_INIT
//!         if (method < compiledOut.length && compiledOut[method] != 0) { state.target; return; }
//!         startRest(id);
//!         return;                                                   // a jsr follows
//!     }
//!     @Hidden private static void startRest(int id) {               // caughtRest is @DontInline
//!         int method = id << 2 >>> 2;
//!         if (state.target == off) return;
//!         if (!on) return;
//!         byte[] muted = $TProfiler.muted;
//!         if (method >= muted.length || muted[method] == 0) start0(id);
//!     }
//!     @Hidden @ForceInline public static void Threw(int id, Object thrown) { ... threwRest(id, thrown); ... }
//!     @Hidden @DontInline private static void threwRest(int id, Object thrown) {
//!         ...                                                       // as startRest
//!         if (method >= muted.length || muted[method] == 0)
//!             threw0(id, identityHashCode(thrown.getClass()), identityHashCode(thrown), thrown);
//!     }
//!     @Hidden private static native void start0(int id);                // and end0, threw0, ...
//!     @Hidden public static native void Parking(Object blocker);        // only LockSupport calls these
//!     @Hidden public static native void Parked();
//!     private static void calibrate(int calls, int id) {                 // what a call costs here
//!         for (; calls > 0; calls--) { Start(id); End(id); }
//!     }
//!     private static void exercise(int calls, int id) {
//!         for (; calls > 0; calls--) { Start(id); End(id); Threw(id, muted); Caught(id); Initialized(id); }
//!     }
//!     private static void prepare() {
//!         off = MethodHandles.constant(int.class, 1);
//!         state = new MutableCallSite(MethodHandles.constant(int.class, 2));
//!         trial = new MutableCallSite(MethodHandles.constant(int.class, 2));
//!     }
//!     private static void change(int isOff) {
//!         state.setTarget(isOff != 0 ? off : MethodHandles.constant(int.class, 2));
//!     }
//!     private static int isOpen() {                                     // for the self-test
//!         if (compiledOut[0] != 0) { trial.target; return 0; }          // no method has the id 0
//!         return 1;
//!     }
//!     private static int countOpen(int calls) {
//!         int open = 0;
//!         for (; calls > 0; calls--) { open += isOpen(); }
//!         return open;
//!     }
//!     private static void renewTrial() { trial.setTarget(MethodHandles.constant(int.class, 2)); }
//! }
//! ```
//! The plain form has `on`, `muted`, the natives, `calibrate` and `exercise`, and five probes like this:
//!
//! ```java
//!     @Hidden public static void Start(int id) {
//!         int method = id << 2 >>> 2;
//!         if (!on) return;
//!         byte[] muted = $TProfiler.muted;
//!         if (method >= muted.length || muted[method] == 0) start0(id);
//!     }
//! ```
//! `on` is volatile, so a running loop sees a change of it, and of everything read after it; an array element alone
//! would be read only once. An element of `compiledOut` is read once on purpose. Code compiled while it is not 0 treats
//! it as a constant, so nothing is left of the probes, not even the volatile read that keeps a compiler from moving
//! code across them (`on` alone halves the speed of a library of tiny methods).
//!
//! A call site's target is a constant as well, and code compiled with it is discarded when it changes. All compiled
//! code with probes depends on the target of `state`, even where nothing is left of them: for that, a compiled-out
//! method reads it before it returns. It reads the field, which only this package can: with calls of `getTarget`, C2's
//! code of H2 was 17% larger (6.8 MB, not 5.8; 5.5 with empty probes). `state` is `off` while recording is off for
//! long, so that nothing is left of the probes then. To discard all compiled code with probes, the agent sets another
//! handle that means the same. It is a new one each time, because code that was being compiled meanwhile could stem
//! from an earlier one.
//!
//! Redefining this class would discard that code too. But HotSpot counts it against every method whose code it
//! discards, and adds these counts up for all that is inlined into one method. From 201 on (half of
//! `PerMethodRecompilationCutoff`), it leaves traps in what it compiles, and never compiles again for them, however
//! often they are hit: a large program may then stay slow for good. HotSpot does not count what a call site discards.
//!
//! The annotations are the JDK's own: `@Hidden` keeps the methods out of the service's stack traces. With
//! `@ForceInline`, C2 inlines the first part of each guard everywhere, and counts one byte for it. Otherwise it leaves
//! a call where the guard is too long for a rare caller (`MaxInlineSize`), compiled out or not, and of what it inlines
//! into one method (`DesiredMethodLimit`, 8,000 bytes), whole guards would use a half: H2 with all methods compiled out
//! ran at 0.95 of the speed that empty probes have, and at 0.99 so. The part behind it is too long for rare callers.
//!
//! C1 should inline none of it. It compiles everything first, and would work nearly twice as long with three guards in
//! each method (javac: 2.3 s, not 1.3). It inlines no method that has a `jsr`, `@ForceInline` or not, so one follows
//! the last `return`, where nothing reaches it. Class file version 49 may have one, and needs no stack map frames.

#[path = "build/call_site.rs"]
mod call_site;
#[path = "build/instructions.rs"]
mod instructions;
#[path = "build/probe_class.rs"]
mod probe_class;

use std::path::Path;
use std::{env, error, fs};

fn main() -> Result<(), Box<dyn error::Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build");
    // A JVM may close a library whose Agent_OnAttach failed. This one has callbacks and native methods, so it must stay
    // loaded.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // A symbol that the oldest supported glibc lacks would otherwise be missed only when the library is loaded.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,defs");
    let out = env::var("OUT_DIR")?;
    fs::write(Path::new(&out).join("probe.class"), probe_class::fast()?)?;
    fs::write(Path::new(&out).join("plain_probe.class"), probe_class::plain()?)?;
    fs::write(Path::new(&out).join("statement_probe.class"), probe_class::statements()?)?;
    Ok(())
}
