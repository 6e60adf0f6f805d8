//! What a router in front of the servers says: where reads go, and how long the statements of each endpoint
//! take. It is asked at its admin address every few seconds; without one, flows and endpoints are simply not
//! known.

use crate::history::HistoryStore;
use console::admin_client::AdminClient;
use console::insight_view::{By, InsightView, Question};
use console::status_view::{FlowView, StatusView};
use console::watch_view::{EndpointWatch, RouterWatch};
use diagnose::verdict::{EndpointRequests, RequestTimes};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// It is asked once this often: often enough that two answers have no gap between them.
const EVERY: Duration = Duration::from_secs(3);
/// Endpoints that are told apart, those that take the most time.
const ENDPOINTS: usize = 16;

/// Asks until it is told to stop. What it hears is in the channel at once, and in the history.
pub(crate) fn ask(
    client: AdminClient,
    kept: HistoryStore,
    stop: CancellationToken,
) -> watch::Receiver<Option<Arc<RouterWatch>>> {
    let (publish, heard) = watch::channel(None);
    tokio::spawn(async move {
        let mut said = String::new();
        loop {
            let watched = tokio::select! {
                () = stop.cancelled() => return,
                watched = one(&client) => watched,
            };
            let why = watched.unanswered.clone().unwrap_or_default();
            if why != said {
                tracing::info!(
                    router = watched.address,
                    why,
                    "the router {}",
                    if why.is_empty() { "answers" } else { "does not answer" }
                );
                said = why;
            }
            kept.router(&watched, Instant::now());
            publish.send_replace(Some(Arc::new(watched)));
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(EVERY) => {}
            }
        }
    });
    heard
}

async fn one(client: &AdminClient) -> RouterWatch {
    let question = Question { by: By::Endpoint, limit: ENDPOINTS, ..Question::default() };
    let answers = async { anyhow::Ok((client.status().await?, client.insight(&question).await?)) };
    match answers.await {
        Ok((status, insight)) => watched(client.address(), status, insight),
        Err(error) => RouterWatch {
            address: client.address().to_owned(),
            unanswered: Some(format!("{error:#}")),
            ..RouterWatch::default()
        },
    }
}

fn watched(address: &str, status: StatusView, insight: InsightView) -> RouterWatch {
    let requests = insight.requests;
    let endpoints = insight.rows.into_iter().map(|row| EndpointWatch {
        requests: requests.iter().find(|request| request.endpoint == row.name).cloned(),
        name: row.name,
        figures: row.figures,
    });
    let grays = status
        .fleet
        .servers
        .iter()
        .filter_map(|server| Some((server, server.routing.as_ref()?.gray.as_ref()?)));
    let mut notes: Vec<String> = grays
        .map(|(server, gray)| format!("{}: a gray failure: {gray}. headroom failover --gray", server.name))
        .collect();
    notes.extend(insight.notes);
    RouterWatch {
        address: address.to_owned(),
        unanswered: None,
        own_zone: status.fleet.own_zone.map(|zoned| zoned.zone),
        crossing: crossing(&status.flow),
        flow: status.flow,
        demand_by: status.fleet.demand.source,
        span_s: insight.span_s,
        total: insight.total,
        endpoints: endpoints.collect(),
        more: insight.more,
        notes,
        objectives: status.objectives,
    }
}

/// What requests spend where, by endpoint.
pub(crate) fn requests(router: &RouterWatch) -> Vec<EndpointRequests> {
    let told = router.endpoints.iter().filter_map(|endpoint| endpoint.requests.as_ref());
    told.map(|requests| EndpointRequests {
        endpoint: requests.endpoint.clone(),
        count: requests.requests,
        spent: RequestTimes {
            span_p50_ms: requests.span_p50_ms,
            span_ms: requests.span_mean_ms,
            database_ms: requests.database_ms(),
            statements: requests.queries_mean,
        },
    })
    .collect()
}

/// Whether reads born in zone `from` go to servers of zone `to`. A router hands out what is left over in
/// small shares; below a hundredth nobody waits for it.
pub(crate) fn sends_reads(flow: &FlowView, from: &str, to: &str) -> bool {
    let at = |name: &str| flow.zones.iter().position(|zone| zone == name);
    let Some((from, to)) = at(from).zip(at(to)) else { return false };
    let share = flow.rows.get(from).and_then(|row| row.get(to)).copied().unwrap_or(0.0);
    share >= 0.01 && flow.demand.get(from).is_some_and(|demand| *demand > 0.0)
}

/// Of all reads, the share that leaves the zone it was born in.
fn crossing(flow: &FlowView) -> f64 {
    let leaves = |(zone, row): (usize, &Vec<f64>)| -> f64 {
        row.iter().enumerate().filter(|(to, _)| *to != zone).map(|(_, share)| share).sum()
    };
    flow.rows.iter().enumerate().zip(&flow.demand).map(|(row, demand)| demand * leaves(row)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_router_promises_is_told_with_it() {
        let watched = watched("127.0.0.1:9306", console::sample_status::status(), InsightView::default());
        assert_eq!(watched.objectives, console::sample_status::status().objectives);
        assert!(watched.objectives[0].incident.is_some());
    }

    #[test]
    fn what_crosses_zones_is_weighed_by_where_reads_are_born() {
        let flow = FlowView {
            zones: vec!["a".into(), "b".into()],
            demand: vec![0.75, 0.25],
            capacity: vec![0.5, 0.5],
            rows: vec![vec![0.6, 0.4], vec![0.0, 1.0]],
        };
        assert!((crossing(&flow) - 0.3).abs() < 1e-9);
        assert!(crossing(&FlowView::default()).abs() < f64::EPSILON);
    }
}
