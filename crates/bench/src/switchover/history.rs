//! The checker of histories: what clients were told against what the servers have. Knows nothing of how the
//! primary was moved, only what a client may rely on.
//!
//! Each client is one writer. It **appends** its own numbers 1, 2, 3 ... to a table, a transaction each, and
//! in the same transaction sets its own **register** to that number; between, it reads its register back from
//! the primary. A commit is *acknowledged*, *failed* (an error that says that it did not happen, or before
//! the commit was sent) or *unknown* (the connection broke while the commit was under way). Then, of what the
//! servers have at the end:
//!
//! | anomaly | is |
//! |---|---|
//! | lost | acknowledged, and not there |
//! | duplicated | there more than once |
//! | invented | there, and the client was told that it failed, or never asked for it |
//! | out of order | a client's acknowledged numbers do not stand in the order in which they were acknowledged |
//! | stale | a read of a register on the primary gave less than what had been acknowledged before it began |
//! | torn | a register at the end holds a number that is not the client's last append that is there |

use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What a client was told of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    Acknowledged,
    Failed,
    Unknown,
}

/// One client's own record, in its order.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Client {
    /// Number and what was said of it.
    pub(crate) appends: Vec<(u64, Answer)>,
    /// Reads of its register: what had been acknowledged before, and what was read.
    pub(crate) reads: Vec<(u64, u64)>,
}

/// What a server has at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerContent {
    /// All appended rows in the order of their keys: client and number.
    pub(crate) rows: Vec<(u32, u64)>,
    /// Registers by client.
    pub(crate) registers: BTreeMap<u32, u64>,
}

/// How often each anomaly was found; all 0 is a sound history.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Anomalies {
    pub(crate) lost: u64,
    pub(crate) duplicated: u64,
    pub(crate) invented: u64,
    pub(crate) out_of_order: u64,
    pub(crate) stale: u64,
    pub(crate) torn: u64,
    /// The first of each kind, in words.
    pub(crate) examples: Vec<String>,
}

impl Anomalies {
    /// Whether there are none.
    pub(crate) fn none(&self) -> bool {
        *self == Self::default()
    }

    /// Adds those found on another server.
    pub(crate) fn add(&mut self, other: Self) {
        self.lost += other.lost;
        self.duplicated += other.duplicated;
        self.invented += other.invented;
        self.out_of_order += other.out_of_order;
        self.stale += other.stale;
        self.torn += other.torn;
        self.examples.extend(other.examples);
    }

    fn count(&mut self, counter: fn(&mut Self) -> &mut u64, example: impl FnOnce() -> String) {
        let count = counter(self);
        *count += 1;
        if *count == 1 {
            self.examples.push(example());
        }
    }
}

/// Holds what clients were told against what a server has.
pub(crate) fn check(clients: &BTreeMap<u32, Client>, found: &ServerContent) -> Anomalies {
    let mut anomalies = Anomalies::default();
    let mut by_client: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for (client, number) in &found.rows {
        by_client.entry(*client).or_default().push(*number);
    }
    for client in by_client.keys().filter(|client| !clients.contains_key(client)) {
        anomalies.count(|a| &mut a.invented, || format!("rows of client {client}, which is none"));
    }
    for (name, client) in clients {
        let there = by_client.remove(name).unwrap_or_default();
        appends(*name, client, &there, &mut anomalies);
        for (acknowledged, read) in &client.reads {
            if read < acknowledged {
                let words =
                    || format!("client {name} read {read} after {acknowledged} had been acknowledged");
                anomalies.count(|a| &mut a.stale, words);
            }
        }
        let last = there.iter().max().copied().unwrap_or(0);
        let register = found.registers.get(name).copied().unwrap_or(0);
        if register != last {
            let words = || format!("register of client {name} holds {register}, its last row is {last}");
            anomalies.count(|a| &mut a.torn, words);
        }
    }
    anomalies
}

fn appends(name: u32, client: &Client, there: &[u64], anomalies: &mut Anomalies) {
    let mut seen = BTreeSet::new();
    for number in there {
        if !seen.insert(*number) {
            anomalies.count(|a| &mut a.duplicated, || format!("client {name}, number {number}"));
        }
    }
    let told: BTreeMap<u64, Answer> = client.appends.iter().copied().collect();
    for number in &seen {
        match told.get(number) {
            Some(Answer::Acknowledged | Answer::Unknown) => {}
            Some(Answer::Failed) => {
                let words = || format!("client {name}, number {number}: said to have failed, and there");
                anomalies.count(|a| &mut a.invented, words);
            }
            None => anomalies
                .count(|a| &mut a.invented, || format!("client {name}, number {number}: never asked for")),
        }
    }
    let acknowledged: Vec<u64> = client
        .appends
        .iter()
        .filter(|(_, answer)| *answer == Answer::Acknowledged)
        .map(|(n, _)| *n)
        .collect();
    for number in acknowledged.iter().filter(|number| !seen.contains(number)) {
        anomalies.count(|a| &mut a.lost, || format!("client {name}, number {number}"));
    }
    let wanted: BTreeSet<u64> = acknowledged.iter().copied().collect();
    let stands: Vec<u64> = there.iter().copied().filter(|number| wanted.contains(number)).collect();
    for pair in stands.windows(2).filter(|pair| pair[0] > pair[1]) {
        anomalies.count(
            |a| &mut a.out_of_order,
            || format!("client {name}: {} stands before {}", pair[0], pair[1]),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn client(appends: &[(u64, Answer)]) -> BTreeMap<u32, Client> {
        BTreeMap::from([(1, Client { appends: appends.to_vec(), reads: Vec::new() })])
    }

    fn found(rows: &[u64]) -> ServerContent {
        let registers = rows.iter().max().map(|last| (1, *last)).into_iter().collect();
        ServerContent { rows: rows.iter().map(|n| (1, *n)).collect(), registers }
    }

    #[test]
    fn each_anomaly_is_found_and_a_sound_history_has_none() {
        use Answer::{Acknowledged, Failed, Unknown};
        let told = client(&[(1, Acknowledged), (2, Failed), (3, Unknown), (4, Acknowledged)]);
        assert!(check(&told, &found(&[1, 4])).none());
        assert!(check(&told, &found(&[1, 3, 4])).none(), "an unknown one may be there");
        assert_eq!(check(&told, &found(&[1])).lost, 1);
        assert_eq!(check(&told, &found(&[1, 4, 4])).duplicated, 1);
        assert_eq!(check(&told, &found(&[1, 2, 4])).invented, 1);
        assert_eq!(check(&told, &found(&[1, 4, 9])).invented, 1);
        assert_eq!(check(&told, &found(&[4, 1])).out_of_order, 1);
        let mut torn = found(&[1, 4]);
        torn.registers.insert(1, 1);
        assert_eq!(check(&told, &torn).torn, 1);
        let mut stranger = found(&[1, 4]);
        stranger.rows.push((7, 1));
        assert_eq!(check(&told, &stranger).invented, 1);
        let mut read = told;
        read.get_mut(&1).unwrap().reads.push((4, 1));
        assert_eq!(check(&read, &found(&[1, 4])).stale, 1);
    }

    proptest! {
        #[test]
        fn dropping_or_doubling_any_acknowledged_row_is_noticed(count in 2u64..40, at in 0usize..40, doubled: bool) {
            let told = client(&(1..=count).map(|n| (n, Answer::Acknowledged)).collect::<Vec<_>>());
            let mut rows: Vec<u64> = (1..=count).collect();
            prop_assert!(check(&told, &found(&rows)).none());
            let at = at % rows.len();
            if doubled {
                rows.insert(at, rows[at]);
                prop_assert_eq!(check(&told, &found(&rows)).duplicated, 1);
            } else {
                rows.remove(at);
                prop_assert_eq!(check(&told, &found(&rows)).lost, 1);
            }
        }
    }
}
