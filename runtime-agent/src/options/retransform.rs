//! The option `retransform`.

/// Whether loaded classes are retransformed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retransform {
    /// Yes, except those in which a loop runs.
    #[default]
    On,
    /// No: a class is never changed after it was loaded.
    Off,
    /// Yes, including those in which a loop runs.
    EvenRunning,
}
