//! Which device, interface, mount, cgroup or server a change was made to. Names are given anew: after a
//! hot-plug `sdb` is another disk, and what was written to the old one is not put back to the new one.

use crate::catalogue::{Place, Target};
use crate::error::Refusal;
use crate::host::Host;
use crate::item::Access;
use crate::name::Name;
use crate::resolve;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;

/// What tells one thing from another of the same name.
pub type Facts = BTreeMap<String, String>;

/// The server's start, in seconds since 1970 by our clock: not part of who it is, but of when its variables
/// began.
pub const STARTED: &str = "started";
/// The same by the clock that no administrator sets; comparable within one boot of our host.
pub const STARTED_SINCE_BOOT: &str = "started_since_boot";
/// Where the server was reached.
pub const ADDRESS: &str = "address";

/// What identifies the target of a knob now.
///
/// # Errors
/// It is not there.
pub fn facts(access: &mut Access<'_>, name: &Name) -> Result<Facts, Refusal> {
    let host = access.host;
    let target = name.target.as_str();
    let mut facts = Facts::new();
    match (&name.knob.place, name.knob.target) {
        (Place::Variable, _) => return access.server()?.identity().map_err(Into::into),
        (_, Target::Disk) => disk(host, target, &mut facts),
        (_, Target::Interface) => interface(host, target, &mut facts),
        (_, Target::Interrupt) => {
            for number in resolve::interrupts(host, target)? {
                let names = host.list(&format!("/proc/irq/{number}"));
                let directory = |name: &String| {
                    std::fs::metadata(host.path(&format!("/proc/irq/{number}/{name}")))
                        .is_ok_and(|found| found.is_dir())
                };
                facts.insert(
                    format!("interrupt {number}"),
                    names.into_iter().filter(directory).collect::<Vec<_>>().join(","),
                );
            }
        }
        (_, Target::Mount) => {
            let mount = crate::mount::mount(host, target)?;
            facts.insert("device".to_owned(), mount.device);
            facts.insert("type".to_owned(), mount.kind);
            facts.insert("source".to_owned(), mount.source);
        }
        (_, Target::Cgroup | Target::CgroupDevice) if target == crate::managed::TARGET => {}
        (_, Target::Cgroup | Target::CgroupDevice) => {
            for item in resolve::resolve(host, name, None)?.written {
                // A cgroup that is made again under its old name has another inode.
                let path = item.to_string();
                let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
                let inode = std::fs::metadata(host.path(directory)).map(|found| found.ino());
                facts.insert(directory.to_owned(), format!("inode {}", inode.unwrap_or(0)));
            }
        }
        (Place::Dataset, _) => {
            facts.insert(
                "guid".to_owned(),
                host.ask("zfs", &["get", "-H", "-p", "-o", "value", "guid", target])?,
            );
        }
        (Place::Pool, _) => {
            facts.insert(
                "guid".to_owned(),
                host.ask("zpool", &["get", "-H", "-p", "-o", "value", "guid", target])?,
            );
        }
        _ => {}
    }
    Ok(facts)
}

fn disk(host: &Host, disk: &str, facts: &mut Facts) {
    for fact in ["dev", "size", "wwid", "serial", "device/serial", "device/wwid", "loop/backing_file"] {
        if let Ok(text) = host.read(&format!("/sys/block/{disk}/{fact}")) {
            facts.insert(fact.to_owned(), text);
        }
    }
}

fn interface(host: &Host, interface: &str, facts: &mut Facts) {
    if let Ok(index) = host.read(&format!("/sys/class/net/{interface}/ifindex")) {
        facts.insert("ifindex".to_owned(), index);
    }
    // 0: the address is the hardware's own. One that was set may be set anew and say nothing.
    if host.read(&format!("/sys/class/net/{interface}/addr_assign_type")).is_ok_and(|kind| kind == "0")
        && let Ok(address) = host.read(&format!("/sys/class/net/{interface}/address"))
    {
        facts.insert("hardware_address".to_owned(), address);
    }
    // Two namespaces may have an interface of the same name and number.
    if let Ok(namespace) = std::fs::read_link(host.path("/proc/self/ns/net")) {
        facts.insert("namespace".to_owned(), namespace.display().to_string());
    }
}

/// Facts of a disk that tell it from every other one.
const UNIQUE: [&str; 5] = ["wwid", "serial", "device/serial", "device/wwid", "loop/backing_file"];
/// A volume can be grown while it is in use: its size says nothing where one of those is known.
const SIZE: &str = "size";

/// What is another now, in words; `None` if it is the same thing.
pub fn difference(then: &Facts, now: &Facts) -> Option<String> {
    let known = UNIQUE.iter().any(|fact| then.contains_key(*fact));
    let identifies = |key: &&String| {
        let key = key.as_str();
        let says_nothing = [STARTED, STARTED_SINCE_BOOT, ADDRESS].contains(&key) || (known && key == SIZE);
        !says_nothing
    };
    let keys = then.keys().filter(identifies);
    let changed = keys.filter(|key| then.get(*key) != now.get(*key)).map(|key| {
        let now = now.get(key).map_or("gone", String::as_str);
        format!("{key} was {}, is {now}", then[key])
    });
    let changed: Vec<String> = changed.collect();
    (!changed.is_empty()).then(|| changed.join("; "))
}

/// Whether it differs in its size alone: another disk of the same name, or the same one that has grown.
pub fn is_doubtful(then: &Facts, now: &Facts) -> bool {
    let without = |facts: &Facts| {
        let mut facts = facts.clone();
        facts.remove(SIZE);
        facts
    };
    now.contains_key(SIZE) && difference(&without(then), &without(now)).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thing_is_another_when_a_fact_that_identifies_it_has_changed() {
        let facts = |pairs: &[(&str, &str)]| -> Facts {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let then = facts(&[("dev", "8:16"), ("serial", "A1"), (STARTED, "5")]);
        assert_eq!(
            difference(&then, &facts(&[("dev", "8:16"), ("serial", "A1"), (STARTED, "9"), ("new", "x")])),
            None
        );
        let other = difference(&then, &facts(&[("dev", "8:16"), ("serial", "B2")])).unwrap();
        assert_eq!(other, "serial was A1, is B2");
        assert!(difference(&then, &Facts::new()).unwrap().contains("gone"));
    }

    #[test]
    fn a_volume_that_has_grown_is_the_same_if_something_else_identifies_it() {
        let facts = |pairs: &[(&str, &str)]| -> Facts {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let of = |size: &str| facts(&[("dev", "8:16"), ("size", size), ("serial", "A1")]);
        assert_eq!(difference(&of("100"), &of("200")), None);
        let nameless = |size: &str| facts(&[("dev", "8:16"), ("size", size)]);
        assert_eq!(difference(&nameless("100"), &nameless("200")).unwrap(), "size was 100, is 200");
        assert!(is_doubtful(&nameless("100"), &nameless("200")));
        assert!(!is_doubtful(&nameless("100"), &facts(&[("dev", "8:32"), ("size", "200")])));
    }
}
