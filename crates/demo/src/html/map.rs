//! Zones side by side: the application on top, its replicas below, a band for each flow of reads, as wide as
//! its share.

use super::{PhaseFigures, figure, name};
use crate::figures::About;
use crate::scenario::zone_of;
use chart::{Anchor, Canvas};
use std::collections::BTreeMap;

const WIDTH: f64 = 360.0;
const HEIGHT: f64 = 250.0;
const APP_Y: f64 = 62.0;
const SERVER_Y: f64 = 176.0;
const BOX: f64 = 48.0;
/// Width of a band that carries all reads.
const ALL: f64 = 46.0;

/// The map of one phase.
pub(super) fn panel(about: &About, phase: &PhaseFigures) -> String {
    let mut canvas = Canvas::new(WIDTH, HEIGHT);
    let column = WIDTH / about.zones.len().max(1) as f64;
    let mut servers: BTreeMap<&str, f64> = BTreeMap::new();
    let mut apps: BTreeMap<&str, f64> = BTreeMap::new();
    for (n, (zone, _)) in about.zones.iter().enumerate() {
        let left = column * n as f64;
        canvas.rect("zone", left + 3.0, 3.0, column - 6.0, HEIGHT - 6.0, 10.0);
        canvas.text("small", left + 12.0, 20.0, Anchor::Start, format_args!("zone {zone}"));
        apps.insert(zone, left + column / 2.0);
        let here: Vec<&str> =
            phase.servers.iter().map(|s| s.name.as_str()).filter(|s| zone_of(s) == zone).collect();
        let step = column / here.len().max(1) as f64;
        for (i, server) in here.iter().enumerate() {
            servers.insert(server, left + step * (i as f64 + 0.5));
        }
        if here.is_empty() {
            canvas.text("small", left + column / 2.0, SERVER_Y + 24.0, Anchor::Middle, "no reader");
        }
    }
    // Thin ones last, so that none is hidden.
    let mut flows: Vec<_> = phase.flows.iter().filter(|f| f.share > 0.001).collect();
    flows.sort_by(|x, y| y.share.total_cmp(&x.share));
    for flow in flows {
        let (Some(from), Some(to)) = (apps.get(flow.from.as_str()), servers.get(flow.server.as_str())) else {
            continue;
        };
        let class = if flow.from == zone_of(&flow.server) { "flow-home" } else { "flow-cross" };
        let (y0, y1) = (APP_Y + 14.0, SERVER_Y - 2.0);
        let middle = (y0 + y1) / 2.0;
        let d = format!("M{from:.1} {y0:.1} C{from:.1} {middle:.1} {to:.1} {middle:.1} {to:.1} {y1:.1}");
        canvas.path(class, &d, Some((flow.share * ALL).max(1.0)));
    }
    draw_ends(&mut canvas, phase, &apps, &servers);
    let note = format!("{}; {:.1} % of reads cross zones", phase.placement, phase.cross_zone * 100.0);
    let says =
        phase.flows.iter().map(|f| format!("zone {} to {}: {:.1} %", f.from, f.server, f.share * 100.0));
    figure(&name(phase), &note, &canvas.finish(&says.collect::<Vec<_>>().join(", ")))
}

fn draw_ends(
    canvas: &mut Canvas,
    phase: &PhaseFigures,
    apps: &BTreeMap<&str, f64>,
    servers: &BTreeMap<&str, f64>,
) {
    for (zone, x) in apps {
        let born: f64 = phase.flows.iter().filter(|f| f.from == *zone).fold(0.0, |sum, f| sum + f.share);
        canvas.rect("app", x - 34.0, APP_Y - 26.0, 68.0, 40.0, 8.0);
        canvas.text("ends", *x, APP_Y - 9.0, Anchor::Middle, "app");
        canvas.text("ends-small", *x, APP_Y + 6.0, Anchor::Middle, format_args!("{:.0} %", born * 100.0));
    }
    for server in &phase.servers {
        let Some(x) = servers.get(server.name.as_str()) else { continue };
        let class = if server.of_mean > 1.1 { "server-over" } else { "server" };
        canvas.rect(class, x - BOX / 2.0, SERVER_Y, BOX, 44.0, 6.0);
        canvas.text("ends", *x, SERVER_Y + 19.0, Anchor::Middle, &server.name);
        canvas.text(
            "ends-small",
            *x,
            SERVER_Y + 35.0,
            Anchor::Middle,
            format_args!("{:.2} x", server.of_mean),
        );
    }
}
