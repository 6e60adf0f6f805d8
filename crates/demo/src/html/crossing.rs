//! Share of reads that cross zones in each phase, with the least that even load allows.

use super::{PhaseFigures, figure, name};
use chart::{Anchor, Canvas};

const WIDTH: f64 = 720.0;
const ROW: f64 = 40.0;
const RIGHT: f64 = 150.0;

/// All phases in one chart.
pub(super) fn panel(phases: &[PhaseFigures]) -> String {
    let scale = WIDTH - RIGHT - 4.0;
    let mut canvas = Canvas::new(WIDTH, ROW * phases.len() as f64 + 6.0);
    let mut says = Vec::new();
    for (n, phase) in phases.iter().enumerate() {
        let top = ROW * n as f64;
        let least = 2.0 + phase.least_cross_zone * scale;
        canvas.text("label", 2.0, top + 14.0, Anchor::Start, name(phase));
        canvas.rect("track", 2.0, top + 19.0, scale, 14.0, 3.0);
        canvas.rect("cross", 2.0, top + 19.0, phase.cross_zone * scale, 14.0, 3.0);
        canvas.line("least", (least, top + 16.0), (least, top + 36.0));
        canvas.text("value", WIDTH - RIGHT + 8.0, top + 31.0, Anchor::Start, percent(phase.cross_zone));
        let of = format!("least {}", percent(phase.least_cross_zone));
        canvas.text("small", WIDTH - RIGHT + 62.0, top + 31.0, Anchor::Start, of);
        says.push(format!(
            "{}: {}, least {}",
            name(phase),
            percent(phase.cross_zone),
            percent(phase.least_cross_zone)
        ));
    }
    let svg =
        format!("<div class=\"scroll\"><div class=\"wide\">{}</div></div>", canvas.finish(&says.join("; ")));
    let note = "bar: share of reads answered in another zone; line: the least for which every replica carries the same";
    figure("Cross-zone share", note, &svg).replacen("<figure>", "<figure class=\"full\">", 1)
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
