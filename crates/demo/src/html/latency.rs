//! Times per endpoint in (a), (b), (c): median as a bar, 99th percentile as a mark beyond it.

use super::{PhaseFigures, figure};
use crate::figures::EndpointFigures;
use chart::{Anchor, Canvas, ms, round_up};
use lab::app::Endpoint;

const WIDTH: f64 = 360.0;
const ROW: f64 = 46.0;
const LEFT: f64 = 4.0;
const RIGHT: f64 = 92.0;

/// What a row shows: phase, median and 99th percentile, ms.
struct Row<'a> {
    id: &'a str,
    title: &'a str,
    p50: f64,
    p99: f64,
}

/// The reads of the read-heavy endpoint first, then each endpoint as a whole.
pub(super) fn panels(phases: &[PhaseFigures]) -> Vec<String> {
    let mut panels = Vec::new();
    let heavy = Endpoint::Timeline;
    let reads = rows(phases, heavy, |e| (e.reads_p50_ms, e.reads_p99_ms));
    panels.push(panel(&format!("{heavy}: time in reads of one request"), &note(phases, heavy), &reads));
    for endpoint in Endpoint::ALL {
        let whole = rows(phases, endpoint, |e| (e.p50_ms, e.p99_ms));
        panels.push(panel(&format!("{endpoint}: whole request"), &note(phases, endpoint), &whole));
    }
    panels
}

fn rows(
    phases: &[PhaseFigures],
    endpoint: Endpoint,
    of: impl Fn(&EndpointFigures) -> (f64, f64),
) -> Vec<Row<'_>> {
    let compared = phases.iter().filter(|p| ["a", "b", "c"].contains(&p.phase.id));
    let row = |p| {
        let phase: &PhaseFigures = p;
        let (p50, p99) = of(phase.endpoint(endpoint)?);
        Some(Row { id: phase.phase.id, title: phase.phase.title, p50, p99 })
    };
    compared.filter_map(row).collect()
}

fn note(phases: &[PhaseFigures], endpoint: Endpoint) -> String {
    let queries = phases.first().and_then(|p| p.endpoint(endpoint)).map_or(0.0, |e| e.queries_per_request);
    format!("{queries:.0} queries a request; bar: median, mark: 99th percentile")
}

fn panel(title: &str, note: &str, rows: &[Row<'_>]) -> String {
    let longest = rows.iter().map(|r| r.p99.max(r.p50)).fold(0.0, f64::max);
    let scale = (WIDTH - LEFT - RIGHT) / round_up(longest);
    let mut canvas = Canvas::new(WIDTH, ROW * rows.len() as f64 + 8.0);
    for (n, row) in rows.iter().enumerate() {
        let top = ROW * n as f64;
        canvas.text("label", LEFT, top + 14.0, Anchor::Start, format_args!("({}) {}", row.id, row.title));
        canvas.rect("track", LEFT, top + 20.0, WIDTH - LEFT - RIGHT, 16.0, 3.0);
        canvas.rect(&format!("phase-{}", row.id), LEFT, top + 20.0, row.p50 * scale, 16.0, 3.0);
        let x = LEFT + row.p99 * scale;
        canvas.line("whisker", (LEFT + row.p50 * scale, top + 28.0), (x, top + 28.0));
        canvas.line("whisker-end", (x, top + 22.0), (x, top + 34.0));
        canvas.text("value", WIDTH - RIGHT + 8.0, top + 26.0, Anchor::Start, ms(row.p50));
        canvas.text(
            "small",
            WIDTH - RIGHT + 8.0,
            top + 39.0,
            Anchor::Start,
            format_args!("p99 {}", ms(row.p99)),
        );
    }
    let says: Vec<String> =
        rows.iter().map(|r| format!("{}: median {}, p99 {}", r.title, ms(r.p50), ms(r.p99))).collect();
    figure(title, note, &canvas.finish(&says.join("; ")))
}
