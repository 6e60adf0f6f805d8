//! Mount options: read from mountinfo, changed by a remount, put back by one.
//!
//! A file system keeps an option that a remount does not mention, and shows no option that has its default.
//! So whoever puts `commit=30` back to "nothing shown" must say `commit=0`, and `noatime` back to `relatime`
//! must name it. An option without such an opposite is refused before anything is touched.

use crate::error::Refusal;
use crate::host::Host;

/// Where the kernel tells the options.
const MOUNTINFO: &str = "/proc/self/mountinfo";

/// A mounted file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    pub point: String,
    /// `major:minor` of its device.
    pub device: String,
    pub kind: String,
    pub source: String,
    /// The options shown, those of the mount first.
    pub options: Vec<String>,
}

/// Everything that is mounted; of several at one place the last, which is the one that is seen.
pub fn mounts(host: &Host) -> Vec<Mount> {
    let text = host.read(MOUNTINFO).unwrap_or_default();
    let mut mounts: Vec<Mount> = Vec::new();
    for mount in text.lines().filter_map(parse) {
        mounts.retain(|other| other.point != mount.point);
        mounts.push(mount);
    }
    mounts
}

/// The mount at a place.
///
/// # Errors
/// Nothing is mounted there.
pub fn mount(host: &Host, point: &str) -> Result<Mount, Refusal> {
    let found = mounts(host).into_iter().find(|mount| mount.point == point);
    found.ok_or_else(|| Refusal::Absent { what: format!("a mount at {point}") })
}

pub(crate) fn options(host: &Host, point: &str) -> Result<Vec<String>, Refusal> {
    Ok(mount(host, point)?.options)
}

/// `42 27 7:0 / /data rw,relatime shared:1 - ext4 /dev/loop0 rw,commit=30`
fn parse(line: &str) -> Option<Mount> {
    let (mine, of_file_system) = line.split_once(" - ")?;
    let mine: Vec<&str> = mine.split(' ').collect();
    let [_, _, device, _, point, of_mount, ..] = mine.as_slice() else { return None };
    let mut rest = of_file_system.split(' ');
    let (kind, source, of_file_system) = (rest.next()?, rest.next()?, rest.next()?);
    let mut options: Vec<String> = of_mount.split(',').map(str::to_owned).collect();
    for option in of_file_system.split(',') {
        // Read-only is shown by both; the mount's own word is the one that counts.
        if !matches!(option, "rw" | "ro") && !options.iter().any(|one| one == option) {
            options.push(option.to_owned());
        }
    }
    let unescape = |text: &str| text.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\");
    Some(Mount {
        point: unescape(point),
        device: (*device).to_owned(),
        kind: kind.to_owned(),
        source: unescape(source),
        options,
    })
}

/// What will be shown once these options were set.
pub fn merge(now: &[String], asked: &[String]) -> Vec<String> {
    let mut options = now.to_vec();
    for option in asked {
        options.retain(|other| family(other) != family(option));
        if !is_default(option) {
            options.push(option.clone());
        }
    }
    options
}

/// Whether two lists of options are the same state.
pub fn same(one: &str, other: &str) -> bool {
    let sorted = |text: &str| {
        let mut options: Vec<String> = text.split(',').map(str::to_owned).collect();
        options.sort();
        options
    };
    sorted(one) == sorted(other)
}

/// A mount option that cannot be taken back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no remount turns the mount option {option} off")]
pub struct NoOpposite {
    pub option: String,
}

/// The options of a remount that makes `wanted` of `now`.
///
/// # Errors
/// An option has no opposite that a remount understands.
pub fn remount(now: &[String], wanted: &[String]) -> Result<Vec<String>, NoOpposite> {
    let mut options = wanted.to_vec();
    for option in now {
        if wanted.iter().any(|other| family(other) == family(option)) {
            continue;
        }
        let opposite = opposite(option);
        options.push(opposite.ok_or_else(|| NoOpposite { option: option.clone() })?);
    }
    Ok(options)
}

/// Options of one family exclude each other.
fn family(option: &str) -> &str {
    match option {
        "ro" | "rw" => "rw",
        "atime" | "noatime" | "relatime" | "norelatime" | "strictatime" => "atime",
        "sync" | "async" => "sync",
        _ => {
            let name = option.split_once('=').map_or(option, |(name, _)| name);
            // `noquota` and `quota` are one; a word that merely begins with "no" (`norecovery`) is a family
            // of its own.
            name.strip_prefix("no").unwrap_or(name)
        }
    }
}

/// Options that a file system does not show because they are its default.
fn is_default(option: &str) -> bool {
    matches!(option, "barrier" | "nodiscard" | "strictatime" | "atime" | "nolazytime" | "async" | "commit=0")
        || matches!(option, "suid" | "dev" | "exec" | "diratime")
}

fn opposite(option: &str) -> Option<String> {
    match option {
        "noatime" | "relatime" => Some("strictatime".to_owned()),
        "ro" => Some("rw".to_owned()),
        "sync" => Some("async".to_owned()),
        "barrier=0" => Some("barrier=1".to_owned()),
        _ => match option.split_once('=') {
            // 0 is how ext4 and btrfs spell "the default".
            Some(("commit", _)) => Some("commit=0".to_owned()),
            Some(_) => None,
            None => Some(option.strip_prefix("no").map_or_else(|| format!("no{option}"), str::to_owned)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Vec<String> {
        text.split(',').map(str::to_owned).collect()
    }

    #[test]
    fn options_of_a_mount_and_of_its_file_system_are_one_list() {
        let line = "42 27 7:0 / /my\\040data rw,noatime shared:2 - ext4 /dev/loop0 rw,commit=30";
        let mount = parse(line).unwrap();
        assert_eq!(
            (mount.point.as_str(), mount.device.as_str(), mount.kind.as_str()),
            ("/my data", "7:0", "ext4")
        );
        assert_eq!(mount.options, list("rw,noatime,commit=30"));
    }

    #[test]
    fn a_remount_names_what_must_go_as_well_as_what_shall_come() {
        let before = list("rw,relatime");
        let after = merge(&before, &list("noatime,commit=30,discard"));
        assert!(same(&after.join(","), "commit=30,rw,noatime,discard"));
        assert_eq!(remount(&before, &after).unwrap(), after);
        assert_eq!(remount(&after, &before).unwrap(), list("rw,relatime,commit=0,nodiscard"));
        assert_eq!(merge(&after, &list("nodiscard,commit=0,relatime")), before);
        assert_eq!(remount(&list("rw,nobarrier"), &list("rw")).unwrap(), list("rw,barrier"));
    }

    #[test]
    fn an_option_without_an_opposite_is_refused() {
        let wrong = remount(&list("rw,logbsize=256k"), &list("rw")).unwrap_err();
        assert!(wrong.option.contains("logbsize"), "{wrong}");
    }
}
