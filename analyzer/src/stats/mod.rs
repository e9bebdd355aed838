//! Sums over calls, and the types of their keys. This module does not know about files.

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
