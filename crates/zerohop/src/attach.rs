//! Programs into the kernel and into their links: new links, or the pinned ones of the process before.

use crate::error::Error;
use crate::mounts;
use crate::object::Program;
use crate::pin_files::{clear, link_name};
use crate::sys::{self, MapFd};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// Program, kind of program, place of attachment; by the kernel's numbers.
const PROGRAMS: [(&str, u32, u32); 9] = [
    ("connect4", SOCK_ADDR, 10),
    ("connect6", SOCK_ADDR, 11),
    ("getpeername4", SOCK_ADDR, 29),
    ("getpeername6", SOCK_ADDR, 30),
    ("release", CGROUP_SOCK, 34),
    ("sockops", SOCK_OPS, 3),
    ("egress", CGROUP_PACKETS, 1),
    ("ingress", CGROUP_PACKETS, 0),
    (HOLD, CGROUP_PACKETS, 1),
];
const CGROUP_PACKETS: u32 = 8;
const CGROUP_SOCK: u32 = 9;
const SOCK_OPS: u32 = 13;
const SOCK_ADDR: u32 = 18;

/// Loads the programs, which are to use these maps, and links each to the cgroup. Only once all are loaded is
/// any linked.
pub(crate) fn put_in_force(
    programs: &[Program],
    maps: &[MapFd],
    directory: &Path,
    cgroup: &std::fs::File,
) -> Result<(), Error> {
    let descriptors: Vec<i32> = maps.iter().map(MapFd::raw).collect();
    let mut loaded = Vec::new();
    for program in programs {
        let (_, kind, attach) = kind_of(&program.name);
        let what = || format!("load the program {}", program.name);
        let fd = sys::load(&program.name, kind, attach, &program.linked(&descriptors));
        loaded.push((program.name.as_str(), attach, fd.map_err(|e| Error::kernel(what(), e))?));
    }
    for (name, attach, program) in &loaded {
        link(directory, name, *attach, program, cgroup)?;
    }
    Ok(())
}

/// The program that holds back what a client sends.
pub(crate) const HOLD: &str = "hold";

/// Whether a program is one of those that mirror.
pub(crate) fn mirrors(name: &str) -> bool {
    matches!(name, "egress" | "ingress")
}

/// Whether a program sees every packet of the cgroup: such ones are there only when asked for.
pub(crate) fn sees_packets(name: &str) -> bool {
    mirrors(name) || name == HOLD
}

/// Takes these programs out of the cgroup.
pub(crate) fn put_out_of_force<'a>(names: impl Iterator<Item = &'a str>, directory: &Path) {
    for name in names {
        let path = directory.join(link_name(name));
        if let Ok(link) = sys::get(&path) {
            // One whose cgroup was removed is detached already.
            let _ = sys::detach(&link);
            let _ = std::fs::remove_file(&path);
        }
    }
}

fn kind_of(name: &str) -> (&'static str, u32, u32) {
    PROGRAMS.iter().copied().find(|(known, ..)| *known == name).unwrap_or(PROGRAMS[0])
}

/// Puts a program into its pinned link, or makes one. A link to another cgroup gives way to a new one.
fn link(
    directory: &Path,
    name: &str,
    attach: u32,
    program: &OwnedFd,
    cgroup: &std::fs::File,
) -> Result<(), Error> {
    let path = directory.join(link_name(name));
    let there = sys::get(&path).ok();
    let same = |link: &&OwnedFd| sys::cgroup_of(link).ok() == mounts::cgroup_id(cgroup);
    if let Some(link) = there.as_ref().filter(same) {
        return sys::replace(link, program)
            .map_err(|e| Error::kernel(format!("replace the program {name}"), e));
    }
    let new = sys::attach(program, cgroup.as_fd(), attach)
        .map_err(|e| Error::kernel(format!("attach the program {name} to the cgroup"), e))?;
    // Absent or of another cgroup; from here on the new one serves.
    let _ = std::fs::remove_file(&path);
    sys::pin(&new, &path).map_err(|e| Error::kernel("pin a link on bpffs", e))?;
    if let Some(other) = there {
        // One whose cgroup was removed is detached already.
        let _ = sys::detach(&other);
    }
    Ok(())
}

/// Removes what a failed start has pinned, unless it was working before.
pub(crate) fn clean_up_after_failure(directory: &Path) {
    let needed = |(name, ..): &&(&str, u32, u32)| !sees_packets(name);
    if !PROGRAMS.iter().filter(needed).all(|(name, ..)| directory.join(link_name(name)).exists()) {
        clear(directory);
        mounts::remove_home();
    }
}
