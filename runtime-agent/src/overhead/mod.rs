//! Decides which methods are throttled, so that the profiler stays within its share of the process's CPU time.
//!
//! CPU samples in probes say what they cost in all, and calls divide it among methods ([`call_cost`]). [`steady_state`]
//! holds that against the budget, and throttles methods. [`start_up`] is stricter while a program begins. [`waves`]
//! decides when throttled methods are compiled out, and [`return_to_budget`] which ones are measured again. Nothing
//! here retransforms a class: a running loop would stay slow for good.
//!
//! These are decisions only, without a clock or a JVM; [`controller`] carries them out.

mod calibration;
mod call_cost;
pub(crate) mod controller;
mod period_cost;
mod return_to_budget;
mod start_up;
mod steady_state;
#[cfg(test)]
mod tests;
mod waves;

pub(crate) use self::period_cost::Period;
pub(crate) use self::steady_state::{Overhead, OverheadFigures, Spent, Throttled};
