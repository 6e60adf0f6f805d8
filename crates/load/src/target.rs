//! Where the load goes: addresses for reads and for writes, resolved once before the run.

use crate::error::LoadError;
use crate::login::Account;
use crate::workload::Lane;
use fleet::Address;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

/// Servers (or routers) and the account that logs in there.
#[derive(Clone, Debug)]
pub struct Target {
    /// For statements that any server may answer; clients are spread over them evenly.
    pub readers: Vec<Address>,
    /// For statements that need the primary.
    pub writers: Vec<Address>,
    /// Who we are.
    pub account: Account,
}

/// An address that a socket can be connected to.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// As it was given.
    pub(crate) address: Address,
    pub(crate) at: Place,
}

#[derive(Clone, Debug)]
pub(crate) enum Place {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Target {
    /// One server for everything.
    pub fn single(address: Address, account: Account) -> Self {
        Self { readers: vec![address.clone()], writers: vec![address], account }
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
            let role = if lane == Lane::Reader { "reads" } else { "writes" };
            return Err(LoadError::Plan(format!("the workload {role}, and no address is given for that")));
        }
        Ok(peers)
    }
}

impl Peer {
    pub(crate) fn resolve(address: &Address) -> Result<Self, LoadError> {
        let at = match address {
            Address::Unix(path) => Place::Unix(path.clone()),
            Address::Tcp { host, port } => {
                let failed = |source| LoadError::Connect { address: address.clone(), source };
                let nothing = || std::io::Error::other("the name has no address");
                let mut found = (host.as_str(), *port).to_socket_addrs().map_err(failed)?;
                Place::Tcp(found.next().ok_or_else(nothing).map_err(failed)?)
            }
        };
        Ok(Self { address: address.clone(), at })
    }

    /// Whether nobody else can listen in: a unix socket.
    pub(crate) fn is_private(&self) -> bool {
        matches!(self.at, Place::Unix(_))
    }
}
