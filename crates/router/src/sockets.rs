//! Sockets: listening sockets that somebody else has opened: the process before this one, or systemd. And
//! those that make way for another on their port.

use crate::error::Error;
use fleet::Address;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::net::{Shutdown, getsockname, listen, shutdown};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// Connections that may wait to be accepted.
pub(crate) const BACKLOG: i32 = 4096;

/// Who has opened listening sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OpenedBy {
    /// systemd, or a process that left them with it. They stay open there.
    #[default]
    Systemd,
    /// The process that this one takes over from. It serves them until it is told to leave.
    Predecessor,
}

/// Listening sockets by the address they are bound to. Those that nobody takes are closed when this is
/// dropped.
#[derive(Debug, Default)]
pub struct Sockets {
    sockets: Vec<(Address, OwnedFd)>,
    opened_by: OpenedBy,
}

impl Sockets {
    /// These sockets; each tells its address itself.
    ///
    /// # Errors
    /// When one is no socket, or bound to nothing that a listener can have.
    pub fn new(fds: Vec<OwnedFd>, opened_by: OpenedBy) -> io::Result<Self> {
        let sockets = fds.into_iter().map(|fd| Ok((address_of(&fd)?, fd))).collect::<io::Result<_>>()?;
        Ok(Self { sockets, opened_by })
    }

    /// The addresses they are bound to.
    pub fn addresses(&self) -> impl Iterator<Item = &Address> {
        self.sockets.iter().map(|(address, _)| address)
    }

    /// Takes out the one that is bound to `address`.
    pub fn remove(&mut self, address: &Address) -> Option<OwnedFd> {
        let at = self.sockets.iter().position(|(bound, _)| same(bound, address))?;
        Some(self.sockets.swap_remove(at).1)
    }

    pub(crate) fn has(&self, address: &Address) -> bool {
        self.sockets.iter().any(|(bound, _)| same(bound, address))
    }

    pub(crate) fn opened_by(&self) -> OpenedBy {
        self.opened_by
    }

    /// The socket for a listener at `address`, ready to be watched, and what it is bound to.
    pub(crate) fn take(&mut self, address: &Address) -> Result<(OwnedFd, Address), Error> {
        let listen = |source: io::Error| Error::Listen { address: address.clone(), source };
        let fd = self.remove(address).ok_or_else(|| listen(io::ErrorKind::NotFound.into()))?;
        let flags = fcntl_getfl(&fd).map_err(|e| listen(e.into()))?;
        fcntl_setfl(&fd, flags | OFlags::NONBLOCK).map_err(|e| listen(e.into()))?;
        let bound = address_of(&fd).map_err(listen)?;
        Ok((fd, bound))
    }
}

/// A listening TCP socket that does not listen for now, so that another can be bound to its port. It listens
/// again when this is dropped.
///
/// Sockets with `SO_REUSEADDR` may share a port while none of them listens. To close the socket would free
/// the port only once everybody has closed it who has it (the thread that accepts, systemd), and could not
/// be undone when the other cannot be opened after all.
#[derive(Debug)]
pub struct PausedSocket(Option<OwnedFd>);

impl PausedSocket {
    /// Connects are refused from now on; who waits to be accepted is refused as well.
    ///
    /// # Errors
    /// It does not listen.
    pub fn new(socket: OwnedFd) -> io::Result<Self> {
        shutdown(&socket, Shutdown::Read)?;
        Ok(Self(Some(socket)))
    }

    /// Another listens in its place.
    pub fn replaced(mut self) {
        self.0 = None;
    }
}

impl Drop for PausedSocket {
    fn drop(&mut self) {
        let Some(socket) = self.0.take() else { return };
        if let Err(error) = listen(&socket, BACKLOG) {
            tracing::error!(%error, "a listening socket made way for another one, and cannot listen again: restart");
        }
    }
}

fn address_of(fd: &OwnedFd) -> io::Result<Address> {
    let any = getsockname(fd)?;
    if let Ok(ip) = SocketAddr::try_from(any.clone()) {
        return Ok(Address::tcp(ip.ip().to_string(), ip.port()));
    }
    let unix = rustix::net::SocketAddrUnix::try_from(any)?;
    let path = unix.path_bytes().ok_or(io::ErrorKind::Unsupported)?;
    let path = std::str::from_utf8(path).map_err(|_| io::ErrorKind::InvalidData)?;
    Ok(Address::Unix(PathBuf::from(path)))
}

/// Whether two addresses are one, however an IP address is written.
fn same(a: &Address, b: &Address) -> bool {
    let ip = |address: &Address| match address {
        Address::Tcp { host, port } => host.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, *port)),
        Address::Unix(_) => None,
    };
    a == b || ip(a).is_some_and(|a| Some(a) == ip(b))
}
