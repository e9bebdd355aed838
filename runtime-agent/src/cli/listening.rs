//! Whether a process listens on a TCP port, as `/proc` shows it.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

/// The kernel's `TCP_LISTEN`.
const LISTENS: &str = "0A";

/// How often the kernel's table is read: it may lack a socket while others come and go.
const READINGS: u32 = 3;

/// Whether the process with this folder in `/proc` listens on a port of its network namespace. `false` if that is not
/// visible.
pub(super) fn listens_on(process: &Path, port: u16) -> bool {
    (0..READINGS).any(|_| is_listening(process, port))
}

fn is_listening(process: &Path, port: u16) -> bool {
    let sockets: HashSet<String> = ["net/tcp", "net/tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(process.join(table)).ok())
        .flat_map(|table| {
            let inodes = table.lines().filter_map(|line| inode_of_listener(line, port));
            inodes.map(|inode| format!("socket:[{inode}]")).collect::<Vec<_>>()
        })
        .collect();
    let files = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    files
        .filter_map(|file| fs::read_link(file.path()).ok())
        .any(|target| target.to_str().is_some_and(|target| sockets.contains(target)))
}

/// The inode in a line of the kernel's table, if that socket listens on the port.
fn inode_of_listener(line: &str, port: u16) -> Option<&str> {
    let mut fields = line.split_whitespace();
    let (_, own_port) = fields.nth(1)?.rsplit_once(':')?;
    let state = fields.nth(1)?;
    let is_it = state == LISTENS && u16::from_str_radix(own_port, 16) == Ok(port);
    is_it.then(|| fields.nth(5)).flatten()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_listener_is_found_on_its_port_and_on_no_other() {
        let own = Path::new("/proc/self");
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).unwrap();
            let port = listener.local_addr().unwrap().port();
            assert!(listens_on(own, port), "{address}");
            assert!(!listens_on(Path::new("/proc/1/none"), port));
            drop(listener);
            assert!(!listens_on(own, port), "{address}");
        }
    }
}
