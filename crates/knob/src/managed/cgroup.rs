//! Limits of a managed server's own cgroup.
//!
//! In v1 each controller has a tree of its own: a directory is made at the controller's root, the server's
//! process is put there, and the limit is set. The directory's name says where the process came from
//! (`headroom-server:@system.slice@mariadb.service`), so that it can be put back by whoever finds it. In v2
//! the same is done in the one tree; a service of systemd has a group of its own there, so that the knob
//! `cgroup.cpu.max@/system.slice/mariadb.service` does it without moving anything, and is what a refusal
//! names.

use super::{Managed, denied};
use crate::catalogue::{CATALOGUE, Place};
use crate::error::Refusal;
use crate::host::Host;
use crate::item::Item;
use crate::name::Name;
use crate::value::{Form, NO_IO_LIMIT};
use crate::{mount, resolve};

const OWN: &str = "headroom-server:";

/// A controller: its name in v2, in v1, and the file by which v2 shows that it is switched on.
fn controllers(limit: &str) -> (&'static str, &'static [&'static str]) {
    match limit.split('.').next() {
        Some("cpu") => ("cpu", &["cpu", "cpu,cpuacct"]),
        Some("memory") => ("memory", &["memory"]),
        _ => ("io", &["blkio"]),
    }
}

/// The directory of a hierarchy and the server's place in it.
struct Membership {
    root: String,
    path: String,
}

fn membership(managed: &Managed, host: &Host, limit: &str) -> Result<Membership, Refusal> {
    let pid = managed.running(host)?;
    let (v2, v1) = controllers(limit);
    let groups = host.read(&format!("/proc/{pid}/cgroup"))?;
    let path_of = |wanted: &str| {
        groups.lines().find_map(|line| {
            let (names, path) = line.split_once(':')?.1.split_once(':')?;
            (names == wanted || names.split(',').any(|name| name == wanted)).then(|| path.to_owned())
        })
    };
    for root in ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"] {
        let switched_on = host.read(&format!("{root}/cgroup.subtree_control")).unwrap_or_default();
        if switched_on.split_whitespace().any(|name| name == v2) {
            let path = path_of("").ok_or_else(|| denied("the server is in no cgroup of v2".to_owned()))?;
            return Ok(Membership { root: root.to_owned(), path });
        }
    }
    for name in v1 {
        let root = format!("/sys/fs/cgroup/{name}");
        if let Some(path) = path_of(v1[0]).filter(|_| host.has(&root)) {
            return Ok(Membership { root, path });
        }
    }
    Err(Refusal::Absent { what: format!("the controller {v2} (not switched on in v2, not mounted in v1)") })
}

impl Membership {
    fn is_own(&self) -> bool {
        self.path.trim_start_matches('/').starts_with(OWN)
    }

    /// Where the process came from, or is.
    fn origin(&self) -> String {
        let own = self.path.trim_start_matches('/').strip_prefix(OWN);
        own.map_or_else(|| self.path.clone(), |escaped| escaped.replace('@', "/"))
    }

    fn own(&self) -> Result<String, Refusal> {
        let name = format!("{OWN}{}", self.origin().replace('/', "@"));
        if name.len() > 255 || self.origin().contains('@') {
            return Err(denied(format!("the cgroup {} cannot be named as an origin", self.origin())));
        }
        Ok(format!("/{name}"))
    }
}

/// The files of a limit in a cgroup, by the catalogue's own rules.
fn files(managed: &Managed, host: &Host, limit: &str, group: &str) -> Result<resolve::Setting, Refusal> {
    let knob = CATALOGUE.iter().find(|knob| knob.place == Place::Cgroup(known(limit)));
    let knob = knob.ok_or_else(|| denied(format!("no limit is called {limit}")))?;
    let target =
        if limit == "io.max" { format!("{group},{}", device(managed, host)?) } else { group.to_owned() };
    resolve::resolve(host, &Name { knob, rest: String::new(), target }, None)
}

fn known(limit: &str) -> &'static str {
    ["cpu.max", "memory.max", "memory.high", "io.max"].into_iter().find(|known| *known == limit).unwrap_or("")
}

/// The disk below the data directory, as `MAJOR:MINOR`.
fn device(managed: &Managed, host: &Host) -> Result<String, Refusal> {
    let below = |one: &&mount::Mount| {
        let point = one.point.trim_end_matches('/');
        managed.data_dir.strip_prefix(point).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let mounts = mount::mounts(host);
    let found = mounts.iter().filter(below).max_by_key(|one| one.point.len());
    let found =
        found.ok_or_else(|| Refusal::Absent { what: format!("the mount of {}", managed.data_dir) })?;
    // Limits are for whole disks: of a partition, the disk above it.
    let link = host.path(&format!("/sys/dev/block/{}", found.device));
    let whole = std::fs::canonicalize(link).ok().and_then(|path| {
        let parent = path.join("partition").exists().then(|| path.parent().map(|up| up.join("dev")))?;
        std::fs::read_to_string(parent?).ok()
    });
    Ok(whole.map_or_else(|| found.device.clone(), |number| number.trim().to_owned()))
}

/// What "no limit" is called.
fn unlimited(limit: &str) -> &'static str {
    match limit {
        "cpu.max" => "max 100000",
        "io.max" => NO_IO_LIMIT,
        _ => "max",
    }
}

/// A limit of the server now; in a cgroup that is not ours, none.
pub(super) fn read(managed: &Managed, host: &Host, limit: &str) -> Result<String, Refusal> {
    let place = membership(managed, host, limit)?;
    if !place.is_own() {
        return Ok(unlimited(limit).to_owned());
    }
    let setting = files(managed, host, limit, &place.path)?;
    let values = setting.written.iter().map(|item| read_file(host, item)).collect::<Result<Vec<_>, _>>()?;
    Ok(setting.together(&values))
}

fn form(item: &Item) -> Result<(&str, &Form), Refusal> {
    match item {
        Item::File { path, form } => Ok((path, form)),
        other => Err(denied(format!("{other} is no file of a cgroup"))),
    }
}

fn read_file(host: &Host, item: &Item) -> Result<String, Refusal> {
    let (path, form) = form(item)?;
    Ok(form.canonical(&host.read(path)?))
}

pub(super) fn check(managed: &Managed, host: &Host, limit: &str) -> Result<(), Refusal> {
    let place = membership(managed, host, limit)?;
    let v1 = !host.has(&format!("{}/cgroup.subtree_control", place.root));
    if v1 && limit == "memory.high" {
        return Err(Refusal::Absent { what: "memory.high: v1 has nothing of this meaning".to_owned() });
    }
    place.own().map(drop)
}

/// Sets a limit; without one left in the controller, the server goes back to where it was.
pub(super) fn apply(managed: &Managed, host: &Host, limit: &str, value: &str) -> Result<(), Refusal> {
    let place = membership(managed, host, limit)?;
    let pid = managed.running(host)?.to_string();
    let own = place.own()?;
    let directory = format!("{}{own}", place.root);
    if !place.is_own() {
        if value == unlimited(limit) {
            // Empty, if the server was restarted while it was limited.
            return host.remove_directory(&directory);
        }
        host.make_directory(&directory)?;
    }
    let setting = files(managed, host, limit, &own)?;
    for one in setting.values(value) {
        let (path, form) = form(&one.item)?;
        host.write(path, &form.text(&one.value))?;
    }
    if !place.is_own() {
        return host.write(&format!("{directory}/cgroup.procs"), &pid);
    }
    if value == unlimited(limit) && no_other(managed, host, limit, &own)? {
        host.write(&format!("{}{}/cgroup.procs", place.root, place.origin()), &pid)?;
        return host.remove_directory(&directory);
    }
    Ok(())
}

/// Whether no other limit of the same controller is set there.
fn no_other(managed: &Managed, host: &Host, limit: &str, own: &str) -> Result<bool, Refusal> {
    let (controller, _) = controllers(limit);
    for other in ["cpu.max", "memory.max", "memory.high", "io.max"] {
        if other == limit || controllers(other).0 != controller {
            continue;
        }
        let Ok(setting) = files(managed, host, other, own) else { continue };
        let values =
            setting.written.iter().map(|item| read_file(host, item)).collect::<Result<Vec<_>, _>>()?;
        if setting.together(&values) != unlimited(other) {
            return Ok(false);
        }
    }
    Ok(true)
}
