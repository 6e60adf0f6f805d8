//! Judgements in words: what is so, why, and what to do about it.

use super::graph::Graph;
use super::member::{Facts, Member};
use crate::answer::{Channel, Runs};
use fleet::Role;

/// Why a server has its role.
pub(super) fn because(
    members: &[Member],
    graph: &Graph,
    at: usize,
    facts: &Facts,
    role: Role,
    chosen: Option<usize>,
    source: Option<&str>,
) -> String {
    let switch = facts.switches.words();
    let text = match role {
        Role::Stray if let Some(refused) = &facts.refused => refused.clone(),
        Role::Primary if !members[at].fresh => {
            format!(
                "was writable when it last answered, and {} still receives from it",
                receivers(members, at)
            )
        }
        Role::Primary if facts.managed_writer.is_some() => "its cluster names it as the writer".to_owned(),
        Role::Primary => match graph.followers(members, at) {
            0 => "takes writes, and no other server does".to_owned(),
            _ => format!("takes writes, and {} from it", replicate(members, at)),
        },
        Role::Replica => replica(members, at, facts, source),
        Role::Stray if !members[at].fresh => {
            let new = chosen.map_or_else(String::new, |c| format!("; {} takes writes now", members[c].name));
            format!("took writes when it last answered{new}")
        }
        Role::Stray if facts.switches.writable() => {
            let new = chosen.map_or_else(String::new, |c| format!("; {} is the primary", members[c].name));
            format!(
                "takes writes too, but no replica follows it{new}; set read_only=1 on it, or make it a replica"
            )
        }
        Role::Stray => {
            format!("is read-only ({switch}) and replicates from nobody, so its data stands still")
        }
        Role::Unknown if facts.channels_hidden && facts.switches.writable() => {
            format!("takes writes, but {}", facts.channels_unknown.as_deref().unwrap_or_default())
        }
        Role::Unknown if facts.switches.writable() => "takes writes, but so may another server".to_owned(),
        Role::Unknown if facts.channels_unknown.is_some() => {
            format!("is read-only ({switch}), and {}", facts.channels_unknown.as_deref().unwrap_or_default())
        }
        Role::Unknown => format!("{} from it, but it takes no writes ({switch})", replicate(members, at)),
    };
    if members[at].fresh { text } else { format!("{text} (as it last said)") }
}

fn replica(members: &[Member], at: usize, facts: &Facts, source: Option<&str>) -> String {
    if facts.managed_writer == Some(false) {
        return "is a reader of its cluster".to_owned();
    }
    let Some(source) = source else {
        let by = members[at].listed_by.as_ref();
        let by = by.map_or_else(String::new, |by| format!("{by} names it as its replica; "));
        return format!("{by}{}", facts.channels_unknown.as_deref().unwrap_or("it names no source"));
    };
    let of_replica = members
        .iter()
        .find(|s| s.name.as_str() == source)
        .and_then(|s| s.facts.as_ref())
        .is_some_and(|f| !f.channels.is_empty() && !f.switches.writable());
    let itself = if of_replica { ", itself a replica" } else { "" };
    let unknown = facts.channels_unknown.as_ref().map_or_else(String::new, |why| format!("; {why}"));
    let open = if facts.switches.writable() { "; it takes writes too: set read_only=1 on it" } else { "" };
    let lost =
        members.iter().find(|s| s.name.as_str() == source).filter(|s| !s.fresh && !s.trouble.is_empty());
    let lost = lost.map_or_else(String::new, |lost| {
        let stands =
            facts.stands_at.as_ref().map_or_else(String::new, |at| format!("; it has applied up to {at}"));
        format!(", which does not answer ({}){stands}", lost.trouble)
    });
    format!("replicates from {source}{itself}{lost}{unknown}{open}")
}

/// Why a replication thread does not run.
pub(super) fn stopped(channel: &Channel) -> String {
    let error = [&channel.applier_error, &channel.receiver_error].into_iter().find(|e| !e.is_empty());
    match (error, channel.receiver) {
        (Some(error), _) => error.clone(),
        (None, Runs::Connecting) => format!("is connecting to {}", channel.source),
        (None, _) => "stopped by command; START REPLICA resumes it".to_owned(),
    }
}

/// Why a server about which nothing is known has no role.
pub(super) fn never_answered(members: &[Member], graph: &Graph, at: usize) -> String {
    let trouble = &members[at].trouble;
    match (trouble.is_empty(), graph.followers(members, at)) {
        (true, _) => "not asked yet".to_owned(),
        (false, 0) => format!("has not answered yet: {trouble}"),
        (false, _) => {
            format!("{} from it, but it has not answered us yet: {trouble}", replicate(members, at))
        }
    }
}

/// Why there is no writer when no server that answers could be one.
pub(super) fn nobody(members: &[Member], graph: &Graph, silent: &[usize]) -> String {
    if let [old] = silent {
        let trouble = &members[*old].trouble;
        return format!(
            "{} was the primary and does not answer ({trouble}), and no replica receives from it",
            members[*old].name
        );
    }
    if !silent.is_empty() {
        return format!("{} took writes when they last answered, and do not answer", names(members, silent));
    }
    let fresh: Vec<usize> = (0..members.len()).filter(|&at| members[at].fresh).collect();
    if fresh.is_empty() {
        let why: Vec<String> = members.iter().take(8).map(|s| format!("{}: {}", s.name, s.trouble)).collect();
        return format!("no server answers ({})", why.join("; "));
    }
    let tops: Vec<String> = fresh
        .iter()
        .filter(|&&at| graph.is_top(at))
        .filter_map(|&at| {
            let facts = members[at].facts.as_ref()?;
            match facts.channels.first() {
                _ if let Some(refused) = &facts.refused => Some(format!("{} {refused}", members[at].name)),
                None if facts.channels_hidden && facts.switches.writable() => Some(format!(
                    "{} takes writes, but {}",
                    members[at].name,
                    facts.channels_unknown.as_deref().unwrap_or_default()
                )),
                None => Some(format!("{} is read-only ({})", members[at].name, facts.switches.words())),
                Some(channel) => Some(format!(
                    "{} replicates from {}, which is not known",
                    members[at].name, channel.source
                )),
            }
        })
        .collect();
    let any = |has: fn(&Facts) -> bool| fresh.iter().any(|&at| members[at].facts.as_ref().is_some_and(has));
    let source_unseen = any(|facts| facts.source_unseen);
    let unseen: Vec<String> = (0..members.len())
        .filter(|&at| members[at].facts.is_none())
        .filter(|&at| source_unseen || graph.followers(members, at) > 0)
        .map(|at| format!("{} {}", members[at].name, never_answered(members, graph, at)))
        .collect();
    let why = [tops, unseen].concat();
    if why.is_empty() {
        "no server that answers takes writes".to_owned()
    } else if source_unseen || any(|facts| facts.channels_hidden) {
        format!("who takes writes cannot be told: {}", why.join("; "))
    } else {
        format!("nobody takes writes: {}", why.join("; "))
    }
}

/// A lone candidate that nobody follows beside a silent server that replicas point to.
pub(super) fn not_followed(members: &[Member], old: usize, new: usize) -> String {
    let state = match (&members[old].facts, members[old].trouble.as_str()) {
        (_, "") => "was not asked yet".to_owned(),
        (None, trouble) => format!("has not answered us yet ({trouble})"),
        (Some(_), trouble) => format!("does not answer ({trouble})"),
    };
    format!(
        "{new} takes writes, but {replicate} from {old}, which {state}; point the replicas to {new} if it is \
         the new primary",
        new = members[new].name,
        old = members[old].name,
        replicate = replicate(members, old),
    )
}

/// Several candidates of equal standing.
pub(super) fn ambiguous(members: &[Member], graph: &Graph, all: &[usize]) -> String {
    let followed = all.iter().filter(|&&at| graph.followers(members, at) > 0).count();
    let why = if followed == 0 { "no replica follows either" } else { "replicas follow more than one" };
    format!("{} take writes and {why}; set read_only=1 on all but the primary", names(members, all))
}

fn names(members: &[Member], at: &[usize]) -> String {
    let names: Vec<&str> = at.iter().map(|&i| members[i].name.as_str()).collect();
    match names.as_slice() {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// "db2 replicates", "db2 and db3 replicate".
fn replicate(members: &[Member], at: usize) -> String {
    let who = who(members, at, |_| true);
    let verb = if who.len() == 1 { "replicates" } else { "replicate" };
    format!("{} {verb}", names(members, &who))
}

fn receivers(members: &[Member], at: usize) -> String {
    names(members, &who(members, at, |receiver| receiver == Runs::Yes))
}

fn who(members: &[Member], at: usize, counts: impl Fn(Runs) -> bool) -> Vec<usize> {
    let follows =
        |f: &Facts| f.sources.iter().zip(&f.channels).any(|(s, c)| *s == Some(at) && counts(c.receiver));
    (0..members.len())
        .filter(|&i| i != at && members[i].fresh && members[i].facts.as_ref().is_some_and(follows))
        .collect()
}
