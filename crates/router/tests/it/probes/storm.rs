//! Health checks through a router to a server with the defaults that users have: names of hosts are looked
//! up, and a host is blocked after 100 connections in a row that are broken off.
//!
//! Servers spare 127.0.0.1, so the router's connections go by a link of the lab, which comes from an address
//! of its own. The server has an `/etc/hosts` of its own, because only hosts whose name was found are
//! counted.

use crate::stand::{Stand, log_in};
use config::{ClientTlsMode, TlsMode};
use fleet::Address;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

const USER: (&str, &str) = ("shop", "pass");
/// More than twice what a server takes.
const CHECKS: usize = 300;

/// The server's program, started where these addresses have names.
fn with_names(dir: &Path, program: &Path, addresses: &[Ipv4Addr]) -> PathBuf {
    let hosts = dir.join("hosts");
    let lines: Vec<String> =
        addresses.iter().enumerate().map(|(n, address)| format!("{address} host{n}.test\n")).collect();
    std::fs::write(&hosts, format!("127.0.0.1 localhost\n{}", lines.concat())).unwrap();
    let wrapper = dir.join("server");
    // Root needs no user namespace for it; others are root in one of their own.
    let unshare = match rustix::process::geteuid().is_root() {
        true => "unshare --mount",
        false => "unshare --map-root-user --mount",
    };
    let program = program.display();
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && exec {program} \"$@\"\n\
         exec {unshare} sh -c 'mount --bind {} /etc/hosts && exec \"$@\"' sh {program} \"$@\"\n",
        hosts.display()
    );
    std::fs::write(&wrapper, script).unwrap();
    std::fs::set_permissions(&wrapper, std::fs::Permissions::from_mode(0o755)).unwrap();
    wrapper
}

/// How a check ends what it has begun.
#[derive(Clone, Copy, Debug)]
enum Check {
    /// Connects and closes.
    Closes,
    /// Connects and resets.
    Resets,
    /// Waits for the greeting, and closes.
    Reads,
    /// Says something else than a login.
    Babbles,
}

async fn check(to: SocketAddr, how: Check) {
    let mut stream = TcpStream::connect(to).await.unwrap();
    let mut some = [0; 256];
    match how {
        Check::Closes => {}
        Check::Resets => stream.set_zero_linger().unwrap(),
        Check::Reads => assert!(stream.read(&mut some).await.unwrap() > 0),
        Check::Babbles => {
            stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
            let _ = stream.read(&mut some).await;
        }
    }
}

/// Connects from `from`, and gives the code of the error that stands in the greeting's place, or 0.
async fn greeted(from: Ipv4Addr, to: SocketAddr) -> u16 {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    let mut stream = socket.connect(to).await.unwrap();
    let mut bytes = vec![0; 1024];
    let read = stream.read(&mut bytes).await.unwrap();
    let first = wire::packet::first(&bytes[..read]).unwrap();
    wire::ErrPacket::parse(first.payload).map_or(0, |error| error.code)
}

pub(crate) async fn checks_block_nobody(program: &Path) {
    let dir = tempfile::tempdir().unwrap();
    let (link, direct) = (Ipv4Addr::new(127, 1, 0, 254), Ipv4Addr::new(127, 1, 0, 205));
    let stand = Stand::with_defaults_of_servers(with_names(dir.path(), program, &[link, direct])).await;
    stand.root(&format!("CREATE USER {}@'%' IDENTIFIED BY '{}'", USER.0, USER.1)).await;

    // The server does block a host: one that breaks connections off itself.
    let server: SocketAddr = stand.lab.real("a1").unwrap().into();
    let mut blocked = 0;
    for _ in 0..CHECKS {
        blocked = greeted(direct, server).await;
        if blocked != 0 {
            break;
        }
    }
    assert_eq!(blocked, 1129, "without a block this test would prove nothing");

    let reach = stand.lab.reach("a", "a1").unwrap();
    let reach = Address::tcp(reach.ip().to_string(), reach.port());
    let tls = stand.tls_of_clients(ClientTlsMode::Off);
    let front = stand.front(reach, &tls, stand.to_servers(TlsMode::Disabled, None));
    let listener: SocketAddr = ([127, 0, 0, 1], front.port()).into();
    for how in [Check::Closes, Check::Resets, Check::Reads, Check::Babbles] {
        for _ in 0..CHECKS {
            check(listener, how).await;
        }
        front.until("all checks are over", |s| s.sessions == 0).await;
        let conn = log_in(&stand, &front, crate::stand::Way::Plain, USER).await;
        conn.unwrap_or_else(|e| panic!("after {CHECKS} that {how:?}: {e}")).disconnect().await.unwrap();
    }
    let status = front.router.status();
    let left = status.listeners[0].refused["left_at_once"];
    assert!(left >= 2 * CHECKS as u64, "counted, and as what they are: {:?}", status.listeners[0].refused);
    assert!(status.servers[0].writes.eligible);
    front.down().await;
    stand.down().await;
}
