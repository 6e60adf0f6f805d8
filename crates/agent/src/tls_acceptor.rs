//! TLS in front of the agent: handshakes happen beside each other and in bounded time and number, so that
//! nobody who dawdles delays another; whoever speaks plain HTTP is told so.

use axum::serve::Listener;
use console::http::{Connection, Limits};
use rustls::ServerConfig;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

const LIMITS: Limits = Limits::AGENT;
/// A handshake is over after this long.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// The first byte of TLS.
const HELLO: u8 = 22;

const PLAIN: &str = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: 47\r\n\r\n\
                     this address speaks HTTPS: write https:// here\n";

type Configs = watch::Receiver<Option<Arc<ServerConfig>>>;

/// Connections whose TLS stands.
pub(crate) struct TlsListener {
    connections: mpsc::Receiver<(TlsConnection, SocketAddr)>,
    address: SocketAddr,
}

type TlsConnection = Connection<TlsStream<TcpStream>>;

impl TlsListener {
    /// Ends TLS on `listener` with the certificate that is in force when a client comes.
    ///
    /// # Errors
    /// The listener has no address.
    pub(crate) fn open(listener: TcpListener, configs: Configs) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let (give, connections) = mpsc::channel(LIMITS.most);
        tokio::spawn(welcome(listener, configs, give));
        Ok(Self { connections, address })
    }
}

impl Listener for TlsListener {
    type Io = TlsConnection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (TlsConnection, SocketAddr) {
        match self.connections.recv().await {
            Some(connection) => connection,
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

async fn welcome(listener: TcpListener, configs: Configs, give: mpsc::Sender<(TlsConnection, SocketAddr)>) {
    let places = Arc::new(Semaphore::new(LIMITS.most));
    loop {
        let accepted = tokio::select! {
            () = give.closed() => return,
            accepted = listener.accept() => accepted,
        };
        let (stream, from) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                // Mostly a want of descriptors, which takes a moment to pass.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let Ok(place) = places.clone().try_acquire_owned() else {
            tracing::debug!(%from, "closed: {} connections are open", LIMITS.most);
            continue;
        };
        let (config, give) = (configs.borrow().clone(), give.clone());
        tokio::spawn(async move {
            let Some(config) = config else { return };
            match tokio::time::timeout(HANDSHAKE, shake(stream, config)).await {
                Ok(Ok(stream)) => {
                    // Nobody takes it any more when we stop.
                    let _ = give.send((Connection::new(stream, place, LIMITS), from)).await;
                }
                Ok(Err(error)) => tracing::debug!(%from, %error, "no TLS came about"),
                Err(_) => tracing::debug!(%from, "no TLS came about in time"),
            }
        });
    }
}

async fn shake(mut stream: TcpStream, config: Arc<ServerConfig>) -> io::Result<TlsStream<TcpStream>> {
    let mut first = [0];
    if stream.peek(&mut first).await? == 1 && first[0] != HELLO {
        stream.write_all(PLAIN.as_bytes()).await?;
        // What it still sends is read, so that the answer is not lost with a reset.
        stream.shutdown().await?;
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await?;
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it speaks no TLS"));
    }
    TlsAcceptor::from(config).accept(stream).await
}
