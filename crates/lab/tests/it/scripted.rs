//! The scripted server as a driver sees it.

use lab::scripted::{Opening, Reply, Script, ScriptedServer};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, OptsBuilder};
use std::time::Duration;

/// Time enough on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

async fn log_in(server: &ScriptedServer, user: &str, password: &str) -> Result<Conn, Error> {
    log_in_within(PATIENCE, server, user, password).await
}

async fn log_in_within(
    patience: Duration,
    server: &ScriptedServer,
    user: &str,
    password: &str,
) -> Result<Conn, Error> {
    let address = server.address();
    let opts = OptsBuilder::default().ip_or_hostname(address.ip().to_string()).tcp_port(address.port());
    let conn = Conn::new(opts.user(Some(user)).pass(Some(password)));
    tokio::time::timeout(patience, conn).await.unwrap_or(Err(Error::Other("timed out".into())))
}

#[tokio::test]
async fn a_driver_logs_in_and_gets_what_the_script_says() {
    let script = Script::new("8.0.39", |statement, session| match statement {
        "SELECT who" => Reply::rows(&["user", "nothing"], &[&[Some(&session.user), None]]),
        "broken" => Reply::error(1227, "Access denied; you need (at least one of) the PROCESS privilege(s)"),
        "slow" => Reply::Ok.after(Duration::from_millis(50)),
        "bye" => Reply::Close,
        "silence" => Reply::Hang,
        _ => Reply::Usual,
    });
    let server = ScriptedServer::start(script.login("headroom", "secret")).await.unwrap();
    let mut conn = log_in(&server, "headroom", "secret").await.unwrap();
    assert_eq!(conn.server_version(), (8, 0, 39));
    let row: (String, Option<String>) = conn.query_first("SELECT who").await.unwrap().unwrap();
    assert_eq!(row, ("headroom".to_owned(), None));
    let Error::Server(error) = conn.query_drop("broken").await.unwrap_err() else { panic!() };
    assert_eq!(error.code, 1227);
    conn.query_drop("slow").await.unwrap();
    let version: Option<String> = conn.query_first("SELECT VERSION()").await.unwrap();
    assert_eq!(version.as_deref(), Some("8.0.39"));
    let silence = tokio::time::timeout(Duration::from_millis(50), conn.query_drop("silence")).await;
    assert!(silence.is_err());
    let mut conn = log_in(&server, "headroom", "secret").await.unwrap();
    assert!(conn.query_drop("bye").await.is_err());
    let Error::Server(error) = log_in(&server, "headroom", "guess").await.unwrap_err() else { panic!() };
    assert_eq!(error.code, 1045);
    assert_eq!(server.connections(), 3);
}

#[tokio::test]
async fn a_server_can_fail_before_and_during_the_login() {
    let server = ScriptedServer::start(Script::new("10.11.6-MariaDB", |_, _| Reply::Usual)).await.unwrap();
    log_in(&server, "anyone", "anything").await.unwrap();
    let refuse = Opening::Refuse { code: 1040, message: "Too many connections".to_owned() };
    for opening in [
        refuse.clone(),
        Opening::Garbage(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
        Opening::Close,
        Opening::Hang,
        Opening::CloseAtLogin,
        Opening::HangAtLogin,
    ] {
        server.set_opening(opening.clone());
        let patience = Duration::from_millis(if opening == refuse { 20_000 } else { 300 });
        let error = log_in_within(patience, &server, "anyone", "anything").await.unwrap_err();
        if let (Error::Server(error), true) = (&error, opening == refuse) {
            assert_eq!(error.code, 1040);
        }
    }
    server.set_opening(Opening::GreetAfter(Duration::from_millis(20)));
    log_in(&server, "anyone", "anything").await.unwrap();
    assert!(
        ScriptedServer::start(Script::new("8", |_, _| Reply::Ok).on("192.0.2.1:1".parse().unwrap()))
            .await
            .is_err()
    );
}
