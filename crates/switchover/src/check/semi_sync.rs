//! Whether what is acknowledged stays on a replica, now and on the new primary.

use super::{Outcome, Situation, is_source, or_none, pass, stop, warn};
use crate::facts::{Channel, Facts};
use crate::semi_sync::{self as plugins, Switches};
use fleet::Thread;

pub(super) fn semi_sync(s: &Situation<'_>) -> Outcome {
    if !s.primary.semi_sync_source() {
        let measured = s.exposure.map_or(String::new(), |exposure| format!("; {exposure}"));
        return warn(
            format!(
                "off on {}: a crash loses what was acknowledged and is on no replica (a switchover loses nothing){measured}",
                s.primary.server
            ),
            "docs/guide/failover.md tells how to switch it on",
        );
    }
    let active = s.primary.variable(&["rpl_semi_sync_master_timeout", "rpl_semi_sync_source_timeout"]);
    let status = ["rpl_semi_sync_master_status", "rpl_semi_sync_source_status"];
    let on = status
        .iter()
        .find_map(|name| s.primary.status.get(*name))
        .is_some_and(|value| value.eq_ignore_ascii_case("on"));
    if !on {
        return warn(
            "switched on, but fallen back to asynchronous",
            "see why no replica acknowledges: threads, rpl_semi_sync_*_enabled on replicas",
        );
    }
    pass(format!("on and acknowledged; falls back after {} ms", or_none(active)))
}

pub(super) fn semi_sync_plugins(s: &Situation<'_>) -> Outcome {
    if !s.primary.semi_sync_source() {
        return pass("semi-sync is off");
    }
    let (primary, candidate) = (&s.primary.server, &s.candidate.server);
    let [source, _] = plugins::install(s.candidate.version);
    if Switches::of(s.candidate).source.is_none() {
        return stop(
            format!("{candidate} cannot be a semi-sync source: the plugin is not installed"),
            format!("on {candidate}: {source}"),
        );
    }
    let primary_can = Switches::of(s.primary).replica.is_some();
    // Replicas of the primary follow the candidate afterwards, and its own do already.
    let acknowledges = |facts: &&Facts| {
        // Threads that somebody stopped are not started by a move.
        let receives =
            |channel: &Channel| !matches!(channel.stopped_by_hand(), Some(Thread::Receiver | Thread::Both));
        let follows = |channel: &Channel| {
            receives(channel) && (is_source(s.primary, channel) || is_source(s.candidate, channel))
        };
        Switches::of(facts).replica.is_some_and(|switch| switch.on) && facts.channels.iter().any(follows)
    };
    let count = s.others.iter().filter(acknowledges).count() + usize::from(primary_can);
    let needed = plugins::needed(s.candidate);
    if needed > 1 && count < needed {
        return stop(
            format!(
                "{candidate} would wait for {needed} acknowledgements; only {count} servers would give one"
            ),
            format!(
                "switch semi-sync on at more replicas, or on {candidate} SET GLOBAL \
                 rpl_semi_sync_source_wait_for_replica_count (..._master_wait_for_slave_count) = {}",
                count.max(1)
            ),
        );
    }
    if primary_can {
        return pass(format!("{candidate} can be a source, {primary} a replica"));
    }
    let [_, replica] = plugins::install(s.primary.version);
    let mend = format!("on {primary}: {replica}");
    let text = format!("{primary} cannot be a semi-sync replica: the plugin is not installed");
    if s.others.iter().any(|facts| acknowledges(&facts)) {
        return warn(format!("{text}; others acknowledge"), mend);
    }
    stop(format!("{text}, and nobody else would acknowledge what {candidate} commits"), mend)
}
