//! Last writer: notices that another server takes writes than before. Its drain ends then: whoever made it
//! the primary wants it used, and a primary that is drained takes no writer of this router.
//!
//! A drain of the server that takes writes already, or of the first that this router knows to, is meant so
//! and stays. That nobody takes writes for a moment is no change.

use fleet::{ServerName, WriterStatus};

/// The server that was last known to take writes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LastWriter(Option<ServerName>);

impl LastWriter {
    /// As a router begins.
    pub(crate) fn of(writer: &WriterStatus) -> Self {
        match writer {
            WriterStatus::Known { server } => Self(Some(server.clone())),
            WriterStatus::Unknown { .. } => Self(None),
        }
    }

    /// Takes in who takes writes now; the server, where another one did before.
    pub(crate) fn note(&mut self, writer: &WriterStatus) -> Option<ServerName> {
        let WriterStatus::Known { server } = writer else { return None };
        let before = self.0.replace(server.clone());
        before.filter(|before| before != server).map(|_| server.clone())
    }

    /// A server has another name from now on.
    pub(crate) fn rename(&mut self, before: &ServerName, name: &ServerName) {
        if self.0.as_ref() == Some(before) {
            self.0 = Some(name.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared_state::SharedState;
    use crate::view::tests::snapshot;
    use config::RouterConfig;
    use fleet::{Role, Snapshot};
    use std::sync::Arc;
    use std::time::Instant;

    fn known(server: &str) -> WriterStatus {
        WriterStatus::Known { server: ServerName::new(server) }
    }

    fn unknown() -> WriterStatus {
        WriterStatus::Unknown { why: "both are read-only".to_owned() }
    }

    #[test]
    fn a_server_that_takes_writes_where_another_did_is_noticed_once() {
        let mut writer = LastWriter::of(&known("p"));
        let mut at = |now: WriterStatus| writer.note(&now).map(|server| server.to_string());
        assert_eq!((at(known("p")), at(unknown()), at(known("p"))), (None, None, None));
        assert_eq!((at(unknown()), at(known("r0")), at(known("r0"))), (None, Some("r0".to_owned()), None));
        writer.rename(&ServerName::new("r0"), &ServerName::new("new"));
        assert_eq!(writer.note(&known("new")), None, "the same server");
        assert_eq!(LastWriter::of(&unknown()).note(&known("p")), None, "the first that is known");
    }

    #[test]
    fn the_drain_of_a_server_ends_when_it_becomes_the_primary_and_that_of_the_primary_stays() {
        let with_writer = |writer: WriterStatus| {
            let mut seen: Snapshot = snapshot("a", &[("a", 1.0)], &[("a", 1.0)]);
            for server in &mut seen.servers {
                let takes_writes = matches!(&writer, WriterStatus::Known { server: w } if *w == server.name);
                server.role = if takes_writes { Role::Primary } else { Role::Replica };
            }
            seen.writer = writer;
            Arc::new(seen)
        };
        let first = with_writer(known("p"));
        let shared = SharedState::new(RouterConfig::default(), first.clone(), 1, Box::new(|_, _| {}));
        let (p, r0, now) = (ServerName::new("p"), ServerName::new("r0"), Instant::now());
        shared.drain(&p, now);
        shared.drain(&r0, now);
        for seen in [first, with_writer(unknown())] {
            shared.renew(Some(seen));
            assert_eq!(shared.drains().len(), 2);
        }
        shared.renew(Some(with_writer(known("r0"))));
        assert_eq!(shared.drains().into_keys().collect::<Vec<_>>(), [p]);
        assert_eq!(shared.routing().view.writer(), Some(1), "its writers are let in at once");
        assert!(!shared.overdue_drains(now).contains(&r0), "and none is cut");
    }
}
