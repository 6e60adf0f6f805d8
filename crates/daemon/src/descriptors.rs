//! File descriptors: as many as the system allows, because each session takes two, and said where they are
//! too few.

use config::Config;

/// Two descriptors a session: the soft limit that shells give is far below what the listeners allow.
pub fn raise_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let before = getrlimit(Resource::Nofile);
    // Where even this is forbidden, what there is has to do: what it is enough for is told.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: before.maximum, maximum: before.maximum });
}

/// Says how many sessions the limit of file descriptors is enough for.
pub fn tell_room(config: &Config, room: Option<usize>) {
    let Some(room) = room else { return };
    let wanted = config.listeners.iter().fold(0usize, |sum, l| sum.saturating_add(l.max_sessions));
    if room < wanted {
        tracing::warn!(
            sessions = room,
            max_sessions = wanted,
            "the limit of file descriptors is below what max_sessions of all listeners takes; clients beyond it are \
             refused (two descriptors a session: LimitNOFILE=, ulimit -Hn)"
        );
    } else {
        tracing::debug!(
            sessions = room,
            "the limit of file descriptors is enough for max_sessions of all listeners"
        );
    }
}
