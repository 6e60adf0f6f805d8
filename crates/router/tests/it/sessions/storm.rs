//! Clients that come all at once and leave as they like: nothing of them is left behind, and whoever was
//! there is served.

use super::fake::{Client, Fake, Front, Script, defaults, within};
use config::Listener;
use fleet::{Address, ListenerRole::Reader};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use wire::Command;

const WAVES: usize = 12;
const WAVE: usize = 100;

/// Comes once, in one of six ways. `true` if it was let in.
async fn come_and_go(port: u16, way: usize) -> bool {
    if way == 0 {
        // Leaves before anybody has looked.
        drop(TcpStream::connect(("127.0.0.1", port)).await.unwrap());
        return true;
    }
    let mut client = match Client::connect(port).await {
        Ok(client) => client,
        Err(refusal) => {
            assert_eq!(refusal.code, 1040, "{}", refusal.message);
            return false;
        }
    };
    match way {
        1 => client.stream.write_all(&[0xff; 300]).await.unwrap(),
        // Leaves with a reset, where others say goodbye.
        2 => client.stream.set_zero_linger().unwrap(),
        3 => client.log_in().await,
        4 => {
            client.log_in().await;
            client.stream.write_all(&[9, 0, 0, 0, Command::Query.byte()]).await.unwrap();
        }
        _ => {
            client.log_in().await;
            assert_eq!(client.query("SELECT 1").await.unwrap()[0], 0);
            client.send(0, &[Command::Quit.byte()]).await;
        }
    }
    true
}

#[tokio::test]
async fn a_storm_of_clients_that_leave_as_they_like_leaves_nothing_behind() {
    let server = Fake::start("r", Script::Serves).await;
    let address = Address::tcp("127.0.0.1", 0);
    let listener = Listener { max_sessions: 70, max_connecting: 40, ..Listener::new(address, Reader) };
    let front = Front::with_listeners(defaults(), vec![listener], vec![server.replica()]);
    let port = front.port(0);
    let mut resident = within(5, Client::login(port)).await;
    let mut turned_back = 0u64;
    for _ in 0..WAVES {
        let wave: Vec<_> = (0..WAVE).map(|n| tokio::spawn(come_and_go(port, n % 6))).collect();
        assert_eq!(within(20, resident.query("SELECT 1")).await.unwrap()[0], 0, "who is in stays in");
        for client in wave {
            turned_back += u64::from(!within(30, client).await.unwrap());
        }
    }
    front.until("all gone but one", |s| (s.sessions, s.listeners[0].connecting) == (1, 0)).await;
    front.until("its server too", |s| s.servers[0].readers == 1).await;
    let status = front.router.status();
    let listener = &status.listeners[0];
    let refused = listener.refused["max_sessions"] + listener.refused["max_connecting"];
    // Those that left without looking may have been refused unseen.
    assert!(refused >= turned_back, "{refused} refused, {turned_back} heard it");
    assert_eq!(listener.accepted + refused, (WAVES * WAVE) as u64 + 1, "each of them is accounted for");
    assert!(status.servers[0].reads.eligible, "it is not the server's fault");
    // As many as before may come again.
    let mut crowd = Vec::new();
    for _ in 0..69 {
        crowd.push(within(5, Client::login(port)).await);
    }
    assert_eq!(within(5, Client::connect(port)).await.err().unwrap().code, 1040);
    assert_eq!(within(5, resident.query("SELECT 1")).await.unwrap()[0], 0);
}

/// A greeting that comes a byte at a time, and a login that does.
#[tokio::test]
async fn a_client_that_dribbles_its_login_is_let_in_and_holds_nobody_up() {
    let server = Fake::start("r", Script::Serves).await;
    let front = Front::start(defaults(), &[Reader], vec![server.replica()]);
    let port = front.port(0);
    let mut slow = within(5, Client::connect(port)).await.unwrap();
    let mut login = Vec::new();
    let capabilities = wire::Capabilities::PROTOCOL_41 | wire::Capabilities::SECURE_CONNECTION;
    let body = wire::Login {
        capabilities,
        max_packet: 1 << 24,
        charset: 45,
        user: b"app",
        ..wire::Login::default()
    };
    wire::packet::write(&mut login, &mut 1, &body.encode());
    for byte in login {
        slow.stream.write_all(&[byte]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
        if byte == b'a' {
            let mut other = within(5, Client::login(port)).await;
            assert_eq!(within(5, other.query("SELECT 1")).await.unwrap()[0], 0);
        }
    }
    assert_eq!(within(5, slow.answer()).await.unwrap()[0], 0);
    assert_eq!(within(5, slow.query("SELECT 1")).await.unwrap()[0], 0);
}
