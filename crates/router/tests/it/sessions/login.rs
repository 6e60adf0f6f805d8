//! Logins that do not come about: slow, senseless, broken off; and the limit on how many may be under way.

use super::fake::{Client, Fake, Front, Script, defaults, read_packet, within};
use config::{ClientTls, ClientTlsMode, Listener, RouterConfig, ServerTls, Tls, TlsMode};
use fleet::{Address, ListenerRole::Reader, ListenerRole::Writer, Role};
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use wire::ErrPacket;

/// Time enough for a greeting on a machine that others use too.
const BRIEF: Duration = Duration::from_millis(900);

fn brief() -> RouterConfig {
    RouterConfig { login_deadline: BRIEF, ..defaults() }
}

async fn refusal(client: &mut Client<tokio::net::TcpStream>) -> ErrPacket {
    let answer = within(5, client.answer()).await.expect("an error packet");
    let refusal = ErrPacket::parse(&answer).expect("an error packet");
    within(5, client.closed()).await;
    refusal
}

#[tokio::test]
async fn a_client_that_does_not_log_in_is_told_and_let_go() {
    let server = Fake::start("r", Script::Serves).await;
    let front = Front::start(brief(), &[Reader], vec![server.replica()]);
    let mut silent = within(5, Client::connect(front.port(0))).await.unwrap();
    let refusal = refusal(&mut silent).await;
    assert_eq!((refusal.code, refusal.sqlstate), (1159, *b"08S01"));
    assert!(refusal.message.contains("no login within 0.9 s"), "{}", refusal.message);
    front.until("gone", |s| s.sessions == 0).await;
    let status = front.router.status();
    assert_eq!(status.listeners[0].refused["login_deadline"], 1);
    assert_eq!(status.servers[0].closed["not logged in"], 1);
    assert!(status.servers[0].reads.eligible, "it is not the server's fault");
}

/// Whoever can connect could else take the primary from everybody: a port scanner, a slow TLS handshake.
#[tokio::test]
async fn a_server_that_gives_up_on_a_silent_client_is_not_suspected() {
    let server = Fake::start("p", Script::GivesUp(Duration::from_millis(1100))).await;
    let front = Front::start(defaults(), &[Writer], vec![server.server(Role::Primary)]);
    let mut silent = within(5, Client::connect(front.port(0))).await.unwrap();
    let refusal = refusal(&mut silent).await;
    assert_eq!((refusal.code, refusal.sqlstate), (1159, *b"08S01"));
    assert!(refusal.message.contains("and p closed the connection"), "{}", refusal.message);
    front.until("gone", |s| s.sessions == 0).await;
    let status = front.router.status();
    assert_eq!(status.listeners[0].refused["login_deadline"], 1);
    assert!(status.servers[0].writes.eligible, "{:?}", status.servers[0].writes.reason);
    assert_eq!(front.suspected.lock().unwrap().clone(), Vec::<String>::new());
}

#[tokio::test]
async fn garbage_in_place_of_a_login_is_a_bad_handshake_and_reaches_no_server() {
    let server = Fake::start("r", Script::Serves).await;
    let front = Front::start(defaults(), &[Reader], vec![server.replica()]);
    for garbage in [b"GET / HTTP/1.1\r\n\r\n".as_slice(), &[0xff; 4096], &[5, 0, 0, 9, 1, 2, 3, 4, 5]] {
        let mut client = within(5, Client::connect(front.port(0))).await.unwrap();
        client.stream.write_all(garbage).await.unwrap();
        let refusal = refusal(&mut client).await;
        assert_eq!(refusal.code, 1043, "{refusal:?}");
    }
    front.until("gone", |s| s.sessions == 0).await;
    assert_eq!(front.router.status().listeners[0].refused["bad_login"], 3);
    assert!(server.commands.lock().unwrap().is_empty());
    // A packet that is announced and never comes is a slow login, not memory.
    let mut client = within(5, Client::connect(front.port(0))).await.unwrap();
    client.stream.write_all(&[0xff, 0xff, 1, 1]).await.unwrap();
    let mut good = Client::login(front.port(0)).await;
    assert_eq!(good.query("SELECT 1").await.unwrap()[0], 0);
}

#[tokio::test]
async fn a_first_packet_that_cannot_be_read_reaches_no_server_where_tls_is_said_anything_about() {
    let server = Fake::start("r", Script::Serves).await;
    // Sound packets with payloads of no, one, two and three bytes, a login of the protocol before 4.1, and
    // one that is cut off.
    let short: [&[u8]; 6] =
        [b"", b"\x01", b"\x05\x80", b"\x05\x82\0", b"\x05\x80\0\0\x01app\0", b"\x05\x82\0\0\0\0\0\x01"];
    let tls = ClientTls { mode: ClientTlsMode::Off, ..ClientTls::default() };
    let off = Listener { tls, ..Listener::new(Address::tcp("127.0.0.1", 0), Reader) };
    let through = Listener::new(Address::tcp("127.0.0.1", 0), Reader);
    let preferred = Tls { mode: TlsMode::Preferred, ..Tls::default() };
    let to_servers = RouterConfig { tls: ServerTls { tls: preferred, ..ServerTls::default() }, ..defaults() };
    for (config, listener) in [(defaults(), off), (to_servers, through.clone())] {
        let front = Front::with_listeners(config, vec![listener], vec![server.replica()]);
        for payload in short {
            let mut client = within(5, Client::connect(front.port(0))).await.unwrap();
            client.send(1, payload).await;
            let refusal = refusal(&mut client).await;
            assert_eq!(refusal.code, 1043, "{payload:?}: {refusal:?}");
        }
        front.until("gone", |s| s.sessions == 0).await;
        assert_eq!(front.router.status().listeners[0].refused["bad_login"], 6);
    }
    assert_eq!(server.logins.load(SeqCst), 0, "it has read no packet of any of them");
    // Where nothing is said about TLS, an old client is the server's to judge.
    let front = Front::with_listeners(defaults(), vec![through], vec![server.replica()]);
    let mut client = within(5, Client::connect(front.port(0))).await.unwrap();
    client.send(1, b"\x05\x80\0\0\x01app\0").await;
    assert_eq!(within(5, client.answer()).await.unwrap()[0], 0);
    assert_eq!(server.logins.load(SeqCst), 1);
}

/// Drivers read nothing before they have sent their login, and count packets: an answer with another number
/// than the next is "packets out of sync" to them, whatever it says.
#[tokio::test]
async fn a_server_that_closes_before_the_login_came_is_named_in_a_packet_with_the_number_after_the_logins() {
    let server = Fake::start("leaving", Script::Leaves).await;
    let front = Front::start(defaults(), &[Reader], vec![server.replica()]);
    for pause_ms in [0, 100] {
        let mut client = within(5, Client::connect(front.port(0))).await.unwrap();
        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        client.send_login().await;
        let (sequence, packet) = within(5, read_packet(&mut client.stream)).await.expect("an error packet");
        let refusal = ErrPacket::parse(&packet).unwrap();
        assert_eq!((sequence, refusal.code), (2, 1053), "{refusal:?}");
        assert!(refusal.message.contains("leaving"), "{}", refusal.message);
        within(5, client.closed()).await;
    }
    front.until("gone", |s| s.sessions == 0).await;
    assert_eq!(front.router.status().servers[0].closed["server left"], 2);
}

/// A client that sends its login when its time is up may still do so after it was refused.
#[tokio::test]
async fn a_client_that_is_refused_for_its_slowness_can_read_why_after_its_login() {
    let server = Fake::start("r", Script::Serves).await;
    let front = Front::start(brief(), &[Reader], vec![server.replica()]);
    let mut slow = within(5, Client::connect(front.port(0))).await.unwrap();
    let (sequence, packet) = within(5, read_packet(&mut slow.stream)).await.expect("an error packet");
    assert_eq!((sequence, ErrPacket::parse(&packet).unwrap().code), (2, 1159));
}

/// It may let this one client wait, for PAM or after wrong passwords: whoever can connect could else take it
/// from everybody.
#[tokio::test]
async fn a_server_that_never_answers_a_login_is_named_and_looked_at_before_it_is_avoided() {
    let server = Fake::start("mute", Script::Mute).await;
    let front = Front::start(brief(), &[Reader], vec![server.replica()]);
    let mut client = within(5, Client::connect(front.port(0))).await.unwrap();
    client.send_login().await;
    let refusal = refusal(&mut client).await;
    assert_eq!(refusal.code, 1053);
    assert!(refusal.message.contains("mute failed this login"), "{}", refusal.message);
    front.until("the watcher is told", |_| !front.suspected.lock().unwrap().is_empty()).await;
    let told = front.suspected.lock().unwrap().clone();
    assert_eq!(told, ["mute: no answer to a login"]);
    let status = front.router.status();
    assert_eq!(status.listeners[0].refused["server_failed"], 1);
    assert!(status.servers[0].reads.eligible, "{:?}", status.servers[0].reads.reason);
}

/// A client that sends its login when its time is nearly up leaves the server none.
#[tokio::test]
async fn a_server_that_had_no_time_for_tls_is_looked_at_before_it_is_avoided() {
    let server = Fake::start("mute", Script::MuteTls).await;
    let tls = Tls { mode: TlsMode::Required, ..Tls::default() };
    let config = RouterConfig { tls: ServerTls { tls, ..ServerTls::default() }, ..brief() };
    let front = Front::start(config, &[Reader], vec![server.replica()]);
    let mut client = within(5, Client::connect(front.port(0))).await.unwrap();
    client.send_login().await;
    assert_eq!(refusal(&mut client).await.code, 1053);
    front.until("the watcher is told", |_| !front.suspected.lock().unwrap().is_empty()).await;
    let status = front.router.status();
    assert!(status.servers[0].reads.eligible, "{:?}", status.servers[0].reads.reason);
}

#[tokio::test]
async fn logins_that_clients_break_off_make_the_watcher_log_in_before_the_server_blocks_this_host() {
    let server = Fake::start("mute", Script::Mute).await;
    let front = Front::start(defaults(), &[Reader], vec![server.replica()]);
    for _ in 0..20 {
        assert!(front.suspected.lock().unwrap().is_empty(), "not before");
        let mut client = within(5, Client::connect(front.port(0))).await.unwrap();
        client.send_login().await;
        drop(client);
        front.until("it has left", |s| s.sessions == 0).await;
    }
    front.until("the watcher is told", |_| !front.suspected.lock().unwrap().is_empty()).await;
    assert!(front.suspected.lock().unwrap()[0].contains("broken off"), "{:?}", front.suspected);
    assert!(front.router.status().servers[0].reads.eligible, "it is not the server's fault");
}

#[tokio::test]
async fn clients_beyond_those_that_may_be_logging_in_get_error_1040() {
    let server = Fake::start("r", Script::Serves).await;
    let listener = Listener { max_connecting: 2, ..Listener::new(Address::tcp("127.0.0.1", 0), Reader) };
    let front = Front::with_listeners(defaults(), vec![listener], vec![server.replica()]);
    let port = front.port(0);
    let (mut first, _second) =
        (Client::connect(port).await.unwrap(), within(5, Client::connect(port)).await.unwrap());
    let refusal = within(5, Client::connect(port)).await.err().unwrap();
    assert_eq!(refusal.code, 1040);
    assert!(refusal.message.contains("max_connecting"), "{}", refusal.message);
    assert_eq!(front.router.status().listeners[0].refused["max_connecting"], 1);
    first.log_in().await;
    front.until("a place is free", |s| s.listeners[0].connecting == 1).await;
    assert!(Client::connect(port).await.is_ok());
}
