//! The libraries whose code is in the process, and what is known about their functions.

use std::fs;

use sampling_handler::unwind_rows;

use super::elf::Tables;
use super::mapping::{Mapping, mappings};

/// What is known about a library's functions.
#[derive(Debug)]
pub(super) enum Functions {
    /// Nobody has asked.
    Nothing,
    /// A sample is in it.
    Wanted,
    /// They are being read, or that failed.
    Asked,
    /// The tables, and the number of its published rows.
    Tables(Tables, Option<usize>),
}

/// A library in the process.
#[derive(Debug)]
pub(super) struct Library {
    /// It is given once.
    pub id: u32,
    pub mapping: Mapping,
    pub functions: Functions,
}

/// All of them, by address.
#[derive(Debug, Default)]
pub(super) struct Libraries {
    all: Vec<Library>,
    next_id: u32,
}

impl Libraries {
    /// Reads which libraries are mapped now.
    pub(super) fn read(&mut self) {
        // Names may be in any encoding.
        if let Ok(maps) = fs::read("/proc/self/maps") {
            self.set(mappings(&String::from_utf8_lossy(&maps)));
        }
    }

    fn set(&mut self, mappings: Vec<Mapping>) {
        let (mut kept, gone): (Vec<_>, Vec<_>) = std::mem::take(&mut self.all)
            .into_iter()
            .partition(|library| mappings.contains(&library.mapping));
        for library in gone {
            if let Functions::Tables(_, Some(number)) = library.functions {
                unwind_rows::withdraw(number);
            }
        }
        for mapping in mappings {
            if kept.iter().all(|library| library.mapping != mapping) {
                let id = self.next_id;
                self.next_id += 1;
                kept.push(Library { id, mapping, functions: Functions::Nothing });
            }
        }
        kept.sort_unstable_by_key(|library| library.mapping.start);
        self.all = kept;
    }

    /// The library at an address.
    pub(super) fn at(&mut self, pc: usize) -> Option<&mut Library> {
        let after = self.all.partition_point(|library| library.mapping.start <= pc);
        let library = self.all.get_mut(after.checked_sub(1)?)?;
        (pc < library.mapping.end).then_some(library)
    }

    /// The library with this id, unless it was unloaded.
    pub(super) fn by_id(&mut self, id: u32) -> Option<&mut Library> {
        self.all.iter_mut().find(|library| library.id == id)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Library> {
        self.all.iter_mut()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Library> {
        self.all.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "7000-8000 r--p 00000000 08:01 4          /lib/my lib/libx.so\n\
                        8000-9000 r-xp 00001000 08:01 4          /lib/my lib/libx.so\n\
                        a000-b000 rwxp 00000000 00:00 0 \n\
                        c000-d000 r-xp 00000000 00:00 0          [vdso]\n\
                        e000-f000 r-xp 00001000 08:01 5          /lib/liby.so";

    fn read(maps: &str) -> Libraries {
        let mut libraries = Libraries::default();
        libraries.set(mappings(maps));
        libraries
    }

    #[test]
    fn an_address_belongs_to_its_library() {
        let mut libraries = read(MAPS);
        let mut at = |pc| libraries.at(pc).map(|library| library.mapping.name());
        assert_eq!(at(0x8123).as_deref(), Some("[libx.so]"));
        assert_eq!(at(0xc000).as_deref(), Some("[vdso]"));
        assert_eq!([at(0x7fff), at(0x9000), at(0xa123), at(0x10)], [const { None }; 4]);
        let mut base = |pc| libraries.at(pc).map(|library| library.mapping.base);
        assert_eq!(
            [base(0x8000), base(0xc000), base(0xe000)],
            [Some(0x7000), Some(0xc000), Some(0)]
        );
    }

    #[test]
    fn a_library_keeps_its_id_until_it_is_unloaded() {
        let mut libraries = read(MAPS);
        let id = |libraries: &mut Libraries, pc| libraries.at(pc).map(|library| library.id);
        let (first, other) = (id(&mut libraries, 0x8000), id(&mut libraries, 0xe000));
        // Another file at the same path and place is another library.
        libraries.set(mappings(&MAPS.replace("08:01 4 ", "08:01 7 ")));
        assert_eq!(id(&mut libraries, 0xe000), other);
        assert_ne!(id(&mut libraries, 0x8000), first);
        assert!(libraries.by_id(first.expect("an id")).is_none());
    }
}
