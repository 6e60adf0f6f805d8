//! Grouping by round-trip time, for servers that no rule places.
//!
//! Published figures for one region: 0.12 ms inside a zone, 0.41 to 0.70 ms between zones. So times are
//! compared as ratios: sorted, a new group starts where a time is at least twice the one before and 0.25 ms
//! above it. Less is no distance but a busy machine: two servers of one loopback measure 0.05 and 0.2 ms
//! under load. Only "near" against "far" can be told, and not which far group stands where: two zones at the
//! same distance are one group.

use fleet::Zone;
use std::time::Duration;

const RATIO: f64 = 2.0;
const LEAST_STEP: Duration = Duration::from_micros(250);

/// The nearest group's name.
pub(crate) const NEAR: &str = "near";

/// A zone for each of the given times, in their order: `near`, `far-1`, `far-2` ...
pub(crate) fn groups(times: &[Duration]) -> Vec<Zone> {
    let mut order: Vec<usize> = (0..times.len()).collect();
    order.sort_by_key(|&at| times[at]);
    let mut zones = vec![Zone::new(NEAR); times.len()];
    let mut group = 0;
    for pair in order.windows(2) {
        let (before, after) = (times[pair[0]], times[pair[1]]);
        let far =
            after.as_secs_f64() >= RATIO * before.as_secs_f64() && after.saturating_sub(before) >= LEAST_STEP;
        group += usize::from(far);
        if group > 0 {
            zones[pair[1]] = Zone::new(&format!("far-{group}"));
        }
    }
    zones
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(micros: &[u64]) -> Vec<String> {
        let times: Vec<Duration> = micros.iter().map(|us| Duration::from_micros(*us)).collect();
        groups(&times).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn zones_of_a_region_come_out_as_near_and_far() {
        assert_eq!(names(&[408, 117, 698, 130, 668]), ["far-1", "near", "far-1", "near", "far-1"]);
        assert_eq!(names(&[120, 500, 70_000]), ["near", "far-1", "far-2"]);
    }

    #[test]
    fn noise_on_a_fast_network_makes_no_groups() {
        assert_eq!(names(&[20, 45, 90]), ["near", "near", "near"]);
        assert_eq!(names(&[400, 600, 700]), ["near", "near", "near"]);
        assert_eq!(names(&[45, 280]), ["near", "near"], "two servers of one loopback under load");
        assert!(names(&[]).is_empty());
    }
}
