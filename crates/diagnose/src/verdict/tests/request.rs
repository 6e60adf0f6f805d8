//! *Not the database*, by a router that sees requests.

use super::*;

fn compared(now: (f64, f64), usual: (f64, f64)) -> RequestComparison {
    let spent =
        |(span_ms, database_ms)| RequestTimes { span_p50_ms: span_ms, span_ms, database_ms, statements: 3.0 };
    let now = EndpointRequests { endpoint: "checkout".to_owned(), count: 50, spent: spent(now) };
    RequestComparison { now, usual: spent(usual) }
}

fn window(now: (f64, f64), usual: (f64, f64)) -> Window {
    Window { requests: Some(compared(now, usual)), ..healthy() }
}

/// Any figures that a router can give, and none.
pub(super) fn some() -> impl Strategy<Value = Option<RequestComparison>> {
    let spent = || (0.0f64..1e4, 0.0f64..=1.0).prop_map(|(span, database)| (span, span * database));
    prop::option::of((spent(), spent()).prop_map(|(now, usual)| compared(now, usual)))
}

#[test]
fn requests_that_think_longer_are_not_the_database_and_the_figures_say_so() {
    let verdict = judge(&window((120.0, 9.0), (20.0, 8.0)));
    let first = verdict.bottleneck.unwrap();
    assert_eq!((first.name, verdict.sure), (Name::NotTheDatabase, Some(Confidence::Certain)));
    assert_eq!(first.who.as_deref(), Some("of 120 ms a request of checkout, 9.0 ms are the database's"));
    // A server elsewhere: of its host nothing is known, and nothing needs to be.
    let elsewhere = Window { host: None, ..window((120.0, 9.0), (20.0, 8.0)) };
    assert_eq!(named(&elsewhere), Some(Name::NotTheDatabase));
}

#[test]
fn slower_statements_more_of_them_and_what_was_always_so_are_no_such_case() {
    for (what, now, usual) in [
        ("statements became slower", (120.0, 100.0), (20.0, 8.0)),
        ("a third of what is added is theirs", (120.0, 42.0), (20.0, 8.0)),
        ("they have always thought this long", (120.0, 9.0), (118.0, 9.0)),
        ("all is faster than usual", (10.0, 1.0), (120.0, 9.0)),
    ] {
        assert_eq!(named(&window(now, usual)), None, "{what}");
    }
    let host = Window { server: None, ..window((120.0, 9.0), (20.0, 8.0)) };
    assert_eq!(named(&host), None, "a host alone has no database");
}

#[test]
fn a_server_without_room_goes_before_a_slow_application() {
    let mut window = window((120.0, 9.0), (20.0, 8.0));
    busy(window.host.as_mut().unwrap());
    window.server.as_mut().unwrap().in_commit = 0.0;
    let verdict = judge(&window);
    assert_eq!(verdict.bottleneck.map(|f| f.name), Some(Name::Cpu));
    assert_eq!(verdict.runner_up.map(|f| f.name), Some(Name::NotTheDatabase));
}

proptest! {
    #[test]
    fn the_longer_requests_think_the_more_it_is_not_the_database(
        usual in 1.0f64..500.0, share in 0.0f64..=1.0, more in 0.0f64..1e4, still_more in 0.0f64..1e4,
    ) {
        let database = usual * share;
        let load = |thinks: f64| {
            let window = window((usual + thinks, database), (usual, database));
            (Name::NotTheDatabase.rule().judge)(&window).map_or(0.0, |finding| finding.load)
        };
        prop_assert!(load(more + still_more) >= load(more) - 1e-9);
    }
}
