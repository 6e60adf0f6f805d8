//! Memory: huge pages, write-back of dirty pages, swapping, NUMA.

use super::{Change, Danger, Family, Group, Knob, Place, Proof, Shape, Target};
use crate::value::Values;

const SYSCTL: &str = "kernel: Documentation/admin-guide/sysctl/vm.rst";
const THP: &str = "kernel: Documentation/admin-guide/mm/transhuge.rst";

/// The foreground pair and the background pair: setting one of a pair sets the other to zero.
const DIRTY: Group = Group::Twins(
    "vm.dirty",
    &["vm.dirty_ratio", "vm.dirty_bytes", "vm.dirty_background_ratio", "vm.dirty_background_bytes"],
);
const OVERCOMMIT: Group =
    Group::Twins("vm.overcommit", &["vm.overcommit_memory", "vm.overcommit_ratio", "vm.overcommit_kbytes"]);
const HUGE: Group = Group::Files(
    "transparent_hugepage",
    &[
        ("/sys/kernel/mm/transparent_hugepage/enabled", Shape::Bracket),
        ("/sys/kernel/mm/transparent_hugepage/defrag", Shape::Bracket),
    ],
);

const fn sysctl(name: &'static str, sysctl: &'static str, values: Values, help: &'static str) -> Knob {
    Knob {
        name,
        family: Family::Memory,
        target: Target::None,
        place: Place::Sysctl(sysctl),
        values,
        group: Group::Alone,
        danger: Danger::No,
        change: Change::Dynamic,
        proof: Proof::ReadBack,
        source: SYSCTL,
        help,
    }
}

const fn whole(min: i64, max: i64) -> Values {
    Values::Whole { min, max, step: 1 }
}

pub(super) const ROWS: &[Knob] = &[
    Knob {
        place: Place::File("/sys/kernel/mm/transparent_hugepage/enabled", Shape::Bracket),
        group: HUGE,
        source: THP,
        ..sysctl(
            "memory.thp",
            "",
            Values::Offered,
            "Transparent huge pages: always, madvise or never. always can stall a server while pages are put \
             together, and with jemalloc grow it.",
        )
    },
    Knob {
        place: Place::File("/sys/kernel/mm/transparent_hugepage/defrag", Shape::Bracket),
        group: HUGE,
        source: THP,
        ..sysctl(
            "memory.thp_defrag",
            "",
            Values::Offered,
            "How hard the kernel tries to get a huge page when one is asked for; always makes the asking \
             thread wait.",
        )
    },
    sysctl(
        "memory.swappiness",
        "vm.swappiness",
        whole(0, 200),
        "How readily anonymous memory is swapped out in favour of page cache. 1 keeps a server's buffer pool \
         in memory.",
    ),
    Knob {
        group: DIRTY,
        ..sysctl(
            "memory.dirty_ratio",
            "vm.dirty_ratio",
            whole(0, 100),
            "Share of memory, in per cent, that may be dirty before a writer must write back itself. Sets \
             dirty_bytes to zero.",
        )
    },
    Knob {
        group: DIRTY,
        ..sysctl(
            "memory.dirty_bytes",
            "vm.dirty_bytes",
            whole(8_192, i64::MAX),
            "Bytes that may be dirty before a writer must write back itself; sets dirty_ratio to zero. \
             Least: two pages.",
        )
    },
    Knob {
        group: DIRTY,
        ..sysctl(
            "memory.dirty_background_ratio",
            "vm.dirty_background_ratio",
            whole(0, 100),
            "Share of memory, in per cent, that may be dirty before the kernel begins to write back. Sets \
             dirty_background_bytes to zero.",
        )
    },
    Knob {
        group: DIRTY,
        ..sysctl(
            "memory.dirty_background_bytes",
            "vm.dirty_background_bytes",
            whole(1, i64::MAX),
            "Bytes that may be dirty before the kernel begins to write back; sets dirty_background_ratio to \
             zero.",
        )
    },
    sysctl(
        "memory.dirty_expire_centisecs",
        "vm.dirty_expire_centisecs",
        whole(0, i32::MAX as i64),
        "Hundredths of a second after which a dirty page is old enough to be written back.",
    ),
    sysctl(
        "memory.dirty_writeback_centisecs",
        "vm.dirty_writeback_centisecs",
        whole(0, i32::MAX as i64),
        "Hundredths of a second between two rounds of write-back.",
    ),
    Knob {
        group: OVERCOMMIT,
        danger: Danger::Except(
            &["0", "1"],
            "with 2 allocations beyond the limit fail, in every process of the host, which can end the server",
        ),
        ..sysctl(
            "memory.overcommit_memory",
            "vm.overcommit_memory",
            Values::OneOf(&["0", "1", "2"]),
            "Whether more memory may be promised than there is: 0 within reason, 1 always, 2 never.",
        )
    },
    Knob {
        group: OVERCOMMIT,
        ..sysctl(
            "memory.overcommit_ratio",
            "vm.overcommit_ratio",
            whole(0, 1_000),
            "Per cent of memory that may be promised where overcommit_memory is 2. Sets overcommit_kbytes to \
             zero.",
        )
    },
    Knob {
        group: OVERCOMMIT,
        ..sysctl(
            "memory.overcommit_kbytes",
            "vm.overcommit_kbytes",
            whole(0, i64::MAX),
            "KiB beside swap that may be promised where overcommit_memory is 2. Sets overcommit_ratio to zero.",
        )
    },
    sysctl(
        "memory.nr_hugepages",
        "vm.nr_hugepages",
        whole(0, 1 << 30),
        "Huge pages set aside for servers with large_pages. A host whose memory is in pieces gives fewer, \
         which counts as refused.",
    ),
    sysctl(
        "memory.numa_balancing",
        "kernel.numa_balancing",
        Values::OneOf(&["0", "1", "2"]),
        "Whether the kernel moves memory to the CPUs that use it. It takes page faults to find out.",
    ),
    sysctl(
        "memory.zone_reclaim_mode",
        "vm.zone_reclaim_mode",
        whole(0, 7),
        "Whether memory of the own NUMA node is reclaimed before that of another is used. Not 0 hurts \
         databases.",
    ),
    sysctl(
        "memory.min_free_kbytes",
        "vm.min_free_kbytes",
        whole(1_024, 8 << 20),
        "Memory that the kernel keeps free for what cannot wait.",
    ),
    sysctl(
        "memory.vfs_cache_pressure",
        "vm.vfs_cache_pressure",
        whole(0, 10_000),
        "How readily names and inodes are given up in favour of pages.",
    ),
    sysctl(
        "memory.max_map_count",
        "vm.max_map_count",
        whole(1_024, i32::MAX as i64),
        "Memory areas that a process may have; jemalloc and many partitions need more.",
    ),
];
