//! A host as a tree of files, with a kernel that answers as the real one does: a new scheduler brings its own
//! settings and resets others, of twins one is set to zero, words come back in brackets and masks with zeros.

use knob::host::{Effects, Step};
use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Every setting of the tree, and what it is at the start: nothing is at a default that a careless restore
/// would hit by luck.
pub(crate) const SETTINGS: [(&str, &str); 26] = [
    ("sys/block/vda/queue/scheduler", "none [mq-deadline] bfq"),
    ("sys/block/vda/queue/iosched/read_expire", "123"),
    ("sys/block/vda/queue/iosched/front_merges", "0"),
    ("sys/block/vda/queue/iosched/async_depth", "48"),
    ("sys/block/vda/queue/nr_requests", "64"),
    ("sys/block/vda/queue/wbt_lat_usec", "5000"),
    ("sys/block/vda/queue/rq_affinity", "1"),
    ("sys/class/net/eth0/queues/rx-0/rps_cpus", "00000000"),
    ("sys/class/net/eth0/queues/rx-1/rps_cpus", "00000002"),
    ("proc/sys/vm/dirty_ratio", "20"),
    ("proc/sys/vm/dirty_bytes", "0"),
    ("proc/sys/vm/dirty_background_ratio", "0"),
    ("proc/sys/vm/dirty_background_bytes", "1048576"),
    ("proc/sys/vm/overcommit_ratio", "50"),
    ("proc/sys/vm/overcommit_kbytes", "0"),
    ("proc/sys/vm/swappiness", "60"),
    ("proc/sys/vm/min_free_kbytes", "67584"),
    ("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456"),
    ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never"),
    ("sys/kernel/mm/transparent_hugepage/defrag", "always defer [madvise] never"),
    ("sys/fs/cgroup/cpu/db/cpu.cfs_quota_us", "-1"),
    ("sys/fs/cgroup/cpu/db/cpu.cfs_period_us", "50000"),
    ("sys/fs/cgroup/memory/db/memory.limit_in_bytes", "9223372036854771712"),
    ("proc/self/mountinfo", "42 27 7:0 / /data rw,relatime - ext4 /dev/vda rw"),
    ("zfs/recordsize", "131072\tdefault"),
    ("zfs/logbias", "latency\tlocal"),
];

/// What lasts over a reboot.
pub(crate) const LASTING: [&str; 2] = ["zfs/recordsize", "zfs/logbias"];

/// What there is apart from settings.
const SURROUNDINGS: [(&str, &str); 9] = [
    ("proc/sys/kernel/random/boot_id", "first boot"),
    ("sys/devices/system/cpu/possible", "0-3"),
    ("sys/block/vda/dev", "254:0"),
    ("sys/block/vda/size", "1024"),
    ("sys/block/vda/serial", "A1"),
    ("sys/class/net/eth0/ifindex", "2"),
    ("sys/class/net/eth0/address", "52:54:00:00:00:01"),
    ("sys/class/net/eth0/addr_assign_type", "0"),
    ("zfs/guid", "1234\t-"),
];

const ZFS: &str = r#"#!/bin/sh
# zfs get -H -p -o value,source PROPERTY DATASET | set PROPERTY=VALUE DATASET | inherit PROPERTY DATASET
at="${0%/usr/sbin/zfs}/zfs"
case $1 in
    get) case $5 in value) cut -f1 "$at/$6";; *) cat "$at/$6";; esac ;;
    set) printf '%s\tlocal' "${2#*=}" > "$at/${2%%=*}" ;;
    inherit) printf '131072\tdefault' > "$at/$2" ;;
esac
"#;

const MOUNT: &str = r#"#!/bin/sh
# mount --options-mode ignore -o remount,OPTIONS POINT; a default is not shown.
info="${0%/usr/bin/mount}/proc/self/mountinfo"
shown=
for option in $(echo "$4" | tr , ' '); do
    case $option in remount|commit=0|nodiscard|strictatime) ;; *) shown="$shown${shown:+,}$option" ;; esac
done
printf '42 27 7:0 / %s %s - ext4 /dev/vda rw' "$5" "$shown" > "$info"
"#;

/// Makes the tree.
pub(crate) fn make(root: &Path) {
    for (path, text) in SETTINGS.iter().chain(&SURROUNDINGS) {
        put(root, path, text);
    }
    for (path, text) in [("usr/sbin/zfs", ZFS), ("usr/bin/mount", MOUNT)] {
        put(root, path, text);
        std::fs::set_permissions(root.join(path), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

pub(crate) fn put(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// Every setting as it is now; one that is not there is left out.
pub(crate) fn settings(root: &Path) -> BTreeMap<&'static str, String> {
    let read = |(path, _): &(&'static str, &str)| {
        Some((*path, std::fs::read_to_string(root.join(path)).ok()?.trim().to_owned()))
    };
    SETTINGS.iter().filter_map(read).collect()
}

/// After a power loss: the kernel begins anew, what lasts is there.
pub(crate) fn reboot(root: &Path) {
    let lasting = LASTING.map(|path| (path, std::fs::read_to_string(root.join(path)).unwrap()));
    std::fs::remove_dir_all(root.join("sys/block/vda/queue/iosched")).ok();
    make(root);
    for (path, text) in &lasting {
        put(root, path, text);
    }
    put(root, "proc/sys/kernel/random/boot_id", "second boot");
}

/// The kernel, which may stop the process at a step.
pub(crate) struct Kernel {
    /// The step at which to die, from 0; never if beyond all.
    pub(crate) die_at: usize,
    /// Where the step and what of the journal was synced are noted on dying, and in the end how many steps
    /// there were.
    pub(crate) notes: Option<PathBuf>,
    pub(crate) state: Mutex<Counter>,
}

#[derive(Default)]
pub(crate) struct Counter {
    pub(crate) steps: usize,
    synced: u64,
    appended: u64,
}

impl Kernel {
    pub(crate) fn immortal() -> Self {
        Self { die_at: usize::MAX, notes: None, state: Mutex::default() }
    }
}

impl Effects for Kernel {
    fn before(&self, step: Step<'_>) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        match step {
            Step::Append { from, to } => (state.synced, state.appended) = (from, to),
            Step::Sync(_) => {}
            _ => state.synced = state.appended,
        }
        if state.steps == self.die_at {
            let note = format!("{} {} {step:?}", state.synced, state.appended);
            std::fs::write(self.notes.as_ref().unwrap(), note).unwrap();
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap();
            unreachable!("a killed process does not go on");
        }
        state.steps += 1;
        Ok(())
    }

    fn write(&self, file: &Path, text: &str) -> io::Result<()> {
        let invalid = || io::Error::from_raw_os_error(22);
        let set = |file: PathBuf, text: &str| std::fs::write(file, format!("{text}\n"));
        let present = std::fs::read_to_string(file)?;
        let sibling = |name: &str| file.with_file_name(name);
        let name = file.file_name().unwrap().to_str().unwrap();
        match name {
            "scheduler" => {
                let words: Vec<&str> =
                    present.split_whitespace().map(|word| word.trim_matches(['[', ']'])).collect();
                if !words.contains(&text) {
                    return Err(invalid());
                }
                let shown =
                    |word: &&str| if *word == text { format!("[{word}]") } else { (*word).to_owned() };
                set(file.to_owned(), &words.iter().map(shown).collect::<Vec<_>>().join(" "))?;
                let iosched = sibling("iosched");
                std::fs::remove_dir_all(&iosched).ok();
                let (own, requests): (&[(&str, &str)], &str) = match text {
                    "mq-deadline" => {
                        (&[("read_expire", "500"), ("front_merges", "1"), ("async_depth", "256")], "256")
                    }
                    "bfq" => (&[("slice_idle", "8")], "256"),
                    _ => (&[], "128"),
                };
                for (name, value) in own {
                    std::fs::create_dir_all(&iosched)?;
                    set(iosched.join(name), value)?;
                }
                set(sibling("wbt_lat_usec"), if text == "bfq" { "0" } else { "2000" })?;
                set(sibling("nr_requests"), requests)
            }
            "nr_requests" => {
                set(file.to_owned(), text)?;
                // mq-deadline computes it anew.
                let depth = sibling("iosched").join("async_depth");
                if depth.exists() { set(depth, text) } else { Ok(()) }
            }
            "enabled" | "defrag" => {
                let words = present.split_whitespace().map(|word| word.trim_matches(['[', ']']));
                let shown = |word: &str| if word == text { format!("[{word}]") } else { word.to_owned() };
                set(file.to_owned(), &words.map(shown).collect::<Vec<_>>().join(" "))
            }
            "dirty_bytes" | "dirty_background_bytes" => {
                if text == "0" {
                    return Err(invalid());
                }
                set(file.to_owned(), text)?;
                set(sibling(&name.replace("bytes", "ratio")), "0")
            }
            "dirty_ratio" | "dirty_background_ratio" => {
                set(file.to_owned(), text)?;
                set(sibling(&name.replace("ratio", "bytes")), "0")
            }
            "overcommit_kbytes" => {
                set(file.to_owned(), text)?;
                set(sibling("overcommit_ratio"), "0")
            }
            "overcommit_ratio" => {
                set(file.to_owned(), text)?;
                set(sibling("overcommit_kbytes"), "0")
            }
            "rps_cpus" => set(file.to_owned(), &format!("{text:0>8}")),
            "tcp_rmem" => set(file.to_owned(), &text.replace(' ', "\t")),
            // No less than this: what is asked for reads back as something else.
            "min_free_kbytes" => set(file.to_owned(), &text.parse::<u64>().unwrap().max(8_192).to_string()),
            "memory.limit_in_bytes" if text == "-1" => set(file.to_owned(), "9223372036854771712"),
            _ => set(file.to_owned(), text),
        }
    }
}
