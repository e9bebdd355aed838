//! What `analyze` makes of logs: real files, and the program itself. One program for all, because each one more takes a
//! second to build.

mod allocations;
mod common;
mod cpu;
mod csv_rows;
mod cut_short;
mod diff;
mod exceptions;
mod first_screen;
mod foreign_readers;
mod formats;
mod frozen;
mod html;
mod inputs;
mod interrupted;
mod jfr;
mod locks;
mod percentiles;
mod reports;
mod sql;
mod stacks_in_time;
mod tasks;
mod throttled;
mod tprofiler;
mod tprofiler_sampler;
mod traces;
mod waiting;
