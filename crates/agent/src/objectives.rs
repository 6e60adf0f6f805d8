//! What is promised of a server's statements, held against the server's own count of how long they take: the
//! objectives of a team without a router. What is promised of an endpoint or a listener only a router can
//! count; it judges it, and what it says is shown.

use config::{Objective, Target};
use console::objectives::view::{ObjectiveView, WebhookView};
use console::objectives::{Objectives, Observation};
use console::watch_view::RouterWatch;
use diagnose::server::{Histogram, Range, Reading};
use fleet::duration_text;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a server needs before its statements can be judged.
const NOT_COUNTED: &str = "the server does not count how long statements take. MariaDB: INSTALL SONAME 'query_response_time'; SET \
     GLOBAL query_response_time_stats = ON. MySQL: performance_schema = ON, and GRANT SELECT ON performance_schema.* to \
     this account";

/// The objectives of an agent, and what they were last held against.
pub(crate) struct WatchedObjectives {
    objectives: Objectives,
    judged: BTreeMap<String, Arc<Histogram>>,
}

/// A server that is watched: what it last said, or why nothing.
pub(crate) enum ServerAnswer<'r> {
    /// That.
    Reading(&'r Reading),
    /// And why.
    Nothing(&'r str),
}

impl WatchedObjectives {
    pub(crate) fn new(objectives: Objectives) -> Self {
        Self { objectives, judged: BTreeMap::new() }
    }

    /// Holds what servers have counted since the last time against what is promised of them.
    pub(crate) fn hold(
        &mut self,
        now: Instant,
        servers: &BTreeMap<String, ServerAnswer<'_>>,
        router: Option<&RouterWatch>,
    ) {
        let judged = &self.judged;
        self.objectives.hold(now, |objective| match &objective.target {
            _ if promised_by(router, &objective.name) => Observation::Unchanged,
            Target::Server(name) => of_server(objective, name, servers, judged.get(name)),
            Target::Endpoint(_) | Target::Listener(_) => Observation::NotJudged(of_router(router)),
        });
        for (name, heard) in servers {
            if let ServerAnswer::Reading(Reading { histogram: Some(histogram), .. }) = heard {
                self.judged.insert(name.clone(), histogram.clone());
            }
        }
        self.judged.retain(|name, _| servers.contains_key(name));
    }

    /// What people see: what the router that is asked promises too is its own to judge and to tell.
    pub(crate) fn view(&self, router: Option<&RouterWatch>) -> (Vec<ObjectiveView>, Option<WebhookView>) {
        let (mut objectives, webhook) = self.objectives.view();
        objectives.retain(|one| !promised_by(router, &one.name));
        (objectives, webhook)
    }
}

fn promised_by(router: Option<&RouterWatch>, name: &str) -> bool {
    router.is_some_and(|router| router.objectives.iter().any(|one| one.name == name))
}

fn of_server(
    objective: &Objective,
    name: &str,
    servers: &BTreeMap<String, ServerAnswer<'_>>,
    judged: Option<&Arc<Histogram>>,
) -> Observation {
    let reading = match servers.get(name) {
        Some(ServerAnswer::Reading(reading)) => reading,
        Some(ServerAnswer::Nothing(why)) => {
            return Observation::NotJudged(format!("{name} gives no figures: {why}"));
        }
        None => {
            let known: Vec<&str> = servers.keys().map(String::as_str).collect();
            return Observation::NotJudged(match known[..] {
                [] => format!("no server is known yet, {name} neither"),
                _ => format!("no server is called {name} here; known are {}", known.join(", ")),
            });
        }
    };
    let Some(histogram) = &reading.histogram else { return Observation::NotJudged(NOT_COUNTED.to_owned()) };
    if judged.is_some_and(|judged| Arc::ptr_eq(judged, histogram)) {
        return Observation::Unchanged;
    }
    match histogram.within(objective.threshold.as_secs_f64() * 1e3) {
        Ok(within) => Observation::Counted { good: within.good, all: within.all },
        Err(range) => Observation::NotJudged(too_wide(objective, name, range)),
    }
}

fn too_wide(objective: &Objective, name: &str, range: Range) -> String {
    let text = |ms: f64| duration_text(Duration::from_secs_f64((ms / 1e3).clamp(0.0, 1e9)));
    let promise: Vec<String> = [range.from_ms, range.to_ms]
        .into_iter()
        .filter(|ms| *ms > 0.0 && ms.is_finite())
        .map(|ms| format!("threshold = \"{}\"", text(ms)))
        .collect();
    format!(
        "{name} counts durations in ranges, and {} lies within one of them; promise {}, or have finer ranges: SET GLOBAL \
         query_response_time_range_base = 2; SET GLOBAL query_response_time_flush = ON",
        duration_text(objective.threshold),
        promise.join(" or ")
    )
}

fn of_router(router: Option<&RouterWatch>) -> String {
    let where_to = "an endpoint or a listener is known to a router: put it in the file of headroom route";
    match router {
        None => format!("{where_to}, and name its admin address with --router"),
        Some(RouterWatch { address, unanswered: Some(why), .. }) => {
            format!("{where_to}; the one at {address} does not answer: {why}")
        }
        Some(RouterWatch { address, .. }) => format!("{where_to}; the one at {address} does not promise it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objective(name: &str, target: Target) -> Objective {
        Objective::new(name.to_owned(), target, Duration::from_millis(30), 0.99)
    }

    /// Why each is not judged.
    fn why(promises: &WatchedObjectives, router: Option<&RouterWatch>) -> Vec<String> {
        let (objectives, _) = promises.view(router);
        objectives.into_iter().map(|one| one.not_judged.unwrap_or_default()).collect()
    }

    #[test]
    fn what_cannot_be_judged_says_why_and_what_the_router_promises_too_is_left_to_it() {
        let objectives = [
            objective("db1", Target::Server("db1".to_owned())),
            objective("db2", Target::Server("db2".to_owned())),
            objective("checkout", Target::Endpoint("checkout".to_owned())),
        ];
        let mut promises = WatchedObjectives::new(Objectives::new(&objectives, None));
        let silent = BTreeMap::from([("db1".to_owned(), ServerAnswer::Nothing("refused"))]);
        promises.hold(Instant::now(), &silent, None);
        let said = why(&promises, None);
        for (said, what) in said.iter().zip(["refused", "known are db1", "--router"]) {
            assert!(said.contains(what), "{what} is not in {said}");
        }
        let promised = ObjectiveView { name: "checkout".to_owned(), ..ObjectiveView::default() };
        let router = RouterWatch { objectives: vec![promised], ..RouterWatch::default() };
        promises.hold(Instant::now(), &silent, Some(&router));
        assert_eq!(why(&promises, Some(&router)).len(), 2, "the router's own is not shown twice");
    }

    #[test]
    fn a_threshold_within_a_wide_range_names_the_two_that_can_be_judged() {
        let range = |from_ms, to_ms| Range { from_ms, to_ms, statements: 0 };
        let said = |range| too_wide(&objective("db1", Target::Server("db1".to_owned())), "db1", range);
        let text = said(range(10.0, 100.0));
        assert!(
            text.contains(
                r#"30ms lies within one of them; promise threshold = "10ms" or threshold = "100ms""#
            )
        );
        assert!(said(range(10.0, f64::INFINITY)).contains(r#"promise threshold = "10ms","#));
    }
}
