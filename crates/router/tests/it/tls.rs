//! TLS on either side of a session with a real mariadbd: every combination, and what is verified and refused.

use crate::stand::{Stand, Way, cipher, log_in};
use config::{ClientCert, ClientTlsMode, TlsMode};
use fleet::Address;
use mysql_async::prelude::Queryable;
use std::sync::{Arc, Mutex};
use testkit::certificate::Authority;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const USER: (&str, &str) = ("shop", "pass-word of the shop");

async fn stand() -> Stand {
    let stand = Stand::up(None).await;
    let (user, password) = USER;
    for host in ["%", "localhost"] {
        stand.root(&format!("CREATE USER {user}@'{host}' IDENTIFIED BY '{password}'")).await;
    }
    stand
}

#[tokio::test]
async fn native_and_ed25519_log_in_by_every_way_with_and_without_tls() {
    let stand = stand().await;
    stand.root("INSTALL SONAME 'auth_ed25519'").await;
    for host in ["%", "localhost"] {
        stand
            .root(&format!("CREATE USER signed@'{host}' IDENTIFIED VIA ed25519 USING PASSWORD('{}')", USER.1))
            .await;
    }
    for (client_mode, ways) in [
        (ClientTlsMode::Off, vec![Way::Plain, Way::Socket]),
        (ClientTlsMode::Required, vec![Way::Tls, Way::Socket]),
    ] {
        for mode in [TlsMode::Disabled, TlsMode::Preferred, TlsMode::VerifyIdentity] {
            let name = (mode == TlsMode::VerifyIdentity).then_some("db.test");
            let front =
                stand.front(stand.tcp(), &stand.tls_of_clients(client_mode), stand.to_servers(mode, name));
            for way in &ways {
                for user in [USER, ("signed", USER.1)] {
                    let what = format!("{} {way:?} by {} with {mode:?}", user.0, client_mode.word());
                    let mut conn = match log_in(&stand, &front, *way, user).await {
                        // mysql_async takes a last byte of zero for the end of the ed25519 nonce, once in 256
                        // logins.
                        Err(mysql_async::Error::Server(e)) if e.code == 1045 && user.0 == "signed" => {
                            log_in(&stand, &front, *way, user).await
                        }
                        other => other,
                    }
                    .unwrap_or_else(|e| panic!("{what}: {e}"));
                    assert_eq!(cipher(&mut conn).await.is_empty(), mode == TlsMode::Disabled, "{what}");
                    let big: Option<String> = conn.query_first("SELECT REPEAT('x', 500000)").await.unwrap();
                    assert_eq!(big.unwrap().len(), 500_000, "{what}");
                    conn.disconnect().await.unwrap();
                }
            }
            front.down().await;
        }
    }
    stand.down().await;
}

#[tokio::test]
async fn certificates_of_servers_are_verified_as_the_mode_says() {
    let stand = stand().await;
    let clients = || stand.tls_of_clients(ClientTlsMode::Off);
    // The certificate is for db.test; the server is reached by its address.
    let cases = [
        (stand.to_servers(TlsMode::VerifyCa, None), true),
        (stand.to_servers(TlsMode::VerifyIdentity, None), false),
        (stand.to_servers(TlsMode::VerifyIdentity, Some("db.test")), true),
        (stand.to_servers(TlsMode::VerifyIdentity, Some("other.test")), false),
    ];
    for (servers, right) in cases {
        let what = format!("{servers:?}");
        let front = stand.front(stand.tcp(), &clients(), servers);
        match log_in(&stand, &front, Way::Plain, USER).await {
            Ok(_) => assert!(right, "{what}"),
            Err(error) => {
                let error = error.to_string();
                assert!(!right && error.contains("1053") && error.contains("TLS: "), "{what}: {error}");
                let status = front.router.status();
                assert_eq!(status.listeners[0].refused["server_tls"], 1);
                assert!(!status.servers[0].writes.eligible, "avoided for a while");
            }
        }
        front.down().await;
    }
    let stranger = Authority::new(stand.dir.path(), "stranger");
    let mut servers = stand.to_servers(TlsMode::VerifyCa, None);
    servers.tls.ca = Some(stranger.ca);
    let front = stand.front(stand.tcp(), &clients(), servers);
    assert!(log_in(&stand, &front, Way::Plain, USER).await.is_err());
    front.down().await;
    stand.down().await;
}

#[tokio::test]
async fn a_certificate_of_version_one_is_as_good_as_any_where_none_is_verified_and_refused_in_words_elsewhere()
 {
    let stand = Stand::with_version_one().await;
    stand.root(&format!("CREATE USER {}@'%' IDENTIFIED BY '{}'", USER.0, USER.1)).await;
    let modes = [TlsMode::Preferred, TlsMode::Required, TlsMode::VerifyCa, TlsMode::VerifyIdentity];
    for (mode, passes) in modes.into_iter().zip([true, true, false, false]) {
        let clients = stand.tls_of_clients(ClientTlsMode::Off);
        let front = stand.front(stand.tcp(), &clients, stand.to_servers(mode, None));
        match log_in(&stand, &front, Way::Plain, USER).await {
            Ok(mut conn) => assert!(passes && !cipher(&mut conn).await.is_empty(), "{mode:?}"),
            Err(error) => {
                assert!(!passes && error.to_string().contains("X.509 version 1"), "{mode:?}: {error}");
            }
        }
        front.down().await;
    }
    stand.down().await;
}

#[tokio::test]
async fn a_server_that_asks_for_a_certificate_of_ours_gets_it() {
    let stand = stand().await;
    stand.root(&format!("ALTER USER {}@'%' REQUIRE X509", USER.0)).await;
    let servers = stand.to_servers(TlsMode::VerifyCa, None);
    let front = stand.front(stand.tcp(), &stand.tls_of_clients(ClientTlsMode::Off), servers.clone());
    let refused = log_in(&stand, &front, Way::Plain, USER).await.err().unwrap();
    assert!(refused.to_string().contains("1045"), "{refused}");
    front.down().await;
    let ours = stand.authority.sign("router", &["router.test"]);
    let mut with = servers;
    (with.tls.cert, with.tls.key) = (Some(ours.cert), Some(ours.key));
    let front = stand.front(stand.tcp(), &stand.tls_of_clients(ClientTlsMode::Off), with);
    log_in(&stand, &front, Way::Plain, USER).await.unwrap();
    front.down().await;
    stand.down().await;
}

#[tokio::test]
async fn listeners_refuse_and_pass_through_as_they_are_told() {
    let stand = stand().await;
    let off = || stand.to_servers(TlsMode::Disabled, None);
    let required = stand.front(stand.tcp(), &stand.tls_of_clients(ClientTlsMode::Required), off());
    let refused = log_in(&stand, &required, Way::Plain, USER).await.err().unwrap().to_string();
    assert!(refused.contains("3159"), "{refused}");
    assert_eq!(required.router.status().listeners[0].refused["tls_required"], 1);
    required.down().await;

    let none = stand.front(stand.tcp(), &stand.tls_of_clients(ClientTlsMode::Off), off());
    let refused = log_in(&stand, &none, Way::Tls, USER).await.err().unwrap().to_string();
    assert!(refused.contains("SSL"), "the client sees that none is offered: {refused}");
    none.down().await;

    // End to end: the client verifies the server's own certificate, which is for another name than the
    // listener's.
    let through = stand.front(stand.tcp(), &stand.tls_of_clients(ClientTlsMode::Passthrough), off());
    let refused = log_in(&stand, &through, Way::Tls, USER).await.err().unwrap().to_string();
    assert!(refused.contains("db.test"), "{refused}");
    through.until("counted", |s| s.listeners[0].logins["opaque"] == 1).await;
    through.down().await;
    stand.down().await;
}

/// A login of the protocol before 4.1 with a proof of `mysql_native_password`: flags, longest packet, user,
/// proof.
fn login_before_41(user: &str, password: &str, nonce: &[u8]) -> Vec<u8> {
    let proof = wire::auth::native_password(password.as_bytes(), nonce);
    [&[5, 0x80, 0, 0, 1], user.as_bytes(), &[0, 20], &proof].concat()
}

/// Sends such a login to an address; the first byte of the answer, and the rest of it.
async fn logs_in_before_41(to: std::net::SocketAddr) -> Vec<u8> {
    let mut stream = tokio::net::TcpStream::connect(to).await.unwrap();
    let greeting = packet_of(&mut stream).await;
    let nonce = wire::Greeting::parse(&greeting).unwrap().nonce;
    let mut login = Vec::new();
    wire::packet::write(&mut login, &mut 1, &login_before_41(USER.0, USER.1, &nonce));
    stream.write_all(&login).await.unwrap();
    packet_of(&mut stream).await
}

async fn packet_of(stream: &mut tokio::net::TcpStream) -> Vec<u8> {
    let read = async {
        let mut header = [0; 4];
        stream.read_exact(&mut header).await.unwrap();
        let mut payload = vec![0; wire::packet::Header::parse(header).length as usize];
        stream.read_exact(&mut payload).await.unwrap();
        payload
    };
    tokio::time::timeout(std::time::Duration::from_secs(10), read).await.unwrap()
}

/// Passes connections on to `server`, and keeps what clients sent.
async fn listening_in(server: std::net::SocketAddr) -> (std::net::SocketAddr, Arc<Mutex<Vec<u8>>>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (at, heard) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<u8>>>::default());
    let keep = heard.clone();
    tokio::spawn(async move {
        loop {
            let (client, _) = listener.accept().await.unwrap();
            let (mut from_client, mut to_client) = client.into_split();
            let server = tokio::net::TcpStream::connect(server).await.unwrap();
            let (mut from_server, mut to_server) = server.into_split();
            tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
            let keep = keep.clone();
            tokio::spawn(async move {
                let mut buffer = [0; 4096];
                while let Ok(read @ 1..) = from_client.read(&mut buffer).await {
                    keep.lock().unwrap().extend_from_slice(&buffer[..read]);
                    to_server.write_all(&buffer[..read]).await.unwrap();
                }
            });
        }
    });
    (at, heard)
}

#[tokio::test]
async fn a_login_before_41_finds_no_way_around_tls_and_certificates() {
    let stand = stand().await;
    let server = stand.lab.real("a1").unwrap();
    assert_eq!(
        logs_in_before_41(server.into()).await[0],
        0,
        "MariaDB lets such a client in when it comes directly"
    );
    // Nothing reaches it but the goodbye that the router says in its own name.
    let (at, heard) = listening_in(server.into()).await;
    let reach = Address::tcp(at.ip().to_string(), at.port());
    let mut with_certificates = stand.tls_of_clients(ClientTlsMode::Required);
    with_certificates.client_cert = ClientCert::Required;
    with_certificates.client_ca = Some(stand.authority.ca.clone());
    let off = || stand.to_servers(TlsMode::Disabled, None);
    for (clients, servers) in [
        (with_certificates, off()),
        (stand.tls_of_clients(ClientTlsMode::Preferred), off()),
        (stand.tls_of_clients(ClientTlsMode::Off), off()),
        (stand.tls_of_clients(ClientTlsMode::Passthrough), stand.to_servers(TlsMode::VerifyCa, None)),
    ] {
        let what = format!("{:?} {:?}", clients.mode, servers.tls.mode);
        let front = stand.front(reach.clone(), &clients, servers);
        let answer = logs_in_before_41(([127, 0, 0, 1], front.port()).into()).await;
        let refusal = wire::ErrPacket::parse(&answer).unwrap_or_else(|e| panic!("{what}: {e}: {answer:?}"));
        assert_eq!(refusal.code, 1043, "{what}: {}", refusal.message);
        front.down().await;
        let heard = std::mem::take(&mut *heard.lock().unwrap());
        let mut rest = heard.as_slice();
        while let Some(packet) = wire::packet::first(rest) {
            let ours = wire::Login::parse(packet.payload).is_ok_and(|l| l.user == b"headroom_client_left");
            assert!(ours || packet.payload.is_empty(), "{what}: the server has seen {:?}", packet.payload);
            rest = &rest[packet.used..];
        }
        assert!(rest.is_empty(), "{what}: {rest:?}");
    }
    stand.down().await;
}

#[tokio::test]
async fn a_server_without_tls_is_used_or_refused_in_words() {
    let stand = stand().await;
    let plain =
        lab::scripted::ScriptedServer::start(lab::scripted::Script::new("10.11.0-MariaDB", |_, _| {
            lab::scripted::Reply::Usual
        }))
        .await
        .unwrap();
    let reach = Address::tcp("127.0.0.1", plain.address().port());
    let clients = || stand.tls_of_clients(ClientTlsMode::Preferred);
    let preferred = stand.front(reach.clone(), &clients(), stand.to_servers(TlsMode::Preferred, None));
    drop(log_in(&stand, &preferred, Way::Tls, USER).await.unwrap());
    let fallbacks = preferred.router.status().fallbacks;
    assert!(
        fallbacks.iter().any(|f| f.name == "server_without_tls" && f.words.contains("a1")),
        "{fallbacks:?}"
    );
    preferred.down().await;
    let required = stand.front(reach, &clients(), stand.to_servers(TlsMode::Required, None));
    let refused = log_in(&stand, &required, Way::Tls, USER).await.err().unwrap().to_string();
    assert!(refused.contains("offers no TLS"), "{refused}");
    required.down().await;
    stand.down().await;
}

#[tokio::test]
async fn a_reload_takes_renewed_certificates_and_refuses_broken_ones() {
    let stand = stand().await;
    let tls = stand.tls_of_clients(ClientTlsMode::Required);
    let front = stand.front(stand.tcp(), &tls, stand.to_servers(TlsMode::VerifyCa, None));
    let mut before = log_in(&stand, &front, Way::Tls, USER).await.unwrap();
    std::fs::write(tls.cert.as_ref().unwrap(), "no certificate").unwrap();
    let error = front.reload().err().unwrap().to_string();
    assert!(error.contains("listener-cert.pem"), "{error}");
    log_in(&stand, &front, Way::Tls, USER).await.unwrap();
    // Renewed, for another name: the client sees the new one.
    stand.authority.sign("listener", &["elsewhere.test"]);
    front.reload().unwrap();
    let refused = log_in(&stand, &front, Way::Tls, USER).await.err().unwrap().to_string();
    assert!(refused.contains("elsewhere.test"), "{refused}");
    before.query_drop("SELECT 1").await.unwrap();
    front.down().await;
    stand.down().await;
}
