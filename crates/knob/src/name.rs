//! How a knob is named: `block.scheduler@vda`, `sysctl.vm.swappiness`, `mount.options@/data`. What stands
//! behind `@` is the target; a row of the catalogue that ends in `.*` takes a name of its own.

use crate::catalogue::{CATALOGUE, Knob, Place, Target};
use crate::error::Error;
use crate::host::Host;
use std::fmt;

/// A row of the catalogue, with what makes it one setting of this host.
#[derive(Clone, Debug)]
pub struct Name {
    pub knob: &'static Knob,
    /// What stands for the `*` of its name, in the one spelling that we use; empty where it has none.
    pub rest: String,
    /// The target; empty where it has none.
    pub target: String,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.knob.name.trim_end_matches('*'))?;
        f.write_str(&self.rest)?;
        if self.target.is_empty() { Ok(()) } else { write!(f, "@{}", self.target) }
    }
}

impl Name {
    /// Without the target.
    pub fn bare(&self) -> String {
        format!("{}{}", self.knob.name.trim_end_matches('*'), self.rest)
    }
}

/// `NAME=VALUE`, split at the first `=`.
///
/// # Errors
/// There is none.
pub fn assignment(text: &str) -> Result<(&str, &str), Error> {
    let halves = text.split_once('=').filter(|(name, _)| !name.is_empty());
    halves.ok_or_else(|| Error::NotAnAssignment { text: text.to_owned() })
}

/// Finds the row, and checks the target's form. Whether it is there is not asked here.
///
/// # Errors
/// No such knob; a target that is missing, too much, or not a name.
pub fn parse(host: &Host, text: &str) -> Result<Name, Error> {
    let (bare, target) = text.split_once('@').unwrap_or((text, ""));
    let (knob, rest) =
        row(bare).ok_or_else(|| Error::UnknownKnob { name: bare.to_owned(), near: near(bare) })?;
    let wrong = |why: String| Error::BadTarget { name: text.to_owned(), why };
    if knob.name.ends_with('*') && !is_plain(&rest) {
        return Err(wrong(format!("'{rest}' is not a name; write {}", knob.name.replace('*', "NAME"))));
    }
    let example = |target: &str| format!("say which: {bare}@{target}");
    let target = match (knob.target, target) {
        (Target::None, "") => String::new(),
        (Target::None, _) => return Err(wrong("it takes no @TARGET".to_owned())),
        (kind, "") => return Err(wrong(example(kind.example()))),
        (Target::Disk, path) if path.starts_with("/dev/") => disk_of(host, path).map_err(wrong)?,
        (Target::Cgroup | Target::CgroupDevice, crate::managed::TARGET) => target.to_owned(),
        (Target::Mount | Target::Cgroup | Target::CgroupDevice, path) if !path.starts_with('/') => {
            return Err(wrong(example(knob.target.example())));
        }
        (Target::Mount | Target::Cgroup | Target::CgroupDevice | Target::Dataset | Target::Any, path) => {
            if path.split('/').any(|part| part == "..") || path.chars().any(char::is_control) {
                return Err(wrong("'..' is no part of a target".to_owned()));
            }
            path.to_owned()
        }
        (_, name) if is_plain(name) && !name.contains('/') => name.to_owned(),
        (kind, _) => return Err(wrong(example(kind.example()))),
    };
    Ok(Name { knob, rest: spelled(knob.place, rest), target })
}

/// One spelling of what has several: what is changed under two of them is one state in the journal, and is
/// found by either.
fn spelled(place: Place, rest: String) -> String {
    match place {
        // To the server, case is nothing.
        Place::Variable => rest.to_lowercase(),
        // An interface may have a dot in its name: then slashes alone are unambiguous.
        Place::AnySysctl if !rest.contains('.') => rest.replace('/', "."),
        _ => rest,
    }
}

/// An exact name, a sysctl that has a row of its own, else the longest open row.
fn row(bare: &str) -> Option<(&'static Knob, String)> {
    if let Some(knob) = CATALOGUE.iter().find(|knob| knob.name == bare) {
        return (!knob.name.ends_with('*')).then(|| (*knob, String::new()));
    }
    if let Some(sysctl) = bare.strip_prefix("sysctl.") {
        let dotted = sysctl.replace('/', ".");
        let same = |knob: &&&Knob| matches!(knob.place, Place::Sysctl(name) if name == dotted);
        if let Some(knob) = CATALOGUE.iter().find(same) {
            return Some((*knob, String::new()));
        }
    }
    let open = |knob: &&'static Knob| {
        let rest = bare.strip_prefix(knob.name.strip_suffix('*')?)?;
        (!rest.is_empty()).then(|| (*knob, rest.to_owned()))
    };
    CATALOGUE.iter().filter_map(open).min_by_key(|(_, rest)| rest.len())
}

fn is_plain(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.!:/".contains(c);
    // Two slashes are one to the kernel, and would be another name to the tables of dangers.
    let one_way_to_write_it = !text.starts_with(['.', '/']) && !text.contains("..") && !text.contains("//");
    !text.is_empty() && text.chars().all(plain) && one_way_to_write_it
}

/// The knob that may be meant: its last word holds or is what was asked for, or differs in few letters.
fn near(bare: &str) -> String {
    let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    let asked = last(bare);
    let holds =
        |knob: &&&Knob| !asked.is_empty() && (last(knob.name) == asked || last(knob.name).contains(&asked));
    let distance = |knob: &Knob| strsim::osa_distance(&last(knob.name), &asked);
    // One letter in four may be wrong.
    let close = |knob: &&&Knob| distance(knob) * 4 <= asked.len();
    let found = CATALOGUE.iter().find(holds);
    let found = found.or_else(|| CATALOGUE.iter().filter(close).min_by_key(|knob| distance(knob)));
    found.map_or_else(String::new, |knob| format!("; is {} meant?", knob.name))
}

/// `/dev/disk/by-id/...` -> `nvme0n1`.
fn disk_of(host: &Host, path: &str) -> Result<String, String> {
    let found = std::fs::canonicalize(host.path(path)).map_err(|error| format!("{path}: {error}"))?;
    let name = found.file_name().map(|name| name.to_string_lossy().replace('/', "!")).unwrap_or_default();
    if host.has(&format!("/sys/block/{name}")) {
        return Ok(name);
    }
    Err(format!("{name} is not a whole disk (it is not in /sys/block)"))
}

/// Where a knob of a device that passes its requests on (LVM, dm-crypt, md) is to be set, in words: at the
/// disks below it. `None` for a disk, and for a knob that is not of a disk.
pub(crate) fn disks_below(host: &Host, name: &Name) -> Option<String> {
    let mut disks = Vec::new();
    if name.knob.target == Target::Disk {
        collect_below(host, &name.target, &mut disks);
    }
    let knobs: Vec<String> = disks.iter().map(|disk| format!("{}@{disk}", name.bare())).collect();
    (!knobs.is_empty()).then(|| {
        format!("{} passes its requests on to what lies below it: {}", name.target, knobs.join(", "))
    })
}

fn collect_below(host: &Host, device: &str, disks: &mut Vec<String>) {
    for slave in host.list(&format!("/sys/block/{device}/slaves")) {
        let is_part_of = |disk: &&String| host.has(&format!("/sys/block/{disk}/{slave}/partition"));
        let whole = host.list("/sys/block").iter().find(is_part_of).cloned().unwrap_or(slave);
        if !host.list(&format!("/sys/block/{whole}/slaves")).is_empty() {
            collect_below(host, &whole, disks);
        } else if !disks.contains(&whole) {
            disks.push(whole);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Result<String, String> {
        parse(&Host::new("/nowhere"), text).map(|name| name.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn names_and_targets_are_read_back_as_they_are_written() {
        for text in [
            "block.scheduler@vda",
            "block.iosched.read_expire@nvme0n1",
            "sysctl.net.ipv4.tcp_rmem",
            "mount.options@/var/lib/mysql",
            "cgroup.memory.max@/system.slice/mariadb.service",
            "server.innodb_io_capacity",
            "zfs.recordsize@tank/mysql",
            "network.offload.gro@eth0",
        ] {
            assert_eq!(name(text).as_deref(), Ok(text));
        }
        assert_eq!(assignment("mount.options@/data=noatime,commit=30").unwrap().1, "noatime,commit=30");
    }

    #[test]
    fn a_sysctl_that_has_a_row_of_its_own_is_that_row() {
        assert_eq!(name("sysctl.vm.dirty_bytes").as_deref(), Ok("memory.dirty_bytes"));
        assert_eq!(name("sysctl.vm/swappiness").as_deref(), Ok("memory.swappiness"));
    }

    #[test]
    fn what_is_spelled_in_another_way_is_the_same_knob() {
        assert_eq!(name("server.InnoDB_IO_Capacity").as_deref(), Ok("server.innodb_io_capacity"));
        assert_eq!(name("sysctl.net/ipv4/tcp_rmem").as_deref(), Ok("sysctl.net.ipv4.tcp_rmem"));
        let dotted = "sysctl.net/ipv4/conf/eth0.7/rp_filter";
        assert_eq!(name(dotted).as_deref(), Ok(dotted), "with dots it would be another file");
        assert_eq!(name("zfs.Org:Note@tank").as_deref(), Ok("zfs.Org:Note@tank"), "its case counts");
    }

    #[test]
    fn wrong_names_are_refused_with_what_would_be_right() {
        let no = |text| name(text).unwrap_err();
        assert!(no("block.schedular@vda").contains("no knob"));
        assert!(no("disk.scheduler@vda").contains("is block.scheduler meant?"));
        assert!(no("vm.swapines").contains("is memory.swappiness meant?"));
        assert!(!no("vm.nothing").contains("meant?"));
        assert!(no("block.scheduler").contains("block.scheduler@vda"));
        assert!(no("memory.swappiness@eth0").contains("no @TARGET"));
        assert!(no("block.scheduler@../../etc").contains("say which"));
        assert!(no("cgroup.memory.max@/a/../../b").contains(".."));
        assert!(no("sysctl.../etc").contains("not a name"));
        assert!(no("sysctl.kernel//core_pattern").contains("not a name"));
        assert!(no("server.").contains("no knob"));
        assert!(assignment("block.scheduler@vda").is_err());
    }
}
