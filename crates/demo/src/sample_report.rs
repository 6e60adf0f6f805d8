//! A made-up report, for the tests of what shows one.

use crate::figures::{
    About, EndpointFigures, FaultFigures, FaultKind, FlowFigures, Mark, MoveFigures, PhaseFigures, Point,
    Report, ServerFigures, TimeSeries, verdicts,
};
use crate::scenario::{Scenario, servers, zone_of};
use lab::app::Endpoint;

/// Figures as a good run would have them.
pub(crate) fn report() -> Report {
    let scenario = Scenario::new(3, 1);
    let phases: Vec<PhaseFigures> = scenario
        .groups
        .iter()
        .flat_map(|g| g.phases.iter().map(|p| (p, &g.readers)))
        .map(|(p, readers)| match p.id {
            "a" => phase(p, &["a2"], 58.0, &[("a", "a2", 1.0)]),
            "b" => phase(p, readers, 187.0, &even(readers)),
            "c" => phase(p, readers, 66.0, &[("a", "a2", 0.333), ("b", "b1", 0.333), ("c", "c1", 0.334)]),
            "d1" => phase(
                p,
                readers,
                99.0,
                &[("a", "a2", 0.167), ("a", "a3", 0.167), ("b", "b1", 0.333), ("c", "a2", 0.333)],
            ),
            "d3" => phase(
                p,
                readers,
                104.0,
                &[
                    ("a", "a2", 0.167),
                    ("a", "a3", 0.166),
                    ("b", "b1", 0.333),
                    ("c", "a2", 0.167),
                    ("c", "a3", 0.167),
                ],
            ),
            "d4" => phase(p, readers, 60.0, &[("a", "a2", 0.45), ("a", "a3", 0.45), ("b", "b1", 0.1)]),
            "d6" => phase(
                p,
                readers,
                75.0,
                &[("a", "a2", 0.333), ("a", "a3", 0.333), ("a", "b1", 0.234), ("b", "b1", 0.1)],
            ),
            _ => phase(p, readers, 180.0, &even(readers)),
        })
        .collect();
    let faults = vec![fault(FaultKind::Killed, 3.0, 7.4), fault(FaultKind::Blackholed, 24.0, 28.0)];
    let moves = vec![moved("a1", "a2", 214.0), moved("a2", "a1", 187.0)];
    let verdicts = verdicts(&phases, &faults, &moves);
    Report { about: about(), verdicts, phases, faults, series: Some(series()), moves }
}

fn moved(from: &str, to: &str, longest_ms: f64) -> MoveFigures {
    let steps = [("prepare", 1502.0), ("hold", 64.0), ("drain", 2.0), ("freeze", 9.0), ("promote", 1.0)];
    MoveFigures {
        from: from.to_owned(),
        to: to.to_owned(),
        done: true,
        held_ms: Some(longest_ms - 30.0),
        routers: 3,
        took_s: 3.6,
        steps: steps.map(|(step, ms)| (step.to_owned(), ms)).into(),
        writing_requests: 212,
        longest_ms,
        longest_before_ms: 31.0,
        failed: 0,
        remarks: Vec::new(),
    }
}

fn about() -> About {
    let of_zone =
        |zone: &str| (zone.to_owned(), servers().into_iter().filter(|s| zone_of(s) == zone).collect());
    About {
        date: "2026-11-20".into(),
        servers: "MariaDB 10.11.19".into(),
        headroom: "0.1.0 (release build)".into(),
        cpu: "A processor".into(),
        cores: 2,
        within_zone_ms: 0.12,
        between_zones_ms: 0.7,
        zones: ["a", "b", "c"].map(of_zone).into(),
        primary: "a1".into(),
        rounds: 3,
        slice_s: 3.0,
        reader_sessions: 60,
        seed: 1,
        sessions: "zero-hop: 15 of 16 new sessions bypass the router".to_owned(),
        newest_first: false,
        lab_up_s: 8.4,
        took_s: 104.0,
    }
}

fn even<'a>(readers: &[&'a str]) -> Vec<(&'static str, &'a str, f64)> {
    let zones = ["a", "b", "c"].into_iter();
    zones.flat_map(|z| readers.iter().map(move |r| (z, *r, 1.0 / 9.0))).collect()
}

fn phase(
    phase: &super::scenario::Phase,
    readers: &[&str],
    ms: f64,
    flows: &[(&str, &str, f64)],
) -> PhaseFigures {
    let flow = |(from, server, share): &(&str, &str, f64)| FlowFigures {
        from: (*from).to_owned(),
        server: (*server).to_owned(),
        reads: (share * 10_000.0) as u64,
        share: *share,
    };
    let flows: Vec<FlowFigures> = flows.iter().map(flow).collect();
    let server = |name: &&str| {
        let share: f64 = flows.iter().filter(|f| f.server == *name).map(|f| f.share).sum();
        let reads = (share * 10_000.0) as u64;
        ServerFigures { name: (*name).to_owned(), reads, share, of_mean: share * readers.len() as f64 }
    };
    let servers: Vec<ServerFigures> = readers.iter().map(server).collect();
    let cross_zone: f64 = flows
        .iter()
        .filter(|f| f.from != zone_of(&f.server))
        .map(|f| f.share)
        .fold(0.0, |sum, share| sum + share);
    let endpoint = |(e, queries, part): (Endpoint, f64, f64)| EndpointFigures {
        route: e.route().to_owned(),
        requests: 180,
        failed: 0,
        queries_per_request: queries,
        p50_ms: ms * part,
        p99_ms: ms * part * 1.6,
        reads_p50_ms: ms * part * 0.98,
        reads_p99_ms: ms * part * 1.5,
        reads_mean_ms: ms * part,
        read_p50_ms: ms / 220.0,
        reads_p50_by_round_ms: vec![ms * part * 0.97, ms * part, ms * part * 1.01],
    };
    PhaseFigures {
        placement: phase.policy.title().to_owned(),
        rounds: 3,
        cpu_busy: 0.35,
        reads: 10_000,
        failed: 0,
        failures: Vec::new(),
        endpoints: [
            (Endpoint::Timeline, 220.0, 1.0),
            (Endpoint::Orders, 18.0, 0.1),
            (Endpoint::Profile, 6.0, 0.04),
        ]
        .map(endpoint)
        .into(),
        busiest_of_mean: servers.iter().map(|s| s.of_mean).fold(0.0, f64::max),
        cross_zone,
        least_cross_zone: match phase.id {
            "d1" | "d2" | "d3" => 1.0 / 3.0,
            "d4" | "d5" | "d6" => 0.9 - 2.0 / 3.0,
            _ => 0.0,
        },
        servers,
        flows,
        phase: phase.clone(),
    }
}

fn fault(kind: FaultKind, begun_s: f64, returned_s: f64) -> FaultFigures {
    FaultFigures {
        kind,
        title: format!("b1 is {kind:?} and comes back").to_lowercase(),
        server: "b1".into(),
        begun_s,
        returned_s,
        requests: 800,
        slowest_request_ms: 640.0,
        failed_on_it: 2,
        on_it_until_s: 0.1,
        past: false,
        failed_opening: 0,
        failed_other: 0,
        cut_after_return: 0,
        failures: Vec::new(),
        new_sessions: 120,
        avoided_after_s: (kind == FaultKind::Blackholed).then_some(1.1),
        slow_ms: 100.0,
        slowest_ms: 510.0,
        first_read_s: Some(1.2),
        back_s: Some(11.5),
        back_share: 0.8,
    }
}

fn series() -> TimeSeries {
    let away = |t: f64| (3.0..7.4).contains(&t) || (24.0..28.0).contains(&t);
    let point = |n: u32| {
        let t = f64::from(n) * 0.5;
        let reads =
            if away(t) { vec![1100.0, 1080.0, 0.0, 1150.0] } else { vec![830.0, 820.0, 825.0, 840.0] };
        Point { t_s: t, reads_per_s: reads, failed: u64::from(n == 6) * 2 }
    };
    let mark = |(t_s, label): (f64, &str)| Mark { t_s, label: label.to_owned() };
    TimeSeries {
        step_s: 0.5,
        servers: ["a2", "a3", "b1", "c1"].map(str::to_owned).into(),
        points: (0..80).map(point).collect(),
        marks: [(3.0, "b1 killed"), (7.4, "b1 back"), (24.0, "b1 blackholed"), (28.0, "b1 back")]
            .map(mark)
            .into(),
    }
}
