//! CPUs: frequency, idle states, the scheduler.

use super::{Change, Danger, Family, Group, Knob, Place, Proof, Shape, Target};
use crate::value::Values;

const fn row(
    name: &'static str,
    place: Place,
    values: Values,
    source: &'static str,
    help: &'static str,
) -> Knob {
    Knob {
        name,
        family: Family::Cpu,
        target: Target::None,
        place,
        values,
        group: Group::Alone,
        danger: Danger::No,
        change: Change::Dynamic,
        proof: Proof::ReadBack,
        source,
        help,
    }
}

/// A time of the scheduler in debugfs, in ns, at least `min`.
const fn scheduler(name: &'static str, file: &'static str, min: i64, help: &'static str) -> Knob {
    let values = Values::Whole { min, max: 1_000_000_000, step: 1 };
    row(name, Place::File(file, Shape::Plain), values, SCHEDULER, help)
}

const FREQUENCY: &str = "kernel: Documentation/admin-guide/pm/cpufreq.rst";
const SCHEDULER: &str = "kernel: Documentation/scheduler/sched-debug.rst";
const KERNEL: &str = "kernel: Documentation/admin-guide/sysctl/kernel.rst";

pub(super) const ROWS: &[Knob] = &[
    row(
        "cpu.governor",
        Place::File("/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor", Shape::Plain),
        Values::OfferedBy("/sys/devices/system/cpu/cpu0/cpufreq/scaling_available_governors"),
        FREQUENCY,
        "How the clock follows the load, on all CPUs. performance keeps it high.",
    ),
    row(
        "cpu.energy_performance_preference",
        Place::File("/sys/devices/system/cpu/cpu*/cpufreq/energy_performance_preference", Shape::Plain),
        Values::OfferedBy("/sys/devices/system/cpu/cpu0/cpufreq/energy_performance_available_preferences"),
        "kernel: Documentation/admin-guide/pm/intel_pstate.rst",
        "What the processor itself prefers where it chooses its clock.",
    ),
    row(
        "cpu.no_turbo",
        Place::File("/sys/devices/system/cpu/intel_pstate/no_turbo", Shape::Plain),
        Values::OneOf(&["0", "1"]),
        "kernel: Documentation/admin-guide/pm/intel_pstate.rst",
        "1 forbids clocks above the nominal one: slower, and steadier to measure.",
    ),
    Knob {
        target: Target::IdleState,
        ..row(
            "cpu.idle_state_disable",
            Place::File("/sys/devices/system/cpu/cpu*/cpuidle/{}/disable", Shape::Plain),
            Values::OneOf(&["0", "1"]),
            "kernel: Documentation/admin-guide/pm/cpuidle.rst",
            "1 forbids an idle state, on all CPUs. Deep states save power and take long to wake from.",
        )
    },
    row(
        "cpu.sched_autogroup",
        Place::Sysctl("kernel.sched_autogroup_enabled"),
        Values::OneOf(&["0", "1"]),
        KERNEL,
        "Whether processes of one terminal share CPU time as a group. Servers started by systemd are not \
         concerned.",
    ),
    row(
        "cpu.sched_rt_runtime_us",
        Place::Sysctl("kernel.sched_rt_runtime_us"),
        Values::Whole { min: -1, max: 1_000_000, step: 1 },
        "kernel: Documentation/scheduler/sched-rt-group.rst",
        "Microseconds of each second that real-time threads may take; -1 is all.",
    ),
    scheduler(
        "cpu.sched_base_slice_ns",
        "/sys/kernel/debug/sched/base_slice_ns",
        100_000,
        "How long a thread runs before another one gets its turn. Needs debugfs.",
    ),
    scheduler(
        "cpu.sched_min_granularity_ns",
        "/sys/kernel/debug/sched/min_granularity_ns",
        100_000,
        "The least that a thread runs before another one gets its turn; Linux 5.13 to 6.5. Needs debugfs.",
    ),
    scheduler(
        "cpu.sched_latency_ns",
        "/sys/kernel/debug/sched/latency_ns",
        100_000,
        "The time in which each of a few threads gets its turn once; Linux 5.13 to 6.5. Needs debugfs.",
    ),
    scheduler(
        "cpu.sched_wakeup_granularity_ns",
        "/sys/kernel/debug/sched/wakeup_granularity_ns",
        0,
        "How far behind a thread that wakes must be to take a CPU from another; Linux 5.13 to 6.5. Needs \
         debugfs.",
    ),
    scheduler(
        "cpu.sched_migration_cost_ns",
        "/sys/kernel/debug/sched/migration_cost_ns",
        0,
        "How long a thread counts as warm on its CPU and is not moved. Needs debugfs.",
    ),
];
