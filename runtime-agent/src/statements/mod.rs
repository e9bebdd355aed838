//! Statements of JDBC: all are counted, by text without literals and measured method; those over the threshold are kept
//! with their stacks.
//!
//! ```text
//! ids         methods with probes, and whether their class is a statement or a connection
//! probes      the natives: a statement begins, ends, fails, was prepared
//! in_progress statements that have not ended, by thread
//! prepared    the texts of prepared statements, by their identity hash
//! text        a text without its literals
//! texts       texts by number
//! sums        all statements that have ended
//! slow        those over the threshold, until the agent thread takes them
//! ```
//! The load hook runs before a class's supertypes are known, so it gives each method that may be one an id, by its name
//! and descriptor. When the class is prepared, before any of its methods runs, its supertypes say whether it is a
//! statement; the JIT drops the probes of others.
//!
//! Pools and proxies call the driver: the innermost object counts. Two calls of one object in one another, told by its
//! identity hash, are one statement: the outer one.
//!
//! Nothing keeps a statement alive: `prepared` has hashes in two generations. It forgets the older one when the younger
//! is full, unless a statement is executed meanwhile.

mod text;
