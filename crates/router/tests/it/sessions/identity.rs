//! Who may come, and whose word counts for who somebody is.

use super::fake::{Client, Fake, Front, Script, defaults, within};
use config::{Access, Listener};
use fleet::{Address, ListenerRole::Reader};
use std::sync::atomic::Ordering::SeqCst;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use wire::ErrPacket;

async fn front(allow: &str, proxies: &[&str], server: &Fake) -> Front {
    let access = Access {
        allow: Some(vec![allow.parse().unwrap()]),
        proxies: proxies.iter().map(|p| p.parse().unwrap()).collect(),
    };
    let listener = Listener { access, ..Listener::new(Address::tcp("127.0.0.1", 0), Reader) };
    Front::with_listeners(defaults(), vec![listener], vec![server.replica()])
}

/// Connects and says `first` before anything else.
async fn saying(port: u16, first: &[u8]) -> Result<Client<TcpStream>, ErrPacket> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream.write_all(first).await.unwrap();
    within(5, Client::greet(stream)).await
}

fn header(client: &str) -> Vec<u8> {
    wire::proxy::write(client.parse().unwrap(), "10.0.0.1:3306".parse().unwrap())
}

#[tokio::test]
async fn a_client_that_may_not_come_gets_error_1130_and_reaches_no_server() {
    let server = Fake::start("r", Script::Serves).await;
    let closed = front("10.0.0.0/8", &[], &server).await;
    let refusal = within(5, Client::connect(closed.port(0))).await.err().unwrap();
    assert_eq!(refusal.code, 1130);
    assert!(refusal.message.contains("127.0.0.1"), "{}", refusal.message);
    let status = closed.router.status();
    assert_eq!((status.listeners[0].refused["not_allowed"], status.listeners[0].accepted), (1, 0));
    let open = front("127.0.0.0/8", &[], &server).await;
    Client::login(open.port(0)).await;
}

#[tokio::test]
async fn a_trusted_proxy_tells_who_its_client_is_and_that_client_must_be_allowed() {
    let server = Fake::start("r", Script::Serves).await;
    let front = front("10.0.0.0/8", &["127.0.0.1/32"], &server).await;
    let mut client = saying(front.port(0), &header("10.1.2.3:50000")).await.unwrap();
    client.log_in().await;
    let refusal = saying(front.port(0), &header("11.0.0.1:50000")).await.err().unwrap();
    assert_eq!(refusal.code, 1130);
    assert!(refusal.message.contains("11.0.0.1"), "{}", refusal.message);
    let mut client = saying(front.port(0), b"PROXY TCP4 10.1.2.3 10.0.0.1 1 2\r\n").await.unwrap();
    client.log_in().await;
    let refusal = saying(front.port(0), b"PROXY TCP4 11.0.0.1 10.0.0.1 1 2\r\n").await.err().unwrap();
    assert_eq!(refusal.code, 1130);
    // A check of the proxy's own, which 127.0.0.1 is not allowed; it is shorter than any of version 2.
    let refusal = saying(front.port(0), b"PROXY UNKNOWN\r\n").await.err().unwrap();
    assert_eq!(refusal.code, 1130);
    let refusal = saying(front.port(0), b"SSH-2.0-OpenSSH_9.2p1\r\n").await.err().unwrap();
    assert_eq!(refusal.code, 1043);
    assert!(refusal.message.contains("proxy_protocol_from"), "{}", refusal.message);
    let refused = &front.router.status().listeners[0].refused;
    assert_eq!((refused["not_allowed"], refused["proxy_header"]), (3, 1));
}

/// HAProxy without `check-send-proxy`, and whatever else in those networks looks whether somebody listens.
#[tokio::test]
async fn a_trusted_proxy_that_connects_and_closes_is_a_health_check_and_reaches_no_server() {
    let server = Fake::start("r", Script::Serves).await;
    let front = front("10.0.0.0/8", &["127.0.0.1/32"], &server).await;
    drop(TcpStream::connect(("127.0.0.1", front.port(0))).await.unwrap());
    front.until("counted", |s| s.listeners[0].refused["left_at_once"] == 1).await;
    // One that breaks off in the middle of its header is none.
    let mut half = TcpStream::connect(("127.0.0.1", front.port(0))).await.unwrap();
    half.write_all(&header("10.1.2.3:50000")[..7]).await.unwrap();
    drop(half);
    front.until("refused", |s| s.listeners[0].refused["proxy_header"] == 1).await;
    assert_eq!(front.router.status().listeners[0].refused["left_at_once"], 1);
    assert_eq!(server.accepted.load(SeqCst), 0);
}

#[tokio::test]
async fn a_header_from_anybody_else_is_refused_in_words() {
    let server = Fake::start("r", Script::Serves).await;
    let front = front("127.0.0.0/8", &["10.9.0.0/16"], &server).await;
    let mut client = saying(front.port(0), &header("10.1.2.3:50000")).await.unwrap();
    let refusal = ErrPacket::parse(&within(5, client.answer()).await.unwrap()).unwrap();
    assert_eq!(refusal.code, 1043);
    assert!(refusal.message.contains("not in proxy_protocol_from"), "{}", refusal.message);
    let mut client = saying(front.port(0), b"PROXY UNKNOWN\r\n").await.unwrap();
    let refusal = ErrPacket::parse(&within(5, client.answer()).await.unwrap()).unwrap();
    assert!(refusal.message.contains("not in proxy_protocol_from"), "{}", refusal.message);
}

#[tokio::test]
async fn a_server_of_mysql_is_not_told_what_it_would_not_understand() {
    let script = lab::scripted::Script::new("8.4.3", |_, _| lab::scripted::Reply::Usual);
    let server = lab::scripted::ScriptedServer::start(script).await.unwrap();
    let mut told = Fake::start("r", Script::Refuses).await.replica();
    told.reach = Address::tcp("127.0.0.1", server.address().port());
    told.proxy_protocol = true;
    let front = Front::start(defaults(), &[Reader], vec![told]);
    let refusal = within(5, Client::connect(front.port(0))).await.err().unwrap();
    assert!(refusal.message.contains("MariaDB does"), "{}", refusal.message);
}
