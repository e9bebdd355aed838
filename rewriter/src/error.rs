//! What can be wrong with a class file, and what is not wrong but stays as it is.
//!
//! An [`Error`] is a malformed class: nothing of it is changed. A [`Skip`] is a method that is fine
//! and yet cannot get probes; the rest of its class gets them.

use std::fmt;

/// A class file that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// What is wrong.
    pub kind: ErrorKind,
    /// Where, in bytes from the start of the class file.
    pub offset: usize,
    /// The method that it was found in, as `name` and descriptor.
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
    /// Bytes follow the end of the class.
    TrailingBytes,
    /// A constant-pool tag that no version knows.
    UnknownConstant,
    /// A constant-pool index that does not lead to the kind of constant needed.
    BadConstantIndex,
    /// A descriptor that is none.
    BadDescriptor,
    /// An attribute whose contents do not fill its length.
    BadAttributeLength,
    /// Code of no bytes, or of more than 65,535.
    BadCodeLength,
    /// An opcode that class files cannot contain.
    UnknownOpcode,
    /// Code that ends within an instruction.
    TruncatedInstruction,
    /// A switch whose bounds are not in order.
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

/// Why a selected method gets no probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Skip {
    /// `<clinit>`: it runs once, under the JVM's class-initialisation lock.
    ClassInitializer,
    /// There is no code: an abstract or native method.
    NoCode,
    /// The code would pass 65,535 bytes.
    CodeTooLarge,
    /// A branch of two bytes would not reach its target any more.
    BranchTooFar,
    /// The constant pool has no room for the probe's constants.
    ConstantPoolFull,
    /// The constructor's call of `super(...)` or `this(...)` cannot be told for certain.
    ConstructorCallUnclear,
    /// The operand stack or the exception table has no room.
    LimitReached,
    /// The class has been rewritten before: another rewriting would measure everything twice.
    HasProbes,
    /// The class file is of a version before 45.3 (Java 1.0.2), whose code has another form.
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

    /// The reason in a few words.
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
            Self::HasProbes => "class has probes already",
            Self::OldCodeFormat => "class file from before Java 1.0.2",
        }
    }

    /// Whether every such method stays without probes by design, so that it is not worth naming.
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
