//! The admin server of a process: bound before anything depends on it, stopped where another takes its place.

use console::admin;
use fleet::Address;
use router::Sockets;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// A token for the admin server, and what it serves at.
pub(crate) struct AdminServer {
    pub(crate) address: SocketAddr,
    pub(crate) asked_for: SocketAddr,
    pub(crate) stop: CancellationToken,
    /// The listening socket once more.
    pub(crate) ear: OwnedFd,
}

/// An admin server that cannot fail any more.
pub struct ReadyAdmin {
    pub(crate) listener: TcpListener,
    pub(crate) server: AdminServer,
}

impl ReadyAdmin {
    /// At this address: on the socket that was inherited for it, where there is one.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub async fn inherit_or_bind(address: SocketAddr, sockets: &mut Sockets) -> anyhow::Result<Self> {
        let Some(fd) = sockets.remove(&Address::tcp(address.ip().to_string(), address.port())) else {
            return Self::bind(address).await;
        };
        let listener = std::net::TcpListener::from(fd);
        listener.set_nonblocking(true)?;
        Ok(Self::new(TcpListener::from_std(listener)?, address)?)
    }

    pub(crate) async fn bind(address: SocketAddr) -> anyhow::Result<Self> {
        Ok(Self::new(admin::bind(address).await?, address)?)
    }

    fn new(listener: TcpListener, asked_for: SocketAddr) -> std::io::Result<Self> {
        let (address, ear) = (listener.local_addr()?, listener.as_fd().try_clone_to_owned()?);
        Ok(Self { listener, server: AdminServer { address, asked_for, stop: CancellationToken::new(), ear } })
    }
}
