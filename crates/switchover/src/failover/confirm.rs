//! When a primary counts as dead: only when we cannot reach it several times over some time, and its replicas
//! agree.
//!
//! One's own look may fail because of one's own network; a replica's receiver may be stopped by hand. So both
//! are asked, and a single replica that is connected is enough to keep everybody's hands off.
//!
//! Worked example, three looks over 2 s: a1 is killed. Our looks are refused at 0, 0.2, ... 2.0 s; the
//! receivers of a2 and b1 say that they try to connect: dead after 2.0 s. If b1 said that it is connected, a1
//! would not be dead, however often we fail: b1 waits until `replica_net_timeout` before it notices silence.

use fleet::ServerName;
use serde::Serialize;
use std::time::Duration;

/// How sure is sure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rule {
    /// This many looks in a row must fail.
    pub looks: usize,
    /// Spread over at least this time.
    pub over: Duration,
}

impl Default for Rule {
    fn default() -> Self {
        Self { looks: 3, over: Duration::from_secs(2) }
    }
}

/// One of our own looks at the primary.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Look {
    /// When it began, after the first.
    pub at: Duration,
    /// It gave an answer, of whatever kind: "too many connections" is one.
    pub answered: bool,
}

/// What a replica of the primary sees of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum View {
    Connected,
    /// Its receiver has lost the primary and tries to reach it.
    Lost,
    /// Its receiver was stopped: it does not look.
    Stopped,
    /// It does not answer us.
    Silent,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Dead,
    /// Not sure: look again.
    NotYet {
        why: String,
    },
    Alive,
}

/// Decides on all looks so far and what the direct replicas see now.
pub fn confirm(looks: &[Look], views: &[(ServerName, View)], rule: &Rule) -> Verdict {
    let not_yet = |why: String| Verdict::NotYet { why };
    match looks.last() {
        None => return not_yet("it was not looked at".to_owned()),
        Some(look) if look.answered => return Verdict::Alive,
        Some(_) => {}
    }
    let with =
        |view: View| views.iter().filter(move |(_, seen)| *seen == view).map(|(name, _)| name.as_str());
    let connected: Vec<&str> = with(View::Connected).collect();
    if !connected.is_empty() {
        return not_yet(format!("{} is connected to it", connected.join(", ")));
    }
    let lost = with(View::Lost).count();
    if lost == 0 || lost * 2 < views.len() {
        return not_yet(format!(
            "{lost} of {} replicas have lost it, half of them must; a receiver that is stopped, or a replica that does \
             not answer, says nothing",
            views.len()
        ));
    }
    let failed = looks.iter().rev().take_while(|look| !look.answered);
    let (count, first) = failed.fold((0, Duration::MAX), |(count, _), look| (count + 1, look.at));
    let span = looks.last().map_or(Duration::ZERO, |last| last.at.saturating_sub(first));
    if count < rule.looks || span < rule.over {
        return not_yet(format!("{count} looks failed over {:.1} s", span.as_secs_f64()));
    }
    Verdict::Dead
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn view() -> impl Strategy<Value = View> {
        prop_oneof![Just(View::Connected), Just(View::Lost), Just(View::Stopped), Just(View::Silent)]
    }

    fn named(views: Vec<View>) -> Vec<(ServerName, View)> {
        views.into_iter().enumerate().map(|(n, view)| (ServerName::new(&format!("r{n}")), view)).collect()
    }

    fn looks(answers: &[bool]) -> Vec<Look> {
        let look = |(n, answered): (usize, &bool)| Look {
            at: Duration::from_millis(500 * n as u64),
            answered: *answered,
        };
        answers.iter().enumerate().map(look).collect()
    }

    #[test]
    fn it_is_dead_once_looks_failed_for_long_enough_and_half_of_the_replicas_lost_it() {
        let views = named(vec![View::Lost, View::Silent]);
        let rule = Rule::default();
        assert_eq!(confirm(&looks(&[false; 5]), &views, &rule), Verdict::Dead);
        assert!(matches!(confirm(&looks(&[false; 4]), &views, &rule), Verdict::NotYet { .. }));
        let again = looks(&[false, false, false, true, false, false]);
        assert!(
            matches!(confirm(&again, &views, &rule), Verdict::NotYet { .. }),
            "an answer starts the count again"
        );
    }

    proptest! {
        #[test]
        fn a_connected_replica_or_an_answer_keeps_it_alive(
            answers in prop::collection::vec(any::<bool>(), 0..12), views in prop::collection::vec(view(), 0..6),
        ) {
            let views = named(views);
            let verdict = confirm(&looks(&answers), &views, &Rule::default());
            if verdict == Verdict::Dead {
                prop_assert!(views.iter().all(|(_, view)| *view != View::Connected));
                prop_assert!(views.iter().any(|(_, view)| *view == View::Lost));
                prop_assert!(answers.len() >= 5 && answers.iter().rev().take(5).all(|answered| !answered));
            }
            if answers.last() == Some(&true) {
                prop_assert_eq!(verdict, Verdict::Alive);
            }
        }
    }
}
