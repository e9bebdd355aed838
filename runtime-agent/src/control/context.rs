//! What every conversation needs beside the agent thread, and rate limits of clients' commands.

use std::collections::BTreeMap;

use super::access::Access;
use super::rate::RateLimit;
use super::recent_status::RecentStatus;
use super::token::Token;
use crate::options::{ControlOptions, Options, PortAccess};

/// Commands a second, and in a burst, of all unauthenticated clients together.
const UNAUTHENTICATED_COMMANDS: (u32, u32) = (10, 20);
/// `start`, `stop` and `flush` a second, and in a burst, of all unauthenticated clients together: each waits for the
/// disk.
const UNAUTHENTICATED_SWITCHES: (u32, u32) = (1, 10);
/// Commands a second, and in a burst, of all clients that know the token.
const KNOWN_COMMANDS: (u32, u32) = (50, 100);
/// What every conversation needs beside the agent thread.
pub(super) struct Context {
    pub token: Token,
    /// What clients on loopback may do without the token.
    pub access: Access,
    /// The options as they were given, but with the port in use.
    pub options: BTreeMap<String, String>,
    pub recent_status: RecentStatus,
    pub unauthenticated_turns: RateLimit,
    pub unauthenticated_switches: RateLimit,
    pub known_turns: RateLimit,
}

impl Context {
    pub(super) fn new(options: &Options, port: u16, token: Token) -> Self {
        let limit = |(per_second, at_once)| RateLimit::new(per_second, at_once);
        let control = ControlOptions { port: Some(port), ..options.control.clone() };
        Self {
            token,
            access: match control.access {
                PortAccess::Token => Access::Look,
                PortAccess::Open => Access::Switch,
            },
            options: Options { control, ..options.clone() }.to_map(),
            recent_status: RecentStatus::default(),
            unauthenticated_turns: limit(UNAUTHENTICATED_COMMANDS),
            unauthenticated_switches: limit(UNAUTHENTICATED_SWITCHES),
            known_turns: limit(KNOWN_COMMANDS),
        }
    }
}
