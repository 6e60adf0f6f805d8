//! Which failure is whose: one that a fault explains, one that the router announced, and one that nothing
//! explains.
//!
//! | how a statement or a login failed | sort |
//! |---|---|
//! | its session's server had a fault between the last good answer and now | fault |
//! | a part of the router was made to panic between the last good answer and now | fault |
//! | a login was refused, and a fault struck while it was under way | fault |
//! | the connection ended before a byte of the answer, outside a transaction, no fault | moved, if the router counted it |
//! | anything else: an error with a number, an end inside a transaction or a result set, nothing for too long | unexplained |
//!
//! A router may end a session that rests (decision 5 and the guide say when), and a statement may be on its
//! way just then: what pools are written for. So "moved" is no failure, but there must not be more of it than
//! the router says it did. While a server is down a *login* must still succeed elsewhere: only one that the
//! fault struck is explained. (A client that has seen a server's greeting cannot be given to another, so the
//! router has to tell it so, with error 1053.)

use super::timetable::ROUTER;
use serde::Serialize;
use std::time::Duration;

/// A fault's traces are looked for until this long after its end: a session may notice only with its next
/// answer that never comes, and the router gives up on a server that hangs after its own deadlines.
const AFTERMATH: Duration = Duration::from_secs(5);

/// A fault that was made, in seconds since the start of the load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Lapse {
    pub(super) server: String,
    pub(super) what: &'static str,
    pub(super) began_s: f64,
    /// When it was surely in force; `None` before.
    pub(super) struck_s: Option<f64>,
    /// `None` while it lasts.
    pub(super) ended_s: Option<f64>,
}

/// How something failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum How {
    /// The connection ended before any of the answer.
    EndedBefore,
    /// The connection ended inside an answer.
    EndedWithin,
    /// The connection ended in a transaction.
    EndedInTransaction,
    /// The connection ended before the login was through.
    EndedAtLogin,
    /// An error packet.
    Refused,
    /// Nothing came for too long.
    Silent,
    /// Bytes that are no answer.
    Garbled,
}

/// Whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Sort {
    /// A fault's.
    Fault,
    /// The router ended a session that rested, or the client could not tell.
    Moved,
    /// Nobody's: it must not be.
    Unexplained,
}

/// Sorts a failure. `server` is its session's, `None` before the login is through. `since_s` is when all was
/// well with it last, `at_s` when it failed.
pub(super) fn sort(how: How, server: Option<&str>, since_s: f64, at_s: f64, lapses: &[Lapse]) -> Sort {
    let concerns = |lapse: &Lapse| {
        // What happens to the router happens to every session.
        let here = lapse.server == ROUTER || server.is_none_or(|server| server == lapse.server);
        let until = lapse.ended_s.map_or(f64::INFINITY, |ended| ended + AFTERMATH.as_secs_f64());
        here && lapse.began_s <= at_s && since_s <= until
    };
    let broken = !matches!(how, How::Refused | How::Garbled);
    if broken && lapses.iter().any(concerns) {
        return Sort::Fault;
    }
    let struck = |lapse: &Lapse| lapse.began_s <= at_s && since_s <= lapse.struck_s.unwrap_or(f64::INFINITY);
    match how {
        How::Refused if server.is_none() && lapses.iter().any(struck) => Sort::Fault,
        How::EndedBefore => Sort::Moved,
        _ => Sort::Unexplained,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn killed() -> Vec<Lapse> {
        let (struck_s, ended_s) = (Some(100.05), Some(104.0));
        vec![Lapse { server: "a2".to_owned(), what: "kill", began_s: 100.0, struck_s, ended_s }]
    }

    #[test]
    fn a_fault_explains_what_broke_on_its_server_and_nothing_elsewhere() {
        let within = |server| sort(How::EndedWithin, Some(server), 99.9, 100.1, &killed());
        assert_eq!(within("a2"), Sort::Fault);
        assert_eq!(within("b1"), Sort::Unexplained);
        assert_eq!(sort(How::EndedWithin, Some("a2"), 98.0, 99.9, &killed()), Sort::Unexplained, "too early");
        assert_eq!(
            sort(How::EndedWithin, Some("a2"), 110.0, 110.1, &killed()),
            Sort::Unexplained,
            "long over"
        );
        assert_eq!(sort(How::EndedBefore, Some("a2"), 101.0, 130.0, &killed()), Sort::Fault, "noticed late");
    }

    #[test]
    fn a_fault_of_the_router_explains_what_broke_on_every_server_and_no_refusal() {
        let (struck_s, ended_s) = (Some(100.0), Some(101.0));
        let lapse =
            Lapse { server: ROUTER.to_owned(), what: "ring 0 panics", began_s: 100.0, struck_s, ended_s };
        let sort = |how, since_s, at_s| sort(how, Some("b1"), since_s, at_s, std::slice::from_ref(&lapse));
        assert_eq!(sort(How::EndedInTransaction, 99.9, 100.1), Sort::Fault);
        assert_eq!(sort(How::EndedInTransaction, 110.0, 110.1), Sort::Unexplained);
        assert_eq!(sort(How::Refused, 100.1, 100.2), Sort::Unexplained);
    }

    #[test]
    fn a_session_that_rested_may_be_ended_and_one_in_a_transaction_may_not() {
        assert_eq!(sort(How::EndedBefore, Some("b1"), 50.0, 51.0, &[]), Sort::Moved);
        assert_eq!(sort(How::EndedInTransaction, Some("b1"), 50.0, 51.0, &[]), Sort::Unexplained);
        assert_eq!(sort(How::Silent, Some("b1"), 50.0, 80.0, &[]), Sort::Unexplained);
    }

    #[test]
    fn nobody_is_refused_and_nothing_is_garbled_even_while_a_server_is_gone() {
        assert_eq!(sort(How::Refused, None, 100.5, 100.6, &killed()), Sort::Unexplained);
        assert_eq!(sort(How::Refused, None, 99.9, 100.1, &killed()), Sort::Fault, "struck in its login");
        assert_eq!(sort(How::Refused, Some("a2"), 99.9, 100.1, &killed()), Sort::Unexplained);
        assert_eq!(sort(How::Garbled, Some("a2"), 100.0, 100.6, &killed()), Sort::Unexplained);
        assert_eq!(sort(How::EndedAtLogin, None, 99.9, 100.1, &killed()), Sort::Fault);
    }
}
