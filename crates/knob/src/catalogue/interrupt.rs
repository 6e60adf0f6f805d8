//! Interrupts: which CPU they are handled on.

use super::{Change, Danger, Family, Group, Knob, Place, Proof, Shape, Target};
use crate::value::Values;

pub(super) const ROWS: &[Knob] = &[
    Knob {
        name: "interrupt.irqbalance",
        family: Family::Interrupt,
        target: Target::None,
        place: Place::Service("irqbalance"),
        values: Values::OneOf(&["on", "off"]),
        group: Group::Alone,
        danger: Danger::No,
        change: Change::Dynamic,
        proof: Proof::Asked,
        source: "irqbalance(1), systemctl(1)",
        help: "Whether irqbalance runs, which spreads interrupts by load. Reports disagree whether it helps: \
               measure it.",
    },
    Knob {
        name: "interrupt.affinity",
        family: Family::Interrupt,
        target: Target::Interrupt,
        place: Place::Irq,
        values: Values::SomeCpus,
        group: Group::Alone,
        danger: Danger::No,
        change: Change::Dynamic,
        proof: Proof::Interrupts,
        source: "kernel: Documentation/core-api/irq/irq-affinity.rst",
        help: "CPUs on which an interrupt is handled. With @eth0 or @nvme0n1 all interrupts of the device. \
               Drivers that manage their own interrupts refuse.",
    },
    Knob {
        name: "interrupt.default_affinity",
        family: Family::Interrupt,
        target: Target::None,
        place: Place::File("/proc/irq/default_smp_affinity", Shape::Mask),
        values: Values::SomeCpus,
        group: Group::Alone,
        danger: Danger::No,
        change: Change::NewOnly,
        proof: Proof::ReadBack,
        source: "kernel: Documentation/core-api/irq/irq-affinity.rst",
        help: "CPUs for interrupts that are set up from now on.",
    },
];
