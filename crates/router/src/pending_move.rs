//! Pending move: sessions that should leave a server and have not yet, and what that waits for, in words.

use crate::close_quota::CloseRequest;
use fleet::{ListenerRole, ServerName};
use serde::Serialize;
use std::time::Duration;

/// Sessions that should leave a server and have not yet, and what that waits for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PendingMove {
    pub server: ServerName,
    /// Which sessions.
    pub role: ListenerRole,
    /// How many of them.
    pub sessions: u32,
    /// Why they should leave: the words of [`Closed`](crate::closed::Closed).
    pub why: &'static str,
    /// What it waits for, in words.
    pub waits_for: String,
}

/// What keeps the next session from leaving. `left` is how long the reason must still last, `searched` how
/// long no session was found.
pub(crate) fn waits_for(request: &CloseRequest, left: Duration, pace: f64, searched: Duration) -> String {
    let second = Duration::from_secs(1);
    if !left.is_zero() {
        return format!("the reason to last for {:.1} s more", left.as_secs_f64());
    }
    if request.quota == 0 {
        return format!("the pace of {pace:.1} sessions a second");
    }
    let state = match (request.all_state_too, request.light_state_too, request.prepared_too) {
        (true, ..) => "",
        (false, true, _) => ", without locks or temporary tables",
        (false, false, true) => ", without locks, temporary tables or user variables",
        (false, false, false) => ", without state of its own (prepared statements count for the first 10 s)",
    };
    let quiet = request.quiet.as_millis();
    let long =
        if searched >= second { format!("; none found for {} s", searched.as_secs()) } else { String::new() };
    format!("a session that is idle for {quiet} ms outside a transaction{state}{long}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closed::Closed;

    #[test]
    fn what_a_move_waits_for_is_said() {
        let ms = Duration::from_millis;
        let (why, quiet) = (Closed::Balance, ms(20));
        let request = CloseRequest { quiet, ..CloseRequest::of(why) };
        assert_eq!(waits_for(&request, ms(700), 2.0, ms(0)), "the reason to last for 0.7 s more");
        assert_eq!(waits_for(&request, ms(0), 2.0, ms(0)), "the pace of 2.0 sessions a second");
        let searching = CloseRequest { quota: 1, ..request };
        assert_eq!(
            waits_for(&searching, ms(0), 2.0, ms(12_000)),
            "a session that is idle for 20 ms outside a transaction, without state of its own \
             (prepared statements count for the first 10 s); none found for 12 s"
        );
    }
}
