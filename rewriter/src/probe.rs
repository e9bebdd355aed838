//! The class that the inserted code calls, by name. The agent defines it before the first instrumented class is
//! loaded.
//!
//! All methods are static and return nothing. Those of calls take a method id.
//!
//! A constructor whose `super(...)` or `this(...)` may throw has two ids. Probes before the end of that call, `Start`
//! and [`INITIALIZED`] included, use the id with [`BEFORE_INIT`] set. No bytecode of the constructor can catch an
//! exception out of that call, so the constructor's call then ends unseen. A reader of the calls finds one that was
//! never initialized, and cannot mistake it for another call of the same constructor.

/// Internal name of the probe class. It is in `java.lang`, where every class loader and module finds it.
pub const CLASS: &str = "java/lang/$TProfiler";

/// Internal name of the JDK class that the probes themselves call: with probes it would call itself without end.
pub const CALL_SITE: &str = "java/lang/invoke/MutableCallSite";

/// Called at a method's entry.
pub const START: &str = "Start";

/// Called before each return instruction.
pub const END: &str = "End";

/// Called when an exception leaves the method, before it is rethrown.
pub const THREW: &str = "Threw";
/// Its descriptor: the method's id, and the exception.
pub const THREW_DESCRIPTOR: &str = "(ILjava/lang/Object;)V";

/// Called at the start of an exception handler: the method continues, but the calls it had made do not.
pub const CAUGHT: &str = "Caught";

/// Called when a constructor's `super(...)` or `this(...)` has returned.
pub const INITIALIZED: &str = "Initialized";

/// Set in the id of a constructor that has not been initialized.
pub const BEFORE_INIT: u32 = 1 << 30;

/// Ids from here on are those of the `rewrite` command, so that an agent that meets such a class cannot mistake its
/// methods for others.
pub const OFFLINE: u32 = 1 << 29;
const _: () = assert!(OFFLINE < BEFORE_INIT);

/// Descriptor of these methods, but [`THREW`].
pub const DESCRIPTOR: &str = "(I)V";

/// Called when a thread is about to park, with what it waits for, or null.
pub const PARKING: &str = "Parking";
/// Its descriptor.
pub const PARKING_DESCRIPTOR: &str = "(Ljava/lang/Object;)V";

/// Called when a thread has parked, also before an exception is rethrown.
pub const PARKED: &str = "Parked";
/// Its descriptor.
pub const PARKED_DESCRIPTOR: &str = "()V";
