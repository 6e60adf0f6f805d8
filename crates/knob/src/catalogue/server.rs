//! MySQL and MariaDB: any global variable, with the server's own description of what it takes.

use super::{Change, Danger, Family, Group, Knob, Place, Proof, Target};
use crate::value::Values;

/// Variables that a server changes with each other: saved, compared and put back as one state, in this order:
/// each write may change those behind it, never those before it.
const STATES: &[&[&str]] = &[
    // On switches read_only on; read_only off switches it off (MySQL).
    &["super_read_only", "read_only"],
    // Lowered, the most lowers the other. Above it, the other raises it (MariaDB) or is cut (MySQL).
    &["innodb_io_capacity_max", "innodb_io_capacity"],
    &["innodb_max_dirty_pages_pct", "innodb_max_dirty_pages_pct_lwm"],
];

/// The variables that are one state with this one, itself included.
pub(crate) fn state_of(variable: &str) -> Option<&'static [&'static str]> {
    STATES.iter().find(|state| state.contains(&variable)).copied()
}

pub(super) const ROWS: &[Knob] = &[
    Knob {
        name: "server.*",
        family: Family::Server,
        target: Target::None,
        place: Place::Variable,
        values: Values::Server,
        group: Group::Alone,
        danger: Danger::ByName,
        change: Change::DynamicOrRestart,
        proof: Proof::Asked,
        source: "MySQL Reference Manual, Server System Variables; MariaDB Knowledge Base, Server System \
                 Variables",
        help: "Any global variable of the server named by --server, set by SET GLOBAL and read back by \
               SELECT @@GLOBAL. One that needs a restart is refused unless --managed or --restart-with says how.",
    },
    of_start(
        "allocator.library",
        "ld.so(8), LD_PRELOAD",
        "The memory allocator (glibc, jemalloc, tcmalloc, mimalloc) of the server of --managed \
         (allocator.library@server), which is restarted with it; elsewhere by a program of the caller.",
    ),
    of_start(
        "numa.policy",
        "numactl(8), numa(7)",
        "On which NUMA nodes the memory of the server of --managed lies (numa.policy@server): default, \
         interleave, interleave:0-1, bind:0, preferred:0. It is restarted with $NUMACTL before its \
         program; elsewhere by a program of the caller.",
    ),
];

/// What a server is started with: it takes a restart.
const fn of_start(name: &'static str, source: &'static str, help: &'static str) -> Knob {
    Knob {
        name,
        family: Family::Server,
        target: Target::Any,
        place: Place::Action,
        values: Values::Word,
        group: Group::Alone,
        danger: Danger::No,
        change: Change::Action,
        proof: Proof::Asked,
        source,
        help,
    }
}
