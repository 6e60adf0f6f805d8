//! The file system below the data directory of a managed server: made anew on an image or on an empty device,
//! filled with a copy of the data, and mounted *over* the data directory.
//!
//! What was there stays below, untouched. Putting back is an unmount, and so is a reboot; what the server has
//! written meanwhile is lost, which an experiment wants: each trial begins with the same data.

mod zfs;

pub use zfs::zpool_create;

use super::{Managed, denied};
use crate::error::Refusal;
use crate::host::{Host, LONG_LIMIT};
use crate::mount;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::time::Duration;

/// The data directory as it is.
pub const AS_IT_IS: &str = "as-it-is";
/// By this label a device is known as ours, and may be wiped.
const LABEL: &str = "headroom";
/// File systems that can be made here: how a new one is made without a question.
const TYPES: [(&str, &[&str]); 4] = [
    ("ext4", &["-q", "-F", "-L", LABEL, "-E", "lazy_itable_init=0,lazy_journal_init=0"]),
    ("xfs", &["-q", "-f", "-L", LABEL]),
    ("btrfs", &["-q", "-f", "-L", LABEL]),
    (zfs::KIND, &[]),
];
/// A loop device that somebody else has taken is looked for again: how often, and after which pause.
const ATTEMPTS: u32 = 50;
const AGAIN: Duration = Duration::from_millis(50);
/// The least that all of them can be made on.
const SMALLEST_MIB: u64 = 512;

/// `xfs noatime,logbsize=256k` -> xfs and its options: of the mount, or for zfs properties.
fn parts(value: &str) -> (&str, &str) {
    value.trim().split_once(' ').map_or((value.trim(), ""), |(kind, options)| (kind, options.trim()))
}

fn image(managed: &Managed) -> String {
    format!("{}/file-system.img", managed.work_dir)
}

/// What was asked for beside the type.
fn options_file(managed: &Managed) -> String {
    format!("{}/mount-options", managed.work_dir)
}

fn staging(managed: &Managed) -> String {
    format!("{}/staging", managed.work_dir)
}

/// What is mounted over the data directory, if it is ours: its type and its options.
pub(super) fn read(managed: &Managed, host: &Host) -> Result<String, Refusal> {
    let Some(mounted) = ours(managed, host) else { return Ok(AS_IT_IS.to_owned()) };
    let asked = host.read(&options_file(managed)).unwrap_or_default();
    if mounted.kind == zfs::KIND {
        return Ok(format!("{} {}", zfs::KIND, zfs::in_force(managed, host, &asked)?).trim_end().to_owned());
    }
    let stands = asked.is_empty() || missing(&asked, &mounted.options).is_none();
    // Somebody has remounted it: all that is there.
    let options = if stands { asked } else { mounted.options.join(",") };
    Ok(if options.is_empty() { mounted.kind } else { format!("{} {options}", mounted.kind) })
}

/// The first option that was asked for and is not in force.
fn missing(asked: &str, there: &[String]) -> Option<String> {
    let wanted: Vec<String> = asked.split(',').map(|option| option.trim().to_owned()).collect();
    let all = mount::merge(there, &wanted);
    all.into_iter().find(|option| !there.contains(option))
}

/// The mount at the data directory, if it is of our image or device.
fn ours(managed: &Managed, host: &Host) -> Option<mount::Mount> {
    let mounted = mount::mount(host, &managed.data_dir).ok()?;
    is_ours(managed, host, &mounted).then_some(mounted)
}

fn is_ours(managed: &Managed, host: &Host, mounted: &mount::Mount) -> bool {
    let source = &*mounted.source;
    if mounted.kind == zfs::KIND {
        return source == zfs::pool(managed);
    }
    match &managed.device {
        Some(device) => {
            source == device || number(host, device).is_some_and(|it| number(host, source) == Some(it))
        }
        None => backing(host, source).is_some_and(|file| file == image(managed)),
    }
}

/// The number of a block device. A device has many names, and mount(8) shows another than it was given
/// (`/dev/dm-0` as `/dev/mapper/data`).
fn number(host: &Host, device: &str) -> Option<u64> {
    let found = std::fs::metadata(host.path(device)).ok()?;
    found.file_type().is_block_device().then(|| found.rdev())
}

/// The file behind a loop device.
fn backing(host: &Host, device: &str) -> Option<String> {
    let name = device.strip_prefix("/dev/")?;
    host.read(&format!("/sys/block/{name}/loop/backing_file")).ok()
}

/// Whether it could be made here, as far as that shows without trying.
pub(super) fn check(managed: &Managed, host: &Host, value: &str) -> Result<(), Refusal> {
    let (kind, _) = parts(value);
    if kind == AS_IT_IS {
        return Ok(());
    }
    if !TYPES.iter().any(|(known, _)| *known == kind) {
        let known: Vec<&str> = TYPES.iter().map(|(known, _)| *known).collect();
        return Err(denied(format!(
            "no file system '{kind}' is made here: {AS_IT_IS}, {}",
            known.join(", ")
        )));
    }
    let maker = format!("mkfs.{kind}");
    let makers = if kind == zfs::KIND { zfs::PROGRAMS.to_vec() } else { vec![&*maker] };
    if let Some(maker) = makers.into_iter().find(|maker| host.program(maker).is_none()) {
        return Err(Refusal::Absent { what: format!("the program {maker}") });
    }
    let known = host.read("/proc/filesystems")?;
    let offered = known.lines().any(|line| line.split_whitespace().next_back() == Some(kind));
    if !offered && host.ask("modprobe", &["--dry-run", kind]).is_err() {
        return Err(Refusal::Absent { what: format!("{kind} in this kernel (/proc/filesystems)") });
    }
    match &managed.device {
        Some(device) => empty(managed, host, device),
        None => fits(managed, host).map(drop),
    }
}

/// The size of an image, MiB, if there is room for it.
fn fits(managed: &Managed, host: &Host) -> Result<u64, Refusal> {
    let used = host.ask_within("du", &["-sm", &managed.data_dir], LONG_LIMIT)?;
    let used: u64 = used.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0);
    let size = managed.image_mib.unwrap_or(used * 2 + 1024).max(SMALLEST_MIB);
    if size < used + used / 10 {
        return Err(denied(format!("image_mib = {size} is too small for {used} MiB of data")));
    }
    // The image is sparse: the data counts, and as much again for what the server writes.
    let place = host.path(&managed.work_dir);
    let place = place.ancestors().find(|place| place.exists()).unwrap_or(&place);
    let there = rustix::fs::statvfs(place).map_err(|error| denied(error.to_string()))?;
    let free = (there.f_bavail * there.f_frsize) >> 20;
    if free < used * 2 {
        return Err(denied(format!(
            "{} has {free} MiB free; a copy of the data takes {used} MiB",
            managed.work_dir
        )));
    }
    Ok(size)
}

/// Whether a device holds nothing and nobody uses it.
fn empty(managed: &Managed, host: &Host, device: &str) -> Result<(), Refusal> {
    if let Some(mounted) = ours(managed, host) {
        // It is in use by ourselves, and will be made anew.
        tracing::debug!(point = mounted.point, "the device carries a file system of ours");
        return Ok(());
    }
    let used = |why: String| Err(denied(format!("{device} is not empty, and is not touched: {why}")));
    let real =
        std::fs::canonicalize(host.path(device)).map_err(|error| denied(format!("{device}: {error}")))?;
    let name = real.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let sys = match host.has(&format!("/sys/block/{name}")) {
        true => format!("/sys/block/{name}"),
        false => format!("/sys/class/block/{name}"),
    };
    let Ok(number) = host.read(&format!("{sys}/dev")) else {
        return used("it is no block device".to_owned());
    };
    if let Some(holder) = host.list(&format!("{sys}/holders")).first() {
        return used(format!("{holder} holds it"));
    }
    let part = host.list(&sys).into_iter().find(|entry| host.has(&format!("{sys}/{entry}/partition")));
    if let Some(part) = part {
        return used(format!("it has the partition {part}"));
    }
    // btrfs has a number of its own in mountinfo.
    let by_number = |one: &&mount::Mount| one.device == number || is_ours(managed, host, one);
    if let Some(mounted) = mount::mounts(host).iter().find(by_number) {
        return used(format!("it is mounted at {}", mounted.point));
    }
    let swaps = host.read("/proc/swaps").unwrap_or_default();
    if swaps.lines().any(|line| line.split_whitespace().next() == Some(device)) {
        return used("it is swap".to_owned());
    }
    let signatures = host.ask("wipefs", &["--noheadings", "--output", "TYPE,LABEL", device])?;
    match signatures.lines().next() {
        Some(signature) if !signature.trim().is_empty() => {
            used(format!("it has the signature {}", signature.trim()))
        }
        _ => Ok(()),
    }
}

/// Makes it so.
pub(super) fn apply(managed: &Managed, host: &Host, value: &str) -> Result<(), Refusal> {
    check(managed, host, value)?;
    let (kind, options) = parts(value);
    let unmounted = |host: &Host| unmount(managed, host);
    let work = |host: &Host| {
        unmount(managed, host)?;
        if kind == AS_IT_IS {
            return Ok(());
        }
        let made = make(managed, host, kind, options);
        if made.is_err() {
            unmount(managed, host)?;
        }
        made
    };
    managed.restart(host, work, unmounted)?;
    let now = read(managed, host)?;
    if now == value.trim() {
        return Ok(());
    }
    let differs = format!("{value} was to be below {}, and there is {now}", managed.data_dir);
    match managed.restart(host, unmounted, unmounted) {
        Ok(()) => Err(denied(differs)),
        Err(stuck) => Err(denied(format!("{differs}; and it could not be unmounted: {stuck}"))),
    }
}

fn make(managed: &Managed, host: &Host, kind: &str, options: &str) -> Result<(), Refusal> {
    let Managed { data_dir, work_dir, .. } = managed;
    let device = match &managed.device {
        Some(device) => device.clone(),
        None => {
            let (size, image) = (fits(managed, host)?, image(managed));
            host.make_directory(work_dir)?;
            host.order("truncate", &["--size", &format!("{size}M"), &image])?;
            attach(host, &image)?
        }
    };
    let (_, arguments) =
        TYPES.iter().find(|(known, _)| *known == kind).ok_or_else(|| denied(kind.to_owned()))?;
    let mut mount = vec!["-t", kind];
    let source = if kind == zfs::KIND {
        zfs::create(managed, host, &device, options)?;
        zfs::pool(managed)
    } else {
        host.order_within(&format!("mkfs.{kind}"), &[*arguments, &[&device]].concat(), LONG_LIMIT)?;
        if !options.is_empty() {
            mount.extend(["-o", options]);
        }
        device.clone()
    };
    host.write_file(&options_file(managed), options)?;
    let staging = staging(managed);
    host.make_directory(&staging)?;
    let at = |point: &str| {
        let words = [&mount[..], &[&source, point]].concat();
        host.order("mount", &words)
    };
    at(&staging)?;
    if kind == "ext4" {
        // The server would take it for a database.
        host.order("rmdir", &[&format!("{staging}/lost+found")])?;
    }
    host.order_within("cp", &["-a", &format!("{data_dir}/."), &format!("{staging}/")], LONG_LIMIT)?;
    host.order_within("umount", &[&staging], LONG_LIMIT)?;
    at(data_dir)?;
    // A mount that is not known again would never be unmounted.
    if ours(managed, host).is_none() {
        host.order_within("umount", &[data_dir], LONG_LIMIT)?;
        return Err(denied(format!(
            "{device} was mounted over {data_dir}, and mountinfo does not show it there"
        )));
    }
    if kind == zfs::KIND {
        // What differs is seen when it is read back.
        return Ok(());
    }
    let there = mount::options(host, data_dir)?;
    match missing(options, &there).filter(|_| !options.is_empty()) {
        Some(option) => Err(denied(format!("the mount does not show {option}: {}", there.join(",")))),
        None => Ok(()),
    }
}

/// A loop device on the image. Direct: otherwise its pages would be cached once more, below the file system
/// that is measured; not every file system below can do that. Somebody else may take the device that was
/// found free.
fn attach(host: &Host, image: &str) -> Result<String, Refusal> {
    let mut left = ATTEMPTS;
    loop {
        let try_one = |direct: &str| {
            host.ask("losetup", &["--find", "--show", "--nooverlap", &format!("--direct-io={direct}"), image])
        };
        match try_one("on").or_else(|_| try_one("off")) {
            Err(_) if left > 0 => std::thread::sleep(AGAIN),
            done => return done,
        }
        left -= 1;
    }
}

/// Takes ours away, in whatever state it is. What was below is there again.
pub(super) fn unmount(managed: &Managed, host: &Host) -> Result<(), Refusal> {
    let mut device = managed.device.clone();
    for point in [staging(managed), managed.data_dir.clone()] {
        while let Some(mounted) =
            mount::mount(host, &point).ok().filter(|mounted| is_ours(managed, host, mounted))
        {
            host.order_within("umount", &[&point], LONG_LIMIT)?;
            if mounted.kind != zfs::KIND {
                device = Some(mounted.source);
            }
        }
    }
    zfs::destroy(managed, host)?;
    let image = image(managed);
    if managed.device.is_none() {
        for name in host.list("/sys/block").iter().filter(|name| name.starts_with("loop")) {
            let loop_device = format!("/dev/{name}");
            if backing(host, &loop_device).is_some_and(|file| file == image) {
                host.order("losetup", &["--detach", &loop_device])?;
            }
        }
        host.remove_file(&image)?;
    } else if let Some(device) = device {
        let labels = host.ask("wipefs", &["--noheadings", "--output", "LABEL", &device])?;
        if labels.lines().any(|label| label.trim() == LABEL || label.trim() == zfs::pool(managed)) {
            host.order("wipefs", &["--all", "--quiet", &device])?;
        }
    }
    host.remove_file(&options_file(managed))?;
    host.remove_directory(&staging(managed))
}

/// After a process that died in a restart, with the server stopped: a file system that is whole stays, half
/// of one goes.
pub(super) fn tidy(managed: &Managed, host: &Host) -> Result<(), Refusal> {
    if ours(managed, host).is_some() { Ok(()) } else { unmount(managed, host) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_were_asked_for_must_show_and_defaults_need_not() {
        let there: Vec<String> = ["rw", "noatime", "logbsize=256k"].map(str::to_owned).to_vec();
        assert_eq!(missing("noatime,logbsize=256k,nodiscard", &there), None);
        assert_eq!(missing("noatime,discard", &there).as_deref(), Some("discard"));
        assert_eq!(parts("xfs noatime,logbsize=256k"), ("xfs", "noatime,logbsize=256k"));
        assert_eq!(parts(" ext4 "), ("ext4", ""));
    }

    /// Messages and behaviour recorded from the manual pages of OpenZFS 2.2: a pool is a folder with a file
    /// for each property.
    const ZPOOL: &str = r#"#!/bin/sh
root="${0%/usr/sbin/zpool}"; at="$root/pools"; echo "zpool $*" >> "$root/log"
no() { echo "$1" >&2; exit 1; }
case $1 in
    list) [ -d "$at/$5" ] || no "cannot open '$5': no such pool" ;;
    destroy)
        grep -q " - zfs $2 " "$root/proc/self/mountinfo" && no "cannot destroy '$2': pool is busy"
        rm -r "$at/$2" ;;
    get) cat "$at/$7/$6" || no "bad property list: invalid property '$6'" ;;
    create)
        shift; set=""
        while [ $# -gt 2 ]; do case $1 in -o|-O) set="$set $2"; shift ;; -m) shift ;; esac; shift; done
        [ ! -d "$at/$1" ] || no "cannot create '$1': pool already exists"
        mkdir -p "$at/$1"
        for one in $set; do
            value=${one#*=}; [ "$value" != 16k ] || value=16384; echo "$value" > "$at/$1/${one%%=*}"
        done ;;
esac
"#;
    const ZFS: &str = r#"#!/bin/sh
cat "${0%/usr/sbin/zfs}/pools/$7/$6"
"#;
    /// Mounting is a line of mountinfo.
    const MOUNT: &str = r#"#!/bin/sh
root="${0%/usr/sbin/mount}"; echo "mount $*" >> "$root/log"
echo "42 27 0:50 / $4 rw,relatime - $2 $3 rw" >> "$root/proc/self/mountinfo"
"#;
    const UMOUNT: &str = r#"#!/bin/sh
info="${0%/usr/sbin/umount}/proc/self/mountinfo"; grep -v " / $1 " "$info" > "$info.new"; mv "$info.new" "$info"
"#;
    const LOSETUP: &str = r#"#!/bin/sh
root="${0%/usr/sbin/losetup}"
case $1 in
    --find)
        at="$root/sys/block/loop7/loop"; mkdir -p "$at"; echo "$5" > "$at/backing_file"; echo /dev/loop7 ;;
    --detach) rm -r "$root/sys/block/loop7" ;;
esac
"#;

    #[test]
    fn a_recorded_openzfs_is_made_mounted_read_back_and_destroyed() {
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        for (path, text) in [
            ("usr/sbin/zpool", ZPOOL),
            ("usr/sbin/zfs", ZFS),
            ("usr/sbin/mount", MOUNT),
            ("usr/sbin/umount", UMOUNT),
            ("usr/sbin/losetup", LOSETUP),
            ("usr/sbin/du", "#!/bin/sh\necho 1\n"),
            ("usr/sbin/truncate", "#!/bin/sh\ntrue\n"),
            ("usr/sbin/cp", "#!/bin/sh\ntrue\n"),
            ("proc/filesystems", "nodev\tzfs\n"),
            ("proc/self/mountinfo", "27 1 7:0 / / rw - ext4 /dev/vda rw\n"),
        ] {
            std::fs::create_dir_all(at(path).parent().unwrap()).unwrap();
            std::fs::write(at(path), text).unwrap();
            std::fs::set_permissions(at(path), std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        std::fs::create_dir_all(at("sys/block")).unwrap();
        let host = Host::new(root.path());
        let mut managed = super::super::tests::example();
        (managed.data_dir, managed.work_dir) = ("/data".to_owned(), "/work".to_owned());
        (managed.device, managed.image_mib) = (None, Some(1024));
        let options = "recordsize=16k,ashift=13,primarycache=metadata";
        check(&managed, &host, &format!("zfs {options}")).unwrap();
        make(&managed, &host, zfs::KIND, options).unwrap();
        assert_eq!(read(&managed, &host).unwrap(), format!("zfs {options}"));
        std::fs::write(at("pools/headroom-data/primarycache"), "all\n").unwrap();
        assert_eq!(read(&managed, &host).unwrap(), "zfs recordsize=16k,ashift=13,primarycache=all");
        unmount(&managed, &host).unwrap();
        assert_eq!(read(&managed, &host).unwrap(), AS_IT_IS);
        assert!(!at("pools/headroom-data").exists() && !at("sys/block/loop7").exists());
        let log = std::fs::read_to_string(at("log")).unwrap();
        let create = "zpool create -f -m legacy -o cachefile=none -O recordsize=16k -o ashift=13 -O primarycache=metadata \
                      headroom-data /dev/loop7";
        assert!(log.contains(create) && log.contains("mount -t zfs headroom-data /data"), "{log}");
    }
}
