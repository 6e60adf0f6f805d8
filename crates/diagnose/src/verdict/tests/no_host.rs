//! Servers on another machine, of whose host nothing is known.

use super::*;

/// The same server, elsewhere.
fn elsewhere(window: Window) -> Window {
    Window { host: None, ..window }
}

#[test]
fn a_cpu_that_is_not_known_is_not_idle() {
    let window = with(|_, server| {
        (server.settings.at_work, server.active, server.in_admission) = (2, 2.0, Some(12.0));
    });
    assert_eq!(named(&window), Some(Name::Admission));
    let verdict = judge(&elsewhere(window));
    assert_eq!(verdict.bottleneck, None);
    assert!(verdict.not_judged.contains(&Name::Admission), "its CPUs may be what all wait for");
}

#[test]
fn a_cpu_that_is_not_known_has_no_figure() {
    let window = with(|_, server| {
        (server.connections_per_s, server.statements_per_s, server.in_login) = (400.0, 500.0, 3.0);
    });
    let has_cpu = |window: &Window| {
        let found = (Name::NewConnections.rule().judge)(window).unwrap();
        assert!(found.load >= 1.0, "{found:?}");
        found.evidence.iter().any(|figure| figure.what == "CPU busy")
    };
    assert!(has_cpu(&window) && !has_cpu(&elsewhere(window)));
}
