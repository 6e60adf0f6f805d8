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
        danger: Danger::Except(
            &[crate::managed::AS_IT_IS],
            "a file system is made anew: what a program's device held is erased, and what a managed server \
             writes while it is in force is lost",
        ),
        change: Change::Action,
        proof: Proof::Asked,
        source: "mkfs(8), zpool-create(8)",
        help: "The file system below the data: file_system.type@server='xfs noatime,logbsize=256k' makes one on \
               an image or an empty device, with a copy of the data, and mounts it over the data directory of \
               the server of --managed; as-it-is takes it away. 'zfs recordsize=16k,ashift=12' makes a pool of \
               OpenZFS with these properties. Elsewhere by a program of the caller.",
    },
];
