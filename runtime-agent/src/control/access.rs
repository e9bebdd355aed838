//! Which commands a client may send.

use super::commands::{Command, Shows};
use crate::request::Request;

/// Each level includes the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Access {
    Nothing,
    /// `status` without names and paths, and `help`: every user of this machine.
    Look,
    /// Also `start`, `stop` and `flush`: every user of this machine with `port_access=open`.
    Switch,
    /// A client that has proved that it knows the token.
    Everything,
}

impl Access {
    pub(super) fn allows(self, command: &Command) -> bool {
        let needed = match (&command.request, command.shows) {
            (None, _) | (Some(Request::Status), Shows::Status) => Self::Look,
            (Some(Request::Start | Request::Stop | Request::Flush), _) => Self::Switch,
            (Some(_), _) => Self::Everything,
        };
        self >= needed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::commands::parse;

    #[test]
    fn each_command_needs_its_level() {
        for (needed, lines) in [
            (Access::Look, &["status", "json status", "help"][..]),
            (Access::Switch, &["start", "stop", "flush", "json start"]),
            (
                Access::Everything,
                &[
                    "detach",
                    "overhead",
                    "overhead off",
                    "mute",
                    "mute **",
                    "unmute **",
                    "threshold",
                    "threshold 1h",
                    "threshold **:1h",
                    "top",
                    "inflight",
                    "threads",
                    "methods **",
                    "alloc",
                    "alloc 512k",
                    "trace",
                    "trace ** 1",
                    "untrace",
                    "task endpoint=a.B.c",
                    "tasks",
                    "cancel 1",
                    "options",
                    "json options",
                ],
            ),
        ] {
            for line in lines {
                let command = parse(line).unwrap_or_else(|e| panic!("{line}: {e:?}"));
                for access in [Access::Nothing, Access::Look, Access::Switch, Access::Everything] {
                    assert_eq!(access.allows(&command), access >= needed, "{line} {access:?}");
                }
            }
        }
    }
}
