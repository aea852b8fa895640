//! What a shared library exports and needs, read from the file itself. A file without dynamic symbols is an error, never an empty answer.

use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use object::{
    Endianness, Object as _,
    elf::{self, FileHeader64},
    read::elf::{Dyn as _, FileHeader as _, ProgramHeader as _, Sym as _},
};

/// The dynamic face of a library.
#[derive(Debug)]
pub struct Library {
    /// `DT_SONAME`.
    pub soname: Option<String>,
    /// `DT_NEEDED`, in order.
    pub needed: Vec<String>,
    /// Defined dynamic symbols: name and version node.
    pub exports: Vec<(String, Option<String>)>,
    /// Whether `DF_1_NODELETE` is set.
    pub nodelete: bool,
    /// The first bytes of each exported function, in the order of `exports`.
    pub starts: Vec<[u8; 8]>,
    /// Versions of other libraries that it needs (`GLIBC_2.34`, …).
    pub needed_versions: Vec<String>,
}

impl Library {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self> {
        let data = std::fs::read(path).with_context(|| path.display().to_string())?;
        Self::parse(&data).with_context(|| path.display().to_string())
    }

    /// Reads bytes.
    pub fn parse(data: &[u8]) -> Result<Self> {
        let library = Self::parse_any(data)?;
        ensure!(!library.exports.is_empty(), "it exports nothing");
        Ok(library)
    }

    /// Reads a file that need not export anything: a program.
    pub fn read_program(path: &Path) -> Result<Self> {
        let data = std::fs::read(path).with_context(|| path.display().to_string())?;
        let program = Self::parse_any(&data).with_context(|| path.display().to_string())?;
        ensure!(!program.needed.is_empty(), "{}: it needs nothing", path.display());
        Ok(program)
    }

    fn parse_any(data: &[u8]) -> Result<Self> {
        let header = FileHeader64::<Endianness>::parse(data)?;
        let endian = header.endian()?;
        ensure!(endian == Endianness::Little, "not little-endian");
        let sections = header.sections(endian, data)?;
        let symbols = sections.symbols(endian, data, elf::SHT_DYNSYM)?;
        ensure!(symbols.len() > 1, "no dynamic symbols");
        let versions = sections.versions(endian, data)?;
        let mut library = Self { soname: None, needed: vec![], exports: vec![], nodelete: false, starts: vec![], needed_versions: vec![] };
        let Some((dynamic, strings)) = sections.dynamic(endian, data)? else { bail!("no dynamic section") };
        let strings = sections.strings(endian, data, strings)?;
        let text = |offset: u64| -> Result<String> {
            let bytes = strings.get(u32::try_from(offset)?).map_err(|()| anyhow::anyhow!("a string outside its table"))?;
            Ok(String::from_utf8_lossy(bytes).into_owned())
        };
        for entry in dynamic {
            match entry.d_tag(endian) {
                elf::DT_SONAME => library.soname = Some(text(entry.d_val(endian))?),
                elf::DT_NEEDED => library.needed.push(text(entry.d_val(endian))?),
                elf::DT_FLAGS_1 => library.nodelete = entry.d_val(endian) & u64::from(elf::DF_1_NODELETE) != 0,
                _ => {}
            }
        }
        for (index, symbol) in symbols.enumerate() {
            let name = String::from_utf8_lossy(symbols.symbol_name(endian, symbol)?).into_owned();
            let version = match &versions {
                Some(versions) => {
                    let index = versions.version_index(endian, index);
                    versions.version(index)?.map(|version| String::from_utf8_lossy(version.name()).into_owned())
                }
                None => None,
            };
            let defined = symbol.st_shndx(endian) != elf::SHN_UNDEF && symbol.st_bind() != elf::STB_LOCAL;
            if defined && symbol.st_type() != elf::STT_SECTION && symbol.st_shndx(endian) != elf::SHN_ABS {
                library.exports.push((name, version));
                library.starts.push(code(header, endian, data, symbol.st_value(endian))?);
            } else if symbol.st_shndx(endian) == elf::SHN_UNDEF {
                library.needed_versions.extend(version);
            }
        }
        library.needed_versions.sort();
        library.needed_versions.dedup();
        Ok(library)
    }
}

/// What lies at an address once the file is loaded; nothing but zeros where the file has nothing for it.
fn code(header: &FileHeader64<Endianness>, endian: Endianness, data: &[u8], address: u64) -> Result<[u8; 8]> {
    let mut bytes = [0; 8];
    for segment in header.program_headers(endian, data)?.iter().filter(|segment| segment.p_type(endian) == elf::PT_LOAD) {
        let offset = address.wrapping_sub(segment.p_vaddr(endian));
        if offset < segment.p_filesz(endian) {
            let start = usize::try_from(segment.p_offset(endian) + offset)?;
            let there = data.get(start..).unwrap_or_default();
            let length = there.len().min(bytes.len());
            bytes[..length].copy_from_slice(&there[..length]);
        }
    }
    Ok(bytes)
}

/// The same library as if it had been built from something else: with another build id.
pub fn with_other_build_id(file: &[u8]) -> Vec<u8> {
    let elf = object::File::parse(file).expect("an ELF file");
    let id = elf.build_id().expect("readable notes").expect("a build id").to_vec();
    let at = file.windows(id.len()).position(|bytes| bytes == id).expect("its bytes");
    let mut other = file.to_vec();
    other[at + id.len() - 1] ^= 1;
    other
}
