//! Checks of values on the command line.

use log_format::error::BadValue;
use log_format::writer::is_unprintable;

/// Checks the form of an address. Whether the host exists, the connection will show.
pub(super) fn address(text: &str) -> Result<String, BadValue> {
    let is_address = text.rsplit_once(':').is_some_and(|(host, port)| {
        // In an IPv6 address without brackets, the port is ambiguous.
        let is_host = !host.contains(':') || host.starts_with('[') && host.ends_with(']');
        !host.is_empty() && is_host && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    if is_address {
        Ok(text.to_owned())
    } else {
        Err(BadValue::because("not HOST:PORT, as in 127.0.0.1:50000"))
    }
}

/// A value with something in it. An empty variable of a script would otherwise be a command without a value: `untrace
/// ''` would end all traces.
pub(super) fn given(text: &str) -> Result<String, BadValue> {
    if text.trim().is_empty() { Err(BadValue::because("empty")) } else { Ok(text.to_owned()) }
}

/// Refuses what would be two words in the line for the agent, or none.
pub(super) fn word(text: &str) -> Result<String, BadValue> {
    if text.contains(|c: char| is_unprintable(c) || c.is_whitespace()) {
        return Err(BadValue::because("must have no spaces"));
    }
    given(text)
}
