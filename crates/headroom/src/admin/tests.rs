//! The admin address over real sockets, on a still life.

use super::*;
use crate::admin_client::AdminClient;
use crate::environment::Environment;
use crate::still_life::StillLife;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn start() -> (SocketAddr, Arc<StillLife>, CancellationToken) {
    let listener = bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (live, stop) = (Arc::new(StillLife::default()), CancellationToken::new());
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
    let (address, _, stop) = start().await;
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
    assert!(get_from(address, "/nowhere").await.starts_with("HTTP/1.1 404"));
    stop.cancel();
}

#[tokio::test]
async fn status_reads_back_as_it_was_written() {
    let (address, _, stop) = start().await;
    let client = AdminClient::new(Some(&address.to_string()), &Environment::default());
    assert_eq!(client.status().await.unwrap(), crate::still_life::status());
    stop.cancel();
}

#[tokio::test]
async fn drain_is_told_to_the_router_and_an_unknown_server_is_refused() {
    let (address, live, stop) = start().await;
    let client = AdminClient::new(Some(&address.to_string()), &Environment::default());
    let request = |server: &str| DrainRequest { server: server.into(), deadline_ms: Some(5000) };
    assert!(client.command("/drain", &request("db3")).await.unwrap().done);
    assert!(client.command("/undrain", &request("db3")).await.unwrap().done);
    let refused = client.command("/drain", &request("db33")).await.unwrap();
    assert!(!refused.done && refused.text.contains("db33"));
    assert_eq!(*live.told.lock().unwrap(), ["drain db3 Some(5s)", "undrain db3"]);
    stop.cancel();
}

#[tokio::test]
async fn a_foreign_page_can_neither_command_nor_read() {
    let (address, live, stop) = start().await;
    let body = r#"{"server":"db3"}"#;
    let post = |headers: &str| {
        format!(
            "POST /drain HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n{headers}\r\n{body}",
            body.len()
        )
    };
    let plain_form = post(&format!("host: {address}\r\ncontent-type: text/plain\r\n"));
    assert!(raw(address, &plain_form).await.starts_with("HTTP/1.1 403"));
    let no_header = post(&format!("host: {address}\r\ncontent-type: application/json\r\n"));
    assert!(raw(address, &no_header).await.starts_with("HTTP/1.1 403"));
    let rebound = post("host: evil.example\r\nx-headroom: 1\r\ncontent-type: application/json\r\n");
    assert!(raw(address, &rebound).await.starts_with("HTTP/1.1 421"));
    let reading = "GET /status.json HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n";
    assert!(raw(address, reading).await.starts_with("HTTP/1.1 421"));
    assert!(live.told.lock().unwrap().is_empty());
    stop.cancel();
}

#[tokio::test]
async fn metrics_are_openmetrics_and_agree_with_the_status() {
    let (address, _, stop) = start().await;
    let answer = get_from(address, "/metrics").await;
    assert!(answer.contains("application/openmetrics-text"), "{answer}");
    let body = answer.split_once("\r\n\r\n").unwrap().1;
    assert!(body.ends_with("# EOF\n"));
    for line in [
        r#"headroom_server_up{server="db4"} 0.0"#,
        r#"headroom_server_eligible{server="db4",listener="reader",reason="silent"} 0.0"#,
        r#"headroom_flow_share{from="us-east-1c",to="us-east-1b"} 0.6"#,
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
    stop.cancel();
}
