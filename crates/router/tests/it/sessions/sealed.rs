//! What holds for bytes in the open holds inside TLS that ends at the router: half-closed sockets, clients
//! that do not read, clients that vanish.

use super::fake::{Client, Fake, Front, Script, defaults, within};
use config::{ClientTls, ClientTlsMode, Listener, Tls, TlsMode};
use fleet::{Address, ListenerRole::Reader};
use testkit::certificate::Authority;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use wire::{Capabilities, Login};

/// A listener that ends TLS, and how its clients begin it.
struct Sealed {
    front: Front,
    connector: TlsConnector,
    _files: tempfile::TempDir,
}

impl Sealed {
    fn front(server: &Fake) -> Self {
        let files = tempfile::tempdir().unwrap();
        let authority = Authority::new(files.path(), "authority");
        let ours = authority.sign("listener", &["localhost"]);
        let mode = ClientTlsMode::Required;
        let tls = ClientTls { mode, cert: Some(ours.cert), key: Some(ours.key), ..ClientTls::default() };
        let listener = Listener { tls, ..Listener::new(Address::tcp("127.0.0.1", 0), Reader) };
        let front = Front::with_listeners(defaults(), vec![listener], vec![server.replica()]);
        let trust = Tls { mode: TlsMode::VerifyIdentity, ca: Some(authority.ca), ..Tls::default() };
        let connector = TlsConnector::from(tls::client(&trust).unwrap().unwrap());
        Self { front, connector, _files: files }
    }

    async fn log_in(&self) -> Client<TlsStream<TcpStream>> {
        let mut plain = within(5, Client::connect(self.front.port(0))).await.unwrap();
        let capabilities = Capabilities::PROTOCOL_41 | Capabilities::SECURE_CONNECTION | Capabilities::SSL;
        let login =
            Login { capabilities, max_packet: 1 << 24, charset: 45, user: b"app", ..Login::default() }
                .encode();
        plain.send(1, &login[..32]).await;
        let name = "localhost".try_into().unwrap();
        let stream = within(5, self.connector.connect(name, plain.stream)).await.unwrap();
        let mut client = Client { stream, server: plain.server };
        client.send(2, &login).await;
        client.stream.flush().await.unwrap();
        assert_eq!(within(5, client.answer()).await.unwrap()[0], 0);
        client
    }
}

#[tokio::test]
async fn a_client_that_closes_its_half_of_tls_still_gets_its_answer() {
    let server = Fake::start("r", Script::Serves).await;
    let sealed = Sealed::front(&server);
    let mut client = sealed.log_in().await;
    client.send(0, b"\x03SLOW").await;
    client.stream.shutdown().await.unwrap();
    assert_eq!(within(5, client.answer()).await.unwrap()[0], 0);
    within(5, client.closed()).await;
    sealed.front.until("ended", |s| s.sessions == 0).await;
    assert_eq!(sealed.front.router.status().servers[0].closed["client left"], 1);
}

#[tokio::test]
async fn a_client_that_does_not_read_tls_stops_the_server_and_gets_everything_when_it_does() {
    let server = Fake::start("flood", Script::Floods(64)).await;
    let sealed = Sealed::front(&server);
    let mut client = sealed.log_in().await;
    client.send(0, b"\x03SELECT everything").await;
    client.stream.flush().await.unwrap();
    client.swallows_a_flood(&server).await;
}

#[tokio::test]
async fn a_client_that_vanishes_in_the_middle_of_a_tls_record_is_gone_with_its_session() {
    let server = Fake::start("r", Script::Serves).await;
    let sealed = Sealed::front(&server);
    let client = sealed.log_in().await;
    let (mut socket, _) = client.stream.into_inner();
    // The head of a record, and a part of what it announces.
    socket.write_all(&[0x17, 3, 3, 0x20, 0, 1, 2, 3]).await.unwrap();
    drop(socket);
    sealed.front.until("ended", |s| s.sessions == 0).await;
    // Nonsense in place of a record ends it too.
    let client = sealed.log_in().await;
    let (mut socket, _) = client.stream.into_inner();
    socket.write_all(b"\x05\x00\x00\x00\x03SELECT 1 in the open").await.unwrap();
    let mut rest = Vec::new();
    let _ = within(5, socket.read_to_end(&mut rest)).await;
    sealed.front.until("ended too", |s| s.sessions == 0).await;
    assert!(
        server.commands.lock().unwrap().iter().all(|c| *c == wire::Command::Quit),
        "nothing else reached it"
    );
}
