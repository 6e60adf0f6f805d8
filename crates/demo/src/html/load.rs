//! Load of each replica relative to the mean, one panel per phase of (d); the line at 1 is the even share.

use super::{PhaseFigures, figure, name};
use chart::{Anchor, Canvas};

const WIDTH: f64 = 360.0;
const HEIGHT: f64 = 190.0;
const BASE: f64 = 158.0;
const TOP: f64 = 22.0;
/// The axis ends here, in multiples of the mean; more is cut off and says so by its figure.
const MOST: f64 = 2.0;

/// One panel per phase in which load can differ.
pub(super) fn panels(phases: &[PhaseFigures]) -> Vec<String> {
    phases.iter().filter(|p| p.phase.id.starts_with('d')).map(panel).collect()
}

fn panel(phase: &PhaseFigures) -> String {
    let scale = (BASE - TOP) / MOST;
    let mut canvas = Canvas::new(WIDTH, HEIGHT);
    let step = (WIDTH - 60.0) / phase.servers.len().max(1) as f64;
    let wide = (step * 0.6).min(70.0);
    for (n, server) in phase.servers.iter().enumerate() {
        let middle = 50.0 + step * (n as f64 + 0.5);
        let height = server.of_mean.min(MOST) * scale;
        let class = if server.of_mean > 1.1 { "over" } else { "even" };
        canvas.rect(class, middle - wide / 2.0, BASE - height, wide, height, 3.0);
        canvas.text(
            "value",
            middle,
            BASE - height - 5.0,
            Anchor::Middle,
            format_args!("{:.2}", server.of_mean),
        );
        canvas.text("label", middle, BASE + 17.0, Anchor::Middle, &server.name);
    }
    for at in [0.0, 0.5, 1.0, 1.5, 2.0] {
        let y = BASE - at * scale;
        canvas.text("small", 34.0, y + 4.0, Anchor::End, format_args!("{at:.1}"));
        canvas.line(if at == 1.0 { "mean" } else { "rule" }, (40.0, y), (WIDTH - 6.0, y));
    }
    let note = format!(
        "busiest {:.2} x the mean, {:.1} % of reads cross zones",
        phase.busiest_of_mean,
        phase.cross_zone * 100.0
    );
    let says =
        phase.servers.iter().map(|s| format!("{} {:.2}", s.name, s.of_mean)).collect::<Vec<_>>().join(", ");
    figure(&name(phase), &note, &canvas.finish(&says))
}
