//! Shared libraries as files: what one exports and needs, and a copy of one under another name or with more to need.
//!
//! A copy is the old file, byte for byte, with one segment appended: program headers, dynamic section and dynamic strings live there from
//! then on, and the headers point to them. Code, data, symbols and their versions stay where they were, so nothing in them can break, and a
//! library of hundreds of megabytes is only copied. (`object-rewrite`, which lays a file out anew, refuses what rust-lld links: "overlapping
//! immovable sections".) Only shared libraries for x86-64 Linux.

use std::collections::BTreeSet;

use object::{
    LittleEndian as LE, Pod, elf,
    elf::{Dyn64, FileHeader64, ProgramHeader64, SectionHeader64},
    pod,
    read::elf::{FileHeader as _, ProgramHeader as _, SectionHeader as _, SectionTable, Sym as _},
};
use thiserror::Error;

type Header = FileHeader64<LE>;
type Segment = ProgramHeader64<LE>;
type Section = SectionHeader64<LE>;
type Entry = Dyn64<LE>;

/// Why a file cannot be read or rewritten.
#[derive(Debug, Error)]
pub enum ElfError {
    /// Not a file that this module knows.
    #[error("not a shared library for x86-64 Linux")]
    Foreign,
    /// It contradicts itself.
    #[error("malformed: {0}")]
    Malformed(&'static str),
    /// The ELF reader's word.
    #[error("malformed: {0}")]
    Reader(#[from] object::read::Error),
}

/// A defined dynamic symbol: its name and its version, if it has one.
pub type Export = (String, Option<String>);

/// What a library is to others.
#[derive(Debug, Default)]
pub struct Face {
    /// `DT_SONAME`.
    pub soname: Option<String>,
    /// `DT_NEEDED`, in order.
    pub needed: Vec<String>,
    /// `DT_RUNPATH`, else `DT_RPATH`.
    pub search: Option<(Search, String)>,
    /// Defined dynamic symbols.
    pub exports: BTreeSet<Export>,
}

/// Which of the two kinds of search path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// `DT_RPATH`: before `LD_LIBRARY_PATH`.
    First,
    /// `DT_RUNPATH`: after it.
    Last,
}

impl Search {
    fn tag(self) -> i64 {
        match self {
            Self::First => elf::DT_RPATH,
            Self::Last => elf::DT_RUNPATH,
        }
    }
}

/// What is different in a copy.
#[derive(Default)]
pub struct Edit<'a> {
    /// Another `DT_SONAME`.
    pub soname: Option<&'a str>,
    /// A `DT_NEEDED` before all others.
    pub needed: Option<&'a str>,
    /// The search path, in place of any there is.
    pub search: Option<(Search, &'a str)>,
}

impl Face {
    /// Reads it from a file's bytes.
    pub fn of(data: &[u8]) -> Result<Self, ElfError> {
        let library = Library::parse(data)?;
        let mut face = Self { exports: library.exports()?, ..Self::default() };
        for entry in &library.dynamic {
            match entry.d_tag.get(LE) {
                elf::DT_SONAME => face.soname = Some(library.string(entry)?),
                elf::DT_NEEDED => face.needed.push(library.string(entry)?),
                elf::DT_RUNPATH => face.search = Some((Search::Last, library.string(entry)?)),
                elf::DT_RPATH if face.search.is_none() => face.search = Some((Search::First, library.string(entry)?)),
                _ => {}
            }
        }
        Ok(face)
    }
}

/// A file taken apart, as far as is needed.
struct Library<'d> {
    data: &'d [u8],
    segments: &'d [Segment],
    sections: SectionTable<'d, Header>,
    /// The dynamic section, without its end.
    dynamic: Vec<Entry>,
    /// The dynamic strings and their address.
    strings: &'d [u8],
    strings_at: u64,
}

impl<'d> Library<'d> {
    fn parse(data: &'d [u8]) -> Result<Self, ElfError> {
        let header = Header::parse(data).map_err(|_| ElfError::Foreign)?;
        let fits = header.is_little_endian() && header.e_machine.get(LE) == elf::EM_X86_64 && header.e_type.get(LE) == elf::ET_DYN;
        if !fits {
            return Err(ElfError::Foreign);
        }
        let segments = header.program_headers(LE, data)?;
        let dynamic = segments.iter().find_map(|segment| segment.dynamic(LE, data).transpose()).ok_or(ElfError::Foreign)??;
        let dynamic: Vec<Entry> = dynamic.iter().take_while(|entry| entry.d_tag.get(LE) != elf::DT_NULL).copied().collect();
        let value = |tag| dynamic.iter().find(|entry| entry.d_tag.get(LE) == tag).map(|entry| entry.d_val.get(LE));
        let missing = ElfError::Malformed("no dynamic strings");
        let (Some(strings_at), Some(size)) = (value(elf::DT_STRTAB), value(elf::DT_STRSZ)) else { return Err(missing) };
        let strings = segments.iter().filter(|segment| segment.p_type.get(LE) == elf::PT_LOAD);
        let strings = strings.filter_map(|segment| segment.data_range(LE, data, strings_at, size).ok().flatten()).next().ok_or(missing)?;
        Ok(Self { data, segments, sections: header.sections(LE, data)?, dynamic, strings, strings_at })
    }

    fn string(&self, entry: &Entry) -> Result<String, ElfError> {
        let start = usize::try_from(entry.d_val.get(LE)).ok().and_then(|at| self.strings.get(at..));
        let end = start.and_then(|start| start.iter().position(|byte| *byte == 0));
        let text = start.zip(end).map(|(start, end)| String::from_utf8_lossy(&start[..end]).into_owned());
        text.ok_or(ElfError::Malformed("a name outside the dynamic strings"))
    }

    fn exports(&self) -> Result<BTreeSet<Export>, ElfError> {
        let symbols = self.sections.symbols(LE, self.data, elf::SHT_DYNSYM)?;
        let versions = self.sections.versions(LE, self.data)?;
        let mut exports = BTreeSet::new();
        for (index, symbol) in symbols.enumerate() {
            // Version nodes are absolute symbols in some libraries.
            let defined = !matches!(symbol.st_shndx(LE), elf::SHN_UNDEF | elf::SHN_ABS) && symbol.st_bind() != elf::STB_LOCAL;
            if !defined || symbol.st_type() == elf::STT_SECTION {
                continue;
            }
            let version = match &versions {
                Some(versions) => versions.version(versions.version_index(LE, index))?.map(|version| version.name()),
                None => None,
            };
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            exports.insert((text(symbols.symbol_name(LE, symbol)?), version.map(text)));
        }
        Ok(exports)
    }
}

/// A copy of a library with some things different.
pub fn rewritten(data: &[u8], edit: &Edit) -> Result<Vec<u8>, ElfError> {
    let library = Library::parse(data)?;
    let (mut strings, mut dynamic) = (library.strings.to_vec(), library.dynamic.clone());
    change(&mut dynamic, &mut strings, edit);
    let page = loads(&library).map(|load| load.p_align.get(LE)).max().unwrap_or(0).max(0x1000);
    let end = loads(&library).map(|load| load.p_vaddr.get(LE) + load.p_memsz.get(LE)).max().unwrap_or(0);
    let place = Place::new(data.len() as u64, end, page, [library.segments.len() + 1, dynamic.len() + 1, strings.len()]);
    set(&mut dynamic, elf::DT_STRTAB, place.address(place.strings));
    set(&mut dynamic, elf::DT_STRSZ, strings.len() as u64);
    dynamic.push(entry(elf::DT_NULL, 0));
    let mut copy = data.to_vec();
    copy.resize(place.offset as usize, 0);
    append(&mut copy, &segments(&library, &place));
    append(&mut copy, &dynamic);
    copy.extend(strings);
    point_to(&mut copy, &library, &place)?;
    Ok(copy)
}

/// Where the parts of the appended segment lie in the file. They follow one another; their sizes keep the dynamic section aligned.
struct Place {
    offset: u64,
    vaddr: u64,
    page: u64,
    dynamic: u64,
    strings: u64,
    end: u64,
}

impl Place {
    /// Behind the end of the file and of the image, for so many program headers, dynamic entries and bytes of strings.
    fn new(file_end: u64, image_end: u64, page: u64, [segments, entries, bytes]: [usize; 3]) -> Self {
        let offset = file_end.next_multiple_of(page);
        let dynamic = offset + (segments * size_of::<Segment>()) as u64;
        let strings = dynamic + (entries * size_of::<Entry>()) as u64;
        Self { offset, vaddr: image_end.next_multiple_of(page), page, dynamic, strings, end: strings + bytes as u64 }
    }

    fn address(&self, offset: u64) -> u64 {
        self.vaddr + (offset - self.offset)
    }
}

fn loads<'l>(library: &Library<'l>) -> impl Iterator<Item = &'l Segment> {
    library.segments.iter().filter(|segment| segment.p_type.get(LE) == elf::PT_LOAD)
}

fn entry(tag: i64, value: u64) -> Entry {
    Entry { d_tag: object::I64::new(LE, tag), d_val: object::U64::new(LE, value) }
}

fn set(dynamic: &mut [Entry], tag: i64, value: u64) {
    dynamic.iter_mut().filter(|entry| entry.d_tag.get(LE) == tag).for_each(|entry| entry.d_val.set(LE, value));
}

/// The dynamic section as it shall be, but for where its strings are.
fn change(dynamic: &mut Vec<Entry>, strings: &mut Vec<u8>, edit: &Edit) {
    let mut add = |text: &str| {
        let at = strings.len() as u64;
        strings.extend(text.bytes().chain([0]));
        at
    };
    if let Some(name) = edit.soname {
        let name = add(name);
        dynamic.retain(|entry| entry.d_tag.get(LE) != elf::DT_SONAME);
        dynamic.push(entry(elf::DT_SONAME, name));
    }
    if let Some((search, path)) = edit.search {
        let path = add(path);
        dynamic.retain(|entry| !matches!(entry.d_tag.get(LE), elf::DT_RPATH | elf::DT_RUNPATH));
        dynamic.push(entry(search.tag(), path));
    }
    if let Some(name) = edit.needed {
        dynamic.insert(0, entry(elf::DT_NEEDED, add(name)));
    }
}

/// The program headers with one more, after the last loaded one: loaders want them by address.
fn segments(library: &Library, place: &Place) -> Vec<Segment> {
    let mut segments = library.segments.to_vec();
    let last = segments.iter().rposition(|segment| segment.p_type.get(LE) == elf::PT_LOAD).map_or(0, |index| index + 1);
    // Writable: the loader relocates the dynamic section where it is.
    segments.insert(last, segment(elf::PT_LOAD, elf::PF_R | elf::PF_W, place, place.offset..place.end, place.page));
    for old in &mut segments {
        match old.p_type.get(LE) {
            elf::PT_DYNAMIC => *old = segment(elf::PT_DYNAMIC, elf::PF_R | elf::PF_W, place, place.dynamic..place.strings, 8),
            elf::PT_PHDR => *old = segment(elf::PT_PHDR, elf::PF_R, place, place.offset..place.dynamic, 8),
            _ => {}
        }
    }
    segments
}

fn segment(kind: u32, flags: u32, place: &Place, range: std::ops::Range<u64>, align: u64) -> Segment {
    let (long, size) = (|value| object::U64::new(LE, value), range.end - range.start);
    let address = long(place.address(range.start));
    Segment {
        p_type: object::U32::new(LE, kind),
        p_flags: object::U32::new(LE, flags),
        p_offset: long(range.start),
        p_vaddr: address,
        p_paddr: address,
        p_filesz: long(size),
        p_memsz: long(size),
        p_align: long(align),
    }
}

fn append<T: Pod>(file: &mut Vec<u8>, items: &[T]) {
    file.extend_from_slice(pod::bytes_of_slice(items));
}

/// The file header, and the two sections that moved: tools look at sections, loaders do not.
fn point_to(file: &mut [u8], library: &Library, place: &Place) -> Result<(), ElfError> {
    let malformed = ElfError::Malformed("headers outside the file");
    let Ok((header, _)) = pod::from_bytes_mut::<Header>(file) else { return Err(malformed) };
    header.e_phoff.set(LE, place.offset);
    header.e_phnum.set(LE, u16::try_from(library.segments.len() + 1).map_err(|_| ElfError::Malformed("too many segments"))?);
    let (start, count) = (header.e_shoff.get(LE) as usize, library.sections.len());
    let sections = file.get_mut(start..).and_then(|rest| pod::slice_from_bytes_mut::<Section>(rest, count).ok());
    let Some((sections, _)) = sections else { return Err(malformed) };
    for section in sections {
        let is_strings = section.sh_type(LE) == elf::SHT_STRTAB && section.sh_addr(LE) == library.strings_at;
        let range = match section.sh_type(LE) {
            elf::SHT_DYNAMIC => place.dynamic..place.strings,
            _ if is_strings => place.strings..place.end,
            _ => continue,
        };
        section.sh_offset.set(LE, range.start);
        section.sh_addr.set(LE, place.address(range.start));
        section.sh_size.set(LE, range.end - range.start);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own_library() -> Vec<u8> {
        // Any shared library will do; the C library is one that every test process has.
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let path = maps.lines().filter_map(|line| line.split_whitespace().nth(5)).find(|path| path.contains("libc.so")).unwrap();
        std::fs::read(path).unwrap()
    }

    #[test]
    fn a_copy_differs_in_what_was_asked_for_only() {
        let data = own_library();
        let before = Face::of(&data).unwrap();
        let edit = Edit { soname: Some("libother.so.9"), needed: Some("libfirst.so.1"), search: Some((Search::First, "$ORIGIN")) };
        let copy = rewritten(&data, &edit).unwrap();
        let after = Face::of(&copy).unwrap();
        assert_eq!(after.soname.as_deref(), Some("libother.so.9"));
        assert_eq!(after.needed[0], "libfirst.so.1");
        assert_eq!(after.needed[1..], before.needed[..]);
        assert_eq!(after.search, Some((Search::First, "$ORIGIN".into())));
        assert!(before.exports.len() > 1000 && before.exports.iter().any(|(_, version)| version.is_some()));
        assert_eq!(after.exports, before.exports);
        // Behind the file header nothing moved but section headers, which are at the end of a file.
        assert_eq!(copy[64..data.len() / 2], data[64..data.len() / 2]);
    }

    #[test]
    fn a_copy_can_be_copied_again() {
        let once = rewritten(&own_library(), &Edit { soname: Some("liba.so"), ..Edit::default() }).unwrap();
        let twice = rewritten(&once, &Edit { search: Some((Search::Last, "/b")), ..Edit::default() }).unwrap();
        let face = Face::of(&twice).unwrap();
        assert_eq!((face.soname.as_deref(), face.search), (Some("liba.so"), Some((Search::Last, "/b".into()))));
    }

    #[test]
    fn what_is_no_library_is_refused() {
        for data in [&b""[..], b"#!/bin/sh\n", &[0; 4096], &own_library()[..64]] {
            assert!(Face::of(data).is_err());
            assert!(rewritten(data, &Edit::default()).is_err());
        }
    }
}
