//! The seats of those that ask a server: which one to take, and the columns that take and count them.

use crate::pace::{Seats, random};
use crate::rows::Rows;
use fleet::announcement::seat;

/// Seats tried in one visit. With half of them taken, one in thirty visits finds none.
const TRIES: u32 = 5;

/// What is asked of the seats in one visit.
#[derive(Debug)]
pub(crate) struct Candidates {
    all: u32,
    /// Ours already.
    mine: Option<u32>,
    /// Those to try, unless we have one.
    tried: Vec<u32>,
}

impl Candidates {
    /// Some of `all` seats, at random.
    pub(crate) fn among(all: u32, mine: Option<u32>) -> Self {
        let first = (random() * f64::from(all)) as u32;
        // A stride of about a third spreads them, and none is tried twice.
        let stride = (all / 3).max(1);
        let mut tried: Vec<u32> = match mine {
            Some(_) => Vec::new(),
            None => (0..TRIES).map(|n| (first + n * stride + n / 3) % all).collect(),
        };
        tried.dedup();
        Self { all, mine, tried }
    }

    /// Two columns: the place of the seat taken among those tried, from 1 on, and how many are taken then.
    pub(crate) fn columns(&self) -> String {
        let take = self.tried.iter().enumerate().rev().fold("0".to_owned(), |otherwise, (at, number)| {
            format!("IF(GET_LOCK('{}', 0), {}, {otherwise})", seat(*number), at + 1)
        });
        let taken: Vec<String> =
            (0..self.all).map(|number| format!("(IS_USED_LOCK('{}') IS NOT NULL)", seat(number))).collect();
        format!("{take} AS seat, {} AS seats_taken", taken.join("+"))
    }

    /// How many are taken, and which is ours. `None`: the server did not say.
    pub(crate) fn read(&self, rows: &Rows) -> Option<(Seats, Option<u32>)> {
        let row = rows.first()?;
        let taken = row.parse(&["seats_taken"])?;
        let took = row.parse::<usize>(&["seat"]).and_then(|place| self.tried.get(place.checked_sub(1)?));
        let mine = self.mine.or(took.copied());
        Some((Seats { taken, mine: mine.is_some() }, mine))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seat_is_taken_once_and_read_back() {
        let candidates = Candidates { all: 4, mine: None, tried: vec![3, 1] };
        let columns = candidates.columns();
        assert!(columns.starts_with(
            "IF(GET_LOCK('headroom.asks.3', 0), 1, IF(GET_LOCK('headroom.asks.1', 0), 2, 0)) AS seat, "
        ));
        let rows = Rows::new(
            ["seat", "seats_taken"].map(str::to_owned),
            vec![vec![Some("2".to_owned()), Some("3".to_owned())]],
        );
        assert_eq!(candidates.read(&rows), Some((Seats { taken: 3, mine: true }, Some(1))));
        let seated = Candidates::among(4, Some(1));
        assert!(!seated.columns().contains("GET_LOCK"));
        assert_eq!(seated.read(&Rows::default()), None);
    }

    #[test]
    fn seats_tried_exist() {
        for all in [2, 3, 7, 100, 256] {
            let candidates = Candidates::among(all, None);
            assert!(candidates.tried.iter().all(|seat| *seat < all), "{candidates:?}");
        }
    }
}
