//! The class that the inserted code calls, by name. The agent defines it before the first instrumented class is
//! loaded.
//!
//! All methods are static and return nothing. Those of calls take a method id.
//!
//! A constructor whose `super(...)` or `this(...)` may throw has two ids. Probes before the end of that call, `Start`
//! and [`INITIALIZED`] included, use the id with [`BEFORE_INIT`] set. No bytecode of the constructor can catch an
//! exception out of that call, so the constructor's call then ends unseen. A reader of the calls finds one that was
//! never initialized, and cannot mistake it for another call of the same constructor.

/// Internal name of the probe class. Every class loader and module finds its package, of which the guard reads a field
/// that the JIT treats as a constant.
pub const CLASS: &str = "java/lang/invoke/$TProfiler";

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

/// Internal name of the class that the probes of JDBC drivers call, which an agent defines only if it records
/// statements.
pub const STATEMENT_CLASS: &str = "java/lang/invoke/$TProfilerSql";

/// Called at the entry of a method of a statement or a connection: with an id, the object, and the text or null.
pub const ENTERED: &str = "Entered";
/// Its descriptor.
pub const ENTERED_DESCRIPTOR: &str = "(ILjava/lang/Object;Ljava/lang/Object;)V";

/// Called before such a method returns, with the id.
pub const RETURNED: &str = "Returned";

/// Called when an exception leaves it, before it is rethrown, with the id.
pub const FAILED: &str = "Failed";

/// Called instead of [`RETURNED`] with the statement or connection that the method returns, or null, and the id.
pub const PREPARED: &str = "Prepared";
/// Its descriptor.
pub const PREPARED_DESCRIPTOR: &str = "(Ljava/lang/Object;I)V";

/// What a method of JDBC's interfaces does, by its name and descriptor. Whether its class is a statement is not known
/// when the class is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StatementMethod {
    /// `Statement.execute*(String, ...)`
    ExecutesText,
    /// `PreparedStatement.execute*()`
    ExecutesPrepared,
    /// `Statement.executeBatch()`, `executeLargeBatch()`
    ExecutesBatch,
    /// `Statement.addBatch(String)`
    AddsText,
    /// `Statement.clearBatch()`
    ClearsBatch,
    /// `Connection.prepareStatement(String, ...)`, `prepareCall(String, ...)`
    Prepares,
    /// `Connection.createStatement(...)`
    Creates,
    /// `Driver.connect(String, Properties)`
    Connects,
}

impl StatementMethod {
    const TEXT: &str = "(Ljava/lang/String;";

    /// That of a method; `None` if JDBC has no such method.
    #[must_use]
    pub fn of(name: &str, descriptor: &str) -> Option<Self> {
        let (parameters, result) = descriptor.strip_prefix('(')?.split_once(')')?;
        let more = descriptor
            .strip_prefix(Self::TEXT)
            .map(|_| parameters.strip_prefix("Ljava/lang/String;").unwrap_or_default());
        let takes_keys =
            more.is_some_and(|more| ["", "I", "[I", "[Ljava/lang/String;"].contains(&more));
        let executes = || match more {
            Some(_) if takes_keys => Some(Self::ExecutesText),
            None if parameters.is_empty() => Some(Self::ExecutesPrepared),
            _ => None,
        };
        match (name, result) {
            ("execute", "Z") | ("executeUpdate", "I") | ("executeLargeUpdate", "J") => executes(),
            ("executeQuery", "Ljava/sql/ResultSet;") => {
                executes().filter(|_| more.is_none_or(str::is_empty))
            }
            ("executeBatch", "[I") | ("executeLargeBatch", "[J") => {
                parameters.is_empty().then_some(Self::ExecutesBatch)
            }
            ("addBatch", "V") => (more == Some("")).then_some(Self::AddsText),
            ("clearBatch", "V") => parameters.is_empty().then_some(Self::ClearsBatch),
            ("createStatement", "Ljava/sql/Statement;") => {
                parameters.bytes().all(|of| of == b'I').then_some(Self::Creates)
            }
            ("connect", "Ljava/sql/Connection;") => {
                (more == Some("Ljava/util/Properties;")).then_some(Self::Connects)
            }
            ("prepareStatement", "Ljava/sql/PreparedStatement;")
            | ("prepareCall", "Ljava/sql/CallableStatement;") => more.map(|_| Self::Prepares),
            _ => None,
        }
    }

    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::ExecutesText,
        Self::ExecutesPrepared,
        Self::ExecutesBatch,
        Self::AddsText,
        Self::ClearsBatch,
        Self::Prepares,
        Self::Creates,
        Self::Connects,
    ];

    /// Whether its first parameter is a text.
    #[must_use]
    pub const fn takes_text(self) -> bool {
        matches!(self, Self::ExecutesText | Self::AddsText | Self::Prepares | Self::Connects)
    }

    /// Whether it executes a statement.
    #[must_use]
    pub const fn executes(self) -> bool {
        matches!(self, Self::ExecutesText | Self::ExecutesPrepared | Self::ExecutesBatch)
    }

    /// Whether it returns a statement or a connection, for [`PREPARED`].
    #[must_use]
    pub const fn returns_object(self) -> bool {
        matches!(self, Self::Prepares | Self::Creates | Self::Connects)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_of_statements_and_connections_are_recognized_by_name_and_descriptor() {
        use StatementMethod::{AddsText, ExecutesBatch, ExecutesPrepared, ExecutesText, Prepares};
        let of = StatementMethod::of;
        for (name, result) in [
            ("execute", "Z"),
            ("executeQuery", "Ljava/sql/ResultSet;"),
            ("executeUpdate", "I"),
            ("executeLargeUpdate", "J"),
        ] {
            assert_eq!(of(name, &format!("(){result}")), Some(ExecutesPrepared), "{name}");
            assert_eq!(of(name, &format!("(Ljava/lang/String;){result}")), Some(ExecutesText));
            for keys in ["I", "[I", "[Ljava/lang/String;"] {
                let with_keys = format!("(Ljava/lang/String;{keys}){result}");
                let expected = (name != "executeQuery").then_some(ExecutesText);
                assert_eq!(of(name, &with_keys), expected, "{name}{with_keys}");
            }
            assert_eq!(of(name, &format!("(I){result}")), None, "{name}");
            assert_eq!(of(name, &format!("(Ljava/lang/String;J){result}")), None, "{name}");
        }
        assert_eq!(of("execute", "(Ljava/lang/String;)V"), None);
        assert_eq!(of("executeBatch", "()[I"), Some(ExecutesBatch));
        assert_eq!(of("executeLargeBatch", "()[J"), Some(ExecutesBatch));
        assert_eq!(of("addBatch", "(Ljava/lang/String;)V"), Some(AddsText));
        assert_eq!(of("addBatch", "()V"), None);
        let prepared = "(Ljava/lang/String;II)Ljava/sql/PreparedStatement;";
        assert_eq!(of("prepareStatement", prepared), Some(Prepares));
        assert_eq!(of("prepareStatement", "()Ljava/sql/PreparedStatement;"), None);
        let call = "(Ljava/lang/String;)Ljava/sql/CallableStatement;";
        assert_eq!(of("prepareCall", call), Some(Prepares));
        assert_eq!(of("clearBatch", "()V"), Some(StatementMethod::ClearsBatch));
        let created = "()Ljava/sql/Statement;";
        assert_eq!(of("createStatement", created), Some(StatementMethod::Creates));
        assert_eq!(
            of("createStatement", "(III)Ljava/sql/Statement;"),
            Some(StatementMethod::Creates)
        );
        assert_eq!(of("createStatement", "(J)Ljava/sql/Statement;"), None);
        let connect = "(Ljava/lang/String;Ljava/util/Properties;)Ljava/sql/Connection;";
        assert_eq!(of("connect", connect), Some(StatementMethod::Connects));
        assert_eq!(of("connect", "(Ljava/lang/String;)Ljava/sql/Connection;"), None);
        assert_eq!(of("run", "()V"), None);
        assert_eq!(of("execute", ""), None);
    }
}
