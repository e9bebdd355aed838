//! Sums over calls and events, and the types of their keys. This module knows neither files nor formats: `run` fills
//! sums, `report` reads them.
//!
//! ```text
//! aggregate, by_minute, overview_sums, last_hours   calls by group and method, and over time
//! call_tree, stacks, sampled_stacks                 trees and stacks
//! slow_calls, longest, sketch                       the slowest, and percentiles
//! lock_sums, sql_sums, exception_sums, allocation_sums, trace_sums, group_sums   events
//! allocated_calls, thread_dumps, method, id_map     the rest
//! ```

pub mod aggregate;
pub mod allocated_calls;
pub mod allocation_sums;
pub mod by_minute;
pub mod call_tree;
pub mod exception_sums;
pub mod group_sums;
pub mod id_map;
pub mod last_hours;
pub mod lock_sums;
pub mod longest;
pub mod method;
pub mod overview_sums;
pub mod sampled_stacks;
pub mod sketch;
pub mod slow_calls;
pub mod sql_sums;
pub mod stacks;
pub mod thread_dumps;
pub mod trace_sums;
