//! The routers' answers to an announcement (see [`fleet::announcement`]), and the routers, counted.

use crate::Error;
use crate::connection::Connection;
use fleet::announcement::seat;
use std::time::Duration;

/// Counts the routers that are ready and those that hold, by the locks of connections that are there now.
/// Needs PROCESS.
const COUNT_ROUTERS: &str = "SELECT \
     COALESCE(SUM(IS_USED_LOCK(CONCAT('headroom.ready.', id)) = id), 0) AS ready, \
     COALESCE(SUM(IS_USED_LOCK(CONCAT('headroom.holding.', id)) = id), 0) AS holding \
     FROM information_schema.PROCESSLIST";

/// The routers that are ready, and those that hold.
pub(crate) async fn count_routers(conn: &mut Connection, deadline: Duration) -> Result<(u64, u64), Error> {
    let rows = conn.ask(COUNT_ROUTERS, deadline).await?;
    let count =
        |name: &str| rows.first().and_then(|row| row.get(name)?.parse::<f64>().ok()).unwrap_or(0.0) as u64;
    Ok((count("ready"), count("holding")))
}

/// How many of the seats of those that ask a server are taken there; `None` where it does not say, or
/// has no user locks.
pub(crate) async fn seats_taken(conn: &mut Connection, seats: u32, deadline: Duration) -> Option<u32> {
    conn.scalar(&count_seats(seats), deadline).await.ok()??.parse().ok()
}

fn count_seats(seats: u32) -> String {
    let taken: Vec<String> =
        (0..seats).map(|number| format!("(IS_USED_LOCK('{}') IS NOT NULL)", seat(number))).collect();
    format!("SELECT {}", taken.join(" + "))
}

#[cfg(test)]
mod tests {
    use super::{COUNT_ROUTERS, count_seats, seat};

    #[test]
    fn the_locks_counted_are_those_that_routers_take() {
        for name in [fleet::announcement::ready(7), fleet::announcement::holding(7)] {
            let prefix = name.strip_suffix('7').unwrap();
            assert!(COUNT_ROUTERS.contains(&format!("'{prefix}'")), "{name}");
        }
    }

    #[test]
    fn each_seat_counts_once() {
        let taken = |number| format!("(IS_USED_LOCK('{}') IS NOT NULL)", seat(number));
        assert_eq!(count_seats(2), format!("SELECT {} + {}", taken(0), taken(1)));
    }
}
