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
    /// The device and the inode of its file, as the kernel writes them.
    pub file: String,
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
        let Some((start, end, access, offset, file, path)) = mapping(line) else { continue };
        if offset == 0 {
            first = (start, path);
        }
        if access.contains('x') {
            let base = if first.1 == path { first.0 } else { 0 };
            found.push(Mapping { base, start, end, offset, file, path: path.to_owned() });
        }
    }
    found
}

type Line<'l> = (usize, usize, &'l str, u64, String, &'l str);

fn mapping(line: &str) -> Option<Line<'_>> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let (access, offset) = (words.next()?, words.next()?);
    let file = format!("{} {}", words.next()?, words.next()?);
    // A file that is deleted is still the same library.
    let path = words.next()?.trim_start();
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    let address = |text| usize::from_str_radix(text, 16).ok();
    let offset = u64::from_str_radix(offset, 16).ok()?;
    (!path.is_empty()).then_some((address(start)?, address(end)?, access, offset, file, path))
}
