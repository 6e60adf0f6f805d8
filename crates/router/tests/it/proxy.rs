//! The client's address, told to a real mariadbd by a PROXY protocol header, with TLS after it and without.

use crate::stand::{Stand, Way, log_in_at};
use config::{ClientTlsMode, TlsMode};
use mysql_async::prelude::Queryable;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

/// A proxy for one connection, in the name of `client`; its port.
async fn proxy(to: u16, client: &str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let own = listener.local_addr().unwrap();
    let header = wire::proxy::write(client.parse().unwrap(), own);
    tokio::spawn(async move {
        let (mut from, _) = listener.accept().await.unwrap();
        let mut to = TcpStream::connect(("127.0.0.1", to)).await.unwrap();
        to.write_all(&header).await.unwrap();
        let _ = tokio::io::copy_bidirectional(&mut from, &mut to).await;
    });
    own.port()
}

#[tokio::test]
async fn mariadb_sees_the_address_of_the_client_and_not_ours() {
    let stand = Stand::up(None).await;
    stand.root("SET GLOBAL proxy_protocol_networks = '127.0.0.0/8'").await;
    // An account for the client's address alone: who comes as anybody else is not let in.
    stand.root("CREATE USER shop@'127.9.8.7' IDENTIFIED BY 'secret'").await;
    for mode in [TlsMode::Disabled, TlsMode::VerifyCa] {
        let clients = stand.tls_of_clients(ClientTlsMode::Preferred);
        let front = stand.front_behind_proxy(&clients, stand.to_servers(mode, None));
        for way in [Way::Plain, Way::Tls] {
            let port = proxy(front.port(), "127.9.8.7:4711").await;
            let mut conn = log_in_at(&stand, port, front.socket(), way, ("shop", "secret")).await.unwrap();
            let who: Option<String> = conn.query_first("SELECT USER()").await.unwrap();
            assert_eq!(who.as_deref(), Some("shop@127.9.8.7"), "{mode:?} {way:?}");
            conn.disconnect().await.unwrap();
        }
        front.down().await;
    }
    stand.down().await;
}
