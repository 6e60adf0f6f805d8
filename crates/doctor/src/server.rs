//! What a server allows: what `observe` found of it, and what a few questions of ours add. Only reads.

pub mod gather;

use crate::host::{SKEW, seconds};
use crate::{FactsError, Finding};
use fleet::{Replication, Role, Server, State};
use std::time::Duration;

/// What our own questions found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerFacts {
    /// Whether it is a version that is supported; `None` where it did not say.
    pub supported: Option<bool>,
    /// Whether statements are counted by client host: `performance_schema`, or MariaDB's `userstat`.
    pub performance_schema: Option<bool>,
    pub userstat: bool,
    pub mariadb: bool,
    /// What it calls itself to its primary; empty where nothing is set.
    pub report_host: Option<String>,
    /// The cipher of our own connection; empty without TLS.
    pub cipher: Option<String>,
    /// Whether the connection leaves this host.
    pub remote: bool,
    /// How far its clock is ahead of ours (negative: behind), and how sure that is.
    pub clock: Option<Skew>,
    /// Sessions now, and the most it takes.
    pub sessions: Option<u64>,
    pub max_connections: Option<u64>,
}

/// A difference of two clocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Skew {
    pub ahead_s: f64,
    /// Half the time that asking took.
    pub uncertainty: Duration,
}

/// The findings about one server. `seed`: whether the configuration names it. `facts` is an error
/// where our questions were not answered.
pub fn findings(server: &Server, seed: bool, facts: &Result<ServerFacts, FactsError>) -> Vec<Finding> {
    let name = server.name.as_str();
    let mut findings = vec![login(server)];
    if server.state != State::Answering {
        return findings;
    }
    findings.extend([role(server), lag(server), zone(server)]);
    findings.extend(privileges(server));
    match facts {
        Ok(facts) => findings.extend(
            [
                supported(server, facts),
                counters(name, facts),
                report_host(server, seed, facts),
                tls(name, facts),
                clock(name, facts),
                room(name, facts),
            ]
            .into_iter()
            .flatten(),
        ),
        Err(why) => findings.push(
            Finding::unknown(name, "questions", why.to_string())
                .mend("run it again; the server answered a moment ago"),
        ),
    }
    findings
}

fn login(server: &Server) -> Finding {
    let name = server.name.as_str();
    let version = server.version.as_deref().unwrap_or("a server of unknown version");
    match &server.state {
        State::Answering => Finding::pass(name, "login", format!("{version} at {}", server.reach)),
        State::Unasked => Finding::unknown(name, "login", "it was not asked"),
        State::Silent { why } => Finding::fail(name, "login", why.as_str())
            .costs("it gets no sessions")
            .mend(format!("is {} reachable from here, past firewalls?", server.reach)),
        // The error says what to do where we know it.
        State::Failing { why } => Finding::fail(name, "login", why.as_str())
            .costs("it gets no sessions")
            .mend(
                "as the error says; user, password and ssl_mode: [credentials] or the option file, the password also \
                 HEADROOM_PASSWORD (docs/guide/privileges.md)",
            ),
    }
}

fn role(server: &Server) -> Finding {
    let name = server.name.as_str();
    let found = match server.because.is_empty() {
        true => server.role.to_string(),
        false => format!("{}: {}", server.role, server.because),
    };
    match server.role {
        Role::Primary | Role::Replica => match &server.replication {
            Replication::Stopped { why, .. } => {
                Finding::fail(name, "role", format!("replication stopped: {why}"))
                    .costs("it gets no reads")
                    .mend("START REPLICA; (after the cause above is mended)")
            }
            _ => Finding::pass(name, "role", found),
        },
        Role::Stray => Finding::warn(name, "role", found)
            .costs("it gets no sessions")
            .mend("make it a replica of the primary, or remove it from the seeds"),
        Role::Unknown => Finding::fail(name, "role", found)
            .costs("it gets no sessions")
            .mend("grant what is missing below, or see docs/guide/who-is-who.md"),
    }
}

fn lag(server: &Server) -> Finding {
    let name = server.name.as_str();
    match (server.role, server.lag) {
        (Role::Replica, Some(lag)) => Finding::pass(
            name,
            "lag",
            format!("{} ({})", fleet::bounds(lag.at_least, lag.at_most()), lag.source),
        ),
        (Role::Replica, None) => Finding::warn(name, "lag", "how far behind it is cannot be told")
            .costs("it gets no reads while that is so")
            .mend("grant what is missing below; switch GTID on (gtid_mode = ON; MariaDB has it always)"),
        _ => Finding::pass(name, "lag", "none: it is not a replica"),
    }
}

fn zone(server: &Server) -> Finding {
    let name = server.name.as_str();
    match &server.zone {
        Some(known) => Finding::pass(name, "zone", known.zone.to_string()),
        None => Finding::warn(name, "zone", "it stands in no known zone")
            .costs("reads of every zone go there as if it were near")
            .mend(format!("[[zone]] with members = [\"{}\"]", server.reach.host().unwrap_or(name))),
    }
}

fn privileges(server: &Server) -> Vec<Finding> {
    let name = server.name.as_str();
    if server.lacks.is_empty() {
        return vec![Finding::pass(name, "privileges", "all that Headroom asks is answered")];
    }
    let of = |lack: &fleet::Lack| {
        Finding::warn(name, "privileges", "the account may not ask everything")
            .costs(lack.unknown.as_str())
            .mend(format!("{};", lack.grant))
    };
    server.lacks.iter().map(of).collect()
}

fn supported(server: &Server, facts: &ServerFacts) -> Option<Finding> {
    let version = server.version.as_deref().unwrap_or("unknown");
    match facts.supported? {
        true => None,
        false => Some(
            Finding::warn(server.name.as_str(), "version", version)
                .costs("it is not tested, and some questions may not be understood")
                .mend("MariaDB 10.6 or later, MySQL 8.0 or later"),
        ),
    }
}

fn counters(name: &str, facts: &ServerFacts) -> Option<Finding> {
    let on = facts.performance_schema?;
    if on || facts.userstat {
        let by = if on { "performance_schema" } else { "userstat" };
        return Some(Finding::pass(name, "counters", format!("reads are counted by client host ({by})")));
    }
    let light = if facts.mariadb { "; without a restart: SET GLOBAL userstat = 1;" } else { "" };
    Some(
        Finding::warn(name, "counters", "performance_schema is off")
            .costs("the demand of zones is guessed from sessions; waits are not told apart")
            .mend(format!("performance_schema = ON in the server's configuration{light}")),
    )
}

fn report_host(server: &Server, seed: bool, facts: &ServerFacts) -> Option<Finding> {
    let name = server.name.as_str();
    if server.role != Role::Replica {
        return None;
    }
    match facts.report_host.as_deref()? {
        "" if seed => Some(Finding::pass(name, "report_host", "not set, and not needed: the seeds name it")),
        "" => Some(
            Finding::warn(name, "report_host", "not set")
                .costs("whoever asks the primary alone may not find it")
                .mend(format!(
                    "report_host = {} in its configuration, or name it in seeds",
                    server.reach.host().unwrap_or(name)
                )),
        ),
        host => Some(Finding::pass(name, "report_host", host)),
    }
}

fn tls(name: &str, facts: &ServerFacts) -> Option<Finding> {
    match facts.cipher.as_deref()? {
        "" if !facts.remote => Some(Finding::pass(name, "tls", "none, and the connection stays on this host")),
        "" => Some(
            Finding::warn(name, "tls", "our own connection is not encrypted")
                .costs("whoever is in between reads what Headroom asks, and could answer in the server's place")
                .mend("ssl_mode = \"VERIFY_IDENTITY\" and ssl_ca in [credentials] (the server needs a certificate)"),
        ),
        cipher => Some(Finding::pass(name, "tls", cipher)),
    }
}

fn clock(name: &str, facts: &ServerFacts) -> Option<Finding> {
    let skew = facts.clock?;
    let apart = Duration::try_from_secs_f64(skew.ahead_s.abs()).unwrap_or(Duration::MAX);
    if apart <= SKEW + skew.uncertainty {
        let most = seconds(apart.saturating_add(skew.uncertainty));
        return Some(Finding::pass(name, "clock", format!("within {most} of this host's")));
    }
    let which = if skew.ahead_s > 0.0 { "ahead of" } else { "behind" };
    Some(
        Finding::warn(name, "clock", format!("{} {which} this host's", seconds(apart)))
            .costs("times in its log and in Headroom's history do not fit together; lag is measured without clocks")
            .mend("timedatectl set-ntp true, there and here"),
    )
}

fn room(name: &str, facts: &ServerFacts) -> Option<Finding> {
    let (sessions, most) = (facts.sessions?, facts.max_connections?);
    let found = format!("{sessions} of max_connections = {most} are in use");
    if sessions as f64 <= 0.8 * most as f64 {
        return Some(Finding::pass(name, "room", found));
    }
    Some(
        Finding::warn(name, "room", found)
            .costs("new sessions may be refused (error 1040)")
            .mend(format!("SET GLOBAL max_connections = {}; or smaller pools", most.saturating_mul(2))),
    )
}

#[cfg(test)]
mod tests;
