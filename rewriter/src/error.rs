//! Errors in class files, and reasons why a method is not instrumented.
//!
//! An [`Error`] is a malformed class: nothing of it changes. A [`Skip`] is a valid method that cannot be
//! instrumented; the rest of its class is.

use std::fmt;

/// A class file that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// What is wrong.
    pub kind: ErrorKind,
    /// The position, in bytes from the start of the class file.
    pub offset: usize,
    /// The method with the error, as `name` and descriptor.
    pub method: Option<Box<str>>,
}

impl Error {
    pub(crate) const fn new(kind: ErrorKind, offset: usize) -> Self {
        Self { kind, offset, method: None }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.kind.text(), self.offset)?;
        match &self.method {
            Some(method) => write!(f, " in method {method}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

/// Kinds of malformed class files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file does not begin with 0xCAFEBABE.
    NotAClassFile,
    /// The file ends before it is complete.
    Truncated,
    /// There are bytes after the end of the class.
    TrailingBytes,
    /// A constant-pool tag that no class file version has.
    UnknownConstant,
    /// A constant-pool index that does not refer to the required kind of constant.
    BadConstantIndex,
    /// An invalid descriptor.
    BadDescriptor,
    /// An attribute whose contents do not match its length.
    BadAttributeLength,
    /// Code of no bytes, or of more than 65,535.
    BadCodeLength,
    /// An opcode that class files cannot contain.
    UnknownOpcode,
    /// Code that ends in the middle of an instruction.
    TruncatedInstruction,
    /// A switch whose bounds are out of order.
    BadSwitch,
    /// A code offset that is not the start of an instruction.
    BadCodeOffset,
    /// A stack map frame of a reserved type, or out of order.
    BadStackMapFrame,
    /// A verification type that does not exist.
    BadVerificationType,
    /// A type annotation with an unknown target.
    BadTypeAnnotation,
    /// Two Code attributes in one method.
    DuplicateCode,
}

impl ErrorKind {
    const fn text(self) -> &'static str {
        match self {
            Self::NotAClassFile => "not a class file",
            Self::Truncated => "class file ends early",
            Self::TrailingBytes => "bytes after the end of the class",
            Self::UnknownConstant => "unknown constant-pool tag",
            Self::BadConstantIndex => "wrong constant-pool index",
            Self::BadDescriptor => "malformed descriptor",
            Self::BadAttributeLength => "wrong attribute length",
            Self::BadCodeLength => "wrong code length",
            Self::UnknownOpcode => "unknown opcode",
            Self::TruncatedInstruction => "code ends within an instruction",
            Self::BadSwitch => "malformed switch",
            Self::BadCodeOffset => "code offset within an instruction",
            Self::BadStackMapFrame => "malformed stack map frame",
            Self::BadVerificationType => "unknown verification type",
            Self::BadTypeAnnotation => "malformed type annotation",
            Self::DuplicateCode => "two Code attributes",
        }
    }
}

/// Why a selected method is not instrumented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Skip {
    /// `<clinit>`: it runs once, under the JVM's class-initialisation lock.
    ClassInitializer,
    /// There is no code: an abstract or native method.
    NoCode,
    /// The code would exceed 65,535 bytes.
    CodeTooLarge,
    /// A two-byte branch would no longer reach its target.
    BranchTooFar,
    /// The constant pool has no room for the probe's constants.
    ConstantPoolFull,
    /// The constructor's call of `super(...)` or `this(...)` cannot be identified for certain.
    ConstructorCallUnclear,
    /// The operand stack or the exception table has no room.
    LimitReached,
    /// The class has been rewritten before: rewriting it again would measure everything twice.
    HasProbes,
    /// The class file is of a version before 45.3 (Java 1.0.2), whose code has a different format.
    OldCodeFormat,
}

impl Skip {
    /// All reasons, in the order of reports.
    pub const ALL: [Self; 9] = [
        Self::ClassInitializer,
        Self::NoCode,
        Self::CodeTooLarge,
        Self::BranchTooFar,
        Self::ConstantPoolFull,
        Self::ConstructorCallUnclear,
        Self::LimitReached,
        Self::HasProbes,
        Self::OldCodeFormat,
    ];

    /// A short description of the reason.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::ClassInitializer => "class initializer",
            Self::NoCode => "abstract or native",
            Self::CodeTooLarge => "code would pass 65,535 bytes",
            Self::BranchTooFar => "branch would not reach its target",
            Self::ConstantPoolFull => "constant pool is full",
            Self::ConstructorCallUnclear => "super(...) call cannot be told for certain",
            Self::LimitReached => "stack or exception table has no room",
            Self::HasProbes => "class is instrumented already",
            Self::OldCodeFormat => "class file from before Java 1.0.2",
        }
    }

    /// Whether every such method is skipped by design, so that its name is not worth reporting.
    #[must_use]
    pub const fn is_by_design(self) -> bool {
        matches!(self, Self::ClassInitializer | Self::NoCode)
    }
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}
