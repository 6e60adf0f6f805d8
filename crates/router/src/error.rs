//! What can go wrong in starting or changing the router. What clients are told is in `refuse`.

use crate::sockets::OpenedBy;
use fleet::{Address, Blame};
use std::io;

/// Why the router could not start or be changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A listener's address cannot be listened on.
    #[error("cannot listen on {address}: {source}; {}", mend(.source))]
    Listen {
        address: Address,
        /// What the system said.
        source: io::Error,
    },
    /// A socket that was given to this process, and that is no listener's here, is in the way.
    #[error("cannot listen on {address} beside {held}; {}", clear(*.opened_by))]
    InTheWay {
        address: Address,
        /// What that socket is bound to.
        held: Address,
        opened_by: OpenedBy,
    },
    /// A listener's address is a host name.
    #[error(
        "cannot listen on {address}: write an IP address (0.0.0.0 opens it to the network) or a socket path"
    )]
    NotAnIp { address: Address },
    /// Somebody already listens on a unix socket.
    #[error("cannot listen on {address}: another process listens there; stop it or choose another path")]
    SocketInUse { address: Address },
    /// A certificate or key cannot be used.
    #[error("TLS: {0}")]
    Tls(String),
    /// A certificate, key or authority that the configuration names.
    #[error("TLS: {0}")]
    TlsFile(#[from] ::tls::TlsError),
    /// Two listeners have the same address.
    #[error("two listeners have the address {address}; give each its own")]
    Twice { address: Address },
    /// A thread of the data plane could not be started.
    #[error("cannot start a thread of the data plane: {0}; look at the limit of processes (ulimit -u)")]
    Thread(#[source] io::Error),
    /// io_uring was asked for and is not available.
    #[error(
        "{0}; allow it, or write data_path = \"auto\" under [router]: sessions are then relayed with epoll"
    )]
    NoRing(#[source] uring::Unavailable),
    /// Zero-hop is required and is not available.
    #[error("zero_hop = \"require\", but {0}; with zero_hop = \"auto\" the ordinary listeners would serve")]
    ZeroHop(#[source] zerohop::Error),
    /// One recording at a time.
    #[error(
        "a recording is under way already (headroom status shows it); wait for its end, or stop the command that made it"
    )]
    Recording,
    /// The router has been stopped.
    #[error("the router has been stopped")]
    Stopped,
}

impl Error {
    /// Whose fault it is: a start or a reload fails because of what it was asked for, in nearly all cases.
    pub fn blame(&self) -> Blame {
        match self {
            Self::TlsFile(error) => error.blame(),
            Self::Listen { .. }
            | Self::InTheWay { .. }
            | Self::NotAnIp { .. }
            | Self::SocketInUse { .. }
            | Self::Tls(_)
            | Self::Twice { .. }
            | Self::Thread(_)
            | Self::NoRing(_)
            | Self::ZeroHop(_) => Blame::Config,
            Self::Recording | Self::Stopped => Blame::Client,
        }
    }
}

/// What to do about a socket that is in the way.
fn clear(opened_by: OpenedBy) -> &'static str {
    match opened_by {
        OpenedBy::Predecessor => {
            "the running process listens there: reload it first (systemctl reload, or HUP), then take over"
        }
        OpenedBy::Systemd => {
            "systemd holds that socket: change its socket unit, or stop the service and start it again"
        }
    }
}

/// What to do about an address that cannot be listened on.
fn mend(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "another process listens there; stop it or choose another port",
        io::ErrorKind::AddrNotAvailable => "no interface of this host has that address",
        io::ErrorKind::PermissionDenied => "ports below 1024 and some directories need more rights",
        io::ErrorKind::NotFound => "create the directory first",
        _ => "choose another address",
    }
}
