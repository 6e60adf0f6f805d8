//! What is wrong outside the server: the way to it, or the application in front of it.

use super::{Finding, Name, Unit, Window, least};
use crate::server;
use serde::Serialize;

/// A round trip against the statement itself.
const TIMES: f64 = 3.0;
/// A round trip shorter than this is no zone's border.
const ROUND_TRIP_MS: f64 = 0.3;
/// As far as it goes while nobody is known to send statements across: a distance alone is no bottleneck.
const NOBODY_CROSSES: f64 = 0.9;
/// Requests against the usual.
const SLOWER: f64 = 2.0;
/// Statements against the usual, at most.
const AS_USUAL: f64 = 1.2;
/// Or what they take more, of what requests do: a statement of half a millisecond that takes another half is
/// no reason for a request that takes a hundred more, be there ten of them in it.
const OF_REQUESTS: f64 = 0.02;
/// Sessions at work, for each CPU that the server may use, at most.
const AT_WORK: f64 = 0.3;

/// Of what requests take more than usual, the share that is no statement's.
const THINKING: f64 = 0.8;
/// It explains why requests are slow, not what sessions of the server wait for.
const WEIGHT: f64 = 0.5;

/// Below this many statements a second their duration is not worked out from looks.
const ENOUGH: f64 = 20.0;

/// Where we stand as seen from the server.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Vantage {
    /// Whether it is in another zone.
    pub other_zone: bool,
    /// Whether statements are known to go there from here: by a router's flow, or an application's timing.
    pub asked_from_here: bool,
    /// One round trip, milliseconds.
    pub round_trip_ms: f64,
}

/// How an application does, by its own or the router's timing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Application {
    /// 99 of 100 requests take at most this long, milliseconds.
    pub request_p99_ms: f64,
    pub usual_request_p99_ms: f64,
    /// 99 of 100 statements.
    pub statement_p99_ms: f64,
    pub usual_statement_p99_ms: f64,
}

pub(super) fn cross_zone(window: &Window) -> Option<Finding> {
    let (vantage, server) = (window.vantage?, window.server.as_ref()?);
    let statement = statement_ms(server)?;
    let load = if vantage.other_zone {
        least([(vantage.round_trip_ms, ROUND_TRIP_MS), (vantage.round_trip_ms, statement.max(0.01) * TIMES)])
    } else {
        0.0
    };
    let load = if vantage.asked_from_here { load } else { load.min(NOBODY_CROSSES) };
    let share = vantage.round_trip_ms / (vantage.round_trip_ms + statement).max(1e-6);
    // It limits those who wait, not the server: any real bottleneck of the server goes first.
    Some(
        Finding::new(Name::CrossZone, load, share * 0.2)
            .figure(
                "a round trip to the server's zone",
                vantage.round_trip_ms,
                Unit::Milliseconds,
                Some(ROUND_TRIP_MS),
            )
            .figure("a statement takes, on the server", statement, Unit::Milliseconds, None),
    )
}

/// How long a statement takes on the server, or how long it takes at most: where no look found a session at
/// work, less than one of them was on average.
fn statement_ms(server: &server::Sample) -> Option<f64> {
    let counted = server.quantiles.map(|quantiles| quantiles.p50_ms);
    let at_most = (server.statements_per_s >= ENOUGH && server.looks > 0)
        .then(|| 1e3 / server.looks as f64 / server.statements_per_s);
    counted.or(server.mean_statement_ms).or(at_most)
}

/// By what a router sees of its requests or by its own timing, whichever says it more clearly.
pub(super) fn not_the_database(window: &Window) -> Option<Finding> {
    let found = [by_requests(window), by_timing(window)].into_iter().flatten();
    found.max_by(|a, b| a.load.total_cmp(&b.load))
}

fn by_requests(window: &Window) -> Option<Finding> {
    let (requests, _) = (window.requests.as_ref()?, window.server.as_ref()?);
    let (times, thinking) = (requests.times(), requests.thinking());
    let only_then = if thinking >= THINKING { f64::INFINITY } else { 0.9 * thinking / THINKING };
    let spent = requests.now.spent;
    Some(
        Finding::new(Name::NotTheDatabase, (times / SLOWER).min(only_then), WEIGHT)
            .figure("the median request against the usual", times, Unit::Count, Some(SLOWER))
            .figure("of what is added, thinking between statements", thinking, Unit::Share, Some(THINKING))
            .figure("a request takes, statement to statement", spent.span_ms, Unit::Milliseconds, None)
            .figure("of that the database, at most", spent.database_ms, Unit::Milliseconds, None)
            .figure("statements a request", spent.statements, Unit::Count, None)
            .who(Some(requests.text())),
    )
}

fn by_timing(window: &Window) -> Option<Finding> {
    let (application, server, own) = (window.application?, window.server.as_ref()?, window.own_cpus()?);
    let requests = application.request_p99_ms / application.usual_request_p99_ms.max(1e-3);
    let statements = application.statement_p99_ms / application.usual_statement_p99_ms.max(1e-3);
    // Of a host's many CPUs it may have few by its quota, which may be a part of one.
    let quota = window.limits.as_ref().and_then(|limits| limits.cpu.as_ref()).map(|limit| limit.cpus);
    let cpus = quota.filter(|cpus| *cpus > 0.0).map_or(own.count, |cpus| cpus.min(own.count));
    let at_work = server.active / cpus;
    let added = |now: f64, usual: f64| (now - usual).max(0.0);
    let by_statements = added(application.statement_p99_ms, application.usual_statement_p99_ms)
        / added(application.request_p99_ms, application.usual_request_p99_ms).max(1e-3);
    let as_usual = statements <= AS_USUAL || by_statements <= OF_REQUESTS;
    let quiet = |value: f64, most: f64| if value <= most { 1.0 } else { most / value };
    let only_then = if as_usual && at_work <= AT_WORK { f64::INFINITY } else { 0.9 };
    let by_statements_too = if as_usual { 1.0 } else { quiet(statements, AS_USUAL) };
    let load = (requests / SLOWER).min(only_then) * by_statements_too * quiet(at_work, AT_WORK);
    Some(
        Finding::new(Name::NotTheDatabase, load, WEIGHT)
            .figure("requests, p99 against the usual", requests, Unit::Count, Some(SLOWER))
            .figure("statements, p99 against the usual", statements, Unit::Count, Some(AS_USUAL))
            .figure("sessions at work a CPU that it may use", at_work, Unit::Count, Some(AT_WORK)),
    )
}
