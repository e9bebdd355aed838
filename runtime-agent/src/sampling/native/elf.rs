//! Reads a library's file: its functions, and how they lay out their frames.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use object::elf::{PF_X, PT_LOAD, SHT_DYNSYM, SHT_SYMTAB, STT_FUNC};
use object::read::elf::{ElfFile64, ProgramHeader, SectionHeader, Sym};
use object::{Endianness, Object, ObjectSection, ReadCache, SectionIndex};
use sampling_handler::unwind_rows::Row;

use super::frame_rows;
use super::libraries::Mapping;

/// What is compared to know whether the file is the one in memory: with the headers, which say how large all parts are.
pub(super) const FIRST_PAGE: usize = 4_096;
const PAGE: u64 = 4_096;
/// Largest tables that are read.
const MOST_BYTES: u64 = 16 << 20;
/// Longest name of a function that is read.
const LONGEST_NAME: u64 = 1_000;

type Elf<'f> = ElfFile64<'f, Endianness, &'f ReadCache<File>>;

/// A function, by its address in the file's own terms.
#[derive(Clone, Copy, Debug)]
struct Symbol {
    start: u32,
    /// 0 if it is not known.
    len: u32,
    /// Where its name is among the names.
    name: u32,
}

/// The functions of a library, by address.
#[derive(Debug)]
pub(super) struct Tables {
    path: String,
    first_page: Vec<u8>,
    /// From an address in the file's terms to one in memory.
    bias: usize,
    symbols: Vec<Symbol>,
    /// Where the names begin in the file.
    names: u64,
}

impl Tables {
    /// The function at an address in memory, by its address in the file's terms.
    pub(super) fn function(&self, pc: usize) -> Option<u32> {
        let address = u32::try_from(pc.wrapping_sub(self.bias)).ok()?;
        let after = self.symbols.partition_point(|symbol| symbol.start <= address);
        let symbol = self.symbols.get(after.checked_sub(1)?)?;
        (symbol.len == 0 || address - symbol.start < symbol.len).then_some(symbol.start)
    }

    /// The name of a function, as the file has it; `None` if the file was replaced meanwhile.
    pub(super) fn name(&self, function: u32) -> Option<String> {
        let at = self.symbols.binary_search_by_key(&function, |symbol| symbol.start).ok()?;
        let symbol = self.symbols.get(at)?;
        let mut file = open(&self.path, &self.first_page)?;
        file.seek(SeekFrom::Start(self.names + u64::from(symbol.name))).ok()?;
        let mut name = Vec::new();
        file.take(LONGEST_NAME).read_to_end(&mut name).ok()?;
        let name = name.split(|byte| *byte == 0).next()?;
        (!name.is_empty()).then(|| String::from_utf8_lossy(name).into_owned())
    }

    /// Memory that they use.
    pub(super) fn bytes(&self) -> usize {
        self.symbols.capacity() * size_of::<Symbol>() + self.first_page.capacity()
    }
}

/// Reads the tables of a library and the rows of its frames; `None` if its file is not the one in memory.
pub(super) fn read(mapping: &Mapping, first_page: Vec<u8>) -> Option<(Tables, Vec<Row>)> {
    let file = ReadCache::new(open(&mapping.path, &first_page)?);
    let elf = Elf::parse(&file).ok()?;
    let bias = bias(&elf, mapping)?;
    let (symbols, names) = symbols(&elf).unwrap_or_default();
    let rows = rows(&elf, mapping.start.wrapping_sub(bias)).unwrap_or_default();
    Some((Tables { path: mapping.path.clone(), first_page, bias, symbols, names }, rows))
}

/// Opens a file that begins with these bytes.
fn open(path: &str, first_page: &[u8]) -> Option<File> {
    let mut file = File::open(path).ok()?;
    let mut found = vec![0; first_page.len()];
    file.read_exact(&mut found).ok()?;
    (found == first_page).then_some(file)
}

fn bias(elf: &Elf<'_>, mapping: &Mapping) -> Option<usize> {
    let endian = elf.endian();
    let code = elf.elf_program_headers().iter().find(|of| {
        // A page of the file may have the end of a segment and the beginning of the next.
        let is_code = of.p_type(endian) == PT_LOAD && of.p_flags(endian) & PF_X != 0;
        let first = of.p_offset(endian) / PAGE * PAGE;
        is_code
            && mapping.offset >= first
            && mapping.offset < of.p_offset(endian) + of.p_filesz(endian)
    })?;
    let address = code.p_vaddr(endian).wrapping_sub(code.p_offset(endian)) + mapping.offset;
    Some(mapping.start.wrapping_sub(usize::try_from(address).ok()?))
}

/// All functions, and where the names are. A file may have a table of all functions; else it has one of those that other
/// files may use.
fn symbols(elf: &Elf<'_>) -> Option<(Vec<Symbol>, u64)> {
    let endian = elf.endian();
    let sections = elf.elf_section_table();
    let of_type = |wanted| sections.iter().find(|section| section.sh_type(endian) == wanted);
    let table = of_type(SHT_SYMTAB).or_else(|| of_type(SHT_DYNSYM))?;
    if table.sh_size(endian) > MOST_BYTES {
        return None;
    }
    let names = sections.section(SectionIndex(table.sh_link(endian) as usize)).ok()?;
    let entries: &[object::elf::Sym64<Endianness>] =
        table.data_as_array(endian, elf.data()).ok()?;
    let functions = entries.iter().filter(|entry| entry.st_type() == STT_FUNC);
    let mut symbols: Vec<Symbol> = functions
        .filter_map(|entry| {
            let start = u32::try_from(entry.st_value(endian)).ok().filter(|start| *start != 0)?;
            let len = u32::try_from(entry.st_size(endian)).ok()?;
            Some(Symbol { start, len, name: entry.st_name(endian) })
        })
        .collect();
    // Of functions with several names the longest, then the first.
    symbols.sort_unstable_by_key(|symbol| (symbol.start, u32::MAX - symbol.len, symbol.name));
    symbols.dedup_by_key(|symbol| symbol.start);
    symbols.shrink_to_fit();
    Some((symbols, names.sh_offset(endian)))
}

/// How functions lay out their frames, by the distance from the code's start, which is at `code` in the file's terms.
fn rows(elf: &Elf<'_>, code: usize) -> Option<Vec<Row>> {
    let section = elf.section_by_name(".eh_frame").filter(|of| of.size() <= MOST_BYTES)?;
    let data = section.data().ok()?;
    let text = elf.section_by_name(".text").map_or(0, |text| text.address());
    Some(frame_rows::read(data, section.address(), text, code as u64))
}
