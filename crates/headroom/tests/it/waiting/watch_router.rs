//! What an agent makes of the router in front of its servers, on a lab: an application that begins to think
//! longer between its statements is told from a database that is slow.

use crate::support::told;
use crate::support::told::Told;
use crate::support::watched::Watched;
use lab::{Lab, Spec};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What is usual is known after ten answers of the router, three seconds apart.
const LIMIT: Duration = Duration::from_secs(120);
/// Between two statements of a request, at first.
const THINKS: Duration = Duration::from_millis(5);

#[tokio::test]
async fn an_application_that_thinks_longer_is_named_and_not_the_database() {
    let base = tempfile::tempdir().unwrap();
    let lab = Lab::up(&Spec::new(&[("a", 1)]), base.path()).await.unwrap();
    let agent = Watched::start_with(&lab, "[router.insight]\nrequest_quiet = \"1s\"\n").await;
    let (route, told) = (&agent.route.0, agent.told(&lab));
    let thinks_ms = Arc::new(AtomicU64::new(THINKS.as_millis() as u64));
    let writer = told::options(&lab, *route.writer.ip(), route.writer.port());
    let clients: Vec<_> = (0..3)
        .map(|client| tokio::spawn(requests(writer.clone().into(), client, thinks_ms.clone())))
        .collect();

    // The router: three statements, and two pauses between them that are not the database's.
    let view = until(route, "/insight.json?by=request", |view| {
        view["requests"].as_array().is_some_and(|all| all.iter().any(|r| r["requests"].as_u64() >= Some(50)))
    })
    .await;
    let request = view["requests"].as_array().unwrap().iter().find(|r| r["endpoint"] == "checkout").unwrap();
    let of = |figure: &str| request[figure].as_f64().unwrap();
    let pauses_ms = 2.0 * THINKS.as_secs_f64() * 1e3;
    assert_eq!((of("queries_mean"), of("queries_most")), (3.0, 3.0), "{request}");
    assert!(of("thinking") * of("span_mean_ms") >= pauses_ms, "{request}");
    assert!(of("span_mean_ms") >= of("time_mean_ms") + pauses_ms - 1e-6, "{request}");
    assert!(of("span_p99_ms") >= of("span_p50_ms") && of("span_p50_ms") >= pauses_ms * 0.97, "{request}");
    assert!(view["notes"].to_string().contains("before and after is not seen"), "{}", view["notes"]);
    let metrics = route.get("/metrics");
    for series in ["request_span_seconds_count", "request_commands_total", "request_thinking_seconds_total"] {
        assert!(metrics.contains(&format!("headroom_{series}{{endpoint=\"checkout\"}} ")), "{series}");
    }
    let shown = route.headroom(&["top", "--by", "request", "--once"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("THINKING") && shown.contains("before and after is not seen"), "{shown}");

    // The agent knows what is usual, and then it is no longer so.
    let judged = |view: &Value| {
        let missing = view["servers"][0]["verdict"]["not_judged"].as_array();
        missing.is_some_and(|missing| !missing.contains(&"not-the-database".into()))
    };
    until(&told, "/watch.json", judged).await;
    thinks_ms.store(200, Ordering::Relaxed);
    // Other programs of this machine may be a bottleneck too; then it is the runner-up.
    let named = |view: &Value| {
        let verdict = &view["servers"][0]["verdict"];
        let both = [&verdict["bottleneck"], &verdict["runner_up"]];
        let met = |one: &&&Value| one["name"] == "not-the-database" && one["load"].as_f64() >= Some(1.0);
        both.iter().find(met).map(|one| (**one).clone())
    };
    let view = until(&told, "/watch.json", |view| named(view).is_some()).await;
    let finding = named(&view).unwrap();
    let who = finding["who"].as_str().unwrap();
    assert!(
        who.starts_with("of ")
            && who.contains("a request of checkout")
            && who.ends_with("are the database's")
    );
    let evidence = |what: &str| {
        let all = finding["evidence"].as_array().unwrap();
        all.iter().find(|one| one["what"] == what).unwrap()["value"].as_f64().unwrap()
    };
    assert!(evidence("of what is added, thinking between statements") >= 0.8, "{finding}");
    assert!(evidence("a request takes, statement to statement") > evidence("of that the database, at most"));
    assert!(finding["next"].to_string().contains("N+1"), "{finding}");

    clients.iter().for_each(tokio::task::JoinHandle::abort);
    drop(agent);
    lab.down().await.unwrap();
}

/// Requests of three statements one after another, each with an id, until it is aborted.
async fn requests(opts: Opts, client: u32, thinks_ms: Arc<AtomicU64>) {
    let mut conn = Conn::new(opts).await.unwrap();
    for request in 0u64.. {
        for statement in 0..3 {
            if statement > 0 {
                tokio::time::sleep(Duration::from_millis(thinks_ms.load(Ordering::Relaxed))).await;
            }
            let sql = format!("SELECT {statement} /*endpoint='checkout',request_id='{client}-{request}'*/");
            conn.query_drop(sql).await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The first answer for which this is so.
async fn until(told: &Told, path: &str, so: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + LIMIT;
    loop {
        let view: Value = serde_json::from_str(&told.get(path)).unwrap();
        if so(&view) {
            return view;
        }
        assert!(Instant::now() < deadline, "never: {view:#}\n{}", told.words());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
