//! Block devices: the request queue below the file system.

use super::{Change, Danger, Family, Group, Knob, Place, Proof, Shape, Target};
use crate::value::Values;

const SOURCE: &str = "kernel: Documentation/ABI/stable/sysfs-block";

const fn row(name: &'static str, file: &'static str, values: Values, help: &'static str) -> Knob {
    Knob {
        name,
        family: Family::Block,
        target: Target::Disk,
        place: Place::File(file, Shape::Plain),
        values,
        group: Group::Alone,
        danger: Danger::No,
        change: Change::Dynamic,
        proof: Proof::ReadBack,
        source: SOURCE,
        help,
    }
}

pub(super) const ROWS: &[Knob] = &[
    Knob {
        place: Place::File("/sys/block/{}/queue/scheduler", Shape::Bracket),
        group: Group::Scheduler,
        source: "kernel: Documentation/block/switching-sched.rst",
        ..row(
            "block.scheduler",
            "",
            Values::Offered,
            "I/O scheduler. none adds nothing to a fast NVMe or virtual disk; mq-deadline bounds how long a \
             read waits behind writes; bfq shares by process.",
        )
    },
    Knob {
        group: Group::Scheduler,
        ..row(
            "block.nr_requests",
            "/sys/block/{}/queue/nr_requests",
            Values::Whole { min: 4, max: 65_536, step: 1 },
            "Requests that may wait in the queue, reads and writes each. A change of the scheduler resets it; it \
             resets async_depth of mq-deadline.",
        )
    },
    Knob {
        place: Place::Iosched,
        group: Group::Scheduler,
        source: "kernel: Documentation/block/deadline-iosched.rst, bfq-iosched.rst, kyber-iosched.rst",
        ..row(
            "block.iosched.*",
            "",
            Values::LikeNow,
            "A setting of the present scheduler, such as read_expire of mq-deadline or slice_idle of bfq. It \
             disappears when the scheduler changes.",
        )
    },
    Knob {
        group: Group::Scheduler,
        ..row(
            "block.wbt_lat_usec",
            "/sys/block/{}/queue/wbt_lat_usec",
            Values::Whole { min: 0, max: 10_000_000, step: 1 },
            "Write-back throttling: buffered writes are held back when reads take longer than this. 0 \
             switches it off; bfq does so too.",
        )
    },
    row(
        "block.rq_affinity",
        "/sys/block/{}/queue/rq_affinity",
        Values::OneOf(&["0", "1", "2"]),
        "Where a request is completed: 0 wherever the interrupt came, 1 in the group of CPUs that sent it, 2 \
         on the very CPU that sent it.",
    ),
    row(
        "block.nomerges",
        "/sys/block/{}/queue/nomerges",
        Values::OneOf(&["0", "1", "2"]),
        "Merging of neighbouring requests: 0 all, 1 only the simple ones, 2 none, which saves CPU when the \
         load is random.",
    ),
    row(
        "block.read_ahead_kb",
        "/sys/block/{}/queue/read_ahead_kb",
        Values::Whole { min: 0, max: 1 << 20, step: 4 },
        "How far ahead buffered sequential reads are fetched. InnoDB with O_DIRECT does not use it; MyISAM, \
         Aria, backups and binary logs do.",
    ),
    row(
        "block.max_sectors_kb",
        "/sys/block/{}/queue/max_sectors_kb",
        Values::Whole { min: 4, max: 1 << 20, step: 4 },
        "The largest request that the file system may send; bounded by the device.",
    ),
    row(
        "block.io_poll_delay",
        "/sys/block/{}/queue/io_poll_delay",
        Values::Whole { min: -1, max: 1_000_000, step: 1 },
        "How completion is polled for polled I/O: -1 busily, 0 hybrid, above it a fixed delay. Newer kernels \
         ignore it, which shows in the read-back.",
    ),
    row(
        "block.iostats",
        "/sys/block/{}/queue/iostats",
        Values::OneOf(&["0", "1"]),
        "Counting of requests for iostat and the verdicts of headroom. Without it disk evidence is blind.",
    ),
    row(
        "block.add_random",
        "/sys/block/{}/queue/add_random",
        Values::OneOf(&["0", "1"]),
        "Whether the disk's timing feeds the kernel's random numbers; costs a little CPU a request.",
    ),
    Knob {
        danger: Danger::Except(
            &["write back"],
            "with 'write through' the kernel sends no flush any more: after a power loss committed \
             transactions can be lost and pages torn, unless the device's cache is protected",
        ),
        ..row(
            "block.write_cache",
            "/sys/block/{}/queue/write_cache",
            Values::OneOf(&["write back", "write through"]),
            "What the kernel believes of the device's cache. 'write through' means that flushes are not \
             needed, whether that is true or not.",
        )
    },
];
