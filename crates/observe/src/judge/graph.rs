//! Who is above whom: the replication graph, by places in the list of servers.

use super::member::{Facts, Member};
use crate::answer::Runs;

/// `above[a][b]`: changes of `a` reach `b`, directly or through others.
pub(super) struct Graph {
    above: Vec<Vec<bool>>,
}

impl Graph {
    pub(super) fn new(members: &[Member]) -> Self {
        let n = members.len();
        let mut above = vec![vec![false; n]; n];
        for (at, server) in members.iter().enumerate() {
            for source in server.facts.iter().flat_map(|f| &f.sources).flatten() {
                above[*source][at] = true;
            }
        }
        for through in 0..n {
            let below = above[through].clone();
            for reached in above.iter_mut().filter(|reached| reached[through]) {
                reached.iter_mut().zip(&below).for_each(|(to, also)| *to |= also);
            }
        }
        Self { above }
    }

    /// Whether changes of `source` reach `at`.
    pub(super) fn is_above(&self, source: usize, at: usize) -> bool {
        self.above[source][at]
    }

    /// Whether nobody is above it, except servers that it is above itself (a ring).
    pub(super) fn is_top(&self, at: usize) -> bool {
        (0..self.above.len()).all(|other| !self.above[other][at] || self.above[at][other])
    }

    /// Answers, takes writes, and has nobody above it.
    pub(super) fn is_candidate(&self, members: &[Member], at: usize) -> bool {
        members[at].fresh && self.could_write(members, at)
    }

    /// The same of a server that does not answer any more, by what it said last.
    pub(super) fn was_candidate(&self, members: &[Member], at: usize) -> bool {
        !members[at].fresh && self.could_write(members, at)
    }

    fn could_write(&self, members: &[Member], at: usize) -> bool {
        members[at].facts.as_ref().is_some_and(|facts| {
            facts.switches.writable()
                && facts.refused.is_none()
                && !facts.source_unasked
                && facts.managed_writer != Some(false)
                && !self.may_be_replica(members, at)
                && (self.is_promoted(members, at) || (self.is_top(at) && !facts.source_unseen))
        })
    }

    /// Would not say whether it replicates, and may: nobody replicates from it, or a server that is not below
    /// it names it as its replica.
    pub(super) fn may_be_replica(&self, members: &[Member], at: usize) -> bool {
        let server = &members[at];
        let lister = server.listed_by.as_ref().and_then(|by| members.iter().position(|m| m.name == *by));
        let below_lister = lister.is_some_and(|by| !self.above[at][by]);
        let hides = server.facts.as_ref().is_some_and(|facts| facts.channels_hidden);
        hides && (self.followers(members, at) == 0 || below_lister)
    }

    /// Writable, replication stopped by command on a silent source, and followed by others: promoted by hand,
    /// without the reset that would have made it plain.
    pub(super) fn is_promoted(&self, members: &[Member], at: usize) -> bool {
        let Some(facts) = &members[at].facts else { return false };
        let stopped = |f: &Facts| {
            f.channels.iter().all(|c| {
                c.receiver == Runs::No
                    && c.applier == Runs::No
                    && c.receiver_error.is_empty()
                    && c.applier_error.is_empty()
            })
        };
        let source_gone = facts.sources.iter().flatten().all(|&source| !members[source].fresh);
        members[at].fresh
            && facts.switches.writable()
            && !facts.channels.is_empty()
            && stopped(facts)
            && source_gone
            && self.receivers_running(members, at) > 0
    }

    /// Whether it has an epoch that none of the servers has that follow `old`: those would have replicated it
    /// from the server that they followed when it was recorded.
    pub(super) fn is_promoted_since(&self, members: &[Member], at: usize, old: usize) -> bool {
        let epoch = |member: &Member| member.facts.as_ref().and_then(|facts| facts.epoch);
        let Some(own) = epoch(&members[at]) else { return false };
        let mut followers = members.iter().filter(|member| {
            member.fresh && member.facts.as_ref().is_some_and(|facts| facts.sources.contains(&Some(old)))
        });
        followers.all(|follower| epoch(follower).is_some_and(|epoch| epoch < own))
    }

    /// How many servers that answer have a channel to it, running or not.
    pub(super) fn followers(&self, members: &[Member], at: usize) -> usize {
        count(members, at, |_| true)
    }

    /// How many servers that answer receive from it now: they see it alive.
    pub(super) fn receivers_running(&self, members: &[Member], at: usize) -> usize {
        count(members, at, |receiver| receiver == Runs::Yes)
    }
}

fn count(members: &[Member], at: usize, counts: impl Fn(Runs) -> bool) -> usize {
    let follows = |facts: &Facts| {
        facts.sources.iter().zip(&facts.channels).any(|(source, c)| *source == Some(at) && counts(c.receiver))
    };
    members
        .iter()
        .enumerate()
        .filter(|(i, s)| *i != at && s.fresh && s.facts.as_ref().is_some_and(follows))
        .count()
}
