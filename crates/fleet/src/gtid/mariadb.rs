//! MariaDB's position: the last transaction of each replication domain. Within a domain the sequence number
//! grows, so a position has everything that a position with a smaller or equal number has.

use super::GtidError;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// The last transaction of each domain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct GtidPosition(BTreeMap<u32, Transaction>);

/// The last transaction in a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Transaction {
    /// `server_id` of the server that wrote it first.
    pub server: u32,
    /// Its number in the domain.
    pub sequence: u64,
}

impl GtidPosition {
    /// Whether no domain has a transaction.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether everything that `other` stands for is in `self`: each of its domains, as far.
    pub fn covers(&self, other: &Self) -> bool {
        other.0.iter().all(|(domain, theirs)| self.reaches(*domain, theirs.sequence))
    }

    /// The domains and how far each is, by domain.
    pub fn domains(&self) -> impl Iterator<Item = (u32, Transaction)> + '_ {
        self.0.iter().map(|(domain, last)| (*domain, *last))
    }

    /// The last transaction of a domain.
    pub fn domain(&self, domain: u32) -> Option<Transaction> {
        self.0.get(&domain).copied()
    }

    /// The same without the domains for which `keep` says no.
    #[must_use]
    pub fn only(&self, mut keep: impl FnMut(u32) -> bool) -> Self {
        Self(self.0.iter().filter(|(domain, _)| keep(**domain)).map(|(d, t)| (*d, *t)).collect())
    }

    /// The further of the two in each domain.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut all = self.0.clone();
        for (domain, theirs) in &other.0 {
            let ours = all.entry(*domain).or_insert(*theirs);
            if theirs.sequence > ours.sequence {
                *ours = *theirs;
            }
        }
        Self(all)
    }

    fn reaches(&self, domain: u32, sequence: u64) -> bool {
        self.0.get(&domain).is_some_and(|ours| ours.sequence >= sequence)
    }
}

impl FromIterator<(u32, Transaction)> for GtidPosition {
    fn from_iter<I: IntoIterator<Item = (u32, Transaction)>>(items: I) -> Self {
        items.into_iter().fold(Self::default(), |all, item| all.union(&Self(BTreeMap::from([item]))))
    }
}

impl FromStr for GtidPosition {
    type Err = GtidError;

    fn from_str(text: &str) -> Result<Self, GtidError> {
        text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(one).collect()
    }
}

fn one(text: &str) -> Result<(u32, Transaction), GtidError> {
    let wrong =
        |why| GtidError { text: text.to_owned(), wanted: "a MariaDB GTID (domain-server-sequence)", why };
    let mut parts = text.split('-');
    let mut next = || parts.next().ok_or_else(|| wrong("it has fewer than three numbers"));
    let (domain, server, sequence) = (next()?, next()?, next()?);
    if parts.next().is_some() {
        return Err(wrong("it has more than three numbers"));
    }
    let domain = domain.parse().map_err(|_| wrong("its domain is not a 32-bit number"))?;
    let server = server.parse().map_err(|_| wrong("its server id is not a 32-bit number"))?;
    let sequence = sequence.parse().map_err(|_| wrong("its sequence is not a 64-bit number"))?;
    Ok((domain, Transaction { server, sequence }))
}

impl fmt::Display for GtidPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (domain, last)) in self.0.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma}{domain}-{}-{}", last.server, last.sequence)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn position(text: &str) -> GtidPosition {
        text.parse().unwrap()
    }

    #[test]
    fn a_position_covers_what_lies_behind_it_in_every_domain() {
        assert!(position("0-1-8,1-2-5").covers(&position("0-3-7")));
        assert!(position("0-1-8").covers(&position("")));
        assert!(!position("0-1-8").covers(&position("0-1-9")));
        assert!(!position("0-1-8").covers(&position("1-1-1")));
    }

    #[test]
    fn what_is_no_position_is_refused_with_its_reason() {
        for (text, part) in
            [("0-1", "fewer"), ("0-1-2-3", "more"), ("x-1-2", "domain"), ("0-1-x", "sequence")]
        {
            assert!(text.parse::<GtidPosition>().unwrap_err().to_string().contains(part), "{text}");
        }
    }

    fn any_position() -> impl Strategy<Value = GtidPosition> {
        proptest::collection::btree_map(0u32..4, (1u32..4, 1u64..50), 0..4).prop_map(|domains| {
            domains.into_iter().map(|(d, (server, sequence))| (d, Transaction { server, sequence })).collect()
        })
    }

    proptest! {
        #[test]
        fn positions_read_back_as_they_are_written(p in any_position()) {
            prop_assert_eq!(position(&p.to_string()), p);
        }

        #[test]
        fn the_union_covers_both_and_nothing_covers_more_than_it_has(a in any_position(), b in any_position()) {
            let both = a.union(&b);
            prop_assert!(both.covers(&a) && both.covers(&b));
            prop_assert_eq!(a.covers(&both), a.covers(&b));
        }

        #[test]
        fn covering_is_transitive(a in any_position(), b in any_position(), c in any_position()) {
            if a.covers(&b) && b.covers(&c) {
                prop_assert!(a.covers(&c));
            }
        }
    }
}
