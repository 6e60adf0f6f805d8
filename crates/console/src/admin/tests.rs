//! The admin address over real sockets, on a sample.

use super::*;
use crate::admin_client::AdminClient;
use crate::sample_status::SampleRouter;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn start() -> (SocketAddr, Arc<SampleRouter>, CancellationToken) {
    let listener = bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (live, stop) = (Arc::new(SampleRouter::default()), CancellationToken::new());
    tokio::spawn(serve(listener, live.clone(), stop.clone()));
    (address, live, stop)
}

async fn raw(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

async fn get_from(address: SocketAddr, path: &str) -> String {
    raw(address, &format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")).await
}

#[tokio::test]
async fn the_page_and_its_parts_come_from_the_binary_and_load_nothing_from_elsewhere() {
    let (address, live, stop) = start().await;
    let parts = [
        ("/", "text/html"),
        ("/page.css", "text/css"),
        ("/page.js", "text/javascript"),
        ("/element.js", "text/javascript"),
    ];
    for (path, kind) in parts {
        let answer = get_from(address, path).await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains(kind), "{path}: {answer}");
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        let foreign = body
            .match_indices("http")
            .filter(|(at, _)| !body[*at..].contains("www.w3.org") || body[*at..].starts_with("https"));
        assert_eq!(foreign.count(), 0, "{path}");
    }
    assert!(get_from(address, "/healthz").await.ends_with("ok\n"));
    let unwell = "ring 0 has not answered for 1.0 s: new sessions do not go to it";
    live.troubles.lock().unwrap().push(unwell.to_owned());
    let answer = get_from(address, "/healthz").await;
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains(unwell), "{answer}");
    assert!(get_from(address, "/nowhere").await.starts_with("HTTP/1.1 404"));
    stop.cancel();
}

#[tokio::test]
async fn status_reads_back_as_it_was_written() {
    let (address, _, stop) = start().await;
    let client = AdminClient::new(Some(&address.to_string()));
    assert_eq!(client.status().await.unwrap(), crate::sample_status::status());
    stop.cancel();
}

#[tokio::test]
async fn it_is_read_only_whatever_a_request_brings() {
    let (address, _, stop) = start().await;
    let body = r#"{"server":"db3","deadline_ms":0}"#;
    for path in ["/drain", "/undrain", "/status.json", "/metrics", "/"] {
        for method in ["POST", "PUT", "DELETE", "PATCH"] {
            let request = format!(
                "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\nx-headroom: cli\r\n\
                 content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            let answer = raw(address, &request).await;
            let refused = answer.starts_with("HTTP/1.1 404") || answer.starts_with("HTTP/1.1 405");
            assert!(refused, "{method} {path}: {answer}");
        }
    }
    stop.cancel();
}

#[tokio::test]
async fn a_foreign_page_cannot_read_and_a_name_that_the_operator_wrote_is_answered() {
    let (address, live, stop) = start().await;
    let reading = async |host: &str, path: &str| {
        raw(address, &format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n")).await
    };
    for path in ["/status.json", "/metrics", "/insight.json", "/healthz", "/"] {
        assert!(reading("evil.example", path).await.starts_with("HTTP/1.1 421"), "{path}");
        assert!(reading("headroom.example:9306", path).await.starts_with("HTTP/1.1 421"), "{path}");
    }
    live.allow("headroom.example");
    assert!(reading("headroom.example:9306", "/status.json").await.starts_with("HTTP/1.1 200"));
    assert!(reading("evil.example", "/status.json").await.starts_with("HTTP/1.1 421"));
    stop.cancel();
}

#[tokio::test]
async fn a_health_check_that_names_nobody_is_answered() {
    let (address, _, stop) = start().await;
    let checked =
        async |headers: &str| raw(address, &format!("GET /healthz HTTP/1.0\r\n{headers}\r\n")).await;
    let answer = checked("").await;
    assert!(answer.contains(" 200 ") && answer.ends_with("ok\n"), "{answer}");
    let answer = checked("host: \r\n").await;
    assert!(answer.contains(" 421 "), "an empty name is none of ours: {answer}");
    stop.cancel();
}

#[tokio::test]
async fn asked_in_a_loop_it_looks_at_the_router_once_in_the_time_that_is_configured() {
    let (address, live, stop) = start().await;
    live.cache(std::time::Duration::from_secs(3600));
    for _ in 0..5 {
        for path in ["/status.json", "/metrics"] {
            assert!(get_from(address, path).await.starts_with("HTTP/1.1 200"), "{path}");
        }
    }
    assert_eq!(live.asked.load(std::sync::atomic::Ordering::Relaxed), 2, "once for each");
    live.cache(std::time::Duration::ZERO);
    get_from(address, "/status.json").await;
    get_from(address, "/status.json").await;
    assert_eq!(live.asked.load(std::sync::atomic::Ordering::Relaxed), 4);
    stop.cancel();
}

#[tokio::test]
async fn metrics_are_openmetrics_for_who_names_it_and_agree_with_the_status() {
    let (address, live, stop) = start().await;
    live.cache(std::time::Duration::from_secs(3600));
    let older = get_from(address, "/metrics").await;
    assert!(older.contains("text/plain; version=0.0.4"), "{older}");
    assert!(older.contains("# TYPE headroom_picks_total counter\n") && !older.contains("# EOF"), "{older}");
    let accept = "accept: application/openmetrics-text; version=1.0.0\r\n";
    let request = format!("GET /metrics HTTP/1.1\r\nhost: {address}\r\n{accept}connection: close\r\n\r\n");
    let answer = raw(address, &request).await;
    assert!(answer.contains("application/openmetrics-text"), "{answer}");
    let body = answer.split_once("\r\n\r\n").unwrap().1;
    assert!(body.ends_with("# EOF\n"));
    for line in [
        r#"headroom_server_up{server="db4"} 0.0"#,
        r#"headroom_server_eligible{server="db4",listener="reader",reason="silent"} 0.0"#,
        r#"headroom_flow_share{from="us-east-1c",to="us-east-1b"} 0.6"#,
        "headroom_data_plane_well 1.0",
        "headroom_data_plane_restarts_total 0",
        r#"headroom_fallback_in_force{fallback="servers_without_zone"} 1.0"#,
        r#"headroom_picks_total{server="db2",because="own zone"} 31"#,
        r#"headroom_objective_burn_rate{objective="checkout",window="fast"} 17.2"#,
        r#"headroom_incident_open{objective="checkout"} 1.0"#,
        r#"headroom_incidents_opened_total{objective="checkout"} 3"#,
        r#"headroom_webhook_calls_total{outcome="delivered"} 5"#,
        r#"headroom_sessions_closed_total{server="db2",reason="moved: balance"} 12"#,
    ] {
        assert!(body.contains(line), "{line} is not in\n{body}");
    }
    let load = |server: &str| format!("headroom_server_statements_per_second{{server=\"{server}\"}}");
    assert!(body.contains(&load("db2")), "{body}");
    assert!(!body.contains(&load("db4")), "what a server carries that does not answer is not known: {body}");
    stop.cancel();
}
