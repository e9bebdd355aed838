//! Reads a library's file: its functions, and how they lay out their frames.
#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::mem::size_of;
use std::os::unix::fs::OpenOptionsExt;

use object::Endianness;
use object::elf::{
    FileHeader64, PF_X, PT_LOAD, SHT_DYNSYM, SHT_SYMTAB, STT_FUNC, SectionHeader64, Sym64,
};
use object::pod::slice_from_bytes;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, SectionTable, Sym};
use object::{ReadCache, SectionIndex};
use sampling_handler::unwind_rows::Row;

use super::buffer::{Buffer, Plain};
use super::frame_rows;
use super::mapping::Mapping;

const PAGE: u64 = 4_096;
/// Length of a function whose length is not said, as of those in assembly.
const OF_ASSEMBLY: u32 = 64;
/// Longest name of a function that is read.
const LONGEST_NAME: u64 = 1_000;

/// The file; only headers are read through it.
type Headers<'f> = &'f ReadCache<&'f File>;
type Sections<'f> = SectionTable<'f, FileHeader64<Endianness>, Headers<'f>>;

/// A function, by its address in the file's own terms.
#[derive(Clone, Copy, Debug)]
struct Symbol {
    start: u32,
    len: u32,
    /// Where its name is among the names.
    name: u32,
}

// SAFETY: three numbers.
unsafe impl Plain for Symbol {}

/// The functions of a library, by address.
#[derive(Debug)]
pub(super) struct Tables {
    path: String,
    first_page: Vec<u8>,
    /// From an address in the file's terms to one in memory.
    bias: usize,
    symbols: Option<Buffer<Symbol>>,
    /// Where the names begin in the file.
    names: u64,
}

impl Tables {
    fn symbols(&self) -> &[Symbol] {
        self.symbols.as_ref().map_or(&[], Buffer::as_slice)
    }

    /// The function at an address in memory, by its address in the file's terms.
    pub(super) fn function(&self, pc: usize) -> Option<u32> {
        let address = u32::try_from(pc.wrapping_sub(self.bias)).ok()?;
        let after = self.symbols().partition_point(|symbol| symbol.start <= address);
        let symbol = self.symbols().get(after.checked_sub(1)?)?;
        (address - symbol.start < symbol.len).then_some(symbol.start)
    }

    /// The name of a function, as the file has it; `None` if the file was replaced meanwhile.
    pub(super) fn name(&self, function: u32) -> Option<String> {
        let at = self.symbols().binary_search_by_key(&function, |symbol| symbol.start).ok()?;
        let symbol = self.symbols().get(at)?;
        let mut file = open(&self.path, &self.first_page)?;
        file.seek(SeekFrom::Start(self.names.saturating_add(symbol.name.into()))).ok()?;
        let mut name = Vec::new();
        file.take(LONGEST_NAME).read_to_end(&mut name).ok()?;
        let name = name.split(|byte| *byte == 0).next()?;
        (!name.is_empty()).then(|| String::from_utf8_lossy(name).into_owned())
    }

    /// Memory that they use.
    pub(super) fn bytes(&self) -> usize {
        self.symbols.as_ref().map_or(0, Buffer::bytes) + self.first_page.capacity()
    }
}

/// Reads the tables of a library and the rows of its frames, each from at most so many bytes; `None` if its file is not
/// the one in memory.
pub(super) fn read(
    mapping: &Mapping,
    first_page: Vec<u8>,
    most_bytes: u64,
) -> Option<(Tables, Option<Buffer<Row>>)> {
    let file = open(&mapping.path, &first_page)?;
    let headers = &ReadCache::new(&file);
    let header = FileHeader64::<Endianness>::parse(headers).ok()?;
    let endian = header.endian().ok()?;
    let code = header.program_headers(endian, headers).ok()?.iter().find(|of| {
        // A page of the file may have the end of a segment and the beginning of the next.
        let is_code = of.p_type(endian) == PT_LOAD && of.p_flags(endian) & PF_X != 0;
        let first = of.p_offset(endian) / PAGE * PAGE;
        is_code
            && mapping.offset >= first
            && mapping.offset < of.p_offset(endian).saturating_add(of.p_filesz(endian))
    })?;
    let address = code.p_vaddr(endian).wrapping_sub(code.p_offset(endian));
    let address = address.wrapping_add(mapping.offset);
    let bias = mapping.start.wrapping_sub(usize::try_from(address).ok()?);
    let sections = header.sections(endian, headers).ok()?;
    let (symbols, names) = symbols(&file, &sections, endian, most_bytes).unzip();
    let rows = rows(&file, &sections, endian, mapping.start.wrapping_sub(bias), most_bytes);
    let (path, names) = (mapping.path.clone(), names.unwrap_or(0));
    Some((Tables { path, first_page, bias, symbols, names }, rows))
}

/// Opens a file that begins with these bytes.
fn open(path: &str, first_page: &[u8]) -> Option<File> {
    // Something else at the path may block.
    let mut file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).ok()?;
    if !file.metadata().is_ok_and(|of| of.is_file()) {
        return None;
    }
    let mut found = vec![0; first_page.len()];
    file.read_exact(&mut found).ok()?;
    (found == first_page).then_some(file)
}

/// All functions, and where the names are. A file may have a table of all functions; else it has one of those that
/// other files may use.
fn symbols(
    file: &File,
    sections: &Sections<'_>,
    endian: Endianness,
    most_bytes: u64,
) -> Option<(Buffer<Symbol>, u64)> {
    let of_type = |wanted| sections.iter().find(|section| section.sh_type(endian) == wanted);
    let table = of_type(SHT_SYMTAB).or_else(|| of_type(SHT_DYNSYM))?;
    let names = sections.section(SectionIndex(table.sh_link(endian) as usize)).ok()?;
    let bytes = section(file, table, endian, most_bytes)?;
    let count = bytes.as_slice().len() / size_of::<Sym64<Endianness>>();
    let (entries, _) = slice_from_bytes::<Sym64<Endianness>>(bytes.as_slice(), count).ok()?;
    let mut symbols = Buffer::with_room(count)?;
    for entry in entries.iter().filter(|entry| entry.st_type() == STT_FUNC) {
        let number = |value: u64| u32::try_from(value).ok();
        let start = number(entry.st_value(endian)).filter(|start| *start != 0);
        if let Some((start, len)) = start.zip(number(entry.st_size(endian))) {
            let len = if len == 0 { OF_ASSEMBLY } else { len };
            symbols.push(Symbol { start, len, name: entry.st_name(endian) })?;
        }
    }
    // Of functions with several names the longest.
    symbols.sort(|symbol| (symbol.start, symbol.len, symbol.name));
    symbols.keep_last(|symbol, next| symbol.start == next.start);
    Some((symbols.shrunk()?, names.sh_offset(endian)))
}

/// How functions lay out their frames, by the distance from the code's start, which is at `code` in the file's terms.
fn rows(
    file: &File,
    sections: &Sections<'_>,
    endian: Endianness,
    code: usize,
    most_bytes: u64,
) -> Option<Buffer<Row>> {
    let (_, frames) = sections.section_by_name(endian, b".eh_frame")?;
    let text = sections.section_by_name(endian, b".text");
    let text = text.map_or(0, |(_, text)| text.sh_addr(endian));
    let bytes = section(file, frames, endian, most_bytes)?;
    frame_rows::read(bytes.as_slice(), frames.sh_addr(endian), text, code as u64)
}

/// The bytes of a section.
fn section(
    file: &File,
    header: &SectionHeader64<Endianness>,
    endian: Endianness,
    most_bytes: u64,
) -> Option<Buffer<u8>> {
    let len = Some(header.sh_size(endian)).filter(|len| *len <= most_bytes)?;
    Buffer::read(file, header.sh_offset(endian), usize::try_from(len).ok()?).ok()
}
