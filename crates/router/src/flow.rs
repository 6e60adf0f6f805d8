//! Flow: how the reads born in each zone are shared among the zones' servers.
//!
//! With `d[z]` the measured share of reads born in zone z, `c[z]` its share of the eligible capacity and `e`
//! the slack an operator grants to keep reads at home:
//!
//! ```text
//! keep[z] = min(1, (1+e) c[z] / d[z])          what a zone serves of its own reads
//! r[j]    = max(0, c[j] - d[j])                what a zone has to spare
//! flow[z][z] = keep[z]
//! flow[i][j] = (1 - keep[i]) r[j] / sum(r)     what overflows goes where there is room
//! ```
//!
//! **Worked example.** Zones a, b, c; demand 1/3 each; two readers in a, one in b, none in c. Capacity is
//! 2/3, 1/3, 0. `keep` is 1, 1, 0 and `r` is 1/3, 0, 0: zone c sends everything to a, and every reader
//! carries exactly 1/3. A proxy that spreads c's reads evenly over a and b would load b's reader with 1.5
//! times the mean.
//!
//! **Properties** (tested below). At e = 0 each zone carries exactly its share of capacity, and reads that
//! cross zones are `sum(max(0, d - c))`, the least any exact balance can have. At e > 0 no zone carries more
//! than (1+e) times its share, and less crosses.
//!
//! **Assumptions.** Reads cost the same wherever they are born. Where nobody has room to spare though
//! something overflows (a zone in which nothing was measured, rounding), the overflow goes by capacity: a
//! fallback that only moves shares too small to be seen in the measurement.
//!
//! A zone here is an `Option<Zone>`: `None` stands for all places we cannot name, clients and servers alike.

use fleet::Zone;
use serde::Serialize;

/// Demand and capacity of one zone, in any unit: only their proportions count.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ZoneLoad {
    /// The zone; `None` for whoever lies in no known zone.
    pub zone: Option<Zone>,
    /// Reads born there.
    pub demand: f64,
    /// Capacity of the eligible servers there.
    pub capacity: f64,
}

/// The flow table. Row i, column j: the share of the reads born in `zones[i]` that goes to servers in
/// `zones[j]`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Flow {
    /// The zones, with demand and capacity as shares that sum to 1 (or to 0 when there is none at all).
    pub zones: Vec<ZoneLoad>,
    /// One row a zone of origin; a row sums to 1 when any capacity exists, else it is all 0.
    pub rows: Vec<Vec<f64>>,
}

impl Flow {
    /// Computes the table. Negative, infinite or NaN inputs count as 0; without any demand all zones count
    /// the same.
    pub fn new(mut zones: Vec<ZoneLoad>, slack: f64) -> Self {
        let slack = if slack.is_finite() { slack.max(0.0) } else { 0.0 };
        normalise(&mut zones, |p| &mut p.capacity);
        if !normalise(&mut zones, |p| &mut p.demand) {
            let equal = 1.0 / zones.len().max(1) as f64;
            zones.iter_mut().for_each(|p| p.demand = equal);
        }
        let room: Vec<f64> = zones.iter().map(|p| (p.capacity - p.demand).max(0.0)).collect();
        let all_room: f64 = room.iter().sum();
        // Below this the room is rounding of a perfect fit, not a direction.
        let spread: Vec<f64> = if all_room > 1e-9 {
            room.iter().map(|r| r / all_room).collect()
        } else {
            zones.iter().map(|p| p.capacity).collect()
        };
        let rows = zones
            .iter()
            .enumerate()
            .map(|(own, zone)| {
                let keep = keep(zone, slack);
                let mut row: Vec<f64> = spread.iter().map(|s| (1.0 - keep) * s).collect();
                row[own] += keep;
                row
            })
            .collect();
        Self { zones, rows }
    }

    /// The row of a zone; `None` when the table does not know it.
    pub fn row(&self, zone: Option<&Zone>) -> Option<&[f64]> {
        let at = self.zones.iter().position(|p| p.zone.as_ref() == zone)?;
        Some(&self.rows[at])
    }

    /// The share of all reads that servers of each zone carry when every origin follows the table.
    pub fn carried(&self) -> Vec<f64> {
        (0..self.zones.len())
            .map(|j| self.zones.iter().zip(&self.rows).map(|(p, row)| p.demand * row[j]).sum())
            .collect()
    }

    /// The share of all reads that leaves its zone when every origin follows the table.
    pub fn crossing(&self) -> f64 {
        self.zones.iter().zip(&self.rows).enumerate().map(|(i, (p, row))| p.demand * (1.0 - row[i])).sum()
    }
}

/// What a zone serves of its own reads. A zone in which no read was measured keeps all of its reads if it can
/// serve any.
fn keep(zone: &ZoneLoad, slack: f64) -> f64 {
    if zone.capacity <= 0.0 {
        0.0
    } else if zone.demand <= 0.0 {
        1.0
    } else {
        ((1.0 + slack) * zone.capacity / zone.demand).min(1.0)
    }
}

/// Makes one column sum to 1; `false` when there is nothing to share out (the column is then all 0).
fn normalise(zones: &mut [ZoneLoad], column: impl Fn(&mut ZoneLoad) -> &mut f64) -> bool {
    let mut sum = 0.0;
    for zone in zones.iter_mut() {
        let value = column(zone);
        if !value.is_finite() || *value < 0.0 {
            *value = 0.0;
        }
        sum += *value;
    }
    if sum <= 0.0 || !sum.is_finite() {
        zones.iter_mut().for_each(|p| *column(p) = 0.0);
        return false;
    }
    zones.iter_mut().for_each(|p| *column(p) /= sum);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn zones(of: &[(f64, f64)]) -> Vec<ZoneLoad> {
        let name = |i: usize| Some(Zone::new(&format!("z{i}")));
        of.iter()
            .enumerate()
            .map(|(i, &(demand, capacity))| ZoneLoad { zone: name(i), demand, capacity })
            .collect()
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn the_zone_without_a_reader_goes_where_there_is_room() {
        let flow = Flow::new(zones(&[(1.0, 2.0), (1.0, 1.0), (1.0, 0.0)]), 0.0);
        assert_eq!(flow.rows[0], [1.0, 0.0, 0.0]);
        assert!(near(flow.rows[2][0], 1.0) && near(flow.rows[2][1], 0.0));
        assert!(near(flow.crossing(), 1.0 / 3.0));
    }

    #[test]
    fn ninety_ten_nothing_is_carried_evenly_by_one_reader_a_zone() {
        let flow = Flow::new(zones(&[(0.9, 1.0), (0.1, 1.0), (0.0, 1.0)]), 0.0);
        assert!(flow.carried().iter().all(|l| near(*l, 1.0 / 3.0)));
        assert!(near(flow.crossing(), 0.9 - 1.0 / 3.0));
    }

    #[test]
    fn slack_keeps_reads_at_home_in_the_published_case() {
        // Three readers in a, one in b, none in c: exact balance crosses 41.7 %, a third is the least at all.
        let of = [(1.0, 3.0), (1.0, 1.0), (1.0, 0.0)];
        assert!((Flow::new(zones(&of), 0.0).crossing() - 5.0 / 12.0).abs() < 1e-9);
        assert!((Flow::new(zones(&of), 1.0 / 3.0).crossing() - 1.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn nothing_measured_counts_every_zone_the_same() {
        let flow = Flow::new(zones(&[(0.0, 1.0), (0.0, 1.0)]), 0.0);
        assert_eq!(flow.rows, [[1.0, 0.0], [0.0, 1.0]]);
    }

    #[test]
    fn places_we_cannot_name_send_their_reads_where_there_is_room() {
        let mut of = zones(&[(0.5, 1.0), (0.2, 1.0)]);
        of.push(ZoneLoad { zone: None, demand: 0.3, capacity: 0.0 });
        let flow = Flow::new(of, 0.0);
        let row = flow.row(None).unwrap();
        assert!(near(row[0], 0.0) && near(row[1], 1.0), "{row:?}");
        assert!(flow.row(Some(&Zone::new("elsewhere"))).is_none());
    }

    #[test]
    fn without_any_capacity_no_row_leads_anywhere() {
        let flow = Flow::new(zones(&[(1.0, 0.0), (f64::NAN, -1.0)]), 0.0);
        assert!(flow.rows.iter().flatten().all(|s| *s == 0.0));
        assert!(Flow::new(Vec::new(), 0.0).rows.is_empty());
    }

    proptest! {
        #[test]
        fn rows_sum_to_one_and_are_never_negative(
            of in proptest::collection::vec((0.0..10.0f64, 0.0..10.0f64), 1..8), slack in 0.0..2.0f64
        ) {
            prop_assume!(of.iter().any(|p| p.1 > 1e-6));
            let flow = Flow::new(zones(&of), slack);
            for row in &flow.rows {
                prop_assert!(near(row.iter().sum::<f64>(), 1.0));
                prop_assert!(row.iter().all(|s| *s >= 0.0));
            }
        }

        #[test]
        fn without_slack_each_zone_carries_exactly_its_capacity_with_the_least_crossing(
            of in proptest::collection::vec((0.01..10.0f64, 0.0..10.0f64), 1..8)
        ) {
            prop_assume!(of.iter().any(|p| p.1 > 1e-6));
            let flow = Flow::new(zones(&of), 0.0);
            for (carried, zone) in flow.carried().iter().zip(&flow.zones) {
                prop_assert!((carried - zone.capacity).abs() < 1e-6);
            }
            let least: f64 = flow.zones.iter().map(|p| (p.demand - p.capacity).max(0.0)).sum();
            prop_assert!((flow.crossing() - least).abs() < 1e-6);
        }

        #[test]
        fn slack_bounds_the_load_and_never_adds_crossing(
            of in proptest::collection::vec((0.01..10.0f64, 0.0..10.0f64), 1..8), slack in 0.0..2.0f64
        ) {
            prop_assume!(of.iter().any(|p| p.1 > 1e-6));
            let exact = Flow::new(zones(&of), 0.0);
            let flow = Flow::new(zones(&of), slack);
            for (carried, zone) in flow.carried().iter().zip(&flow.zones) {
                prop_assert!(*carried <= (1.0 + slack) * zone.capacity + 1e-6);
            }
            prop_assert!(flow.crossing() <= exact.crossing() + 1e-9);
        }
    }
}
