//! The one table of what can be changed: values, danger, when a change takes effect, how it is verified,
//! which other settings are one state with it, and where it is documented. It drives the checks, the
//! command's lists and help, the guide's table and the tests.
//!
//! One file a family below `catalogue/`. A row ends in `.*` where the kernel or the server has more names
//! than a table should (`sysctl.*`, `server.*`): such a row takes any name that is there.

mod block;
mod cgroup;
mod cpu;
mod danger;
mod interrupt;
mod memory;
mod mount;
mod network;
mod server;
mod sysctl;
mod zfs;

use crate::value::{Form, Values};
use serde::Serialize;
use std::sync::LazyLock;

pub use danger::{danger, is_by_value, one_way};
pub(crate) use server::state_of;

/// Every row, family by family. The order is also the order in which several knobs are applied: the scheduler
/// before its own settings, those before `nr_requests`, which a change of the scheduler resets.
pub static CATALOGUE: LazyLock<Vec<&'static Knob>> = LazyLock::new(|| {
    let families = [
        block::ROWS,
        interrupt::ROWS,
        network::ROWS,
        memory::ROWS,
        cpu::ROWS,
        sysctl::ROWS,
        mount::ROWS,
        cgroup::ROWS,
        zfs::ROWS,
        server::ROWS,
    ];
    families.into_iter().flatten().collect()
});

#[derive(Clone, Copy, Debug)]
pub struct Knob {
    /// `family.name`; ends in `*` where any name is taken.
    pub name: &'static str,
    pub family: Family,
    /// What stands behind `@`.
    pub target: Target,
    /// Where its value lies.
    pub place: Place,
    /// What it can be set to.
    pub values: Values,
    /// What is one state with it.
    pub group: Group,
    /// What can be lost.
    pub danger: Danger,
    /// When a change takes effect.
    pub change: Change,
    /// How a change is verified.
    pub proof: Proof,
    /// Where it is documented.
    pub source: &'static str,
    /// What it does, in plain words.
    pub help: &'static str,
}

/// What a knob belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    Block,
    Interrupt,
    Network,
    Memory,
    Cpu,
    /// Any other sysctl.
    Sysctl,
    /// Mount options and file systems.
    Mount,
    Cgroup,
    Zfs,
    /// MySQL and MariaDB.
    Server,
}

/// What stands behind `@`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// Nothing: the host has one, or the server.
    None,
    /// A whole disk, by its name or `/dev/...`.
    Disk,
    Interface,
    /// An interrupt by its number or name, or a disk or interface for all of its interrupts.
    Interrupt,
    /// An idle state: `state2`.
    IdleState,
    Mount,
    /// A cgroup, by its path below the root of its hierarchy.
    Cgroup,
    /// A cgroup and a device: `/path,vda`.
    CgroupDevice,
    /// A dataset or pool of ZFS.
    Dataset,
    /// Whatever the caller's action understands.
    Any,
}

impl Target {
    pub fn example(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Disk => "vda",
            Self::Interface => "eth0",
            Self::Interrupt => "eth0 (or an interrupt's name or number)",
            Self::IdleState => "state2",
            Self::Mount => "/var/lib/mysql",
            Self::Cgroup => "/system.slice/mariadb.service",
            Self::CgroupDevice => "/system.slice/mariadb.service,vda",
            Self::Dataset => "tank/mysql",
            Self::Any => "what the action understands",
        }
    }
}

/// How the text of a file stands for the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Plain,
    Bracket,
    /// A hexadecimal mask of CPUs.
    Mask,
}

impl Shape {
    /// The same for a file that was found.
    pub fn form(self) -> Form {
        match self {
            Self::Plain => Form::Plain,
            Self::Bracket => Form::Bracket,
            Self::Mask => Form::Mask,
        }
    }
}

/// Where a value lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A file: `{}` is the target, `*` is each that is there.
    File(&'static str, Shape),
    /// A setting of the present I/O scheduler, by the rest of the name.
    Iosched,
    /// A named file of `/proc/sys`.
    Sysctl(&'static str),
    /// Any file of `/proc/sys`, by the rest of the name.
    AnySysctl,
    /// `smp_affinity_list` of one or several interrupts.
    Irq,
    Service(&'static str),
    /// `ethtool -k`.
    Offload,
    /// `ethtool -c`.
    Coalesce,
    Mount,
    /// A limit of a cgroup, called as in v2.
    Cgroup(&'static str),
    /// A property of a dataset, by the rest of the name.
    Dataset,
    /// A property of a pool, by the rest of the name.
    Pool,
    /// A parameter of the zfs module, by the rest of the name.
    ZfsModule,
    /// A global variable, by the rest of the name.
    Variable,
    /// The caller's own action.
    Action,
}

/// What is one state with a knob, saved and put back as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    Alone,
    /// The scheduler of a disk, the scheduler's settings, `nr_requests` and `wbt_lat_usec`.
    Scheduler,
    /// Sysctls where setting one changes another: `dirty_bytes` and `dirty_ratio`. Those that are not zero
    /// are put back first: writing one sets its twin to zero, and most kernels refuse to be told zero.
    Twins(&'static str, &'static [&'static str]),
    Files(&'static str, &'static [(&'static str, Shape)]),
}

/// What can be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Danger {
    /// Nothing but time.
    No,
    /// Whatever the value.
    Always(&'static str),
    /// Unless it is one of these values.
    Except(&'static [&'static str], &'static str),
    /// It depends on the rest of the name or on the options; see [`danger()`].
    ByName,
}

/// When a change takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    Dynamic,
    /// By a remount, while in use.
    Remount,
    /// At once, or after a restart: the server says which.
    DynamicOrRestart,
    /// For what is made afterwards (blocks written, connections opened).
    NewOnly,
    /// By the caller's action.
    Action,
}

impl Change {
    pub fn words(self) -> &'static str {
        match self {
            Self::Dynamic => "dynamic",
            Self::Remount => "remount",
            Self::DynamicOrRestart => "dynamic or restart",
            Self::NewOnly => "dynamic, for what is new",
            Self::Action => "the caller's action",
        }
    }
}

/// How a change is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Proof {
    /// It is read again from where it was written.
    ReadBack,
    /// It is read again, and `/proc/interrupts` must count on the right CPUs only.
    Interrupts,
    /// Asked again through the program or the server that was told.
    Asked,
}

impl Proof {
    pub fn words(self) -> &'static str {
        match self {
            Self::ReadBack => "read back",
            Self::Interrupts => "read back, and the deltas of /proc/interrupts",
            Self::Asked => "asked again",
        }
    }
}

/// Whether a setting lasts over a reboot of the host (or a restart of the server).
pub fn lasts(place: &Place) -> bool {
    matches!(place, Place::Dataset | Place::Pool | Place::Action)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_row_is_complete_and_named_after_its_family() {
        let mut names = BTreeSet::new();
        for knob in CATALOGUE.iter() {
            assert!(names.insert(knob.name), "{} stands twice", knob.name);
            assert!(knob.help.len() > 20 && knob.help.ends_with('.'), "{}: {}", knob.name, knob.help);
            assert!(!knob.source.is_empty(), "{}", knob.name);
            assert!(knob.name.contains('.'), "{}", knob.name);
            let wants_target = match &knob.place {
                Place::File(path, _) => path.contains("{}"),
                Place::Sysctl(_)
                | Place::AnySysctl
                | Place::Service(_)
                | Place::Variable
                | Place::ZfsModule => false,
                _ => true,
            };
            assert_eq!(wants_target, knob.target != Target::None, "{}", knob.name);
        }
        assert!(names.len() > 60, "{}", names.len());
    }

    #[test]
    fn the_scheduler_comes_before_what_a_change_of_it_resets() {
        let at = |name: &str| CATALOGUE.iter().position(|knob| knob.name == name).unwrap();
        assert!(at("block.scheduler") < at("block.nr_requests"));
        // It resets async_depth of mq-deadline.
        assert!(at("block.nr_requests") < at("block.iosched.*"));
    }
}
