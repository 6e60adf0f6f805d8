//! Mounts, and what a caller makes anew.

use super::{Change, Danger, Family, Group, Knob, Place, Proof, Target};
use crate::value::Values;

pub(super) const ROWS: &[Knob] = &[
    Knob {
        name: "mount.options",
        family: Family::Mount,
        target: Target::Mount,
        place: Place::Mount,
        values: Values::MountOptions,
        group: Group::Alone,
        danger: Danger::ByName,
        change: Change::Remount,
        proof: Proof::ReadBack,
        source: "mount(8), ext4(5), xfs(5), btrfs(5)",
        help: "Options of a mounted file system, changed by a remount: noatime, commit=30, discard. Only \
               those are named that shall change; the others stay.",
    },
    Knob {
        name: "file_system.type",
        family: Family::Mount,
        target: Target::Any,
        place: Place::Action,
        values: Values::Word,
        group: Group::Alone,
        danger: Danger::Always("a file system is made anew, which erases what was on the device"),
        change: Change::Action,
        proof: Proof::Asked,
        source: "mkfs(8)",
        help: "The type of a file system (ext4, xfs, btrfs, zfs), made anew by the caller's program on a \
               device that is empty.",
    },
];
