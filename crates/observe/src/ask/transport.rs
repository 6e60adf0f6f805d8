//! The way of a control connection where TLS is wanted: TLS and what depends on it are ours, the driver
//! speaks through a socket within this process.
//!
//! The driver (mysql_async 0.37.1) reads a server's certificate even where nothing is verified, and fails on
//! what it cannot read, such as a certificate of X.509 version 1; told not to compare names, it compares
//! them. The router and the load generator have none of this, and now all three mean the same by `ssl_mode`:
//! the crate `tls` says it. What a login is between a side that keeps secrets (the socket) and the server's,
//! `wire::bridge` says, as it does for clients of the router.
//!
//! The socket has a random name in the abstract namespace and takes one connection: that of this process, by
//! the kernel's word (`SO_PEERCRED`). Nothing of it stays.

use super::error::AskError;
use config::{Tls, TlsMode};
use fleet::Address;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tls::TlsError;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use wire::bridge::{Bridge, FromClient, Keys, Secret, Step, Terms};
use wire::packet::{HEADER, Header};
use wire::{Capabilities, ErrPacket, Greeting};

/// The longest packet of a login.
const LONGEST: usize = 64 * 1024;
/// How long a server may take to close once the driver has said goodbye.
const PARTING: Duration = Duration::from_secs(1);

/// A way to a server for one connection of the driver.
pub(super) struct Transport {
    /// The path of the socket, for the driver.
    pub(super) socket: String,
    /// Whether the server is reached without TLS, though that is preferred.
    pub(super) plain: bool,
    /// Which of its addresses answered.
    pub(super) peer: Option<IpAddr>,
    carrier: JoinHandle<()>,
    failed: oneshot::Receiver<AskError>,
}

/// A connection to a server, TLS or not.
trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Duplex for T {}

/// Encrypts passwords for a server without TLS, with the key that it gives.
struct ServersKey;

impl Keys for ServersKey {
    fn public_key(&self) -> &[u8] {
        // The driver's side keeps secrets: it is never asked to encrypt for us.
        &[]
    }

    fn server_key(&self) -> Option<&[u8]> {
        None
    }

    fn seal(&self, pem: &[u8], plain: &[u8]) -> Option<Vec<u8>> {
        tls::sealed(pem, plain)
    }
}

impl Transport {
    /// Connects, reads the greeting, and waits for the driver. The port of `to` at one of `addresses`, with
    /// `deadline` for all of them; `tls` is not off.
    pub(super) async fn open(
        to: &Address,
        addresses: &[IpAddr],
        tls: &Tls,
        deadline: Duration,
    ) -> Result<Self, AskError> {
        let Address::Tcp { port, .. } = to else { return Err(odd("a unix socket needs no TLS")) };
        let at: Vec<SocketAddr> = addresses.iter().map(|ip| SocketAddr::new(*ip, *port)).collect();
        let mut server = connect_to_first(&at, deadline).await?;
        server.set_nodelay(true)?;
        let peer = server.peer_addr().ok().map(|peer| peer.ip());
        let (_, greeting) = packet(&mut server).await?;
        if let Ok(refusal) = ErrPacket::parse(&greeting) {
            let state = String::from_utf8_lossy(&refusal.sqlstate).into_owned();
            return Err(AskError::Answered { code: refusal.code, state, message: refusal.message });
        }
        let offers = Greeting::parse(&greeting).is_ok_and(|g| g.capabilities.contains(Capabilities::SSL));
        if !offers && tls.mode != TlsMode::Preferred {
            return Err(AskError::NoTls);
        }
        let client = tls::client(tls)?.ok_or_else(|| odd("TLS is off"))?;
        let connector = TlsConnector::from(client);
        let name = tls::name_of(to)?;
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|e| AskError::Broken { why: e.to_string() })?;
        let socket = format!("\0headroom-{:032x}", u128::from_ne_bytes(random));
        let listener = UnixListener::bind(&socket)?;
        let (tell, failed) = oneshot::channel();
        let carrier = tokio::spawn(async move {
            let terms = Terms {
                from_client: FromClient::Off,
                to_server: true,
                client_is_local: true,
                server_is_local: false,
                // Only `preferred` leads to a server without TLS, and against somebody who can change packets
                // it protects nothing: he could as well offer TLS of his own.
                retrieves_key: true,
            };
            let (bridge, shown) = Bridge::new(terms, &greeting);
            let carried = async {
                let client = accept_own(listener).await?;
                log_in(client, Box::new(server), bridge, shown, (&connector, name)).await
            };
            match carried.await {
                Ok((client, server)) => relay(client, server).await,
                // Nobody waits for the reason of a login that was given up.
                Err(why) => drop(tell.send(why)),
            }
        });
        Ok(Self { socket, plain: !offers, peer, carrier, failed })
    }

    /// Why the way has failed, if it has: more than the driver knows.
    pub(super) fn failure(&mut self) -> Option<AskError> {
        self.failed.try_recv().ok()
    }

    /// Waits until the driver's goodbye has been passed on.
    pub(super) async fn finish(self) {
        let _ = tokio::time::timeout(PARTING, self.carrier).await;
    }
}

/// Connects to the addresses of a name in their order. Each but the last has its share of the time: behind a
/// filter that drops IPv6 the first may never answer, where clients reach the next.
async fn connect_to_first(addresses: &[SocketAddr], deadline: Duration) -> io::Result<TcpStream> {
    let Some((last, others)) = addresses.split_last() else { return Err(io::ErrorKind::NotFound.into()) };
    let share = deadline / addresses.len() as u32;
    for address in others {
        if let Ok(Ok(stream)) = tokio::time::timeout(share, TcpStream::connect(address)).await {
            return Ok(stream);
        }
    }
    TcpStream::connect(last).await
}

/// The one connection that is this process's own.
async fn accept_own(listener: UnixListener) -> io::Result<UnixStream> {
    loop {
        let (stream, _) = listener.accept().await?;
        let peer = stream.peer_cred()?;
        if peer.pid() == i32::try_from(std::process::id()).ok() {
            return Ok(stream);
        }
    }
}

/// Carries a login through.
async fn log_in(
    mut client: UnixStream,
    mut server: Box<dyn Duplex>,
    mut bridge: Bridge,
    greeting: Vec<u8>,
    (connector, name): (&TlsConnector, ServerName<'static>),
) -> Result<(UnixStream, Box<dyn Duplex>), AskError> {
    client.write_all(&greeting).await?;
    loop {
        // A packet that is half read when the other side's is whole is lost. In a login nobody speaks out of
        // turn, so that happens only to one that has failed.
        let steps = tokio::select! {
            came = packet(&mut client) => {
                let (sequence, payload) = came?;
                bridge.client(sequence, &payload, &ServersKey)
            }
            came = packet(&mut server) => {
                let (sequence, payload) = came?;
                bridge.server(sequence, &payload, &ServersKey)
            }
        };
        for step in steps {
            match step {
                Step::ToClient(bytes) => client.write_all(&bytes).await?,
                Step::ToServer(bytes) => {
                    server.write_all(&bytes).await?;
                    server.flush().await?;
                }
                Step::BeginTls => {
                    let begun = connector.connect(name.clone(), server).await;
                    let words = |e| AskError::Broken { why: format!("TLS: {}", tls::words(&e)) };
                    server = Box::new(begun.map_err(words)?);
                }
                Step::Open | Step::Denied => return Ok((client, server)),
                Step::Refuse(why, _) => return Err(AskError::Broken { why: why.to_string() }),
                Step::AcceptTls | Step::Decrypt(_) | Step::Opaque => {
                    return Err(odd("the driver asked for what is not its own"));
                }
            }
        }
    }
}

/// Passes everything on until the driver has said goodbye, or the server has closed.
async fn relay(mut client: UnixStream, mut server: Box<dyn Duplex>) {
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = tokio::io::split(&mut server);
    let up = async {
        // Whichever of the two has closed, there is nobody left to tell.
        let _ = tokio::io::copy(&mut from_client, &mut to_server).await;
        let _ = to_server.shutdown().await;
    };
    let down = async {
        let _ = tokio::io::copy(&mut from_server, &mut to_client).await;
    };
    tokio::pin!(down);
    tokio::select! {
        () = &mut down => {}
        () = up => drop(tokio::time::timeout(PARTING, down).await),
    }
}

/// One packet of a login.
async fn packet(from: &mut (impl AsyncRead + Unpin)) -> io::Result<(u8, Secret)> {
    let mut header = [0; HEADER];
    from.read_exact(&mut header).await?;
    let header = Header::parse(header);
    let length = header.length as usize;
    if length > LONGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a packet too long for a login"));
    }
    let mut payload = Secret::new(vec![0; length]);
    from.read_exact(&mut payload).await?;
    Ok((header.sequence, payload))
}

impl From<io::Error> for AskError {
    fn from(error: io::Error) -> Self {
        Self::Broken { why: error.to_string() }
    }
}

impl From<TlsError> for AskError {
    fn from(error: TlsError) -> Self {
        Self::Tls { why: error.to_string(), blame: error.blame() }
    }
}

fn odd(what: &str) -> AskError {
    AskError::Broken { why: format!("a login went wrong: {what}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::{TcpListener, TcpSocket};

    #[tokio::test]
    async fn of_several_addresses_the_one_that_answers_is_taken_and_told() {
        let answers = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = answers.local_addr().unwrap().port();
        // Its queue has room for one: the kernel drops whoever comes after that, as a filter does.
        let drops = TcpSocket::new_v4().unwrap();
        drops.bind(SocketAddr::from(([127, 0, 0, 2], port))).unwrap();
        let drops = drops.listen(0).unwrap();
        let _waits = TcpStream::connect(drops.local_addr().unwrap()).await.unwrap();
        let greets = async {
            let (mut stream, _) = answers.accept().await.unwrap();
            // A packet of one byte, which offers no TLS.
            stream.write_all(&[1, 0, 0, 0, 10]).await.unwrap();
            stream
        };
        let (to, deadline) = (Address::tcp("db", port), Duration::from_secs(2));
        let addresses: Vec<IpAddr> = [3, 2, 1].map(|last| IpAddr::from([127, 0, 0, last])).to_vec();
        let tls = Tls::default();
        let opens = tokio::time::timeout(deadline, Transport::open(&to, &addresses, &tls, deadline));
        let (opened, _stream) = tokio::join!(opens, greets);
        let opened = opened.expect("there is time left for the last one").unwrap();
        assert_eq!(opened.peer, Some(addresses[2]), "not the first, which refuses, nor the silent one");
    }
}
