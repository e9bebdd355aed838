//! The class that the inserted code calls, by name. The agent defines it before the first class
//! with probes is loaded.
//!
//! All methods are static, take a method id and return nothing.
//!
//! A constructor whose `super(...)` or `this(...)` may throw has two ids: what it does before that
//! call is done has [`BEFORE_INIT`] set, `Start` and [`INITIALIZED`] included. Such an exception can
//! be caught by no bytecode of the constructor, so its call ends unseen. Whoever follows the calls
//! then finds one that was never initialized, and cannot mistake it for another call of the same
//! constructor.

/// Internal name of the probe class. It lies in `java.lang`, where every class loader and module
/// finds it.
pub const CLASS: &str = "java/lang/$TProfiler";

/// Internal name of the class of the JDK that the probes call themselves: with probes of its own it would call
/// itself without end.
pub const CALL_SITE: &str = "java/lang/invoke/MutableCallSite";

/// Called at a method's entry.
pub const START: &str = "Start";

/// Called before each return instruction.
pub const END: &str = "End";

/// Called when an exception leaves the method, before it is thrown on.
pub const THREW: &str = "Threw";

/// Called at the start of an exception handler: the method goes on, what it had called does not.
pub const CAUGHT: &str = "Caught";

/// Called when a constructor's `super(...)` or `this(...)` has returned.
pub const INITIALIZED: &str = "Initialized";

/// Set in the id of a constructor that has not been initialized.
pub const BEFORE_INIT: u32 = 1 << 30;

/// Ids from here on are those of the `rewrite` command, so that an agent which meets such a class
/// cannot take its methods for others.
pub const OFFLINE: u32 = 1 << 29;
const _: () = assert!(OFFLINE < BEFORE_INIT);

/// Descriptor of them all.
pub const DESCRIPTOR: &str = "(I)V";
