//! The class that the inserted code calls, by name. The agent defines it before the first class
//! with probes is loaded.
//!
//! All four methods are static, take a method id and return nothing.

/// Internal name of the probe class. It lies in `java.lang`, where every class loader and module
/// finds it.
pub const CLASS: &str = "java/lang/$TProfiler";

/// Called at a method's entry.
pub const START: &str = "Start";

/// Called before each return instruction.
pub const END: &str = "End";

/// Called when an exception leaves the method, before it is thrown on.
pub const THREW: &str = "Threw";

/// Called at the start of an exception handler: the method goes on, what it had called does not.
pub const CAUGHT: &str = "Caught";

/// Descriptor of all four.
pub const DESCRIPTOR: &str = "(I)V";
