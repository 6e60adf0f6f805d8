//! MySQL and MariaDB: any global variable, with the server's own description of what it takes.

use super::{Change, Danger, Family, Group, Knob, Place, Proof, Target};
use crate::value::Values;

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
    Knob {
        name: "allocator.library",
        family: Family::Server,
        target: Target::Any,
        place: Place::Action,
        values: Values::Word,
        group: Group::Alone,
        danger: Danger::No,
        change: Change::Action,
        proof: Proof::Asked,
        source: "ld.so(8), LD_PRELOAD",
        help: "The memory allocator (glibc, jemalloc, tcmalloc, mimalloc) of the server of --managed \
               (allocator.library@server), which is restarted with it; elsewhere by a program of the caller.",
    },
];
