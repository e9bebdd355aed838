//! What TProfiler's logs are not part of, because they have no times of day.

use crate::options::By;
use crate::run::selection::Selection;

/// Why these logs are not part of the selection or its groups, if so: calls have no times, and the dates of dumps no
/// clear zone.
pub(super) fn not_part_of(selection: &Selection) -> Option<&'static str> {
    match selection.by {
        By::Hour => Some("TProfiler's logs have no times, not part of hours"),
        By::Minute => Some("TProfiler's logs have no times, not part of minutes"),
        _ if !selection.range.is_everything() => {
            Some("TProfiler's logs have no times, not part of --from and --to")
        }
        _ => None,
    }
}
