//! Limits of a cgroup, by their names in v2; where only v1 is there, its files of the same meaning.

use super::{Change, Danger, Family, Group, Knob, Place, Proof, Target};
use crate::value::Values;

const fn row(name: &'static str, limit: &'static str, values: Values, help: &'static str) -> Knob {
    Knob {
        name,
        family: Family::Cgroup,
        target: Target::Cgroup,
        place: Place::Cgroup(limit),
        values,
        group: Group::Alone,
        danger: Danger::No,
        change: Change::Dynamic,
        proof: Proof::ReadBack,
        source: "kernel: Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/",
        help,
    }
}

pub(super) const ROWS: &[Knob] = &[
    row(
        "cgroup.cpu.max",
        "cpu.max",
        Values::CpuMax,
        "CPU time of a cgroup: 1.5 is one and a half CPUs, max is no limit. In v1 it is cpu.cfs_quota_us and \
         cpu.cfs_period_us.",
    ),
    Knob {
        danger: Danger::Except(
            &["max"],
            "processes beyond the limit are killed when nothing can be reclaimed",
        ),
        ..row(
            "cgroup.memory.max",
            "memory.max",
            Values::Limit,
            "Memory of a cgroup beyond which its processes are killed. In v1 it is memory.limit_in_bytes.",
        )
    },
    row(
        "cgroup.memory.high",
        "memory.high",
        Values::Limit,
        "Memory of a cgroup beyond which its processes are slowed down. v1 has nothing of this meaning.",
    ),
    Knob {
        target: Target::CgroupDevice,
        ..row(
            "cgroup.io.max",
            "io.max",
            Values::IoMax,
            "Bytes and requests a second of a cgroup on one device: rbps=100M wiops=2000; what is not named \
             has no limit. In v1 it is blkio.throttle.",
        )
    },
];
