//! Goals: what the relay and zero-hop are to reach beside others on the same cores, as data; and whether a
//! run says so. What zero-hop and insight cost is a few per cent, for which rounds are too coarse: see
//! `pair.rs`.

use super::{Report, shown};
use crate::bound::Bound;
use crate::sample::Metric;
use crate::schedule::{Condition, Subject};

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

const fn goal(subject: Subject, condition: When, metric: Metric, to: Option<Subject>, bound: Bound) -> Goal {
    Goal { subject, condition, metric, to, bound }
}

use Bound::{AtLeast, AtMost};
use Metric::{ConnectP50Us, CpuUs, IdleKib, IdleSessionKib, P99Ms, Qps};
use Subject::{Haproxy, HaproxyNewer, Headroom, HeadroomZeroHop, HeadroomZeroHopInsight, MysqlRouter};
use When::{Clients, Connects, Idle};

/// Insight is fully on past the router ([`Subject::HeadroomZeroHopInsight`]) and in the relay
/// ([`Subject::Headroom`]), which is what remains where the kernel does not allow the one.
const GOALS: [Goal; 17] = [
    goal(HeadroomZeroHopInsight, Clients(16), Qps, Some(Haproxy), AtLeast(1.4)),
    goal(HeadroomZeroHopInsight, Clients(1), Qps, Some(Haproxy), AtLeast(1.05)),
    goal(HeadroomZeroHopInsight, Clients(16), P99Ms, Some(Haproxy), AtMost(0.6)),
    goal(HeadroomZeroHopInsight, Clients(16), P99Ms, Some(MysqlRouter), AtMost(1.0)),
    goal(HeadroomZeroHopInsight, Clients(16), CpuUs, Some(Haproxy), AtMost(0.6)),
    goal(HeadroomZeroHopInsight, Idle, IdleSessionKib, None, AtMost(4.0)),
    goal(HeadroomZeroHopInsight, Idle, IdleKib, Some(HaproxyNewer), AtMost(1.0)),
    goal(HeadroomZeroHopInsight, Connects, ConnectP50Us, Some(Haproxy), AtMost(1.0)),
    goal(Headroom, Clients(16), Qps, Some(Haproxy), AtLeast(1.4)),
    goal(HeadroomZeroHop, Clients(16), Qps, Some(Haproxy), AtLeast(1.3)),
    goal(Headroom, Clients(1), Qps, Some(Haproxy), AtLeast(1.05)),
    goal(Headroom, Clients(16), P99Ms, Some(Haproxy), AtMost(0.6)),
    goal(Headroom, Clients(16), P99Ms, Some(MysqlRouter), AtMost(1.0)),
    goal(Headroom, Clients(16), CpuUs, Some(Haproxy), AtMost(0.6)),
    goal(Headroom, Idle, IdleSessionKib, None, AtMost(4.0)),
    goal(Headroom, Idle, IdleKib, Some(HaproxyNewer), AtMost(1.0)),
    goal(Headroom, Connects, ConnectP50Us, Some(Haproxy), AtMost(1.0)),
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
