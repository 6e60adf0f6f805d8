//! MySQL's GTID sets: for each source (a server's uuid, since 8.3 with an optional tag) the transaction
//! numbers it has, as sorted, disjoint, half-open intervals that never touch.
//!
//! `3e11fa47-71ca-11e1-9e33-c80aa9429562:1-3:11:backup:1-2` is 1, 2, 3 and 11 of that server, and 1 and 2
//! with the tag `backup`.

use super::GtidError;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// A set of transactions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct GtidSet(BTreeMap<GtidSource, Vec<Interval>>);

/// Who wrote a transaction first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GtidSource {
    /// The server's uuid, as a number.
    pub uuid: u128,
    /// The tag, if any (MySQL 8.3 and later).
    pub tag: Option<Box<str>>,
}

/// From the first number to before the second.
type Interval = (u64, u64);

const WANTED: &str = "a MySQL GTID set (uuid:1-5:7,...)";

impl GtidSet {
    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many transactions it holds.
    pub fn len(&self) -> u64 {
        self.0.values().flatten().map(|(from, to)| to - from).sum()
    }

    /// How many intervals it is written in: what it costs to keep.
    pub fn intervals(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }

    /// Whether it holds every transaction of `other`.
    pub fn covers(&self, other: &Self) -> bool {
        other.0.iter().all(|(source, theirs)| {
            let ours = self.0.get(source).map_or(&[][..], Vec::as_slice);
            theirs.iter().all(|interval| holds(ours, *interval))
        })
    }

    /// What is in either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut all = self.0.clone();
        for (source, theirs) in &other.0 {
            let ours = all.entry(source.clone()).or_default();
            ours.extend_from_slice(theirs);
            normalise(ours);
        }
        Self(all)
    }

    /// What is in `self` and not in `other`: the errant transactions of a replica when `other` is its
    /// primary's set.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        let left = self.0.iter().filter_map(|(source, ours)| {
            let theirs = other.0.get(source).map_or(&[][..], Vec::as_slice);
            let rest = subtract(ours, theirs);
            (!rest.is_empty()).then(|| (source.clone(), rest))
        });
        Self(left.collect())
    }

    /// What is in both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.minus(&self.minus(other))
    }

    /// The same, and of each source that it has something of everything before the first of that.
    #[must_use]
    pub fn from_the_first(&self) -> Self {
        let mut all = self.0.clone();
        for intervals in all.values_mut() {
            if let Some(first) = intervals.first_mut() {
                first.0 = 1;
            }
        }
        Self(all)
    }

    /// Adds transactions `from..=to` of a source.
    pub fn add(&mut self, source: GtidSource, from: u64, to: u64) {
        if from >= 1 && from <= to && to < u64::MAX {
            let intervals = self.0.entry(source).or_default();
            intervals.push((from, to + 1));
            normalise(intervals);
        }
    }
}

/// Whether one of the sorted, disjoint `intervals` contains all of `wanted`.
fn holds(intervals: &[Interval], wanted: Interval) -> bool {
    let after = intervals.partition_point(|(from, _)| *from <= wanted.0);
    after > 0 && intervals[after - 1].1 >= wanted.1
}

/// Sorts and joins what overlaps or touches.
fn normalise(intervals: &mut Vec<Interval>) {
    intervals.sort_unstable();
    let mut joined: Vec<Interval> = Vec::with_capacity(intervals.len());
    for &(from, to) in intervals.iter() {
        match joined.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => joined.push((from, to)),
        }
    }
    *intervals = joined;
}

fn subtract(ours: &[Interval], theirs: &[Interval]) -> Vec<Interval> {
    let mut rest = Vec::with_capacity(ours.len());
    for &(mut from, to) in ours {
        for &(their_from, their_to) in theirs {
            if their_to <= from || their_from >= to {
                continue;
            }
            if their_from > from {
                rest.push((from, their_from));
            }
            from = their_to;
        }
        if from < to {
            rest.push((from, to));
        }
    }
    rest
}

impl FromStr for GtidSet {
    type Err = GtidError;

    fn from_str(text: &str) -> Result<Self, GtidError> {
        let mut set: BTreeMap<GtidSource, Vec<Interval>> = BTreeMap::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let mut words = part.split(':').map(str::trim);
            let uuid = parse_uuid(words.next().unwrap_or_default())?;
            let mut source = GtidSource { uuid, tag: None };
            for word in words {
                if word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
                    source.tag = Some(word.to_ascii_lowercase().into());
                } else {
                    set.entry(source.clone()).or_default().push(parse_interval(word)?);
                }
            }
        }
        set.values_mut().for_each(normalise);
        Ok(Self(set))
    }
}

fn parse_uuid(text: &str) -> Result<u128, GtidError> {
    let wrong = |why| GtidError { text: text.to_owned(), wanted: WANTED, why };
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    if digits.len() != 32 {
        return Err(wrong("its uuid does not have 32 hexadecimal digits"));
    }
    u128::from_str_radix(&digits, 16).map_err(|_| wrong("its uuid is not hexadecimal"))
}

fn parse_interval(text: &str) -> Result<Interval, GtidError> {
    let wrong = |why| GtidError { text: text.to_owned(), wanted: WANTED, why };
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    let number = |t: &str| t.trim().parse::<u64>().map_err(|_| wrong("an interval is not two numbers"));
    let (from, to) = (number(from)?, number(to)?);
    if from == 0 || from > to || to == u64::MAX {
        return Err(wrong("an interval starts at 1 or later and does not run backwards"));
    }
    Ok((from, to + 1))
}

impl fmt::Display for GtidSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut last_uuid = None;
        for (source, intervals) in &self.0 {
            if last_uuid != Some(source.uuid) {
                let comma = if last_uuid.is_some() { "," } else { "" };
                write!(f, "{comma}{}", Uuid(source.uuid))?;
                last_uuid = Some(source.uuid);
            }
            if let Some(tag) = &source.tag {
                write!(f, ":{tag}")?;
            }
            for (from, to) in intervals {
                if *to == from + 1 { write!(f, ":{from}")? } else { write!(f, ":{from}-{}", to - 1)? }
            }
        }
        Ok(())
    }
}

struct Uuid(u128);

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = format!("{:032x}", self.0);
        write!(f, "{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const A: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";

    fn set(text: &str) -> GtidSet {
        text.parse().unwrap()
    }

    #[test]
    fn intervals_that_touch_are_one() {
        assert_eq!(set(&format!("{A}:1-3:4-7:9")).to_string(), format!("{A}:1-7:9"));
        assert_eq!(set(&format!("{A}:5, {A}:1-4\n")).to_string(), format!("{A}:1-5"));
    }

    #[test]
    fn tags_are_sources_of_their_own() {
        let tagged = set(&format!("{A}:1-3:backup:1-2"));
        assert_eq!(tagged.len(), 5);
        assert!(!tagged.covers(&set(&format!("{A}:other:1"))));
        assert_eq!(tagged.to_string(), format!("{A}:1-3:backup:1-2"));
    }

    #[test]
    fn errant_transactions_are_what_the_primary_does_not_have() {
        let (replica, primary) = (set(&format!("{A}:1-10:12")), set(&format!("{A}:1-11")));
        assert_eq!(replica.minus(&primary).to_string(), format!("{A}:12"));
    }

    #[test]
    fn a_set_can_be_filled_up_from_the_first_transaction_and_no_gap_behind_it() {
        let tagged = set(&format!("{A}:5-7:9:backup:2"));
        assert_eq!(tagged.from_the_first().to_string(), format!("{A}:1-7:9:backup:1-2"));
        assert!(GtidSet::default().from_the_first().is_empty());
    }

    #[test]
    fn what_is_no_set_is_refused_with_its_reason() {
        for (text, part) in [
            ("nonsense:1", "uuid"),
            (&*format!("{A}:0-3"), "starts at 1"),
            (&*format!("{A}:3-1"), "backwards"),
            (&*format!("{A}:1-"), "two numbers"),
        ] {
            assert!(text.parse::<GtidSet>().unwrap_err().to_string().contains(part), "{text}");
        }
    }

    fn any_set() -> impl Strategy<Value = GtidSet> {
        proptest::collection::vec((0u128..3, proptest::option::of("[a-c]"), 1u64..30, 0u64..6), 0..12)
            .prop_map(|parts| {
                let mut set = GtidSet::default();
                for (uuid, tag, from, length) in parts {
                    set.add(GtidSource { uuid, tag: tag.map(Into::into) }, from, from + length);
                }
                set
            })
    }

    proptest! {
        #[test]
        fn sets_read_back_as_they_are_written(a in any_set()) {
            prop_assert_eq!(set(&a.to_string()), a);
        }

        #[test]
        fn union_difference_and_intersection_agree(a in any_set(), b in any_set()) {
            let (either, both) = (a.union(&b), a.intersection(&b));
            prop_assert!(either.covers(&a) && either.covers(&b));
            prop_assert!(a.covers(&both) && b.covers(&both));
            prop_assert_eq!(either.len() + both.len(), a.len() + b.len());
            prop_assert_eq!(a.minus(&b).union(&both), a.clone());
            prop_assert!(a.minus(&b).intersection(&b).is_empty());
            prop_assert_eq!(a.covers(&b), b.minus(&a).is_empty());
        }

        #[test]
        fn two_sets_that_cover_each_other_are_equal(a in any_set(), b in any_set()) {
            prop_assert_eq!(a.covers(&b) && b.covers(&a), a == b);
        }
    }
}
