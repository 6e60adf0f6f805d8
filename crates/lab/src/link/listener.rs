//! The front of a link: an address that takes connections, refuses them, or does not answer at all.
//!
//! The address stays bound whatever it does, so nobody else can take it meanwhile. Refusing is a bound socket
//! that does not listen, and gives nobody the right to bind beside it (reuse is off; it is on while it
//! listens, because connections of before the pause share the port). Not answering uses that Linux drops
//! connection attempts when the queue of connections waiting to be accepted is full: the queue is made as
//! short as possible and filled with a connection of our own.

use super::Mode;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, Result};
use rustix::net::sockopt::{set_socket_reuseaddr, set_tcp_nodelay};
use rustix::net::{
    AddressFamily, Shutdown, SocketFlags, SocketType, acceptfrom_with, bind, connect, getsockname, listen,
    shutdown, socket_with,
};
use std::net::SocketAddrV4;

const BACKLOG: i32 = 1024;

/// A bound address.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: OwnedFd,
    address: SocketAddrV4,
    mode: Mode,
    /// Fills the queue while nobody is answered.
    plug: Option<(OwnedFd, SocketAddrV4)>,
}

impl Listener {
    pub(crate) fn bind(address: SocketAddrV4) -> Result<Self> {
        let socket = stream_socket()?;
        set_socket_reuseaddr(&socket, true)?;
        bind(&socket, &address)?;
        listen(&socket, BACKLOG)?;
        Ok(Self { socket, address, mode: Mode::Open, plug: None })
    }

    pub(super) fn mode(&self) -> Mode {
        self.mode
    }

    /// Whether connections are taken in this mode.
    pub(super) fn accepts(&self) -> bool {
        matches!(self.mode, Mode::Open | Mode::Silent)
    }

    pub(super) fn set_mode(&mut self, mode: Mode) -> Result<()> {
        if mode == self.mode {
            return Ok(());
        }
        if self.mode == Mode::Refusing {
            set_socket_reuseaddr(&self.socket, true)?;
        }
        match mode {
            Mode::Open | Mode::Silent => listen(&self.socket, BACKLOG)?,
            Mode::Refusing => {
                shutdown(&self.socket, Shutdown::Read)?;
                set_socket_reuseaddr(&self.socket, false)?;
            }
            Mode::Dropping => {
                listen(&self.socket, 0)?;
                self.plug = Some(plug(self.address)?);
            }
        }
        if mode == Mode::Refusing {
            // Its queue no longer exists, nor does the plug.
            self.plug = None;
        }
        self.mode = mode;
        Ok(())
    }

    /// The next connection and its address; `None` when there is none (any more).
    pub(super) fn accept(&mut self) -> Option<(OwnedFd, SocketAddrV4)> {
        loop {
            match acceptfrom_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok((client, peer)) => {
                    let peer = peer.and_then(|p| SocketAddrV4::try_from(p).ok())?;
                    if self.plug.take_if(|(_, own)| *own == peer).is_some() {
                        continue;
                    }
                    // Refused only for a socket that is dead already; reading it will say so.
                    let _ = set_tcp_nodelay(&client, true);
                    return Some((client, peer));
                }
                // That one had been closed before.
                Err(Errno::CONNABORTED | Errno::INTR) => {}
                Err(Errno::AGAIN) => return None,
                Err(error) => {
                    tracing::warn!(address = %self.address, %error, "a link cannot accept");
                    return None;
                }
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A TCP socket that does not block.
pub(super) fn stream_socket() -> Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)
}

fn plug(address: SocketAddrV4) -> Result<(OwnedFd, SocketAddrV4)> {
    let socket = stream_socket()?;
    match connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => {}
        Err(error) => return Err(error),
    }
    let own = SocketAddrV4::try_from(getsockname(&socket)?)?;
    Ok((socket, own))
}
