//! TLS in front of the agent: handshakes happen beside each other and in bounded time and number, so that nobody who dawdles
//! holds up another; whoever speaks plain HTTP is told so.

use axum::serve::Listener;
use rustls::ServerConfig;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::{Instant, Sleep};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Connections at the same time; further ones are closed at once.
const MOST: usize = 64;
/// A handshake is over after this long.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// A connection on which nothing moves for this long is closed.
const QUIET: Duration = Duration::from_secs(60);
/// The first byte of TLS.
const HELLO: u8 = 22;

const PLAIN: &str = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: 47\r\n\r\n\
                     this address speaks HTTPS: write https:// here\n";

type Configs = watch::Receiver<Option<Arc<ServerConfig>>>;

/// Connections whose TLS stands.
pub(super) struct Sealed {
    guests: mpsc::Receiver<(Guest, SocketAddr)>,
    address: SocketAddr,
}

/// One connection, with its place among [`MOST`].
pub(super) struct Guest {
    stream: TlsStream<TcpStream>,
    quiet: Pin<Box<Sleep>>,
    _place: OwnedSemaphorePermit,
}

impl Sealed {
    /// Ends TLS on `listener` with the certificate that is in force when a client comes.
    ///
    /// # Errors
    /// The listener has no address.
    pub(super) fn open(listener: TcpListener, configs: Configs) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let (give, guests) = mpsc::channel(MOST);
        tokio::spawn(welcome(listener, configs, give));
        Ok(Self { guests, address })
    }
}

impl Listener for Sealed {
    type Io = Guest;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Guest, SocketAddr) {
        match self.guests.recv().await {
            Some(guest) => guest,
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

async fn welcome(listener: TcpListener, configs: Configs, give: mpsc::Sender<(Guest, SocketAddr)>) {
    let places = Arc::new(Semaphore::new(MOST));
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
            tracing::debug!(%from, "closed: {MOST} connections are open");
            continue;
        };
        let (config, give) = (configs.borrow().clone(), give.clone());
        tokio::spawn(async move {
            let Some(config) = config else { return };
            match tokio::time::timeout(HANDSHAKE, shake(stream, config)).await {
                Ok(Ok(stream)) => {
                    let quiet = Box::pin(tokio::time::sleep(QUIET));
                    // Nobody takes it any more when we stop.
                    let _ = give.send((Guest { stream, quiet, _place: place }, from)).await;
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

impl Guest {
    /// Something moved, or nothing has for too long.
    fn moved<T>(&mut self, context: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.quiet.as_mut().reset(Instant::now() + QUIET);
            return polled;
        }
        match self.quiet.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Guest {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.moved(context, polled)
    }
}

impl AsyncWrite for Guest {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.moved(context, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
