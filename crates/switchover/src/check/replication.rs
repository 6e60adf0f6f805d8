//! Whether the primary alone takes writes and the others follow it: channels, threads, lag, and the account
//! by which the former primary will replicate.

use super::{Outcome, Situation, names, nobody, pass, replicas, stop, warn};
use crate::facts::{Channel, Facts};
use crate::login::{self, LedTo};

pub(super) fn one_writer(s: &Situation<'_>) -> Outcome {
    if s.primary.refuses_writes() {
        let mend = format!("on {}: SET GLOBAL read_only = OFF", s.primary.server);
        return stop(format!("{} refuses writes", s.primary.server), mend);
    }
    let alone = format!("{} alone takes writes", s.primary.server);
    nobody(
        replicas(s),
        |facts| !facts.refuses_writes(),
        &alone,
        |writable| {
            stop(format!("{writable} take writes too"), format!("on {writable}: SET GLOBAL read_only = ON"))
        },
    )
}

/// Statements address the default channel: of a server with others the wrong one would be moved.
pub(super) fn channels(s: &Situation<'_>) -> Outcome {
    if let Some(channel) = s.primary.channels.first() {
        return stop(
            format!(
                "the primary {} itself replicates from {}:{}",
                s.primary.server, channel.host, channel.port
            ),
            format!(
                "where that is left from before, on {}: {}; else move a primary that follows nobody",
                s.primary.server,
                s.primary.dialect().forget_source()
            ),
        );
    }
    let moved = |facts: &&Facts| {
        facts.server == s.candidate.server || facts.channels.iter().any(|c| is_source(s.primary, c))
    };
    for facts in replicas(s).filter(moved) {
        if facts.channels.len() > 1 {
            return stop(
                format!("{} has {} channels", facts.server, facts.channels.len()),
                "a server that replicates from several sources is not moved by this tool",
            );
        }
        if let Some(channel) = facts.channels.iter().find(|channel| !channel.name.is_empty()) {
            return stop(
                format!("{} replicates by a channel named '{}'", facts.server, channel.name),
                format!(
                    "on {}: {}, and follow the primary by the default channel",
                    facts.server,
                    facts.dialect().forget_channel(&channel.name)
                ),
            );
        }
    }
    pass("the primary follows nobody, and its replicas have one channel each, without a name")
}

pub(super) fn follows(s: &Situation<'_>) -> Outcome {
    let Some(channel) = s.candidate.channels.first() else {
        let facts = format!("{} replicates from nobody", s.candidate.server);
        return stop(facts, "choose a replica of the primary");
    };
    let from = format!("{}:{}", channel.host, channel.port);
    match is_source(s.primary, channel) {
        true if channel.leaves_out().is_some() => stop(
            format!("{}: {}", s.candidate.server, channel.leaves_out().unwrap_or_default()),
            "choose a replica without filters: this one lacks data",
        ),
        true => pass(format!("{} replicates from {from}", s.candidate.server)),
        false => stop(
            format!("{} replicates from {from}, which is not {}", s.candidate.server, s.primary.server),
            "choose a direct replica of the primary, or move that replica first",
        ),
    }
}

/// Whether a channel reads from this server. Its number says so, whatever address leads there (NAT, tunnels);
/// before the first contact only the address is known.
pub(crate) fn is_source(server: &Facts, channel: &Channel) -> bool {
    if channel.source_id != 0 {
        return channel.source_id == server.server_id;
    }
    let port = server.variable(&["report_port"]).filter(|port| *port != "0").or(server.variable(&["port"]));
    let same_port = port.is_some_and(|ours| ours.parse() == Ok(channel.port));
    let reported = server.variable(&["report_host"]).filter(|host| !host.is_empty());
    let hosts = reported.into_iter().chain(server.variable(&["hostname"])).chain(server.reach.host());
    same_port && hosts.into_iter().any(|host| host == channel.host)
}

pub(super) fn threads_run(s: &Situation<'_>) -> Outcome {
    for facts in replicas(s) {
        for channel in &facts.channels {
            if channel.receiver_runs && channel.applier_runs {
                continue;
            }
            let which = if channel.receiver_runs { "applying" } else { "receiving" };
            let error = if channel.last_error.is_empty() {
                String::new()
            } else {
                format!(": {}", channel.last_error)
            };
            let text = format!("the {which} thread of {} does not run{error}", facts.server);
            let mend = format!("on {}: {}", facts.server, facts.dialect().start_replication());
            if facts.server == s.candidate.server {
                return stop(text, mend);
            }
            let stays = match channel.stopped_by_hand() {
                Some(_) => "; else it is told whom to follow, and stays stopped",
                None => "",
            };
            return warn(text, format!("{mend}{stays}"));
        }
    }
    let alone = |facts: &Facts| facts.channels.is_empty();
    nobody(s.others.iter(), alone, &format!("on {}", names(replicas(s))), |alone| {
        warn(
            format!("{alone} replicates from nobody: it is not told to follow {}", s.candidate.server),
            format!(
                "if a move was cut off: headroom switchover --resume; else headroom failover --rejoin \
                 {alone} lets it follow {}",
                s.primary.server
            ),
        )
    })
}

/// How the connection is protected is told: see [`crate::facts::Channel::protection`].
pub(super) fn channel_settings(s: &Situation<'_>) -> Outcome {
    let (primary, candidate) = (&s.primary.server, &s.candidate.server);
    let Some(channel) = s.candidate.channels.first() else {
        return pass(format!("{candidate} has no channel"));
    };
    let Some(left) = &channel.left_to_person else {
        return warn(
            format!("what is set for the channel of {candidate} is not known; {primary} follows without it"),
            "GRANT SELECT ON performance_schema.* to the account",
        );
    };
    if left.is_empty() {
        return pass(format!("{primary} is told what is set for the channel of {candidate}"));
    }
    let dialect = s.primary.dialect();
    let change =
        if dialect.0.mysql_from((8, 0, 23)) { "CHANGE REPLICATION SOURCE TO" } else { "CHANGE MASTER TO" };
    warn(
        format!("set for the channel of {candidate}, and not told to {primary}: {}", left.join(", ")),
        format!(
            "afterwards on {primary}, with what is right on its host: {}; {change} ...; {}",
            dialect.stop_replication(),
            dialect.start_replication()
        ),
    )
}

pub(super) fn lag(s: &Situation<'_>) -> Outcome {
    let channel = s.candidate.channels.first();
    // An idle one is 0 s behind all the same, and the last writes would come that late.
    if let Some(delay) = channel.map(|channel| channel.delay_s).filter(|delay| *delay > 0) {
        let (server, dialect) = (&s.candidate.server, s.candidate.dialect());
        return stop(
            format!("{server} applies everything {delay} s late on purpose, and writes would wait as long"),
            format!(
                "choose another replica, or on {server}: {}; {}; {}",
                dialect.stop_replication(),
                dialect.apply_at_once(),
                dialect.start_replication()
            ),
        );
    }
    match channel.and_then(|channel| channel.seconds_behind) {
        None => {
            stop(format!("{} does not say how far behind it is", s.candidate.server), "see 'threads run'")
        }
        Some(seconds) if seconds > s.limits.lag.as_secs() => stop(
            format!("{} is {seconds} s behind, allowed are {} s", s.candidate.server, s.limits.lag.as_secs()),
            "wait until it has caught up, or allow more with --max-lag",
        ),
        Some(seconds) => pass(format!("{} is {seconds} s behind by its own figure", s.candidate.server)),
    }
}

pub(super) fn net_timeout(s: &Situation<'_>) -> Outcome {
    let slow = |facts: &Facts| {
        let timeout =
            facts.variable(&["replica_net_timeout", "slave_net_timeout"]).and_then(|t| t.parse::<u64>().ok());
        timeout.is_none_or(|seconds| seconds > 10)
    };
    nobody(replicas(s), slow, "replica_net_timeout is at most 10 s everywhere", |slow| {
        warn(
            format!("replica_net_timeout is above 10 s on {slow}"),
            "SET GLOBAL replica_net_timeout (slave_net_timeout) = 8, and restart the threads",
        )
    })
}

pub(super) fn commit_order(s: &Situation<'_>) -> Outcome {
    let loose = |facts: &Facts| {
        let parallel = facts.variable(&["replica_parallel_workers", "slave_parallel_workers"]);
        !facts.dialect().is_mariadb()
            && parallel.is_some_and(|workers| workers != "0" && workers != "1")
            && facts.is_on(&["replica_preserve_commit_order", "slave_preserve_commit_order"]) == Some(false)
    };
    nobody(replicas(s), loose, "replicas commit in the primary's order", |loose| {
        warn(
            format!("replica_preserve_commit_order is off on {loose}"),
            "SET GLOBAL replica_preserve_commit_order = ON, with the applier stopped",
        )
    })
}

pub(super) fn replication_login(s: &Situation<'_>) -> Outcome {
    let (primary, candidate) = (&s.primary.server, &s.candidate.server);
    if !s.has_replication_login {
        return stop(
            format!("{primary} has to follow {candidate} afterwards, with which account?"),
            "--replication-option-file FILE with user and password of an account with REPLICATION SLAVE",
        );
    }
    let Some(login) = s.login else {
        return warn("given, and not tried", "headroom switchover --check tries it");
    };
    let at = format!("{} at {}:{}", login.user, login.host, login.port);
    let address = format!(
        "{primary} will be told this address of {candidate}: correct its report_host and report_port"
    );
    let reported = s.candidate.variable(&["report_host"]).is_some_and(|host| !host.is_empty());
    match &login.led_to {
        LedTo::Server { server_id, .. } if *server_id != s.candidate.server_id => stop(
            format!("{at} leads to server_id {server_id}; {candidate} is {}", s.candidate.server_id),
            address,
        ),
        LedTo::Server { may_replicate: false, .. } => stop(
            format!("{at} may not replicate"),
            format!("GRANT REPLICATION SLAVE ON *.* to {}", login.user),
        ),
        LedTo::Server { needs_tls: true, .. } if login::encrypts(s.candidate) == Some(false) => {
            let dialect = s.candidate.dialect();
            stop(
                format!("{at} is let in over TLS only; {primary} will connect without, as {candidate} does"),
                format!(
                    "on {candidate}: {}; {}; {}",
                    dialect.stop_replication(),
                    dialect.encrypt(),
                    dialect.start_replication()
                ),
            )
        }
        LedTo::Server { .. } if login::is_loopback(&login.host) && is_elsewhere(s.primary) => {
            warn(format!("{at}: from {primary} this address leads to {primary} itself"), address)
        }
        LedTo::Server { .. } => pass(format!("{at} leads to {candidate}")),
        // The former primary has one of its own, under the name of the candidate's file.
        LedTo::Refused { wants_certificate: true, why, .. } if login::shows_certificate(s.candidate) => warn(
            format!("{at} is refused to this host ({why}); it wants a certificate, and {primary} shows one"),
            format!(
                "on {primary}, log in with it once: mariadb -h {} -P {} -u {} --ssl-cert FILE --ssl-key FILE",
                login.host, login.port, login.user
            ),
        ),
        // Of several accounts of one name it may be another one that the primary is let in by.
        LedTo::Refused { code, why, wants_certificate: true } if !has_several(s.candidate, &login.user) => {
            stop(
                format!("{at} is refused: error {code}: {why}"),
                format!("the account wants a certificate, and {primary} will show none, as {candidate} does"),
            )
        }
        // Access denied, host not allowed: it may be this host alone that is not in the account's name.
        LedTo::Refused { code: 1045 | 1130, why, .. } if of_other_hosts(s.candidate, &login.user) => warn(
            format!(
                "{at} is refused to this host ({why}); the account is of other hosts, perhaps of {primary}"
            ),
            format!(
                "on {primary}, log in with it once: mariadb -h {} -P {} -u {}",
                login.host, login.port, login.user
            ),
        ),
        LedTo::TooLong { bytes, limit } => {
            let (facts, mend) = login::too_long_words(primary.as_str(), &login.user, (*bytes, *limit));
            stop(facts, mend)
        }
        LedTo::Refused { code, why, .. } => stop(
            format!("{at} is refused: error {code}: {why}"),
            "correct user and password in the file of --replication-option-file, or the account there",
        ),
        // Somebody wrote down this address on purpose: perhaps of a network that only servers are in.
        LedTo::Nowhere { why } if reported && !login::is_loopback(&login.host) => warn(
            format!("{at} cannot be reached from this host: {why}"),
            format!(
                "on {primary}, log in with it once: mariadb -h {} -P {} -u {}",
                login.host, login.port, login.user
            ),
        ),
        LedTo::Nowhere { why } => stop(format!("{at} leads nowhere: {why}"), address),
    }
}

/// Whether a server is on another host than this one.
fn is_elsewhere(facts: &Facts) -> bool {
    facts.reach.host().is_some_and(|host| !login::is_loopback(host))
}

/// Whether all accounts of this user are of certain hosts. No where they cannot be read.
fn of_other_hosts(facts: &Facts, user: &str) -> bool {
    let mut hosts = hosts_of(facts, user).peekable();
    hosts.peek().is_some() && hosts.all(|host| host != "%")
}

/// Whether there are several accounts of this user, of other hosts each. No where they cannot be read.
fn has_several(facts: &Facts, user: &str) -> bool {
    hosts_of(facts, user).nth(1).is_some()
}

fn hosts_of<'a>(facts: &'a Facts, user: &str) -> impl Iterator<Item = &'a str> {
    let accounts = facts.accounts.iter().flat_map(|accounts| accounts.keys());
    accounts
        .filter_map(move |name| name.rsplit_once('@').filter(|(name, _)| *name == user))
        .map(|(_, host)| host)
}
