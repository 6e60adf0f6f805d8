//! The semi-sync switches of a server, by the names that it has.
//!
//! MySQL renamed them in 8.0.26, and a server has those of the plugins that are installed: the older ones,
//! the newer ones, one role only, or none. MariaDB has the older names, built in.

use crate::facts::Facts;
use fleet::Version;
use serde::{Deserialize, Serialize};

/// One of the four names that there are: what stands in a plan is no text that goes into a statement as it
/// is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Name {
    #[serde(rename = "rpl_semi_sync_master_enabled")]
    Master,
    #[serde(rename = "rpl_semi_sync_source_enabled")]
    Source,
    #[serde(rename = "rpl_semi_sync_slave_enabled")]
    Slave,
    #[serde(rename = "rpl_semi_sync_replica_enabled")]
    Replica,
}

/// A switch that a server has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switch {
    pub name: Name,
    /// How it stood when the plan was made: what undoing goes back to.
    pub on: bool,
}

/// Both roles; `None` where the plugin of that role is not installed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switches {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Switch>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica: Option<Switch>,
}

impl Switches {
    /// The switches among a server's variables.
    pub fn of(facts: &Facts) -> Self {
        let first = |names: [Name; 2]| {
            names.into_iter().find_map(|name| Some(Switch { name, on: facts.is_on(&[name.variable()])? }))
        };
        Self { source: first([Name::Master, Name::Source]), replica: first([Name::Slave, Name::Replica]) }
    }
}

impl Switch {
    /// The statement that sets it.
    pub(crate) fn set(self, on: bool) -> String {
        format!("SET GLOBAL {} = {}", self.name.variable(), if on { "ON" } else { "OFF" })
    }
}

impl Name {
    pub(crate) fn variable(self) -> &'static str {
        match self {
            Self::Master => "rpl_semi_sync_master_enabled",
            Self::Source => "rpl_semi_sync_source_enabled",
            Self::Slave => "rpl_semi_sync_slave_enabled",
            Self::Replica => "rpl_semi_sync_replica_enabled",
        }
    }
}

/// The replicas that must acknowledge what a server commits as a source. MariaDB has no such variable: one is
/// enough there.
pub(crate) fn needed(facts: &Facts) -> usize {
    const NAMES: [&str; 2] =
        ["rpl_semi_sync_master_wait_for_slave_count", "rpl_semi_sync_source_wait_for_replica_count"];
    facts.variable(&NAMES).and_then(|count| count.parse().ok()).unwrap_or(1)
}

/// What makes a server able to be a source and a replica of semi-sync.
pub(crate) fn install(version: Version) -> [&'static str; 2] {
    if version.mysql_from((8, 0, 26)) {
        [
            "INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'",
            "INSTALL PLUGIN rpl_semi_sync_replica SONAME 'semisync_replica.so'",
        ]
    } else {
        [
            "INSTALL PLUGIN rpl_semi_sync_master SONAME 'semisync_master.so'",
            "INSTALL PLUGIN rpl_semi_sync_slave SONAME 'semisync_slave.so'",
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_is_set_by_the_name_that_the_server_has() {
        let mut facts = crate::facts::tests::facts("a1", "8.0.36");
        assert_eq!(Switches::of(&facts), Switches::default());
        facts.variables.insert("rpl_semi_sync_master_enabled".to_owned(), "ON".to_owned());
        let found = Switches::of(&facts);
        assert_eq!(found.source, Some(Switch { name: Name::Master, on: true }));
        assert_eq!(found.replica, None, "only one plugin is installed");
        assert_eq!(found.source.unwrap().set(false), "SET GLOBAL rpl_semi_sync_master_enabled = OFF");
        facts.variables.clear();
        facts.variables.insert("rpl_semi_sync_replica_enabled".to_owned(), "OFF".to_owned());
        assert_eq!(Switches::of(&facts).replica, Some(Switch { name: Name::Replica, on: false }));
        assert_eq!(needed(&facts), 1);
        facts.variables.insert("rpl_semi_sync_source_wait_for_replica_count".to_owned(), "2".to_owned());
        assert_eq!(needed(&facts), 2);
    }

    #[test]
    fn a_plan_names_a_switch_as_the_server_does() {
        for name in [Name::Master, Name::Source, Name::Slave, Name::Replica] {
            assert_eq!(serde_json::to_string(&name).unwrap(), format!("\"{}\"", name.variable()));
        }
    }
}
