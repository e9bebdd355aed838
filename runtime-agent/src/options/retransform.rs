//! The option `retransform`.

/// Whether loaded classes are retransformed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retransform {
    /// Yes, but for those in which a loop runs.
    #[default]
    On,
    /// No class is touched after it was loaded.
    Off,
    /// Yes, also those in which a loop runs.
    EvenRunning,
}
