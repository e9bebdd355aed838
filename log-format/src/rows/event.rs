//! Names of events.

use crate::method_state::MethodState;

/// The overhead budget throttled a method: `method`, `calls_per_s`, `mean_ns`.
pub const THROTTLED: &str = MethodState::Throttled.name();
/// The method is no longer throttled.
pub const UNTHROTTLED: &str = "unthrottled";
/// The user muted the methods of a pattern: `pattern`.
pub const MUTED: &str = MethodState::Muted.name();
/// The methods of a pattern are no longer muted.
pub const UNMUTED: &str = "unmuted";
/// The methods of a pattern have a threshold of their own: `pattern`, `threshold_ns`.
pub const THRESHOLD: &str = "threshold";
/// A selected method could not be instrumented: `method`, `reason`.
pub const NOT_INSTRUMENTED: &str = "not_instrumented";
/// A loaded class could not be retransformed, and is not instrumented for now: `class`, `reason`.
pub const CLASS_POSTPONED: &str = "class_postponed";
/// A postponed class was retransformed, or is no longer selected: `class`.
pub const CLASS_RETRANSFORMED: &str = "class_retransformed";
