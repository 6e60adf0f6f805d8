//! From a name to what is sent: one of sysbench's workloads, one that comes with the program, or a file.

use super::file::{BUILT_IN, File};
use super::sysbench::{self, Options, WORKLOADS};
use super::{Protocol, Workload};
use crate::error::LoadError;
use std::fmt::Write;

/// A workload and what surrounds it.
pub enum Named {
    /// One of sysbench's, on sysbench's tables.
    Sysbench(Workload),
    /// One with statements of its own for its tables.
    File(Box<File>),
}

impl Named {
    /// What stands behind the name. Of the options a file takes only that statements travel as text.
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
                let unread = |source| LoadError::UnreadWorkload { name: name.to_owned(), source };
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

/// All names with what they send.
pub fn list() -> String {
    let ours = BUILT_IN.iter().map(|(name, purpose, _)| (*name, *purpose));
    let mut text = WORKLOADS.iter().copied().chain(ours).fold(String::new(), |mut text, (name, purpose)| {
        let _ = writeln!(text, "{name:<24}{purpose}");
        text
    });
    let _ = writeln!(text, "{:<24}a workload of your own (docs/guide/load.md)", "FILE.toml");
    text
}
