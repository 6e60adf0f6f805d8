//! Network: how packets are spread over CPUs and how much is done at once.

use super::{Change, Danger, Family, Group, Knob, Place, Proof, Shape, Target};
use crate::value::Values;

const SYSCTL: &str = "kernel: Documentation/admin-guide/sysctl/net.rst";
const SCALING: &str = "kernel: Documentation/networking/scaling.rst";

const fn of_interface(name: &'static str, place: Place, values: Values, help: &'static str) -> Knob {
    Knob {
        name,
        family: Family::Network,
        target: Target::Interface,
        place,
        values,
        group: Group::Alone,
        danger: Danger::No,
        change: Change::Dynamic,
        proof: Proof::ReadBack,
        source: SCALING,
        help,
    }
}

const fn sysctl(name: &'static str, sysctl: &'static str, values: Values, help: &'static str) -> Knob {
    Knob {
        target: Target::None,
        place: Place::Sysctl(sysctl),
        source: SYSCTL,
        ..of_interface(name, Place::AnySysctl, values, help)
    }
}

const fn up_to(max: i64) -> Values {
    Values::Whole { min: 0, max, step: 1 }
}

pub(super) const ROWS: &[Knob] = &[
    of_interface(
        "network.rps",
        Place::File("/sys/class/net/{}/queues/rx-*/rps_cpus", Shape::Mask),
        Values::Cpus,
        "RPS: CPUs that take packets off this interface's receive queues, all queues alike. For cards with \
         fewer queues than CPUs; none switches it off.",
    ),
    of_interface(
        "network.rfs_flow_cnt",
        Place::File("/sys/class/net/{}/queues/rx-*/rps_flow_cnt", Shape::Plain),
        Values::PowerOfTwo { max: 1 << 20 },
        "RFS: flows remembered by each receive queue, so that a packet goes to the CPU where its socket is \
         read. Needs network.rps_sock_flow_entries.",
    ),
    sysctl(
        "network.rps_sock_flow_entries",
        "net.core.rps_sock_flow_entries",
        Values::PowerOfTwo { max: 1 << 26 },
        "RFS: flows remembered by the whole host; the sum of rfs_flow_cnt of all queues.",
    ),
    of_interface(
        "network.xps",
        Place::File("/sys/class/net/{}/queues/tx-*/xps_cpus", Shape::Mask),
        Values::Cpus,
        "XPS: CPUs that may send by this interface's queues, all queues alike. Only cards with several \
         queues have it.",
    ),
    Knob {
        proof: Proof::Asked,
        source: "ethtool(8), -C",
        ..of_interface(
            "network.coalesce.*",
            Place::Coalesce,
            Values::Word,
            "Interrupt coalescing: rx-usecs, rx-frames, tx-usecs, tx-frames, adaptive-rx, adaptive-tx. More \
             waits longer and interrupts less.",
        )
    },
    Knob {
        proof: Proof::Asked,
        source: "ethtool(8), -K",
        ..of_interface(
            "network.offload.*",
            Place::Offload,
            Values::OneOf(&["on", "off"]),
            "What the card does for the kernel: gro, gso, tso, lro, rx, tx, sg, rxhash, or any feature that \
             ethtool -k shows.",
        )
    },
    of_interface(
        "network.tx_queue_len",
        Place::File("/sys/class/net/{}/tx_queue_len", Shape::Plain),
        Values::Whole { min: 0, max: 1_000_000, step: 1 },
        "Packets that may wait to be sent when the interface has a queue of its own.",
    ),
    of_interface(
        "network.gro_flush_timeout",
        Place::File("/sys/class/net/{}/gro_flush_timeout", Shape::Plain),
        up_to(1_000_000_000),
        "Nanoseconds for which packets may be gathered before they are passed on.",
    ),
    of_interface(
        "network.napi_defer_hard_irqs",
        Place::File("/sys/class/net/{}/napi_defer_hard_irqs", Shape::Plain),
        up_to(i32::MAX as i64),
        "How many empty polls go by before the interface's interrupt is switched on again.",
    ),
    sysctl(
        "network.busy_poll",
        "net.core.busy_poll",
        up_to(1_000_000),
        "Microseconds for which poll and select look at the card themselves before they sleep. Costs CPU, \
         saves a wake-up.",
    ),
    sysctl(
        "network.busy_read",
        "net.core.busy_read",
        up_to(1_000_000),
        "Microseconds for which a read of a socket looks at the card itself before it sleeps.",
    ),
    sysctl(
        "network.netdev_max_backlog",
        "net.core.netdev_max_backlog",
        Values::Whole { min: 1, max: i32::MAX as i64, step: 1 },
        "Packets that may wait for a CPU after RPS or on a virtual interface; more are dropped.",
    ),
    sysctl(
        "network.netdev_budget",
        "net.core.netdev_budget",
        Values::Whole { min: 1, max: i32::MAX as i64, step: 1 },
        "Packets handled in one round of the network's soft interrupt.",
    ),
    sysctl(
        "network.netdev_budget_usecs",
        "net.core.netdev_budget_usecs",
        Values::Whole { min: 1, max: i32::MAX as i64, step: 1 },
        "Microseconds that one round of the network's soft interrupt may take.",
    ),
    sysctl(
        "network.somaxconn",
        "net.core.somaxconn",
        Values::Whole { min: 1, max: 65_535, step: 1 },
        "Connections that may wait to be accepted; the server's back_log is cut to it when it starts to \
         listen.",
    ),
];
