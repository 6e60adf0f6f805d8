//! Goals: what the relay and zero-hop are to reach beside others on the same cores, as data; and whether a run says so.
//!
//! A figure is met when all of its interval is on the right side, missed when all of it is on the wrong one. In between a run
//! cannot tell, and says on which side the mean is: more rounds make the interval narrower.

use super::{Report, shown};
use crate::bench::plan::{Condition, Subject};
use crate::bench::sample::Metric;

/// What is asked of one figure.
#[derive(Clone, Copy, Debug)]
struct Goal {
    subject: Subject,
    condition: When,
    metric: Metric,
    /// Whose figure it is a multiple of; `None` is the figure itself.
    to: Option<Subject>,
    bound: Bound,
}

#[derive(Clone, Copy, Debug)]
enum When {
    Clients(u32),
    /// Whatever number of idle sessions the run has.
    Idle,
    Connects,
}

#[derive(Clone, Copy, Debug)]
enum Bound {
    AtLeast(f64),
    AtMost(f64),
    /// As far as this from 1, either way.
    Within(f64),
}

const fn goal(subject: Subject, condition: When, metric: Metric, to: Option<Subject>, bound: Bound) -> Goal {
    Goal { subject, condition, metric, to, bound }
}

use Bound::{AtLeast, AtMost, Within};
use Metric::{ConnectP50Us, CpuUs, IdleKib, IdleSessionKib, P99Ms, Qps};
use Subject::{
    Direct, Haproxy, HaproxyNewer, Headroom, HeadroomInsightOff, HeadroomZeroHop, HeadroomZeroHopInsight,
    MysqlRouter,
};
use When::{Clients, Connects, Idle};

/// Insight is fully on past the router ([`Subject::HeadroomZeroHopInsight`]) and in the relay ([`Subject::Headroom`]), which is
/// what remains where the kernel does not allow the one.
const GOALS: [Goal; 26] = [
    goal(HeadroomZeroHopInsight, Clients(16), Qps, Some(Haproxy), AtLeast(1.4)),
    goal(HeadroomZeroHopInsight, Clients(1), Qps, Some(Haproxy), AtLeast(1.05)),
    goal(HeadroomZeroHopInsight, Clients(16), P99Ms, Some(Haproxy), AtMost(0.6)),
    goal(HeadroomZeroHopInsight, Clients(16), P99Ms, Some(MysqlRouter), AtMost(1.0)),
    goal(HeadroomZeroHopInsight, Clients(16), CpuUs, Some(Haproxy), AtMost(0.6)),
    goal(HeadroomZeroHopInsight, Idle, IdleSessionKib, None, AtMost(4.0)),
    goal(HeadroomZeroHopInsight, Idle, IdleKib, Some(HaproxyNewer), AtMost(1.0)),
    goal(HeadroomZeroHopInsight, Connects, ConnectP50Us, Some(Haproxy), AtMost(1.0)),
    goal(HeadroomZeroHopInsight, Clients(16), Qps, Some(HeadroomZeroHop), AtLeast(0.95)),
    goal(Headroom, Clients(16), Qps, Some(Haproxy), AtLeast(1.4)),
    goal(HeadroomZeroHop, Clients(16), Qps, Some(Haproxy), AtLeast(1.3)),
    goal(Headroom, Clients(1), Qps, Some(Haproxy), AtLeast(1.05)),
    goal(Headroom, Clients(16), P99Ms, Some(Haproxy), AtMost(0.6)),
    goal(Headroom, Clients(16), P99Ms, Some(MysqlRouter), AtMost(1.0)),
    goal(Headroom, Clients(16), CpuUs, Some(Haproxy), AtMost(0.6)),
    goal(Headroom, Idle, IdleSessionKib, None, AtMost(4.0)),
    goal(Headroom, Idle, IdleKib, Some(HaproxyNewer), AtMost(1.0)),
    goal(Headroom, Connects, ConnectP50Us, Some(Haproxy), AtMost(1.0)),
    goal(Headroom, Clients(16), Qps, Some(HeadroomInsightOff), AtLeast(0.95)),
    goal(HeadroomZeroHop, Clients(1), Qps, Some(Direct), Within(0.03)),
    goal(HeadroomZeroHop, Clients(16), Qps, Some(Direct), Within(0.03)),
    goal(HeadroomZeroHop, Clients(256), Qps, Some(Direct), Within(0.03)),
    goal(HeadroomZeroHop, Clients(1), P99Ms, Some(Direct), Within(0.03)),
    goal(HeadroomZeroHop, Clients(16), P99Ms, Some(Direct), Within(0.03)),
    goal(HeadroomZeroHop, Clients(256), P99Ms, Some(Direct), Within(0.03)),
    goal(HeadroomZeroHop, Clients(16), CpuUs, None, AtMost(0.5)),
];

/// One line a goal that this run has figures for: asked, measured, verdict.
pub(super) fn rows(report: &Report) -> impl Iterator<Item = Vec<String>> {
    GOALS.iter().filter_map(|goal| {
        let condition = report.plan.conditions.iter().find(|c| goal.condition.is(**c))?;
        let row = report.row(*condition, goal.subject)?;
        let (measured, mean, interval) = match goal.to {
            Some(other) => {
                let ratio = row.ratio(other, goal.metric)?;
                (shown(&ratio), ratio.mean, ratio.interval)
            }
            None => {
                let median = *row.medians.get(&goal.metric)?;
                (format!("{median:.2}"), median, Some((median, median)))
            }
        };
        Some(vec![goal.asked(*condition), measured, goal.bound.verdict(mean, interval).to_owned()])
    })
}

impl Goal {
    fn asked(&self, condition: Condition) -> String {
        let of = self.to.map_or(String::new(), |other| format!(" x {other}'s"));
        format!("{}, {condition}: {} {}{of}", self.subject, self.metric.words(), self.bound.words())
    }
}

impl When {
    fn is(self, condition: Condition) -> bool {
        match (self, condition) {
            (Clients(n), Condition::Load { clients, idle: 0 }) => n == clients,
            (Idle, Condition::Load { idle, .. }) => idle > 0,
            (Connects, Condition::Connect { .. }) => true,
            _ => false,
        }
    }
}

impl Bound {
    fn words(self) -> String {
        match self {
            AtLeast(bound) => format!("at least {bound}"),
            AtMost(bound) => format!("at most {bound}"),
            Within(by) => format!("{:.2} to {:.2}", 1.0 - by, 1.0 + by),
        }
    }

    fn holds(self, value: f64) -> bool {
        match self {
            AtLeast(bound) => value >= bound,
            AtMost(bound) => value <= bound,
            Within(by) => (value - 1.0).abs() <= by,
        }
    }

    fn verdict(self, mean: f64, interval: Option<(f64, f64)>) -> &'static str {
        let Some((low, high)) = interval else { return "one round cannot tell" };
        match (self.holds(low) && self.holds(high), self.holds(mean)) {
            (true, _) => "met",
            (_, true) => "met on average, the interval reaches beyond",
            _ if self.reached_by(low, high) => "missed on average, the interval reaches it",
            _ => "missed",
        }
    }

    /// Whether any value of the interval would do.
    fn reached_by(self, low: f64, high: f64) -> bool {
        match self {
            AtLeast(bound) => high >= bound,
            AtMost(bound) => low <= bound,
            Within(by) => low <= 1.0 + by && high >= 1.0 - by,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_met_only_when_all_of_the_interval_is_there() {
        let (met, leans, reaches, missed) = (
            "met",
            "met on average, the interval reaches beyond",
            "missed on average, the interval reaches it",
            "missed",
        );
        for (bound, mean, low, high, expected) in [
            (AtLeast(1.3), 1.5, 1.3, 1.7, met),
            (AtLeast(1.3), 1.4, 1.2, 1.6, leans),
            (AtLeast(1.3), 1.2, 1.0, 1.4, reaches),
            (AtLeast(1.3), 1.1, 1.0, 1.2, missed),
            (AtMost(0.6), 0.5, 0.4, 0.6, met),
            (AtMost(0.6), 0.8, 0.7, 0.9, missed),
            (Within(0.03), 1.0, 0.98, 1.02, met),
            (Within(0.03), 1.0, 0.9, 1.1, leans),
            (Within(0.03), 0.9, 0.8, 1.0, reaches),
            (Within(0.03), 1.2, 1.1, 1.3, missed),
        ] {
            assert_eq!(bound.verdict(mean, Some((low, high))), expected, "{bound:?} {mean}");
        }
        assert_eq!(AtLeast(1.0).verdict(2.0, None), "one round cannot tell");
    }
}
