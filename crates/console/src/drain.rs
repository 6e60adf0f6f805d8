//! What emptying a server would take away from clients: a pure function of the status. Where that is more
//! than one of several readers, `headroom drain` must be ordered with `--force`.
//!
//! Worked example: db1 is the primary, db2 the only replica that is eligible. Draining db1 ends all writers'
//! sessions and refuses new ones, because Headroom promotes nobody; draining db2 leaves reads to the primary,
//! or to nobody.

use crate::status_view::{ServerView, StatusView};

/// What a drain of this server would take away; `None` where others take its sessions.
pub fn takes_away(status: &StatusView, server: &str, reads_on_primary: bool) -> Option<String> {
    let servers = &status.fleet.servers;
    let drained = servers.iter().find(|known| known.name == server)?;
    let reads = |server: &ServerView| server.routing.as_ref().is_some_and(|routing| routing.reads.eligible);
    let sessions = drained.routing.as_ref().map_or(0, |routing| routing.sessions);
    if status.fleet.writer.as_deref() == Some(server) || drained.role == "primary" {
        return Some(format!(
            "{server} is the primary: its {sessions} sessions would end and new ones of writers be refused until another \
             server is the primary, or until headroom undrain {server}"
        ));
    }
    let others = servers.iter().any(|other| other.name != server && reads(other));
    if !reads(drained) || others {
        return None;
    }
    let primary = servers.iter().find(|other| other.role == "primary" && other.state == "answering");
    let then = match primary {
        Some(primary) if reads_on_primary => format!("all reads would go to the primary, {}", primary.name),
        _ => "all reads would be refused".to_owned(),
    };
    Some(format!(
        "{server} is the last server that takes reads: its {sessions} sessions would end and {then} until headroom undrain \
         {server}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample_status;

    fn readers(status: &mut StatusView, eligible: &[&str]) {
        for server in &mut status.fleet.servers {
            if let Some(routing) = &mut server.routing {
                routing.reads.eligible = eligible.contains(&server.name.as_str());
            }
        }
    }

    #[test]
    fn the_primary_takes_the_writers_along() {
        let status = sample_status::status();
        let writer = status.fleet.writer.clone().unwrap();
        let words = takes_away(&status, &writer, true).unwrap();
        assert!(words.contains("is the primary") && words.contains("refused"), "{words}");
    }

    #[test]
    fn one_of_several_readers_takes_nothing_away_and_the_last_one_all_reads() {
        let mut status = sample_status::status();
        readers(&mut status, &["db2", "db3"]);
        assert_eq!(takes_away(&status, "db2", true), None);
        readers(&mut status, &["db2"]);
        assert_eq!(takes_away(&status, "db3", true), None, "it takes none now");
        let words = takes_away(&status, "db2", true).unwrap();
        assert!(words.contains("last server") && words.contains("to the primary"), "{words}");
        let words = takes_away(&status, "db2", false).unwrap();
        assert!(words.contains("reads would be refused"), "{words}");
    }

    #[test]
    fn a_server_that_is_not_known_takes_nothing_away() {
        assert_eq!(takes_away(&sample_status::status(), "db99", true), None);
    }
}
