//! OpenZFS below the data directory: a pool of its own on the image or device, whose root dataset is mounted
//! as any other file system is.
//!
//! The pool is in no cache file: after a reboot it is not imported. Tested against recorded `zpool` and
//! `zfs`, not against a pool.

use super::{LABEL, LONG_LIMIT};
use crate::error::Refusal;
use crate::host::Host;
use crate::managed::Managed;
use crate::value;

pub(super) const KIND: &str = "zfs";
pub(super) const PROGRAMS: [&str; 2] = ["zpool", "zfs"];
/// Options of a pool; all others are of its root dataset.
const OF_THE_POOL: [&str; 4] = ["ashift", "autotrim", "autoexpand", "failmode"];

/// The name of the pool, by which a mount is known as ours: one for each data directory.
pub(super) fn pool(managed: &Managed) -> String {
    let fits = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_') { c } else { '-' };
    let place: String = managed.data_dir.trim_start_matches('/').chars().map(fits).collect();
    format!("{LABEL}-{place}")
}

/// `recordsize=16k,ashift=13` -> its properties and values.
fn properties(options: &str) -> impl Iterator<Item = (&str, &str)> {
    let given = options.split(',').map(str::trim).filter(|option| !option.is_empty());
    given.map(|option| option.split_once('=').unwrap_or((option, "on")))
}

/// The arguments with which `zpool` makes a pool on a device, mounted by whoever mounts it; of each option it
/// is known whether it is the pool's or the dataset's.
#[must_use]
pub fn zpool_create(pool: &str, device: &str, options: &str) -> Vec<String> {
    let mut words = ["create", "-f", "-m", "legacy"].map(str::to_owned).to_vec();
    for (property, value) in properties(options) {
        let flag = if OF_THE_POOL.contains(&property) { "-o" } else { "-O" };
        words.extend([flag.to_owned(), format!("{property}={value}")]);
    }
    words.extend([pool.to_owned(), device.to_owned()]);
    words
}

pub(super) fn create(managed: &Managed, host: &Host, device: &str, options: &str) -> Result<(), Refusal> {
    let mut words = zpool_create(&pool(managed), device, options);
    words.splice(4..4, ["-o", "cachefile=none"].map(str::to_owned));
    host.order_within("zpool", &words.iter().map(String::as_str).collect::<Vec<_>>(), LONG_LIMIT)
}

/// Ours and everything in it, where it is there.
pub(super) fn destroy(managed: &Managed, host: &Host) -> Result<(), Refusal> {
    let pool = pool(managed);
    if host.program("zpool").is_none() || host.ask("zpool", &["list", "-H", "-o", "name", &pool]).is_err() {
        return Ok(());
    }
    host.order_within("zpool", &["destroy", &pool], LONG_LIMIT)
}

/// What is in force of the options that were asked for, in their order: as they were asked for where they
/// stand, and otherwise as they are.
pub(super) fn in_force(managed: &Managed, host: &Host, options: &str) -> Result<String, Refusal> {
    let pool = pool(managed);
    let mut there = Vec::new();
    for (property, asked) in properties(options) {
        let program = if OF_THE_POOL.contains(&property) { "zpool" } else { "zfs" };
        let exact = host.ask(program, &["get", "-H", "-p", "-o", "value", property, &pool])?;
        let exact = exact.trim();
        there.push(if same(asked, exact) {
            format!("{property}={asked}")
        } else {
            format!("{property}={exact}")
        });
    }
    Ok(there.join(","))
}

/// `16k` is `16384`.
fn same(asked: &str, exact: &str) -> bool {
    asked.eq_ignore_ascii_case(exact) || value::size(asked).is_some_and(|bytes| exact.parse() == Ok(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_back_in_bytes_are_those_that_were_asked_for() {
        for (asked, exact) in [("16k", "16384"), ("1M", "1048576"), ("lz4", "lz4"), ("13", "13")] {
            assert!(same(asked, exact), "{asked} {exact}");
        }
        assert!(!same("16k", "131072") && !same("metadata", "all"));
        let all: Vec<_> = properties("recordsize=16k, ashift=13,autotrim").collect();
        assert_eq!(all, [("recordsize", "16k"), ("ashift", "13"), ("autotrim", "on")]);
    }
}
