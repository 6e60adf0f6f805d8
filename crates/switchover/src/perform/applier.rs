//! Whether a server goes on applying what it has received.

use super::Member;
use super::servers::Servers;
use crate::facts::{self, Channel};

/// For what reason nothing is applied any more; one that was stopped by hand has none, and may be started.
pub(super) fn error(channels: &[Channel]) -> Option<&str> {
    let failed = |channel: &&Channel| !channel.applier_runs && !channel.applier_error.is_empty();
    channels.iter().find(failed).map(|channel| channel.applier_error.as_str())
}

/// None where it does not say.
pub(super) async fn channels(member: &Member, servers: &mut Servers<'_>) -> Vec<Channel> {
    let (deadline, dialect) = (servers.deadline(), member.dialect());
    let Ok(connection) = servers.of(member).await else { return Vec::new() };
    let asked = facts::channels(connection, dialect, deadline).await;
    if asked.is_err() {
        servers.forget(member);
    }
    asked.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::tests::channel;

    #[test]
    fn an_applier_that_failed_is_waited_for_no_longer() {
        let with = |applier_runs, error: &str| {
            [Channel { applier_runs, applier_error: error.to_owned(), ..channel("a1", 3306, 11) }]
        };
        assert_eq!(error(&with(true, "")), None);
        // It tries that again by itself.
        assert_eq!(error(&with(true, "Lock wait timeout")), None);
        assert_eq!(error(&with(false, "")), None);
        assert_eq!(error(&with(false, "Duplicate entry '1'")), Some("Duplicate entry '1'"));
        assert_eq!(error(&[]), None);
    }
}
