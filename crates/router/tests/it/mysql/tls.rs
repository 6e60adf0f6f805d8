//! TLS on either side of a session with a real mysqld, from target/mysql (`make test-mysql` brings it there):
//! every combination logs in by `caching_sha2_password`, from an empty cache and from a full one.

use crate::stand::{Stand, Way, cipher, log_in};
use config::{ClientTlsMode, ServerTls, TlsMode};
use fleet::Address;
use mysql_async::ChangeUserOpts;
use mysql_async::prelude::Queryable;
use testkit::mysqld;

const USER: (&str, &str) = ("shop", "pass-word of the shop, 32 bytes");

#[tokio::test]
async fn caching_sha2_logs_in_by_every_way_with_and_without_tls() {
    let stand = Stand::up(Some(mysqld())).await;
    let (user, password) = USER;
    stand
        .root(&format!("CREATE USER {user}@'%' IDENTIFIED WITH caching_sha2_password BY '{password}'"))
        .await;
    stand
        .root(&format!("CREATE USER {user}@localhost IDENTIFIED WITH caching_sha2_password BY '{password}'"))
        .await;
    let by_socket = Address::Unix(stand.lab.socket("a1").unwrap());
    for client_mode in [ClientTlsMode::Passthrough, ClientTlsMode::Off, ClientTlsMode::Preferred] {
        for (server_mode, reach) in [
            (TlsMode::Disabled, stand.tcp()),
            (TlsMode::Disabled, by_socket.clone()),
            (TlsMode::Required, stand.tcp()),
            (TlsMode::VerifyCa, stand.tcp()),
        ] {
            let encrypts = server_mode != TlsMode::Disabled;
            let front = stand.front(
                reach.clone(),
                &stand.tls_of_clients(client_mode),
                retrieving(stand.to_servers(server_mode, None)),
            );
            let ways = match client_mode {
                ClientTlsMode::Preferred => vec![Way::Plain, Way::Socket, Way::Tls],
                _ => vec![Way::Plain, Way::Socket],
            };
            for way in ways {
                let what = format!("{way:?} by {} to {reach} with {server_mode:?}", client_mode.word());
                // Empties the server's cache: the password itself is asked for.
                stand.root("FLUSH PRIVILEGES").await;
                let wrong = log_in(&stand, &front, way, (user, "wrong")).await.map(drop).expect_err(&what);
                assert!(wrong.to_string().contains("1045"), "{what}: {wrong}");
                for cached in [false, true] {
                    let mut conn = log_in(&stand, &front, way, USER)
                        .await
                        .unwrap_or_else(|e| panic!("{what}, cached: {cached}: {e}"));
                    let one: Option<u8> = conn.query_first("SELECT 1").await.unwrap();
                    assert_eq!(one, Some(1), "{what}");
                    assert_eq!(!cipher(&mut conn).await.is_empty(), encrypts, "{what}");
                    conn.disconnect().await.unwrap();
                }
            }
            let status = front.router.status();
            assert_eq!(status.listeners[0].logins["opaque"], 0, "every session can be read");
            assert!(status.servers[0].commands > 0);
            front.down().await;
        }
    }
    stand.down().await;
}

/// Clients with TLS may have the server's key asked for in clear.
fn retrieving(servers: ServerTls) -> ServerTls {
    ServerTls { allow_public_key_retrieval: true, ..servers }
}

#[tokio::test]
async fn a_password_goes_on_over_an_open_way_only_as_the_configuration_says() {
    let stand = Stand::up(Some(mysqld())).await;
    let (user, password) = USER;
    stand
        .root(&format!("CREATE USER {user}@'%' IDENTIFIED WITH caching_sha2_password BY '{password}'"))
        .await;
    let clients = stand.tls_of_clients(ClientTlsMode::Required);
    let off = || stand.to_servers(TlsMode::Disabled, None);
    let pinned =
        ServerTls { server_public_key: Some(stand.lab.dir().join("a1/data/public_key.pem")), ..off() };
    for (servers, passes) in [(off(), false), (pinned, true), (retrieving(off()), true)] {
        let what = format!("{servers:?}");
        let front = stand.front(stand.tcp(), &clients, servers);
        stand.root("FLUSH PRIVILEGES").await;
        match log_in(&stand, &front, Way::Tls, USER).await {
            Ok(conn) => {
                assert!(passes, "{what}");
                // Cached now: nothing has to be asked for.
                log_in(&stand, &front, Way::Tls, USER).await.unwrap().disconnect().await.unwrap();
                conn.disconnect().await.unwrap();
            }
            Err(error) => {
                let error = error.to_string();
                assert!(
                    !passes && error.contains("3159") && error.contains("server_public_key"),
                    "{what}: {error}"
                );
                assert_eq!(front.router.status().listeners[0].refused["bad_login"], 1);
                assert!(front.router.status().servers[0].writes.eligible, "it is not the server's fault");
            }
        }
        front.down().await;
    }
    stand.down().await;
}

#[tokio::test]
async fn a_change_of_user_is_a_login_too() {
    let stand = Stand::up(Some(mysqld())).await;
    for user in ["shop", "other"] {
        let (_, password) = USER;
        stand
            .root(&format!("CREATE USER {user}@'%' IDENTIFIED WITH caching_sha2_password BY '{password}'"))
            .await;
    }
    // The client's side secret, the server's open; and the other way round.
    for (clients, servers, way) in [
        (ClientTlsMode::Required, TlsMode::Disabled, Way::Tls),
        (ClientTlsMode::Off, TlsMode::VerifyCa, Way::Plain),
    ] {
        let servers = retrieving(stand.to_servers(servers, None));
        let front = stand.front(stand.tcp(), &stand.tls_of_clients(clients), servers);
        let mut conn = log_in(&stand, &front, way, USER).await.unwrap();
        for cached in [false, true] {
            if !cached {
                stand.root("FLUSH PRIVILEGES").await;
            }
            let to =
                ChangeUserOpts::new().with_user(Some("other".to_owned())).with_pass(Some(USER.1.to_owned()));
            conn.change_user(to).await.unwrap_or_else(|e| panic!("{way:?}, cached: {cached}: {e}"));
            let who: Option<String> = conn.query_first("SELECT CURRENT_USER()").await.unwrap();
            assert_eq!(who.as_deref(), Some("other@%"), "{way:?}");
        }
        conn.disconnect().await.unwrap();
        assert_eq!(front.router.status().servers[0].closed.get("not logged in"), None);
        front.down().await;
    }
    stand.down().await;
}

#[tokio::test]
async fn certificates_that_mysqld_made_for_itself_are_verified_by_their_authority() {
    let stand = Stand::with_own_certificates(mysqld()).await;
    let (user, password) = USER;
    stand
        .root(&format!("CREATE USER {user}@'%' IDENTIFIED WITH caching_sha2_password BY '{password}'"))
        .await;
    let mut servers = stand.to_servers(TlsMode::VerifyCa, None);
    servers.tls.ca = Some(stand.lab.dir().join("a1/data/ca.pem"));
    let front = stand.front(stand.tcp(), &stand.tls_of_clients(ClientTlsMode::Off), servers);
    let mut conn = log_in(&stand, &front, Way::Plain, USER).await.unwrap();
    assert!(!cipher(&mut conn).await.is_empty());
    front.down().await;
    stand.down().await;
}

/// The server's own program, with TLS and without, from an empty cache: it asks for the key only when told
/// to.
#[tokio::test]
async fn mysqls_own_client_logs_in_from_an_empty_cache() {
    let stand = Stand::up(Some(mysqld())).await;
    let (user, password) = USER;
    stand
        .root(&format!("CREATE USER {user}@'%' IDENTIFIED WITH caching_sha2_password BY '{password}'"))
        .await;
    let ca = format!("--ssl-ca={}", stand.authority.ca.display());
    for (clients, servers, options) in [
        (ClientTlsMode::Required, TlsMode::Disabled, vec!["--ssl-mode=VERIFY_CA", ca.as_str()]),
        (ClientTlsMode::Required, TlsMode::VerifyCa, vec!["--ssl-mode=VERIFY_CA", ca.as_str()]),
        (ClientTlsMode::Off, TlsMode::VerifyCa, vec!["--ssl-mode=DISABLED", "--get-server-public-key"]),
        (ClientTlsMode::Off, TlsMode::Disabled, vec!["--ssl-mode=DISABLED", "--get-server-public-key"]),
    ] {
        let servers = retrieving(stand.to_servers(servers, None));
        let front = stand.front(stand.tcp(), &stand.tls_of_clients(clients), servers);
        stand.root("FLUSH PRIVILEGES").await;
        let output = tokio::process::Command::new(mysqld().with_file_name("mysql"))
            .args(["--no-defaults", "--protocol=TCP", "--host=127.0.0.1", "--batch", "--skip-column-names"])
            .args(["--user", user, "--execute", "SELECT CURRENT_USER()"])
            .arg(format!("--port={}", front.port()))
            .args(&options)
            .env("MYSQL_PWD", password)
            .output()
            .await
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(said.trim(), "shop@%", "{options:?}: {}", String::from_utf8_lossy(&output.stderr));
        front.down().await;
    }
    stand.down().await;
}
