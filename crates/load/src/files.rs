//! Open files: each connection is one, and shells give 1024.

use crate::LoadError;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files beside the connections: the history, epoll instances, what comes from the shell.
const SPARE: u64 = 100;

/// Raises this process's limit so that this number of connections can be opened.
///
/// # Errors
/// More are needed than this process may ever open.
pub(crate) fn allow_files(connections: u64) -> Result<(), LoadError> {
    let needed = connections.saturating_add(SPARE);
    let limit = getrlimit(Resource::Nofile);
    let refused = |most| LoadError::Files { connections, needed, most };
    if let Some(most) = limit.maximum.filter(|most| *most < needed) {
        return Err(refused(most));
    }
    let current = limit.current.map(|current| current.max(needed));
    let raised = setrlimit(Resource::Nofile, Rlimit { current, ..limit });
    raised.map_err(|_| refused(limit.current.unwrap_or(needed)))
}

/// Raises it as far as it may be, up to this number of connections: how many of them will be open at a time
/// is not known.
pub(crate) fn allow_most_files(connections: u64) {
    let limit = getrlimit(Resource::Nofile);
    let wanted = connections.saturating_add(SPARE).min(limit.maximum.unwrap_or(u64::MAX));
    let current = limit.current.map(|current| current.max(wanted));
    // What cannot be opened is counted as lost, with the reason.
    let _ = setrlimit(Resource::Nofile, Rlimit { current, ..limit });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_as_far_as_it_may_be_and_what_is_beyond_is_refused_or_left() {
        let before = getrlimit(Resource::Nofile);
        allow_most_files(u64::MAX);
        let after = getrlimit(Resource::Nofile);
        assert_eq!(after.maximum, before.maximum);
        if let Some(most) = before.maximum {
            assert_eq!(after.current, Some(most));
            assert!(matches!(allow_files(most), Err(LoadError::Files { most: found, .. }) if found == most));
        }
        allow_files(1).unwrap();
        assert_eq!(getrlimit(Resource::Nofile), after, "it is never lowered");
    }
}
