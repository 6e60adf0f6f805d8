//! Who is who: from what all servers answered to a role for each, in words, and the writer.
//!
//! A pure function of the last answers. Rules, in order (docs/decisions/0002-roles-and-writer.md has the
//! reasons):
//!
//! 1. A server that replicates from another one we know is a replica, whatever its switches say. In a ring of
//!    servers that replicate from each other, the writable one is at the top.
//! 2. A writable server that answers and has nobody above it is a candidate. One candidate is the primary.
//! 3. Of several candidates the one that others replicate from is the primary and the rest are strays. If
//!    that does not tell, the writer is unknown and all are named: writing to the wrong one would be worse
//!    than to wait.
//! 4. A primary that stops answering us stays the writer as long as a replica that answers still receives
//!    from it. A writable server that never said whether it replicates (a missing privilege, no answer) is a
//!    candidate only while others replicate from it, and no server above them names it as its replica.
//! 5. A lone candidate does not take over from a silent primary that replicas still point to while none
//!    points to it. Nor from a server that replicas point to and that has never answered us, unless the
//!    candidate names that one as its replica. It does where its epoch is later than that of each of those
//!    replicas: an operation of Headroom promoted it, and has not pointed them to it yet.
//! 6. A server whose source we do not know is no candidate while a seed has never answered: that one may be
//!    its source (docs/decisions/0087-who-never-answered-may-be-the-primary.md).
//! 7. A server whose epoch is over (`epoch.rs`) is no candidate, whatever the others say.
//!
//! Worked example: db1 (writable, silent), db2 and db3 replicate from db1 and their receivers run: db1 stays
//! the writer (4). Their receivers lose it: the writer is unknown. db2 becomes writable and stops
//! replicating: it is the only candidate, but db3 still points to db1 (5): unknown. db3 is pointed to db2:
//! db2 is the writer (3).

mod graph;
mod member;
mod words;

use crate::answer::Runs;
use fleet::{Replication, Role, Thread, WriterStatus};
use graph::Graph;
pub(crate) use member::{Facts, Member};

/// The judgement on one server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Judgement {
    pub(crate) role: Role,
    pub(crate) because: String,
    pub(crate) replication: Replication,
    /// Its source by name, else by address.
    pub(crate) source: Option<String>,
    /// The channel that leads there, and the server in the list.
    pub(crate) channel: Option<usize>,
    pub(crate) source_at: Option<usize>,
}

/// Judges all servers at once; the judgements are in the order of `members`.
pub(crate) fn judge(members: &[Member]) -> (Vec<Judgement>, WriterStatus) {
    let graph = Graph::new(members);
    let writer = writer(members, &graph);
    let chosen = writer.as_ref().ok().copied();
    let judged = (0..members.len()).map(|at| judge_one(members, &graph, at, chosen)).collect();
    let status = match writer {
        Ok(at) => WriterStatus::Known { server: members[at].name.clone() },
        Err(why) => WriterStatus::Unknown { why },
    };
    (judged, status)
}

/// Who takes writes, or why nobody can be named.
fn writer(members: &[Member], graph: &Graph) -> Result<usize, String> {
    let candidates: Vec<usize> = (0..members.len()).filter(|&at| graph.is_candidate(members, at)).collect();
    let silent: Vec<usize> = (0..members.len()).filter(|&at| graph.was_candidate(members, at)).collect();
    let confirmed: Vec<usize> =
        silent.iter().copied().filter(|&at| graph.receivers_running(members, at) > 0).collect();
    match (candidates.as_slice(), confirmed.as_slice()) {
        ([], [one]) => Ok(*one),
        ([], _) => Err(words::nobody(members, graph, &silent)),
        ([one], []) => {
            let is_rival = |at: &usize| match &members[*at].facts {
                Some(_) => silent.contains(at),
                None => members[*at].listed_by.as_ref() != Some(&members[*one].name),
            };
            let rival = (0..members.len()).filter(is_rival).find(|&old| {
                graph.followers(members, old) > 0
                    && graph.followers(members, *one) == 0
                    && !graph.is_promoted_since(members, *one, old)
            });
            match rival {
                Some(old) => Err(words::not_followed(members, old, *one)),
                None => Ok(*one),
            }
        }
        _ => {
            let all: Vec<usize> = candidates.iter().chain(&confirmed).copied().collect();
            let only = |score: &dyn Fn(usize) -> usize| match all
                .iter()
                .filter(|&&at| score(at) > 0)
                .collect::<Vec<_>>()[..]
            {
                [one] => Some(*one),
                _ => None,
            };
            only(&|at| graph.receivers_running(members, at))
                .or_else(|| {
                    let running = all.iter().any(|&at| graph.receivers_running(members, at) > 0);
                    if running { None } else { only(&|at| graph.followers(members, at)) }
                })
                .ok_or_else(|| words::ambiguous(members, graph, &all))
        }
    }
}

fn judge_one(members: &[Member], graph: &Graph, at: usize, chosen: Option<usize>) -> Judgement {
    let server = &members[at];
    let Some(facts) = &server.facts else {
        return Judgement {
            role: Role::Unknown,
            because: words::never_answered(members, graph, at),
            replication: Replication::Unknown,
            source: None,
            channel: None,
            source_at: None,
        };
    };
    let channel = main_channel(facts, graph, chosen);
    let source_at = channel.and_then(|c| facts.sources[c]);
    let source = channel.map(|c| match facts.sources[c] {
        Some(s) => members[s].name.to_string(),
        None => facts.channels[c].source.to_string(),
    });
    let role = role(members, graph, at, facts, chosen);
    let because = words::because(members, graph, at, facts, role, chosen, source.as_deref());
    let replication = replication(server, facts, channel);
    Judgement { role, because, replication, source, channel, source_at }
}

fn role(members: &[Member], graph: &Graph, at: usize, facts: &Facts, chosen: Option<usize>) -> Role {
    if chosen == Some(at) {
        return Role::Primary;
    }
    if facts.managed_writer == Some(false) {
        return Role::Replica;
    }
    let below_somebody = !facts.channels.is_empty() && !graph.is_promoted(members, at);
    if below_somebody && !(graph.is_top(at) && facts.switches.writable() && !facts.source_unseen) {
        return Role::Replica;
    }
    if facts.channels_unknown.is_some() && !facts.switches.writable() && members[at].listed_by.is_some() {
        return Role::Replica;
    }
    if facts.refused.is_some() {
        return Role::Stray;
    }
    let follows = graph.followers(members, at) > 0;
    if graph.may_be_replica(members, at) {
        return Role::Unknown;
    }
    match (facts.switches.writable(), chosen.is_some()) {
        (true, true) => Role::Stray,
        // A silent one that was writable may be the primary; one that answers may be, too: nobody can tell.
        (true, false) => Role::Unknown,
        (false, _) if follows || facts.channels_unknown.is_some() => Role::Unknown,
        (false, _) => Role::Stray,
    }
}

/// The channel that leads to the primary, directly or through others; else the first.
fn main_channel(facts: &Facts, graph: &Graph, chosen: Option<usize>) -> Option<usize> {
    let leads = |source: &Option<usize>| match (source, chosen) {
        (Some(source), Some(chosen)) => *source == chosen || graph.is_above(chosen, *source),
        _ => false,
    };
    facts.sources.iter().position(leads).or(if facts.channels.is_empty() { None } else { Some(0) })
}

fn replication(server: &Member, facts: &Facts, channel: Option<usize>) -> Replication {
    if !server.fresh || facts.channels_unknown.is_some() {
        return Replication::Unknown;
    }
    if facts.managed_writer == Some(false) {
        return Replication::Managed;
    }
    let Some(channel) = channel.map(|at| &facts.channels[at]) else { return Replication::None };
    let thread = match (channel.receiver == Runs::Yes, channel.applier == Runs::Yes) {
        (true, true) => return Replication::Running,
        (true, false) => Thread::Applier,
        (false, true) => Thread::Receiver,
        (false, false) => Thread::Both,
    };
    Replication::Stopped { thread, why: words::stopped(channel) }
}

#[cfg(test)]
mod tests;
