//! Open files: each connection is one, and shells give 1024.

use crate::LoadError;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files beside the connections: the history, epoll instances, what comes from the shell.
const SPARE: u64 = 100;

/// Raises this process's limit so that this number of connections can be opened.
///
/// # Errors
/// More are needed than this process may ever open.
pub fn allow_files(connections: u64) -> Result<(), LoadError> {
    let needed = connections + SPARE;
    let limit = getrlimit(Resource::Nofile);
    let refused = |most| LoadError::Files { connections, needed, most };
    if let Some(most) = limit.maximum.filter(|most| *most < needed) {
        return Err(refused(most));
    }
    let current = limit.current.map(|current| current.max(needed));
    let raised = setrlimit(Resource::Nofile, Rlimit { current, ..limit });
    raised.map_err(|_| refused(limit.current.unwrap_or(needed)))
}
