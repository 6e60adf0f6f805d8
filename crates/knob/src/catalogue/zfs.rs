//! OpenZFS: properties of datasets and pools, parameters of its module. Tried against a recorded `zfs` and
//! `zpool` only.

use super::{Change, Danger, Family, Group, Knob, Place, Proof, Target};
use crate::value::Values;

const fn row(
    name: &'static str,
    target: Target,
    place: Place,
    source: &'static str,
    help: &'static str,
) -> Knob {
    Knob {
        name,
        family: Family::Zfs,
        target,
        place,
        values: Values::Word,
        group: Group::Alone,
        danger: Danger::ByName,
        change: Change::NewOnly,
        proof: Proof::Asked,
        source,
        help,
    }
}

pub(super) const ROWS: &[Knob] = &[
    row(
        "zfs.*",
        Target::Dataset,
        Place::Dataset,
        "zfsprops(7)",
        "A property of a dataset: recordsize, compression, logbias, primarycache, atime. Blocks that are \
         there keep the recordsize and compression they were written with. Tested against recorded output of \
         zfs, not against a pool.",
    ),
    row(
        "zpool.*",
        Target::Dataset,
        Place::Pool,
        "zpoolprops(7)",
        "A property of a pool: autoreplace, autotrim. ashift counts only for disks that are added afterwards. \
         Tested against recorded output of zpool, not against a pool.",
    ),
    Knob {
        change: Change::Dynamic,
        proof: Proof::ReadBack,
        ..row(
            "zfs_module.*",
            Target::None,
            Place::ZfsModule,
            "zfs(4)",
            "A parameter of the zfs module, such as zfs_prefetch_disable, zfs_arc_max or zfs_txg_timeout.",
        )
    },
];
