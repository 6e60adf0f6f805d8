//! Who takes over: whoever *received* most, applied or not. Semi-sync says that one replica had a
//! transaction, not which; a replica that acknowledges may be behind one that does not, so its state never
//! decides.
//!
//! MariaDB says what its receiver has written to the relay log (`Gtid_IO_Pos`); MySQL the transactions
//! received since the relay log began (`Retrieved_Gtid_Set`), to which what is executed belongs too.

use fleet::{Flavour, GtidError, GtidPosition, GtidSet, ServerName, Version};
use std::fmt;

/// What a replica has received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// Up to here in each domain.
    MariaDb(GtidPosition),
    MySql(GtidSet),
}

impl Received {
    /// From what the server says: of the receiver, and of what is executed.
    ///
    /// # Errors
    /// When one of the two cannot be read.
    pub fn new(flavour: Flavour, received: &str, executed: &str) -> Result<Self, GtidError> {
        match flavour {
            Flavour::MySql => Ok(Self::MySql(received.parse::<GtidSet>()?.union(&executed.parse()?))),
            // What was applied counts only where nothing was received, as since a restart. A position that
            // was read from its log would hold transactions of the replica's own.
            Flavour::MariaDb => {
                let received: GtidPosition = received.parse()?;
                Ok(Self::MariaDb(if received.is_empty() { executed.parse()? } else { received }))
            }
        }
    }

    /// Whether everything in `other` is here.
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::MariaDb(ours), Self::MariaDb(theirs)) => ours.covers(theirs),
            (Self::MySql(ours), Self::MySql(theirs)) => ours.covers(theirs),
            _ => false,
        }
    }

    /// How many transactions are here and not in `other`.
    pub fn beyond(&self, other: &Self) -> u64 {
        match (self, other) {
            (Self::MariaDb(ours), Self::MariaDb(theirs)) => {
                let reached = |domain| theirs.domain(domain).map_or(0, |last| last.sequence);
                ours.domains().map(|(domain, last)| last.sequence.saturating_sub(reached(domain))).sum()
            }
            (Self::MySql(ours), Self::MySql(theirs)) => ours.minus(theirs).len(),
            (Self::MariaDb(_), Self::MySql(_)) | (Self::MySql(_), Self::MariaDb(_)) => 0,
        }
    }

    /// Nothing, as a server of this flavour says it.
    pub fn nothing(like: &Self) -> Self {
        match like {
            Self::MariaDb(_) => Self::MariaDb(GtidPosition::default()),
            Self::MySql(_) => Self::MySql(GtidSet::default()),
        }
    }
}

impl fmt::Display for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MariaDb(position) => position.fmt(f),
            Self::MySql(set) => set.fmt(f),
        }
    }
}

/// A replica that answers.
#[derive(Clone, Debug)]
pub struct Standing {
    pub server: ServerName,
    pub received: Received,
    /// Why it cannot be the primary, if so.
    pub unusable: Option<String>,
    /// An older server cannot follow a newer one.
    pub version: Version,
}

/// Why nobody is chosen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoChoice {
    #[error("no replica answers")]
    Nobody,
    /// Two have what the other has not.
    #[error("nobody has received everything: {one} and {other} each have what the other does not")]
    Diverged { one: ServerName, other: ServerName },
    /// The one that is wanted received less.
    #[error("{wanted} has received less than {ahead}: choose {ahead}, or nobody and the best is taken")]
    Behind {
        wanted: ServerName,
        /// Has more.
        ahead: ServerName,
    },
    /// The one with most cannot take over.
    #[error("{server} has received most and cannot take over: {why}")]
    Unusable { server: ServerName, why: String },
    /// There is no such replica.
    #[error("{wanted} is no replica of the dead primary that answers")]
    Unknown { wanted: ServerName },
}

/// The replica that takes over: one that has received all that anybody has; of several the oldest version,
/// then the first.
///
/// # Errors
/// [`NoChoice`]; never a replica that lacks what another has.
pub fn choose<'a>(standings: &'a [Standing], wanted: Option<&ServerName>) -> Result<&'a Standing, NoChoice> {
    let has_all = |one: &Standing| standings.iter().all(|other| one.received.covers(&other.received));
    let best: Vec<&Standing> = standings.iter().filter(|standing| has_all(standing)).collect();
    let Some(first) = best.first() else {
        let Some(one) = standings.first() else { return Err(NoChoice::Nobody) };
        let other = standings.iter().find(|other| !one.received.covers(&other.received)).unwrap_or(one);
        return Err(NoChoice::Diverged { one: one.server.clone(), other: other.server.clone() });
    };
    if let Some(wanted) = wanted {
        let Some(standing) = standings.iter().find(|standing| standing.server == *wanted) else {
            return Err(NoChoice::Unknown { wanted: wanted.clone() });
        };
        if !has_all(standing) {
            return Err(NoChoice::Behind { wanted: wanted.clone(), ahead: first.server.clone() });
        }
        return usable(standing);
    }
    let able = best.iter().filter(|standing| standing.unusable.is_none());
    match able.min_by_key(|standing| standing.version.numbers()) {
        Some(standing) => Ok(standing),
        None => usable(first),
    }
}

fn usable(standing: &Standing) -> Result<&Standing, NoChoice> {
    match &standing.unusable {
        None => Ok(standing),
        Some(why) => Err(NoChoice::Unusable { server: standing.server.clone(), why: why.clone() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn standing(name: usize, received: &str, usable: bool) -> Standing {
        let flavour = if received.contains(':') { Flavour::MySql } else { Flavour::MariaDb };
        Standing {
            server: ServerName::new(&format!("r{name}")),
            received: Received::new(flavour, received, "").unwrap(),
            unusable: (!usable).then(|| "it writes no binary log".to_owned()),
            version: Version::new(flavour, 10, 11, 6),
        }
    }

    #[test]
    fn what_was_received_and_not_applied_counts() {
        let mysql =
            |received: &str, executed: &str| Received::new(Flavour::MySql, received, executed).unwrap();
        let uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
        let ahead = mysql(&format!("{uuid}:4-9"), &format!("{uuid}:1-5"));
        assert!(ahead.covers(&mysql("", &format!("{uuid}:1-9"))));
        let maria =
            |received: &str, executed: &str| Received::new(Flavour::MariaDb, received, executed).unwrap();
        assert!(maria("0-1-9", "0-1-5").covers(&maria("", "0-1-9")));
        // A transaction of its own (server 2) is no proof that it received the primary's of that number.
        assert!(!maria("0-1-5", "0-2-9").covers(&maria("0-1-9", "")));
    }

    #[test]
    fn who_is_behind_or_has_diverged_is_not_taken() {
        let all = [standing(0, "0-1-5", true), standing(1, "0-1-9", false)];
        assert!(matches!(choose(&all, None), Err(NoChoice::Unusable { .. })));
        let wanted = ServerName::new("r0");
        assert!(matches!(choose(&all, Some(&wanted)), Err(NoChoice::Behind { .. })));
        let apart = [standing(0, "0-1-5,1-1-9", true), standing(1, "0-1-9,1-1-5", true)];
        assert!(matches!(choose(&apart, None), Err(NoChoice::Diverged { .. })));
        assert_eq!(choose(&[], None).unwrap_err(), NoChoice::Nobody);
    }

    proptest! {
        #[test]
        fn whoever_is_chosen_has_everything_that_anybody_received(
            positions in prop::collection::vec((0u64..4, 0u64..4, any::<bool>()), 1..6), wanted in 0usize..8,
        ) {
            let position = |a: u64, b: u64| format!("0-1-{},1-1-{}", a + 1, b + 1);
            let standings: Vec<Standing> = positions
                .iter()
                .enumerate()
                .map(|(n, (a, b, usable))| standing(n, &position(*a, *b), *usable))
                .collect();
            let wanted = (wanted < standings.len()).then(|| standings[wanted].server.clone());
            if let Ok(chosen) = choose(&standings, wanted.as_ref()) {
                prop_assert!(standings.iter().all(|other| chosen.received.covers(&other.received)));
                prop_assert!(chosen.unusable.is_none());
                prop_assert!(wanted.is_none_or(|wanted| wanted == chosen.server));
            } else if wanted.is_none() {
                let fit = |one: &&Standing| {
                    one.unusable.is_none() && standings.iter().all(|other| one.received.covers(&other.received))
                };
                prop_assert!(standings.iter().find(fit).is_none(), "there was one");
            }
        }
    }
}
