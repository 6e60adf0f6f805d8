//! Door: where clients come in. Accepts, counts, and hands each client to the thread that has the fewest sessions.
//!
//! One thread accepts for all listeners. The hash of `SO_REUSEPORT` would leave cores idle with few clients; an accept
//! and a hand-over cost a few microseconds a session, and nothing a query.

use crate::error::Error;
use crate::refuse;
use crate::session::{Arrival, Place};
use crate::stream::Socket;
use crate::worker::{Handle, Message};
use fleet::config::Listener;
use fleet::{Address, ListenerRole};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4096;
/// The pause after an accept that failed for want of descriptors.
const BREATH: Duration = Duration::from_millis(50);

/// A listener that is open.
#[derive(Debug)]
pub(crate) struct Door {
    /// The address as configured.
    pub(crate) address: Address,
    /// The address as bound: differs when port 0 was asked for.
    pub(crate) bound: Address,
    writer: AtomicBool,
    max_sessions: AtomicUsize,
    taken: Arc<AtomicUsize>,
    /// Clients accepted.
    pub(crate) accepted: AtomicU64,
    /// Clients refused because of `max_sessions`.
    pub(crate) refused: AtomicU64,
    /// Clients refused because no server could take them in time.
    pub(crate) unserved: Arc<AtomicU64>,
    closing: Notify,
}

impl Door {
    /// Opens a listener. Nobody is accepted before [`serve`].
    pub(crate) fn open(listener: &Listener) -> Result<(Arc<Self>, OwnedFd), Error> {
        let (fd, bound) = match &listener.address {
            Address::Unix(path) => (bind_unix(path, &listener.address)?, listener.address.clone()),
            Address::Tcp { host, port } => {
                let address = listener.address.clone();
                let ip: IpAddr = host.parse().map_err(|_| Error::NotAnIp { address: address.clone() })?;
                bind_tcp(SocketAddr::new(ip, *port)).map_err(|source| Error::Listen { address, source })?
            }
        };
        let door = Self {
            address: listener.address.clone(),
            bound,
            writer: AtomicBool::new(listener.role == ListenerRole::Writer),
            max_sessions: AtomicUsize::new(listener.max_sessions),
            taken: Arc::default(),
            accepted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            unserved: Arc::default(),
            closing: Notify::new(),
        };
        Ok((Arc::new(door), fd))
    }

    pub(crate) fn role(&self) -> ListenerRole {
        if self.writer.load(Relaxed) { ListenerRole::Writer } else { ListenerRole::Reader }
    }

    pub(crate) fn max_sessions(&self) -> usize {
        self.max_sessions.load(Relaxed)
    }

    /// Sessions now.
    pub(crate) fn sessions(&self) -> usize {
        self.taken.load(Relaxed)
    }

    /// Takes over what a new configuration says; sessions that exist stay as they are. Returns whether anything changed.
    pub(crate) fn change(&self, listener: &Listener) -> bool {
        let writer = listener.role == ListenerRole::Writer;
        let role = self.writer.swap(writer, Relaxed) != writer;
        self.max_sessions.swap(listener.max_sessions, Relaxed) != listener.max_sessions || role
    }

    /// Stops accepting; sessions that exist stay.
    pub(crate) fn close(&self) {
        self.closing.notify_one();
        if let Address::Unix(path) = &self.address {
            // Somebody may have removed it, or put their own there; both are theirs to mend.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A listening socket that the door's runtime watches.
enum Ear {
    Tcp(tokio::net::TcpListener),
    Unix(tokio::net::UnixListener),
}

/// Accepts until the door is closed. Runs on the door's thread.
pub(crate) async fn serve(door: Arc<Door>, fd: OwnedFd, workers: Arc<[Handle]>) {
    let ear = match Ear::new(&door.address, fd) {
        Ok(ear) => ear,
        Err(error) => {
            tracing::error!(address = %door.address, %error, "cannot watch the listener; nobody is accepted");
            return;
        }
    };
    loop {
        let accepted = tokio::select! {
            biased;
            () = door.closing.notified() => return,
            accepted = ear.accept() => accepted,
        };
        match accepted {
            Ok(socket) => admit(&door, socket, &workers),
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                tracing::warn!(address = %door.address, %error, "cannot accept; trying again");
                tokio::time::sleep(BREATH).await;
            }
        }
    }
}

impl Ear {
    fn new(address: &Address, fd: OwnedFd) -> io::Result<Self> {
        Ok(match address {
            Address::Tcp { .. } => Self::Tcp(tokio::net::TcpListener::from_std(fd.into())?),
            Address::Unix(_) => Self::Unix(tokio::net::UnixListener::from_std(fd.into())?),
        })
    }

    /// The next client, taken off this thread's runtime again: another thread's will have it.
    async fn accept(&self) -> io::Result<Socket> {
        match self {
            Self::Tcp(listener) => Ok(Socket::Tcp(listener.accept().await?.0.into_std()?.into())),
            Self::Unix(listener) => Ok(Socket::Unix(listener.accept().await?.0.into_std()?.into())),
        }
    }
}

fn admit(door: &Door, socket: Socket, workers: &[Handle]) {
    let limit = door.max_sessions();
    let Some(place) = Place::take(&door.taken, &door.unserved, limit) else {
        door.refused.fetch_add(1, Relaxed);
        // One small packet into a fresh socket always fits.
        let _ = rustix::io::write(socket.fd(), &refuse::too_many(limit).before_greeting());
        return;
    };
    door.accepted.fetch_add(1, Relaxed);
    if let Some(worker) = workers.iter().min_by_key(|w| w.sessions()) {
        worker.tell(Message::Arrival(Arrival { socket, role: door.role(), at: Instant::now(), place }));
    }
}

fn bind_tcp(address: SocketAddr) -> io::Result<(OwnedFd, Address)> {
    let domain = socket2::Domain::for_address(address);
    let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    let bound = socket.local_addr()?.as_socket().unwrap_or(address);
    Ok((socket.into(), Address::tcp(bound.ip().to_string(), bound.port())))
}

/// Listens on a path, as mysqld does: open to every local user; a file that nobody listens on any more is replaced.
fn bind_unix(path: &Path, address: &Address) -> Result<OwnedFd, Error> {
    let listen = |source| Error::Listen { address: address.clone(), source };
    if std::fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket()) {
        match UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                std::fs::remove_file(path).map_err(listen)?;
            }
            _ => return Err(Error::SocketInUse { address: address.clone() }),
        }
    }
    let listener = UnixListener::bind(path).map_err(listen)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).map_err(listen)?;
    listener.set_nonblocking(true).map_err(listen)?;
    Ok(listener.into())
}
