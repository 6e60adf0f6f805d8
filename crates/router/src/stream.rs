//! One end of a session: a TCP or a unix stream socket, or TLS over one of them, used alike.

use rustix::net::{AddressFamily, RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use rustls::pki_types::CertificateDer;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsStream;

/// Silence after which the kernel asks whether the peer is still there, as long as nothing is under way to
/// it; while something is, see `peer`. No `TCP_USER_TIMEOUT`: Linux ends a peer by it too that acknowledges
/// everything and only does not read.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// A connected stream socket.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    /// A unix socket.
    Unix(UnixStream),
    /// TLS over one of the two, ended or begun here.
    Tls(Box<TlsStream<Stream>>),
}

/// A connected socket that no runtime knows yet, on its way from the listener to a thread of the data plane.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(OwnedFd),
    /// A unix socket.
    Unix(OwnedFd),
}

/// What a look at a socket's receive queue found, without taking anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// Nothing, and the peer may still send.
    Nothing,
    Bytes,
    /// The peer has closed, or the connection is broken.
    End,
}

impl Socket {
    /// A socket that was one of these before.
    pub(crate) fn of(fd: OwnedFd) -> Self {
        let is_unix =
            rustix::net::getsockname(&fd).is_ok_and(|name| name.address_family() == AddressFamily::UNIX);
        if is_unix { Self::Unix(fd) } else { Self::Tcp(fd) }
    }

    /// The descriptor.
    pub(crate) fn fd(&self) -> &OwnedFd {
        match self {
            Self::Tcp(fd) | Self::Unix(fd) => fd,
        }
    }

    /// Registers the socket, which must be non-blocking, with the current runtime.
    pub(crate) fn into_stream(self) -> io::Result<Stream> {
        match self {
            Self::Tcp(fd) => {
                let stream = Stream::Tcp(TcpStream::from_std(std::net::TcpStream::from(fd))?);
                stream.tune()?;
                Ok(stream)
            }
            Self::Unix(fd) => {
                Ok(Stream::Unix(UnixStream::from_std(std::os::unix::net::UnixStream::from(fd))?))
            }
        }
    }
}

impl Stream {
    /// Sends small packets at once and notices a dead peer.
    pub(crate) fn tune(&self) -> io::Result<()> {
        let Self::Tcp(tcp) = self else { return Ok(()) };
        tcp.set_nodelay(true)?;
        let socket = socket2::SockRef::from(tcp);
        socket.set_tcp_keepalive(
            &socket2::TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE / 3).with_retries(3),
        )
    }

    /// Whether what passes is what the socket carries, so that others than the runtime can move it.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self, Self::Tcp(_) | Self::Unix(_))
    }

    /// The socket, which no runtime knows any more.
    ///
    /// # Errors
    /// When it is not plain, or the runtime does not let go.
    pub(crate) fn into_socket(self) -> io::Result<OwnedFd> {
        match self {
            Self::Tcp(tcp) => Ok(tcp.into_std()?.into()),
            Self::Unix(unix) => Ok(unix.into_std()?.into()),
            Self::Tls(_) => Err(io::Error::new(io::ErrorKind::InvalidInput, "TLS cannot be left to others")),
        }
    }

    /// Looks at what has arrived, asking the kernel and not the runtime, which may not have heard yet.
    pub(crate) fn waiting(&self) -> Waiting {
        match recv(self, &mut [0u8; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
            Ok((0, _)) => Waiting::End,
            Ok(_) => Waiting::Bytes,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Waiting::Nothing,
            Err(_) => Waiting::End,
        }
    }

    /// Sends one small packet if the kernel takes it at once, asking the kernel and not the runtime.
    pub(crate) fn send_now(&mut self, packet: &[u8]) {
        // Whoever does not take it has closed or does not read: nothing is owed to them.
        match self {
            Self::Tls(tls) => {
                let mut nobody = Context::from_waker(std::task::Waker::noop());
                let _ = Pin::new(&mut *tls).poll_write(&mut nobody, packet);
                let _ = Pin::new(tls).poll_flush(&mut nobody);
            }
            plain => drop(send(plain, packet, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)),
        }
    }

    /// Ends the connection, asking the kernel and not the runtime: the peer sees it now.
    pub(crate) fn close_now(&self) {
        // One that is broken has ended already.
        let _ = shutdown(self, Shutdown::Both);
    }

    /// Whether nobody on the way can read what passes: TLS, or a unix socket.
    pub(crate) fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// What the peer has shown for itself in TLS, its own certificate first; nothing where it has shown none.
    pub(crate) fn certificates(&self) -> &[CertificateDer<'static>] {
        match self {
            Self::Tls(tls) => tls.get_ref().1.peer_certificates().unwrap_or_default(),
            Self::Tcp(_) | Self::Unix(_) => &[],
        }
    }

    /// Waits until there is something to read or the peer has closed.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Tcp(tcp) => tcp.readable().await,
            Self::Unix(unix) => unix.readable().await,
            Self::Tls(tls) => Box::pin(tls.get_ref().0.readable()).await,
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(tcp) => tcp.as_fd(),
            Self::Unix(unix) => unix.as_fd(),
            Self::Tls(tls) => tls.get_ref().0.as_fd(),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(tcp) => Pin::new(tcp).poll_read(cx, buf),
            Self::Unix(unix) => Pin::new(unix).poll_read(cx, buf),
            Self::Tls(tls) => match Pin::new(tls).poll_read(cx, buf) {
                // Most clients and servers leave without TLS's goodbye. Packets have lengths: nothing can be
                // cut off unseen.
                Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    Poll::Ready(Ok(()))
                }
                other => other,
            },
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(tcp) => Pin::new(tcp).poll_write(cx, buf),
            Self::Unix(unix) => Pin::new(unix).poll_write(cx, buf),
            Self::Tls(tls) => Pin::new(tls).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(_) | Self::Unix(_) => Poll::Ready(Ok(())),
            Self::Tls(tls) => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Self::Unix(unix) => Pin::new(unix).poll_shutdown(cx),
            Self::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }
}
