//! Where the load goes: addresses for reads and for writes, resolved once before the run.

use crate::error::{LoadError, PlanError};
use crate::login::{Account, Transport};
use crate::workload::Lane;
use config::{Tls, TlsMode};
use fleet::Address;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use rustls::ClientConfig;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// An address of a name that has others must take a connection within this.
const TAKES_WITHIN: Duration = Duration::from_secs(2);

/// Servers (or routers) and the account that logs in there.
#[derive(Clone, Debug)]
pub struct Target {
    /// For statements that any server may answer; clients are spread over them evenly.
    pub readers: Vec<Address>,
    /// For statements that need the primary.
    pub writers: Vec<Address>,
    pub account: Account,
    /// TLS, as MySQL's clients understand these words; `None` is never.
    pub tls: Option<Tls>,
}

/// How TLS is begun, for all connections of a run.
#[derive(Clone, Debug)]
pub(crate) struct TlsClient {
    pub(crate) config: Arc<ClientConfig>,
    mode: TlsMode,
}

/// An address that a socket can be connected to.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) address: Address,
    pub(crate) socket_address: SocketAddress,
}

#[derive(Clone, Debug)]
pub(crate) enum SocketAddress {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl TlsClient {
    /// How TLS is begun; `None` where it never is.
    pub(crate) fn of(tls: Option<&Tls>) -> Result<Option<Self>, LoadError> {
        let Some(tls) = tls else { return Ok(None) };
        let config = tls::client(tls).map_err(PlanError::Tls)?;
        Ok(config.map(|config| Self { config, mode: tls.mode }))
    }
}

impl Target {
    /// One server for everything.
    pub fn single(address: Address, account: Account) -> Self {
        Self { readers: vec![address.clone()], writers: vec![address], account, tls: None }
    }

    /// How TLS is begun; `None` where it never is.
    pub(crate) fn tls_client(&self) -> Result<Option<TlsClient>, LoadError> {
        TlsClient::of(self.tls.as_ref())
    }

    /// The addresses of a lane.
    pub fn of(&self, lane: Lane) -> &[Address] {
        match lane {
            Lane::Reader => &self.readers,
            Lane::Writer => &self.writers,
        }
    }

    pub(crate) fn resolve(&self, lane: Lane) -> Result<Vec<Peer>, LoadError> {
        let peers: Vec<Peer> = self.of(lane).iter().map(Peer::resolve).collect::<Result<_, _>>()?;
        if peers.is_empty() {
            return Err(PlanError::NoAddress { lane }.into());
        }
        Ok(peers)
    }
}

impl Peer {
    pub(crate) fn resolve(address: &Address) -> Result<Self, LoadError> {
        let socket_address = match address {
            Address::Unix(path) => SocketAddress::Unix(path.clone()),
            Address::Tcp { host, port } => {
                let failed = |source| LoadError::Connect { address: address.clone(), source };
                let nothing = || std::io::Error::other("the name has no address");
                let found = (host.as_str(), *port).to_socket_addrs().map_err(failed)?;
                let found: Vec<SocketAddr> = found.collect();
                SocketAddress::Tcp(answering(&found).ok_or_else(nothing).map_err(failed)?)
            }
        };
        Ok(Self { address: address.clone(), socket_address })
    }

    /// What a login there is like. On a unix socket nobody can listen in, so that TLS has to be demanded.
    pub(crate) fn transport(&self, tls: Option<&TlsClient>) -> Transport {
        match (&self.socket_address, tls.map(|tls| tls.mode)) {
            (SocketAddress::Unix(_), None | Some(TlsMode::Disabled | TlsMode::Preferred)) => {
                Transport::Private
            }
            (_, None | Some(TlsMode::Disabled)) => Transport::Open,
            (_, Some(TlsMode::Preferred)) => Transport::TlsPreferred,
            (_, Some(_)) => Transport::TlsRequired,
        }
    }
}

/// Of the addresses of a name the first that takes a connection, else the first, whose error is told then.
/// `localhost` is `::1` first on most hosts, and many servers listen on 127.0.0.1 alone.
fn answering(found: &[SocketAddr]) -> Option<SocketAddr> {
    let several = found.len() > 1;
    let taking = found.iter().find(|at| several && TcpStream::connect_timeout(at, TAKES_WITHIN).is_ok());
    taking.or(found.first()).copied()
}

impl SocketAddress {
    /// A socket on its way there, without waiting until it is.
    pub(crate) fn connect(&self) -> rustix::io::Result<OwnedFd> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let family = match self {
            Self::Unix(_) => AddressFamily::UNIX,
            Self::Tcp(address) if address.is_ipv4() => AddressFamily::INET,
            Self::Tcp(_) => AddressFamily::INET6,
        };
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        let connected = match self {
            Self::Tcp(address) => {
                // A statement is one segment; waiting to fill one would only cost time.
                sockopt::set_tcp_nodelay(&socket, true)?;
                rustix::net::connect(&socket, address)
            }
            Self::Unix(path) => SocketAddrUnix::new(path.as_path())
                .and_then(|address| rustix::net::connect(&socket, &address)),
        };
        match connected {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn of_the_addresses_of_a_name_the_first_that_takes_a_connection_is_used() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let taking = listener.local_addr().unwrap();
        let refusing = SocketAddr::from(([127, 0, 0, 2], taking.port()));
        assert_eq!(answering(&[refusing, taking]), Some(taking));
        assert_eq!(answering(&[taking, refusing]), Some(taking));
        drop(listener);
        assert_eq!(answering(&[refusing, taking]), Some(refusing), "its error is told");
        assert_eq!((answering(&[refusing]), answering(&[])), (Some(refusing), None));
    }
}
