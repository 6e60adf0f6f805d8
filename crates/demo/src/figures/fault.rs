//! Phase (e): what a fault of one reader did to requests and to new sessions, and when its traffic was back.
//!
//! All times are seconds since traffic began. What counts as what:
//!
//! - **on it**: the failed statement was under way on the reader when the fault came, or was sent to it until
//!   a limit: a killed process needs a moment until its sockets are closed, a silent one is silent until
//!   somebody has waited.
//! - **avoided**: the last new session that failed, or took several times as long as before, was asked for
//!   this long after the fault. New sessions are opened in each zone at a steady pace only to see this.
//! - **back**: from the reader's return until it answers, over one second, a given share of what it answered
//!   before.
//! - **cut**: a session that ended under a statement after the reader's return.

use super::Fleet;
use super::observations::{FailedRequest, Observations, Probe, between, tick_of, tick_s};
use lab::app::{FailureKind, Tick};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// What the reader suffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FaultKind {
    /// kill -9.
    Killed,
    /// Its links take everything and deliver nothing.
    Blackholed,
}

/// When one fault came and went.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lapse {
    /// What it was.
    pub(crate) kind: FaultKind,
    /// Undisturbed traffic from here to `begun`.
    pub(crate) calm_from: f64,
    /// The fault came.
    pub(crate) begun: f64,
    /// The server answered again.
    pub(crate) returned: f64,
    /// No longer looked at.
    pub(crate) ended: f64,
    /// The slowest request answered from `begun` to `ended`, s.
    pub(crate) slowest_request: f64,
    /// Sessions bypass the routers, which then cannot try another server for one that is being opened.
    pub(crate) past: bool,
}

/// Figures of one fault; times in s after the fault, or after the return where said.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct FaultFigures {
    /// What it was.
    pub(crate) kind: FaultKind,
    /// In words.
    pub(crate) title: String,
    /// The reader.
    pub(crate) server: String,
    /// When it came, s since traffic began.
    pub(crate) begun_s: f64,
    /// When the server answered again, s since traffic began.
    pub(crate) returned_s: f64,
    /// Requests answered from the fault to the end of the look.
    pub(crate) requests: u64,
    /// The slowest of them, ms: what waited for the reader without failing.
    pub(crate) slowest_request_ms: f64,
    /// Requests that failed with a statement that was on the reader.
    pub(crate) failed_on_it: u64,
    /// Statements sent up to this long after the fault count as on it.
    pub(crate) on_it_until_s: f64,
    /// Sessions bypass the routers.
    pub(crate) past: bool,
    /// Requests that failed because their session was being opened to the reader as long as nobody could
    /// know; only past the routers.
    pub(crate) failed_opening: u64,
    /// Requests that failed otherwise until the return.
    pub(crate) failed_other: u64,
    /// Requests that failed because a session ended or none was available after the return.
    pub(crate) cut_after_return: u64,
    /// What failed otherwise or after the return, at most five.
    pub(crate) failures: Vec<String>,
    /// New sessions opened while it was away.
    pub(crate) new_sessions: usize,
    /// The last of them that failed or was slow; `None` if none was.
    pub(crate) avoided_after_s: Option<f64>,
    /// What counts as slow, ms.
    pub(crate) slow_ms: f64,
    /// The slowest of them, ms.
    pub(crate) slowest_ms: f64,
    /// Its first read, after the return.
    pub(crate) first_read_s: Option<f64>,
    /// Its traffic was back, after the return.
    pub(crate) back_s: Option<f64>,
    /// Share of the earlier traffic that counts as back.
    pub(crate) back_share: f64,
}

impl Lapse {
    /// The same, counted from `origin`.
    #[must_use]
    pub(crate) fn start_at(&self, origin: f64) -> Self {
        Self {
            kind: self.kind,
            calm_from: self.calm_from - origin,
            begun: self.begun - origin,
            returned: self.returned - origin,
            ended: self.ended - origin,
            slowest_request: self.slowest_request,
            past: self.past,
        }
    }

    /// Whether this request failed because its session was on its way to the silent reader, where no router
    /// was on the way that could have tried another.
    fn was_opening(&self, failed: &FailedRequest) -> bool {
        let silent = self.past && self.kind == FaultKind::Blackholed;
        silent && failed.kind == FailureKind::Connect && failed.sent <= self.begun + self.kind.on_it_until()
    }
}

impl FaultKind {
    /// Until when after the fault a statement may still have been sent to the reader in good faith, s.
    fn on_it_until(self) -> f64 {
        match self {
            Self::Killed => 0.1,
            Self::Blackholed => 2.0,
        }
    }

    fn title(self, server: &str) -> String {
        match self {
            Self::Killed => format!("{server} is killed (kill -9) and comes back"),
            Self::Blackholed => {
                format!("{server} is blackholed (takes everything, answers nothing) and comes back")
            }
        }
    }
}

impl FaultFigures {
    /// Looks at one fault. `back_share` is the share of the earlier traffic that counts as back.
    pub(crate) fn new(
        lapse: &Lapse,
        server: &str,
        fleet: &Fleet,
        observed: &Observations,
        back_share: f64,
    ) -> Self {
        let victim = fleet.id(server);
        let limit = lapse.kind.on_it_until();
        let on_it =
            |f: &&FailedRequest| f.server == victim && victim.is_some() && f.sent <= lapse.begun + limit;
        let window = |from: f64, to: f64| observed.failures.iter().filter(move |f| f.at >= from && f.at < to);
        let (away, after): (Vec<&FailedRequest>, Vec<&FailedRequest>) =
            window(lapse.begun, lapse.ended).partition(|f| f.sent < lapse.returned);
        let (on_it, rest): (Vec<&FailedRequest>, Vec<&FailedRequest>) = away.into_iter().partition(on_it);
        let (opening, other): (Vec<_>, Vec<_>) = rest.into_iter().partition(|f| lapse.was_opening(f));
        let (slow, avoided, probes) = avoided(lapse, &observed.probes);
        let slowest = probes.iter().map(|p| p.took).fold(0.0, f64::max);
        let (first_read, back) =
            victim.map_or((None, None), |id| back(lapse, id, &observed.ticks, back_share));
        let failures = other.iter().chain(&opening).chain(&after).copied().take(5);
        Self {
            kind: lapse.kind,
            title: lapse.kind.title(server),
            server: server.to_owned(),
            begun_s: lapse.begun,
            returned_s: lapse.returned,
            requests: between(&observed.ticks, lapse.begun, lapse.ended).map(|t| t.requests).sum(),
            slowest_request_ms: lapse.slowest_request * 1e3,
            failed_on_it: count(on_it.len()),
            on_it_until_s: limit,
            past: lapse.past,
            failed_opening: count(opening.len()),
            failed_other: count(other.len()),
            cut_after_return: count(after.len()),
            failures: failures.map(|f| f.in_words(lapse, fleet)).collect(),
            new_sessions: probes.len(),
            avoided_after_s: avoided,
            slow_ms: slow * 1e3,
            slowest_ms: slowest * 1e3,
            first_read_s: first_read,
            back_s: back,
            back_share,
        }
    }
}

impl FailedRequest {
    fn in_words(&self, lapse: &Lapse, fleet: &Fleet) -> String {
        let server = self.server.map_or("no server", |id| fleet.name(id));
        let after = self.sent - lapse.begun;
        format!("on {server}, sent {after:.2} s after the fault: {}: {}", self.kind, self.said)
    }
}

/// What is slow, when the last slow or failed new session was asked for, and all of them.
fn avoided<'a>(lapse: &Lapse, probes: &'a [Probe]) -> (f64, Option<f64>, Vec<&'a Probe>) {
    let asked_in = |from: f64, to: f64| probes.iter().filter(move |p| p.asked >= from && p.asked < to);
    let mut calm: Vec<f64> = asked_in(lapse.calm_from, lapse.begun).map(|p| p.took).collect();
    calm.sort_by(f64::total_cmp);
    let median = calm.get(calm.len() / 2).copied().unwrap_or(0.0);
    let slow = (5.0 * median).max(0.1);
    let away: Vec<&Probe> = asked_in(lapse.begun, lapse.returned).collect();
    let suffering = away.iter().filter(|p| p.landed.is_none() || p.took > slow);
    let last = suffering.map(|p| p.asked - lapse.begun).reduce(f64::max);
    (slow, last, away)
}

/// When the reader answered its first read after its return, and when a full second of its traffic was back.
fn back(lapse: &Lapse, victim: u32, ticks: &BTreeMap<u32, Tick>, share: f64) -> (Option<f64>, Option<f64>) {
    let reads = |tick: &Tick| tick.reads.get(&victim).copied().unwrap_or(0);
    let calm: u64 = between(ticks, lapse.calm_from, lapse.begun).map(reads).sum();
    let enough = share * calm as f64 / (lapse.begun - lapse.calm_from).max(tick_s());
    let from = tick_of(lapse.returned) + 1;
    let first = ticks.range(from..).find(|(_, tick)| reads(tick) > 0).map(|(n, _)| n);
    let second =
        u32::try_from((Duration::from_secs(1).as_nanos() / Tick::LENGTH.as_nanos()).max(1)).unwrap_or(1);
    let full = (from..tick_of(lapse.ended).saturating_sub(second)).find(|start| {
        let answered: u64 = ticks.range(*start..start + second).map(|(_, tick)| reads(tick)).sum();
        calm > 0 && answered as f64 >= enough
    });
    let since = |tick: u32| (f64::from(tick) * tick_s() - lapse.returned).max(0.0);
    (first.map(|n| since(*n)), full.map(|start| since(start + second)))
}

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const B1: u32 = 4;

    fn fleet() -> Fleet {
        Fleet::new(crate::scenario::servers())
    }

    fn lapse() -> Lapse {
        Lapse {
            kind: FaultKind::Killed,
            calm_from: 0.0,
            begun: 3.0,
            returned: 7.0,
            ended: 20.0,
            slowest_request: 0.5,
            past: false,
        }
    }

    /// 100 reads a tick on b1 before the fault, none while it is away, growing after 9 s.
    fn observed() -> Observations {
        let reads = |n: u32| match n {
            0..30 => 100,
            30..90 => 0,
            90..120 => 50,
            _ => 90,
        };
        let tick =
            |n: u32| (n, Tick { requests: 1, failed: 0, reads: BTreeMap::from([(B1, reads(n)), (2, 10)]) });
        let probes =
            (0..70).map(|n| Probe { asked: f64::from(n) * 0.1, took: 0.005, landed: Some(2) }).collect();
        Observations { ticks: (0..200).map(tick).collect(), failures: Vec::new(), probes }
    }

    fn failed(server: Option<u32>, sent: f64) -> FailedRequest {
        FailedRequest { said: "gone".into(), kind: FailureKind::Ended, server, sent, at: sent + 0.01 }
    }

    #[test]
    fn a_statement_under_way_on_the_killed_server_is_no_other_failure() {
        let mut observed = observed();
        observed.failures = vec![
            failed(Some(B1), 2.999),
            failed(Some(B1), 3.05),
            failed(Some(B1), 3.5),
            failed(Some(2), 3.0),
        ];
        let figures = FaultFigures::new(&lapse(), "b1", &fleet(), &observed, 0.8);
        assert_eq!((figures.failed_on_it, figures.failed_other, figures.cut_after_return), (2, 2, 0));
        assert!(
            figures.failures[0].starts_with("on b1, sent 0.50 s after the fault"),
            "{:?}",
            figures.failures
        );
    }

    #[test]
    fn only_past_the_routers_may_a_session_fail_that_was_being_opened_to_a_silent_reader() {
        let mut observed = observed();
        let opening = FailedRequest { kind: FailureKind::Connect, ..failed(None, 3.7) };
        observed.failures = vec![opening.clone(), FailedRequest { sent: 5.5, ..opening }];
        let of = |kind, past| {
            let figures = FaultFigures::new(&Lapse { kind, past, ..lapse() }, "b1", &fleet(), &observed, 0.8);
            (figures.failed_opening, figures.failed_other)
        };
        assert_eq!(of(FaultKind::Blackholed, true), (1, 1), "two seconds later everybody must know");
        assert_eq!(of(FaultKind::Blackholed, false), (0, 2));
        assert_eq!(of(FaultKind::Killed, true), (0, 2));
    }

    #[test]
    fn what_fails_after_the_return_is_a_cut_session() {
        let mut observed = observed();
        observed.failures = vec![failed(Some(2), 8.0)];
        let figures = FaultFigures::new(&lapse(), "b1", &fleet(), &observed, 0.8);
        assert_eq!((figures.failed_other, figures.cut_after_return), (0, 1));
    }

    #[test]
    fn traffic_is_back_when_a_whole_second_carries_the_share() {
        let figures = FaultFigures::new(&lapse(), "b1", &fleet(), &observed(), 0.8);
        assert!((figures.first_read_s.unwrap() - 2.0).abs() < 0.01, "{:?}", figures.first_read_s);
        // 0.8 of 1000 a second: reached by the window that holds 8 ticks of 90 and 2 of 50, 11.8 s to 12.8 s.
        assert!((figures.back_s.unwrap() - 5.8).abs() < 0.21, "{:?}", figures.back_s);
        let lapse = Lapse { ended: 12.0, ..lapse() };
        assert_eq!(FaultFigures::new(&lapse, "b1", &fleet(), &observed(), 0.8).back_s, None);
    }

    #[test]
    fn the_last_slow_or_failed_new_session_says_until_when_it_was_not_avoided() {
        let mut observed = observed();
        assert_eq!(FaultFigures::new(&lapse(), "b1", &fleet(), &observed, 0.8).avoided_after_s, None);
        observed.probes.push(Probe { asked: 3.2, took: 0.5, landed: Some(2) });
        observed.probes.push(Probe { asked: 3.4, took: 0.01, landed: None });
        let figures = FaultFigures::new(&lapse(), "b1", &fleet(), &observed, 0.8);
        assert!((figures.avoided_after_s.unwrap() - 0.4).abs() < 1e-9);
    }
}
