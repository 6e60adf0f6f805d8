//! The admin server of a process: bound before anything depends on it, stopped where another takes its place.

use console::admin;
use fleet::Address;
use router::{PausedSocket, Sockets};
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

impl AdminServer {
    /// Its socket, where nobody can listen at `address` beside it: at 0.0.0.0:9306 beside 127.0.0.1:9306.
    pub(crate) fn in_the_way_of(&self, address: SocketAddr) -> Option<OwnedFd> {
        let any = self.address.ip().is_unspecified() || address.ip().is_unspecified();
        let overlaps = any && self.address.port() == address.port();
        overlaps.then(|| self.ear.try_clone().ok()).flatten()
    }
}

/// An admin server that cannot fail any more.
pub struct ReadyAdmin {
    pub(crate) listener: TcpListener,
    pub(crate) server: AdminServer,
    /// What made way for it. Dropped last: it cannot listen again while this one does.
    pub(crate) paused: Option<PausedSocket>,
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

    /// The same, where the socket `in_the_way` makes way; it listens again where this one is dropped.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub(crate) async fn bind_in_place_of(
        in_the_way: Option<OwnedFd>,
        address: SocketAddr,
    ) -> anyhow::Result<Self> {
        // One that does not listen is not in the way.
        let paused = in_the_way.and_then(|socket| PausedSocket::new(socket).ok());
        Ok(Self { paused, ..Self::bind(address).await? })
    }

    fn new(listener: TcpListener, asked_for: SocketAddr) -> std::io::Result<Self> {
        let (address, ear) = (listener.local_addr()?, listener.as_fd().try_clone_to_owned()?);
        let server = AdminServer { address, asked_for, stop: CancellationToken::new(), ear };
        Ok(Self { listener, server, paused: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_address_is_widened_on_its_port_and_stays_as_it_was_if_nothing_comes_of_it() {
        // A port that was asked for: one that the kernel chose is lost with the listening.
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let before = ReadyAdmin::bind(free).await.unwrap();
        let narrow = before.server.address;
        let wide = SocketAddr::from(([0, 0, 0, 0], narrow.port()));
        assert!(ReadyAdmin::bind(wide).await.is_err(), "both at once cannot be");
        let in_the_way = before.server.in_the_way_of(wide);
        let ready = ReadyAdmin::bind_in_place_of(in_the_way, wide).await.unwrap();
        assert_eq!(ready.server.address, wide);
        // The rest of the configuration was refused.
        drop(ready);
        std::net::TcpStream::connect(narrow).unwrap();
        assert!(before.server.in_the_way_of("127.0.0.2:1".parse().unwrap()).is_none());
    }
}
