//! The default of `max_memory`: a sixteenth of the memory available to the process, by its cgroup and the machine.

use std::fs::File;
use std::io::Read;

/// A megabyte of memory.
const MB: u64 = 1 << 20;
/// The lowest and the highest default.
const LEAST: u64 = 16 * MB;
const MOST: u64 = 256 * MB;
/// The default is this fraction of the memory available to the process.
const SHARE: u64 = 16;

/// At most this many bytes of a file are read.
const FILE_BYTES: u64 = 64 << 10;
/// At most this many levels of cgroup folders are checked.
const FOLDERS: usize = 32;

/// The default, for the current state of the machine.
pub(crate) fn default_bytes() -> u64 {
    let cgroup = read("/proc/self/cgroup").and_then(|groups| cgroup_limit(&groups, &read));
    let ram = read("/proc/meminfo").and_then(|text| ram(&text));
    default_of(cgroup, ram)
}

/// The default for this cgroup limit and this much memory of the machine, both in bytes; `None` if unknown.
fn default_of(cgroup: Option<u64>, ram: Option<u64>) -> u64 {
    let available = [cgroup, ram].into_iter().flatten().min();
    available.map_or(LEAST, |bytes| (bytes / SHARE).clamp(LEAST, MOST))
}

/// Reads the beginning of a file, if it is text.
fn read(path: &str) -> Option<String> {
    let mut text = String::new();
    File::open(path).ok()?.take(FILE_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

/// The lowest limit of the cgroup in `/proc/self/cgroup` and its parents. `read` reads a file.
fn cgroup_limit(groups: &str, read: &dyn Fn(&str) -> Option<String>) -> Option<u64> {
    let of_line = |line: &str| {
        // The hierarchy's number, its controllers (none in version 2), and the group's path.
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        if controllers.is_empty() {
            lowest("/sys/fs/cgroup", path, "memory.max", read)
        } else if controllers.split(',').any(|name| name == "memory") {
            lowest("/sys/fs/cgroup/memory", path, "memory.limit_in_bytes", read)
        } else {
            None
        }
    };
    groups.lines().filter_map(of_line).min()
}

/// The lowest limit from a group up to the root. In a container, the path may be the host's, of which the container
/// sees only the root.
fn lowest(
    root: &str,
    path: &str,
    file: &str,
    read: &dyn Fn(&str) -> Option<String>,
) -> Option<u64> {
    let mut path = path.trim_end_matches('/');
    let mut least = None;
    for _ in 0..FOLDERS {
        // "max", and in version 1 a number close to 2^63, mean no limit.
        let limit = read(&format!("{root}{path}/{file}")).and_then(|text| text.trim().parse().ok());
        let limit = limit.filter(|bytes: &u64| *bytes < 1 << 60);
        least = [least, limit].into_iter().flatten().min();
        match path.rsplit_once('/') {
            Some((above, _)) => path = above,
            None => break,
        }
    }
    least
}

/// The machine's memory, from `/proc/meminfo`.
fn ram(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kb: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kb.checked_mul(1_024)
}

/// Parses a size of memory in bytes: a whole number with the suffix `k`, `m` or `g` as for `-Xmx`, or `KB`, `MB`, `GB`.
pub(crate) fn parse(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" => 10,
        "m" | "mb" => 20,
        "g" | "gb" => 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift).filter(|bytes| *bytes >= MB)
}

/// Formats a size so that [`parse`] reads it, in the largest unit that divides it.
pub(crate) fn text(bytes: u64) -> String {
    let units = [("g", 30), ("m", 20), ("k", 10)];
    let whole = units.into_iter().find(|(_, shift)| bytes.is_multiple_of(1 << *shift));
    whole.map_or_else(|| bytes.to_string(), |(unit, shift)| format!("{}{unit}", bytes >> shift))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn the_default_is_a_sixteenth_within_bounds() {
        for (cgroup, ram, default) in [
            (None, None, 16),
            (Some(64), Some(4_096), 16),
            (Some(512), Some(65_536), 32),
            (None, Some(2_048), 128),
            (Some(65_536), Some(1_024), 64),
            (Some(16_384), Some(65_536), 256),
        ] {
            let bytes = default_of(cgroup.map(|mb: u64| mb * MB), ram.map(|mb: u64| mb * MB));
            assert_eq!(bytes, default * MB, "{cgroup:?} {ram:?}");
        }
        assert!((LEAST..=MOST).contains(&default_bytes()));
    }

    fn limit(groups: &str, files: &[(&str, &str)]) -> Option<u64> {
        let files: HashMap<&str, &str> = files.iter().copied().collect();
        cgroup_limit(groups, &|path| files.get(path).map(|text| (*text).to_owned()))
    }

    #[test]
    fn the_lowest_limit_of_a_group_and_those_around_it_counts() {
        let groups = "0::/kubepods/pod7/app\n";
        let of_app = ("/sys/fs/cgroup/kubepods/pod7/app/memory.max", "max\n");
        let of_pod = ("/sys/fs/cgroup/kubepods/pod7/memory.max", "536870912\n");
        let of_pods = ("/sys/fs/cgroup/kubepods/memory.max", "4294967296\n");
        assert_eq!(limit(groups, &[of_app, of_pod, of_pods]), Some(512 * MB));
        assert_eq!(limit(groups, &[of_app]), None);
        // In a container's own namespace, and with the host's path, none of which exists here.
        let own = ("/sys/fs/cgroup/memory.max", "268435456\n");
        assert_eq!(limit("0::/\n", &[own]), Some(256 * MB));
        assert_eq!(limit(groups, &[own]), Some(256 * MB));
        assert_eq!(limit("", &[own]), None);
    }

    #[test]
    fn version_1_and_both_at_once() {
        let groups =
            "12:cpu,cpuacct:/a\n5:memory:/docker/1f\n1:name=systemd:/b\n0::/system.slice\n";
        let none =
            ("/sys/fs/cgroup/memory/docker/1f/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(limit(groups, &[none]), None);
        let root = ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824");
        assert_eq!(limit(groups, &[none, root]), Some(1_024 * MB));
        let second = ("/sys/fs/cgroup/system.slice/memory.max", "104857600");
        assert_eq!(limit(groups, &[root, second]), Some(100 * MB));
        let odd = ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "many");
        assert_eq!(limit("5:memory", &[odd]), None);
        assert_eq!(limit(groups, &[odd]), None);
        // The depth is bounded.
        assert_eq!(limit(&format!("0::{}", "/a".repeat(10_000)), &[second]), None);
    }

    #[test]
    fn the_machines_memory() {
        assert_eq!(ram("MemTotal:       24689744 kB\nMemFree: 1 kB\n"), Some(24_689_744 << 10));
        assert_eq!(ram("MemFree: 1 kB\n"), None);
        assert_eq!(ram("MemTotal: much kB\n"), None);
    }

    #[test]
    fn sizes_with_units() {
        for (text, bytes) in [
            ("1048576", MB),
            ("1024k", MB),
            ("64m", 64 * MB),
            ("64MB", 64 * MB),
            ("2g", 2_048 * MB),
            ("1GB", 1_024 * MB),
        ] {
            assert_eq!(parse(text), Some(bytes), "{text}");
        }
        for text in ["", "m", "1", "1023k", "-1m", "1.5g", "64 MB", "64x", "99999999999g", "off"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
