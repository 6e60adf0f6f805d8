//! The compiled programs, read from the object file that clang made: instructions, and the places where the
//! descriptor of a map belongs. Of ELF just what clang writes for BPF: 64 bits, this machine's byte order,
//! `REL` sections.

use crate::layout::MAPS;
use crate::sys::INSTRUCTION;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/zero_hop.o"));
static WHY_NONE: &str = include_str!(concat!(env!("OUT_DIR"), "/why.txt"));

/// What marks the source of a 64-bit load as a map's descriptor.
const PSEUDO_MAP_FD: u8 = 1;
/// Whether this build has the kernel's programs.
pub const BUILT: bool = WHY_NONE.is_empty();

const SECTION_PREFIX: &str = "program/";
const TYPE_REL: u32 = 9;
const TYPE_SYMBOLS: u32 = 2;
const RELOCATE_MAP: u64 = 1;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) name: String,
    code: Vec<u8>,
    /// Offset of an instruction, and the map it loads (index into [`MAPS`]).
    maps: Vec<(usize, usize)>,
}

impl Program {
    /// The instructions with the descriptors of the maps, given in the order of [`MAPS`], put in.
    pub(crate) fn linked(&self, descriptors: &[i32]) -> Vec<u8> {
        let mut code = self.code.clone();
        for (at, map) in &self.maps {
            code[at + 1] = (code[at + 1] & 0x0f) | (PSEUDO_MAP_FD << 4);
            code[at + 4..at + 8].copy_from_slice(&descriptors[*map].to_ne_bytes());
        }
        code
    }
}

/// The programs of this build, or why it has none.
pub(crate) fn programs() -> Result<Vec<Program>, &'static str> {
    if OBJECT.is_empty() {
        return Err(WHY_NONE);
    }
    read(OBJECT).ok_or("its programs cannot be read")
}

/// A section header.
struct Section<'a> {
    name: &'a str,
    kind: u32,
    link: usize,
    info: usize,
    data: &'a [u8],
}

/// `None` where the file is not of the expected kind.
fn read(file: &[u8]) -> Option<Vec<Program>> {
    let sections = sections(file)?;
    let mut programs = Vec::new();
    for (number, section) in sections.iter().enumerate() {
        let Some(name) = section.name.strip_prefix(SECTION_PREFIX) else { continue };
        let mut maps = Vec::new();
        for relocations in sections.iter().filter(|s| s.kind == TYPE_REL && s.info == number) {
            let symbols = sections.get(relocations.link).filter(|s| s.kind == TYPE_SYMBOLS)?;
            let names = sections.get(symbols.link)?;
            for entry in relocations.data.chunks_exact(16) {
                let (at, info) = (int(entry, 0, 8)?, int(entry, 8, 8)?);
                let symbol = symbols.data.get((info >> 32) as usize * 24..)?;
                let called = text(names.data, int(symbol, 0, 4)? as usize)?;
                let map = MAPS.iter().position(|m| m.name == called)?;
                let inside = at as usize + 2 * INSTRUCTION <= section.data.len();
                (info & 0xffff_ffff == RELOCATE_MAP && inside).then(|| maps.push((at as usize, map)))?;
            }
        }
        programs.push(Program { name: name.to_owned(), code: section.data.to_vec(), maps });
    }
    Some(programs)
}

fn sections(file: &[u8]) -> Option<Vec<Section<'_>>> {
    if !file.starts_with(b"\x7fELF\x02") {
        return None;
    }
    let (start, size) = (int(file, 40, 8)? as usize, int(file, 58, 2)? as usize);
    let (count, names) = (int(file, 60, 2)? as usize, int(file, 62, 2)? as usize);
    let header = |n: usize| file.get(start + n * size..start + (n + 1) * size);
    let data = |header: &[u8]| {
        let (at, length) = (int(header, 24, 8)? as usize, int(header, 32, 8)? as usize);
        file.get(at..at.checked_add(length)?)
    };
    let names = data(header(names)?)?;
    (0..count)
        .map(|n| {
            let header = header(n)?;
            Some(Section {
                name: text(names, int(header, 0, 4)? as usize)?,
                kind: int(header, 4, 4)? as u32,
                link: int(header, 40, 4)? as usize,
                info: int(header, 44, 4)? as usize,
                data: data(header)?,
            })
        })
        .collect()
}

/// A number of `size` bytes in this machine's order.
fn int(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + size)?;
    let fold = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
    Some(if cfg!(target_endian = "little") {
        bytes.iter().rev().fold(0, fold)
    } else {
        bytes.iter().fold(0, fold)
    })
}

fn text(bytes: &[u8], at: usize) -> Option<&str> {
    let rest = bytes.get(at..)?;
    let end = rest.iter().position(|b| *b == 0)?;
    std::str::from_utf8(&rest[..end]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_build_has_every_program_with_its_maps() {
        let programs = programs().expect("clang compiles the programs: scripts/install.sh build");
        let names: Vec<&str> = programs.iter().map(|p| p.name.as_str()).collect();
        let expected = ["connect4", "connect6", "getpeername4", "getpeername6", "release", "sockops"];
        assert_eq!(
            names.iter().filter(|n| !crate::attach::sees_packets(n)).copied().collect::<Vec<_>>(),
            expected
        );
        assert_eq!(names.len(), expected.len() + 3);
        let descriptors: Vec<i32> = (100..).take(MAPS.len()).collect();
        let getpeername4 = names.iter().position(|n| *n == "getpeername4").expect("asserted above");
        let code = programs[getpeername4].linked(&descriptors);
        let (at, map) = programs[getpeername4].maps[0];
        assert_eq!(MAPS[map].name, "sessions");
        assert_eq!((code[at + 1] >> 4, code[at + 4]), (PSEUDO_MAP_FD, 107));
    }

    #[test]
    fn a_file_of_another_kind_is_refused_and_one_cut_short_does_no_harm() {
        assert_eq!(read(b"#!/bin/sh"), None);
        for length in 0..OBJECT.len().min(4096) {
            let _ = read(&OBJECT[..length]);
        }
    }
}
