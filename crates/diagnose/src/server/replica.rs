//! What a replica says about its own replication: enough for a verdict. Lag in milliseconds, by positions, is
//! `observe`'s; here it is the server's own word in whole seconds, which reads 0 while nothing arrives.

use observe::Rows;
use serde::{Deserialize, Serialize};

/// A replica by its own word. With several sources: the one that is furthest behind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Replica {
    /// Seconds behind; `None` when the server does not know or a thread is stopped.
    pub lag_s: Option<f64>,
    /// How late it is on purpose, seconds.
    pub delay_s: f64,
    /// Whether its receiver is connected to the source.
    pub receives: bool,
    /// Whether changes are applied.
    pub applies: bool,
}

impl Replica {
    /// Reads `SHOW REPLICA STATUS` in any of its spellings; `None` when it replicates from nobody.
    pub(super) fn read(rows: &Rows) -> Option<Self> {
        let all = rows.iter().map(|row| Self {
            lag_s: row.parse(&["seconds_behind_source", "seconds_behind_master"]),
            delay_s: row.parse(&["sql_delay"]).unwrap_or(0.0),
            // One that says `Connecting` has no source to receive from.
            receives: row
                .filled(&["replica_io_running", "slave_io_running"])
                .is_some_and(|text| text.eq_ignore_ascii_case("yes")),
            applies: row.is_on(&["replica_sql_running", "slave_sql_running"]),
        });
        all.max_by(|a, b| a.badness().total_cmp(&b.badness()))
    }

    /// Reads Aurora's word on one of its readers.
    pub(super) fn read_aurora(rows: &Rows) -> Option<Self> {
        let row = rows.first().filter(|row| !row.is_on(&["is_writer"]))?;
        let lag_s = row.parse::<f64>(&["lag_ms"]).map(|ms| ms / 1e3);
        Some(Self { lag_s, delay_s: 0.0, receives: true, applies: true })
    }

    /// Seconds behind beyond what is wanted.
    pub fn unwanted_lag_s(&self) -> Option<f64> {
        self.lag_s.map(|lag| (lag - self.delay_s).max(0.0))
    }

    /// Whether it may be behind by more than is wanted: by a second, or the server does not know.
    pub(super) fn may_be_behind(&self) -> bool {
        self.unwanted_lag_s().is_none_or(|lag| lag >= 1.0)
    }

    fn badness(&self) -> f64 {
        if self.receives && self.applies { self.unwanted_lag_s().unwrap_or(0.0) } else { f64::INFINITY }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_that_is_furthest_behind_counts_and_wanted_delay_does_not() {
        let names = ["Slave_IO_Running", "Slave_SQL_Running", "Seconds_Behind_Master", "SQL_Delay"];
        let row = |lag: &str, delay: &str| {
            ["Yes", "Yes", lag, delay].iter().map(|text| Some((*text).to_owned())).collect::<Vec<_>>()
        };
        let rows = Rows::new(names.map(str::to_owned), vec![row("3600", "3600"), row("12", "0")]);
        let replica = Replica::read(&rows).unwrap();
        assert_eq!((replica.lag_s, replica.unwanted_lag_s()), (Some(12.0), Some(12.0)));
        assert_eq!(Replica::read(&Rows::new(names.map(str::to_owned), vec![])), None);
    }

    #[test]
    fn a_receiver_that_still_connects_receives_nothing() {
        let receives = |running: &str| {
            let names = ["Slave_IO_Running", "Slave_SQL_Running"].map(str::to_owned);
            let row = [running, "Yes"].map(|text| Some(text.to_owned())).to_vec();
            Replica::read(&Rows::new(names, vec![row])).unwrap().receives
        };
        assert!(receives("Yes") && !receives("Connecting") && !receives("No"));
    }
}
