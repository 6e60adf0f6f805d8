//! Core dump: what a process holds in memory stays there. Passwords and keys do, and what clients send.
//!
//! A process that is not dumpable writes no core, and other processes of its user may not attach to it or
//! read its memory.

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

/// Forbids core dumps and attaching, unless they are `allowed` (`HEADROOM_CORE_DUMPS`).
pub fn forbid(allowed: bool) {
    if allowed {
        tracing::warn!(
            "HEADROOM_CORE_DUMPS is set: a core dump of this process would hold passwords and what clients send"
        );
        return;
    }
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!(%error, "core dumps of this process cannot be forbidden; one would hold passwords");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::dumpable_behavior;

    #[test]
    fn core_dumps_are_forbidden_unless_they_are_asked_for() {
        set_dumpable_behavior(DumpableBehavior::Dumpable).unwrap();
        forbid(true);
        assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::Dumpable);
        forbid(false);
        assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
        set_dumpable_behavior(DumpableBehavior::Dumpable).unwrap();
    }
}
