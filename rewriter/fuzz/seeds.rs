//! Reads the seeds of a fuzz target, which `scripts/fuzz.sh --pack` has put into one tar file.

use std::path::Path;

/// The contents of all files in a tar file (POSIX ustar) with regular files and folders alone.
///
/// # Panics
/// If the file cannot be read or has other entries.
pub fn seeds(archive: &Path) -> Vec<Vec<u8>> {
    const BLOCK: usize = 512;
    let archive = std::fs::read(archive).expect("the seeds");
    let (mut seeds, mut at) = (Vec::new(), 0);
    // A block of zeros ends the archive.
    while let Some(header) = archive.get(at..at + BLOCK).filter(|block| block[0] != 0) {
        let size = std::str::from_utf8(&header[124..135]).expect("octal digits");
        let size = usize::from_str_radix(size, 8).expect("octal digits");
        let content = &archive[at + BLOCK..at + BLOCK + size];
        match header[156] {
            b'0' => seeds.push(content.to_vec()),
            b'5' => {}
            other => panic!("an entry of type {other}"),
        }
        at += BLOCK + size.next_multiple_of(BLOCK);
    }
    seeds
}
