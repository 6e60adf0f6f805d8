//! A router, an agent and a guard on servers of a lab, read by a real Prometheus that has the rules: what
//! they say is in the lists of names, and every query of the dashboards is answered.

use super::query::selectors;
use super::registry::{self, families};
use super::{accepted, promtool, queries, repository};
use crate::guard::Running;
use crate::support::told;
use crate::support::watched::Watched;
use lab::{Account, Lab, Spec};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(120);

#[tokio::test]
async fn a_real_prometheus_reads_all_three_and_answers_every_query() {
    let base = tempfile::tempdir().unwrap();
    let lab = Lab::up(&Spec::new(&[("a", 2), ("b", 1)]), base.path()).await.unwrap();
    let more =
        "[[objective]]\nname = \"reads\"\nlistener = \"LISTENER\"\nthreshold = \"15ms\"\nshare = 0.99\n";
    let reader = format!("{}:{}", lab.client_address("a", 30).unwrap(), lab.port());
    let agent = Watched::start_with(&lab, &more.replace("LISTENER", &reader)).await;
    let guard = free_address();
    let _guard = start_guard(&lab, &agent.route.0.file, base.path(), guard);
    let clients: Vec<_> = [agent.route.0.reader, agent.route.0.writer]
        .into_iter()
        .map(|at| told::options(&lab, *at.ip(), at.port()))
        .map(|options| tokio::spawn(async move { statements(options.into()).await }))
        .collect();

    let programs = [
        ("headroom-router", agent.route.0.admin),
        ("headroom-agent", agent.address),
        ("headroom-guard", guard),
    ];
    let known = registry::all();
    for (job, address) in programs {
        until(&format!("{job} answers"), || {
            get(address, "/metrics", OPEN).filter(|text| text.contains("# EOF"))
        })
        .await;
        let open = get(address, "/metrics", OPEN).unwrap();
        for (name, metric) in families(&open) {
            let listed = known.get(&name).unwrap_or_else(|| panic!("{job}: {name} is in no list of names"));
            assert_eq!((&metric.kind, &metric.help), (&listed.kind, &listed.help), "{job}: {name}");
            assert!(metric.labels.is_subset(&listed.labels), "{job}: {name}: {:?}", metric.labels);
        }
        accepted(&promtool(&["check", "metrics"], &get(address, "/metrics", "").unwrap()));
    }

    let prometheus = free_address();
    let _prometheus = start_prometheus(base.path(), prometheus, &programs);
    let ask = |query: &str| ask(prometheus, query);
    // Rates need several readings, and rules an evaluation after them.
    for query in [
        "sum(rate(headroom_endpoint_duration_seconds_count[5m])) > 0",
        "headroom_guard_active == 1",
        "count(headroom_watched_server_up) == 3",
        "instance:headroom_reads_leaving_zone:ratio >= 0",
    ] {
        until(query, || ask(query).filter(|result| !result.is_empty())).await;
    }
    let mut answered = 0;
    for (place, query) in queries().into_iter().filter(|(_, query)| !query.starts_with("label_values")) {
        let query = chosen(&query);
        let result = ask(&query).unwrap_or_else(|| panic!("{place}: Prometheus refuses {query}"));
        answered += usize::from(!result.is_empty());
        // Where it compares, no answer is the good answer; where a metric has no series (nothing was refused,
        // no server is slow), there is nothing to show.
        let compares = ["==", "> ", "< ", "ALERTS"].iter().any(|word| query.contains(word));
        let has_series =
            |metric: &str| ask(&format!("count({metric})")).is_some_and(|result| !result.is_empty());
        // A rate of what came last needs one reading more.
        if !compares && result.is_empty() && selectors(&query).iter().all(|one| has_series(&one.metric)) {
            let what = format!("{place}: its metrics have series, and nothing is answered to {query}");
            until(&what, || ask(&query).filter(|result| !result.is_empty())).await;
        }
    }
    assert!(answered >= 60, "only {answered} queries have an answer");
    for client in clients {
        client.abort();
    }
    drop(agent);
    lab.down().await.unwrap();
}

/// With everything chosen.
fn chosen(query: &str) -> String {
    let choices = ["$job", "$instance", "$zone", "$listener", "$endpoint", "$server"];
    choices.iter().fold(query.to_owned(), |query, name| query.replace(name, ".*"))
}

const OPEN: &str = "Accept: application/openmetrics-text\r\n";

/// Freed at once, and taken by whom it is for.
fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn start_guard(lab: &Lab, config: &Path, base: &Path, at: SocketAddr) -> Running {
    let log = std::fs::File::create(base.join("guard.log")).unwrap();
    let guard = Command::new(env!("CARGO_BIN_EXE_headroom"))
        .args(["guard", "--dry-run", "--listen", &at.to_string(), "--config"])
        .arg(config)
        .arg("--admin-option-file")
        .arg(lab.credentials_file(Account::Admin))
        .arg("--journal")
        .arg(base.join("journals"))
        .stdout(Stdio::null())
        .stderr(log)
        .spawn();
    Running(guard.unwrap())
}

fn start_prometheus(base: &Path, at: SocketAddr, programs: &[(&str, SocketAddr)]) -> Running {
    let rules = repository().join("deploy/prometheus/headroom.rules.yml");
    let mut config = format!(
        "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\nrule_files: [{}]\nscrape_configs:\n",
        rules.display()
    );
    for (job, address) in programs {
        config.push_str(&format!(
            "  - {{ job_name: {job}, static_configs: [{{ targets: [\"{address}\"] }}] }}\n"
        ));
    }
    let file = base.join("prometheus.yml");
    std::fs::write(&file, config).unwrap();
    let log = std::fs::File::create(base.join("prometheus.log")).unwrap();
    let prometheus = Command::new("prometheus")
        .arg(format!("--config.file={}", file.display()))
        .arg(format!("--storage.tsdb.path={}", base.join("tsdb").display()))
        .arg(format!("--web.listen-address={at}"))
        .stdout(Stdio::null())
        .stderr(log)
        .spawn();
    Running(
        prometheus
            .unwrap_or_else(|error| panic!("prometheus: {error}; scripts/install.sh monitoring brings it")),
    )
}

/// Statements of an endpoint, until it is aborted.
async fn statements(options: mysql_async::Opts) {
    loop {
        if let Ok(mut conn) = Conn::new(options.clone()).await {
            for _ in 0..50 {
                let _: Result<Option<u8>, _> = conn.query_first("SELECT 1 /*endpoint='cart'*/").await;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            let _ = conn.disconnect().await;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn get(at: SocketAddr, path: &str, headers: &str) -> Option<String> {
    let mut stream = TcpStream::connect(at).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(20))).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {at}\r\n{headers}\r\n").ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned())
}

/// The series of an instant query; `None` when Prometheus refuses it.
fn ask(at: SocketAddr, query: &str) -> Option<Vec<Value>> {
    let encoded: String =
        query
            .bytes()
            .map(|byte| {
                if byte.is_ascii_alphanumeric() {
                    char::from(byte).to_string()
                } else {
                    format!("%{byte:02X}")
                }
            })
            .collect();
    let answer: Value =
        serde_json::from_str(&get(at, &format!("/api/v1/query?query={encoded}"), "")?).ok()?;
    answer["data"]["result"].as_array().cloned().filter(|_| answer["status"] == "success")
}

async fn until<T>(what: &str, mut so: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = so() {
            return found;
        }
        assert!(Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
