//! How many readers each zone needs, so that the loss of any one zone is survived at the objective.
//!
//! A reader carries a number of reads a second within the objective (`headroom measure`), less what it spends
//! on applying the primary's writes: each replica repeats all of them, so a further replica adds reads and
//! nothing else. The reads of a lost zone's users arrive in the others. With T readers in Z zones, at most M
//! of them in one, the plan is safe when (T - M) x capacity >= all reads: for the lower end of the capacity's
//! interval.
//!
//! The fewest readers are spread as evenly as that asks for, and within it where reads are born, so that the
//! least of them cross zones: with d the zone's share of the reads and c its share of the readers, max(0, d -
//! c) of all reads leave it.
//!
//! Worked example: 900 reads a second, a third in each of three zones, 200 a reader: two zones must carry
//! all, so 5 readers must be left; 6 in all leave only 4, 7 (3, 2, 2) leave 4, 8 (3, 3, 2) leave 5: 8
//! readers.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Readers at most, in all: beyond it something else is wrong.
pub const MOST: usize = 10_000;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// Zones with the reads a second that are born there, at the peak.
    pub zones: Vec<(String, f64)>,
    /// Reads a second of one reader within the objective: the lower end of its interval.
    pub reader_per_s: f64,
    /// Share of a reader that applying the writes takes, where the capacity was measured without them.
    pub apply_share: f64,
    /// Of that capacity this share is used.
    pub fill: f64,
}

/// Readers zone by zone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Layout {
    /// As in the question.
    pub readers: Vec<usize>,
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPlan {
    /// With one zone nothing is left when it is lost.
    #[error("one zone cannot survive its own loss; name at least two")]
    OneZone,
    /// Its second figure would be another zone's.
    #[error("zone '{zone}' is named twice")]
    Twice {
        /// Its name.
        zone: String,
    },
    /// A reader has nothing left for reads.
    #[error(
        "a reader has nothing left for reads: applying the primary's writes takes all of it. More replicas do not help; the writes have to be split (sharding)"
    )]
    NothingLeft,
    /// More readers than [`MOST`].
    #[error("more than {MOST} readers would be needed; check the capacity of a reader")]
    TooMany,
}

impl Question {
    /// Reads a second that one reader adds.
    pub fn each(&self) -> f64 {
        self.reader_per_s * self.fill * (1.0 - self.apply_share)
    }

    /// All reads, a second.
    pub fn reads(&self) -> f64 {
        self.zones.iter().map(|(_, reads)| reads).sum()
    }

    /// The fewest readers that survive the loss of any zone, spread for the least traffic between zones.
    ///
    /// # Errors
    /// See [`NoPlan`].
    pub fn fewest(&self) -> Result<Layout, NoPlan> {
        let zones = self.zones.len();
        if zones < 2 {
            return Err(NoPlan::OneZone);
        }
        let mut names = BTreeSet::new();
        if let Some((zone, _)) = self.zones.iter().find(|(zone, _)| !names.insert(zone)) {
            return Err(NoPlan::Twice { zone: zone.clone() });
        }
        let each = self.each();
        if each.is_nan() || each <= 0.0 {
            return Err(NoPlan::NothingLeft);
        }
        let left = (self.reads() / each - 1e-9).ceil().max(1.0);
        if left > MOST as f64 {
            return Err(NoPlan::TooMany);
        }
        let left = left as usize;
        let total = (left..).find(|total| total - total.div_ceil(zones) >= left).unwrap_or(left);
        let most = total - left;
        let mut readers = vec![0; zones];
        for _ in 0..total {
            // Where most reads are born for each reader, of the zones that may have one more.
            let room = (0..zones).filter(|zone| readers[*zone] < most);
            let wants = |zone: &usize| self.zones[*zone].1 / (readers[*zone] as f64 + 0.5);
            if let Some(zone) = room.max_by(|a, b| wants(a).total_cmp(&wants(b))) {
                readers[zone] += 1;
            }
        }
        Ok(Layout { readers })
    }

    /// The fewest readers to add to a layout, zone by zone, so that it survives the loss of any zone: none
    /// where it does already, whatever [`Self::fewest`] would have built from nothing. Each goes where the
    /// fewest are, among those where most reads are born: that leaves the most when the largest zone is lost.
    ///
    /// # Errors
    /// See [`NoPlan`].
    pub fn additions(&self, layout: &Layout) -> Result<Vec<usize>, NoPlan> {
        self.fewest()?;
        let mut then = layout.clone();
        while !self.survives(&then).iter().all(|well| *well) {
            let least = then.readers.iter().min().copied().unwrap_or(0);
            let smallest = (0..then.readers.len()).filter(|zone| then.readers[*zone] == least);
            let born = |zone: &usize| self.zones.get(*zone).map_or(0.0, |(_, reads)| *reads);
            let Some(zone) = smallest.max_by(|a, b| born(a).total_cmp(&born(b))) else { break };
            then.readers[zone] += 1;
        }
        Ok(then.readers.iter().zip(&layout.readers).map(|(then, now)| then - now).collect())
    }

    /// Whether what is left carries all reads, zone by zone that may be lost.
    pub fn survives(&self, layout: &Layout) -> Vec<bool> {
        let all: usize = layout.readers.iter().sum();
        let carries = |lost: usize| (all - lost) as f64 * self.each() >= self.reads() - 1e-9;
        layout.readers.iter().map(|lost| carries(*lost)).collect()
    }

    /// Reads a second that cross zones while all are well.
    pub fn crossing(&self, layout: &Layout) -> f64 {
        let (reads, all) = (self.reads(), layout.readers.iter().sum::<usize>().max(1) as f64);
        let leaves =
            |((_, born), readers): (&(String, f64), &usize)| (born - reads * *readers as f64 / all).max(0.0);
        self.zones.iter().zip(&layout.readers).map(leaves).sum()
    }

    /// How many times today's reads a layout carries when its largest zone is lost.
    pub fn headroom(&self, layout: &Layout) -> f64 {
        let all: usize = layout.readers.iter().sum();
        let most = layout.readers.iter().max().copied().unwrap_or(0);
        (all - most) as f64 * self.each() / self.reads().max(1e-9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_zone_that_is_named_twice_is_refused() {
        let zones = vec![("a".to_owned(), 1.0), ("b".to_owned(), 1.0), ("a".to_owned(), 2.0)];
        let question = Question { zones, ..question(&[], 200.0) };
        assert_eq!(question.fewest().unwrap_err().to_string(), "zone 'a' is named twice");
    }

    fn question(reads: &[f64], reader: f64) -> Question {
        let zones = reads.iter().enumerate().map(|(at, reads)| (format!("z{at}"), *reads)).collect();
        Question { zones, reader_per_s: reader, apply_share: 0.0, fill: 1.0 }
    }

    #[test]
    fn three_zones_of_which_any_may_be_lost() {
        let question = question(&[300.0, 300.0, 300.0], 200.0);
        let layout = question.fewest().unwrap();
        assert_eq!(layout.readers.iter().sum::<usize>(), 8);
        assert_eq!(layout.readers.iter().max(), Some(&3));
        assert!(question.headroom(&layout) >= 1.0);
    }

    #[test]
    fn each_replica_repeats_the_writes_so_that_it_adds_less() {
        let mut question = question(&[400.0, 400.0], 500.0);
        assert_eq!(question.fewest().unwrap().readers, [2, 2]);
        question.apply_share = 0.5;
        assert_eq!(question.fewest().unwrap().readers, [4, 4]);
        question.apply_share = 1.0;
        assert_eq!(question.fewest(), Err(NoPlan::NothingLeft));
    }

    #[test]
    fn a_single_zone_is_refused_in_words() {
        assert_eq!(question(&[100.0], 50.0).fewest(), Err(NoPlan::OneZone));
    }

    #[test]
    fn a_layout_that_survives_needs_nothing_whatever_the_fewest_would_be() {
        let question = question(&[300.0, 300.0, 300.0], 200.0);
        assert_eq!(question.fewest().unwrap().readers.iter().sum::<usize>(), 8);
        let add = |readers: &[usize]| question.additions(&Layout { readers: readers.to_vec() }).unwrap();
        assert_eq!(add(&[2, 3, 3]), [0, 0, 0], "the fewest layout has its zones in another order");
        assert_eq!(add(&[1, 3, 3]), [1, 0, 0]);
        assert_eq!(add(&[8, 0, 5]), [0, 0, 0], "five are left when the largest zone is lost");
    }

    proptest! {
        #[test]
        fn what_is_added_survives_every_loss_and_one_less_would_not(
            zones in proptest::collection::vec((0.0..5000.0_f64, 0..9_usize), 2..4), reader in 200.0..900.0_f64,
        ) {
            let (reads, readers): (Vec<f64>, Vec<usize>) = zones.into_iter().unzip();
            let question = question(&reads, reader);
            let today = Layout { readers };
            let added = question.additions(&today).unwrap();
            let with = |added: &[usize]| {
                let readers = today.readers.iter().zip(added).map(|(now, more)| now + more).collect();
                question.survives(&Layout { readers }).iter().all(|well| *well)
            };
            prop_assert!(with(&added));
            // Of all ways to add one reader less, none survives.
            let total: usize = added.iter().sum();
            let fewer = total.saturating_sub(1);
            for first in 0..=fewer {
                for second in 0..=fewer - first {
                    let rest = fewer - first - second;
                    let other = if reads.len() == 2 { vec![first, second + rest] } else { vec![first, second, rest] };
                    prop_assert!(total == 0 || !with(&other), "{added:?} {other:?}");
                }
            }
        }

        #[test]
        fn the_plan_survives_every_loss_and_one_reader_less_does_not(
            reads in proptest::collection::vec(0.0..5000.0_f64, 2..6), reader in 50.0..900.0_f64,
        ) {
            let question = question(&reads, reader);
            let layout = question.fewest().unwrap();
            prop_assert!(question.survives(&layout).iter().all(|well| *well), "{layout:?}");
            let total: usize = layout.readers.iter().sum();
            // No spread of one reader less would do: the most even one does not.
            let fewer = total - 1;
            let left = (fewer - fewer.div_ceil(reads.len())) as f64;
            prop_assert!(total == reads.len().min(2) || left * question.each() < question.reads() || question.reads() < 1.0);
        }
    }
}
