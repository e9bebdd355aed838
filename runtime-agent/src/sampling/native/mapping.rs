//! Where libraries are in memory.

use sampling_handler::load;

/// What is compared to know whether a file is the one in memory: with the headers, which say how large all parts are.
pub(super) const FIRST_PAGE: usize = 4_096;

/// Where a library is in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    /// Where its file's first byte is; 0 if that is not mapped.
    pub base: usize,
    /// Its code.
    pub start: usize,
    pub end: usize,
    /// Where the code is in the file.
    pub offset: u64,
    pub path: String,
}

impl Mapping {
    /// The file's name, in brackets.
    pub(super) fn name(&self) -> String {
        let name = self.path.rsplit('/').next().unwrap_or(&self.path);
        format!("[{}]", name.trim_matches(['[', ']']))
    }

    /// The file's first page, as it is in memory; `None` if it cannot be read.
    pub(super) fn first_page(&self) -> Option<Vec<u8>> {
        let words = (0..FIRST_PAGE / 8).map(|at| load::word(self.base + 8 * at));
        let is_mapped = self.base != 0;
        let words = is_mapped.then(|| words.collect::<Option<Vec<usize>>>())??;
        Some(words.into_iter().flat_map(usize::to_ne_bytes).collect())
    }
}

/// The executable mappings of files: `7f00-7f10 r-xp 00001000 08:01 42 /usr/lib/libc.so.6`.
pub(super) fn mappings(maps: &str) -> Vec<Mapping> {
    let mut found = Vec::new();
    let mut first = (0, "");
    for line in maps.lines() {
        let Some((start, end, access, offset, path)) = mapping(line) else { continue };
        if offset == 0 {
            first = (start, path);
        }
        if access.contains('x') {
            let base = if first.1 == path { first.0 } else { 0 };
            found.push(Mapping { base, start, end, offset, path: path.to_owned() });
        }
    }
    found
}

fn mapping(line: &str) -> Option<(usize, usize, &str, u64, &str)> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let (access, offset) = (words.next()?, words.next()?);
    let path = words.nth(2)?.trim_start();
    let address = |text| usize::from_str_radix(text, 16).ok();
    let offset = u64::from_str_radix(offset, 16).ok()?;
    (!path.is_empty()).then_some((address(start)?, address(end)?, access, offset, path))
}
