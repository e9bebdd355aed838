//! Which library native code belongs to.

use std::fs;

/// The executable mappings of files, by address.
#[derive(Debug, Default)]
pub(super) struct Libraries {
    /// Start, end and file name.
    mapped: Vec<(usize, usize, String)>,
}

impl Libraries {
    /// Reads which libraries are mapped now.
    pub(super) fn read(&mut self) {
        let Ok(maps) = fs::read_to_string("/proc/self/maps") else { return };
        self.mapped = maps.lines().filter_map(mapping).collect();
    }

    /// The file name of the library at an address, in brackets.
    pub(super) fn name(&self, pc: usize) -> Option<String> {
        let after = self.mapped.partition_point(|(start, ..)| *start <= pc);
        let (_, end, name) = self.mapped.get(after.checked_sub(1)?)?;
        (pc < *end).then(|| format!("[{name}]"))
    }
}

/// An executable mapping of a file: `7f00-7f10 r-xp 00000000 08:01 42 /usr/lib/libc.so.6`.
fn mapping(line: &str) -> Option<(usize, usize, String)> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    if !words.next()?.contains('x') {
        return None;
    }
    let path = words.nth(3)?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    let name = path.rsplit('/').next().unwrap_or(path).trim_matches(['[', ']']);
    Some((address(start)?, address(end)?, name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_belongs_to_its_library() {
        let lines = "7000-8000 r--p 0 08:01 4 /lib/libx.so\n8000-9000 r-xp 0 08:01 4 /lib/libx.so\n\
                     a000-b000 rwxp 0 00:00 0\nc000-d000 r-xp 0 00:00 0 [vdso]";
        let libraries = Libraries { mapped: lines.lines().filter_map(mapping).collect() };
        let name = |pc| libraries.name(pc);
        assert_eq!(name(0x8123).as_deref(), Some("[libx.so]"));
        assert_eq!(name(0xc000).as_deref(), Some("[vdso]"));
        assert_eq!([name(0x7fff), name(0x9000), name(0xa123), name(0x10)], [const { None }; 4]);
    }
}
