//! From a name to what is sent: one of sysbench's workloads, one that comes with the program, or a file.

use super::file::{BUILT_IN, File};
use super::sysbench::{self, Options, WORKLOADS};
use super::{Protocol, Workload};
use crate::error::LoadError;
use serde::Serialize;
use std::fmt::Write;

/// A workload and what surrounds it.
pub enum Named {
    /// One of sysbench's, on sysbench's tables.
    Sysbench(Workload),
    /// One with statements of its own for its tables.
    File(Box<File>),
}

impl Named {
    /// What stands behind the name. Of the options a file takes only that statements travel as text;
    /// whoever lets somebody choose more refuses it.
    ///
    /// # Errors
    /// A file that cannot be read or is wrong, or a name that means nothing.
    pub fn find(name: &str, options: &Options) -> Result<Self, LoadError> {
        if let Some(workload) = sysbench::workload(name, options) {
            return Ok(Self::Sysbench(workload));
        }
        let file = match File::built_in(name) {
            Some(file) => file,
            None if name.ends_with(".toml") => {
                let text = std::fs::read_to_string(name);
                let unread = |error| LoadError::UnreadWorkload { name: name.to_owned(), error };
                File::parse(&text.map_err(unread)?, name)?
            }
            None => return Err(LoadError::UnknownWorkload { name: name.to_owned() }),
        };
        let as_text = options.protocol == Protocol::Text;
        Ok(Self::File(Box::new(if as_text { file.with_protocol(Protocol::Text) } else { file })))
    }

    /// What is sent.
    pub fn workload(self) -> Workload {
        match self {
            Self::Sysbench(workload) => workload,
            Self::File(file) => file.workload,
        }
    }
}

/// A workload that has a name, as `headroom load list --json` prints it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct WorkloadView {
    pub name: &'static str,
    /// What is sent, for people.
    pub sends: &'static str,
    /// Whose tables it takes.
    pub tables: TablesOf,
}

/// Whose tables a workload takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TablesOf {
    /// Those that sysbench prepares too.
    Sysbench,
    /// Its own.
    Own,
}

/// Every name.
pub fn all() -> Vec<WorkloadView> {
    let of = |tables| move |(name, sends)| WorkloadView { name, sends, tables };
    let ours = BUILT_IN.iter().map(|(name, sends, _)| (*name, *sends)).map(of(TablesOf::Own));
    WORKLOADS.iter().copied().map(of(TablesOf::Sysbench)).chain(ours).collect()
}

/// All names with what they send, for people.
pub fn list() -> String {
    let mut text = String::new();
    for WorkloadView { name, sends, .. } in all() {
        let _ = writeln!(text, "{name:<24}{sends}");
    }
    let _ = writeln!(text, "{:<24}a workload of your own (docs/guide/load.md)", "FILE.toml");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_of_the_list_is_found_with_the_tables_that_it_says() {
        for WorkloadView { name, tables, .. } in all() {
            let found = match Named::find(name, &Options::default()).unwrap() {
                Named::Sysbench(_) => TablesOf::Sysbench,
                Named::File(_) => TablesOf::Own,
            };
            assert_eq!(tables, found, "{name}");
            assert!(list().contains(name), "{name}");
        }
    }
}
