//! `tprofiler skywalking`: carries out the profile tasks of a SkyWalking server, as SkyWalking's own Java agent does.
//!
//! ```text
//! server --poll--> task --order--> agent --log--> follow --queue--> sender --> server, Kafka
//! ```
//!
//! It is a process of its own, so the JVM has neither gRPC nor tokio. It reads the agent's log, and sends the agent a
//! line for each task. The log is the queue: what waits for the server is a request's number, and a request is read
//! when its turn has come. So memory does not grow while the server is away.
//!
//! One thread runs all; what reads files or waits for an agent runs on a few others. Begin to read at [`run`], then
//! `instance`.
#![forbid(unsafe_code)]

mod agents;
mod batch;
pub mod cli;
mod command;
mod error;
mod instance;
mod kafka;
pub mod oap;
mod options;
mod process;
mod queue;
mod request;
mod runs;
mod sender;
mod service;
mod stderr;

pub use self::agents::run;
pub use self::error::Error;
pub use self::options::{Options, Tls};
