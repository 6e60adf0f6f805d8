//! Listener: an address on which clients come in, with its limits, its terms and its counters; and its
//! socket.
//!
//! Who takes clients off the socket is in `accept`; how a client is counted against the limits in
//! `admission`.

use crate::error::Error;
use crate::refusal::{RefusalCounts, RefusalDetails, RefusalReason};
use crate::sockets::{BACKLOG, OpenedBy, Sockets};
use crate::stream::Socket;
use crate::tls::FromClients;
use arc_swap::ArcSwap;
use config::{Access, ClientTlsMode, Insight, Listener as ListenerConfig};
use fleet::{Address, ListenerRole};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with, acceptfrom_with};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

/// A listener that is open.
#[derive(Debug)]
pub(crate) struct Listener {
    /// The address as configured.
    pub(crate) address: Address,
    /// The address as bound: differs when port 0 was asked for.
    pub(crate) bound: Address,
    /// The listening socket once more, to be handed to a process that takes over.
    socket: Mutex<Option<OwnedFd>>,
    /// Another process listens on: what stands in the file system is its.
    handed_over: AtomicBool,
    /// Whose the file of a unix socket is.
    file: Mutex<FileOwner>,
    writer: AtomicBool,
    max_sessions: AtomicUsize,
    max_connecting: AtomicUsize,
    /// Whether its sessions are measured. Which of them pass through the router is decided before they come.
    measured: AtomicBool,
    /// What insight calls it.
    label: Arc<str>,
    taken: AtomicUsize,
    connecting: AtomicUsize,
    terms: ArcSwap<Terms>,
    /// Clients accepted.
    pub(crate) accepted: AtomicU64,
    /// Clients that got no session.
    pub(crate) refusals: Arc<RefusalCounts>,
    /// Logins completed.
    pub(crate) logins: LoginCounters,
    pub(crate) closing: Notify,
    /// Its task shall panic, for a test.
    fails: AtomicBool,
    /// The configuration in force.
    config: ArcSwap<ListenerConfig>,
}

/// Who removes the file of a unix socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileOwner {
    /// This listener, which has made it or taken it over for good.
    Us,
    /// The process that this one takes over from, as long as it has not left.
    Predecessor,
    /// Nobody here: systemd, or a process that left the socket with it.
    Systemd,
}

/// Completed logins by what carries them.
#[derive(Debug, Default)]
pub(crate) struct LoginCounters {
    /// Nothing, or a unix socket.
    pub(crate) plain: AtomicU64,
    /// TLS that ends here.
    pub(crate) tls: AtomicU64,
    /// A form that we cannot read.
    pub(crate) opaque: AtomicU64,
}

/// On what terms clients come in; changed as a whole.
#[derive(Debug)]
pub(crate) struct Terms {
    /// Who may come.
    pub(crate) access: Access,
    /// What is done with their TLS.
    pub(crate) mode: ClientTlsMode,
    pub(crate) from_clients: Option<FromClients>,
}

/// A listening socket that the listener's runtime watches.
pub(crate) enum ListeningSocket {
    /// Not the runtime's own: that would try again and again, and let nothing else run, once a socket has not
    /// listened for a while and listens again.
    Tcp(AsyncFd<OwnedFd>),
    Unix(tokio::net::UnixListener),
}

/// What is otherwise than before, for new sessions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListenerChange {
    /// What the configuration says of it.
    pub(crate) configuration: bool,
    /// What a file holds that it names: its certificate, or the authority of those of clients.
    pub(crate) certificate: bool,
}

impl Terms {
    fn of(config: &ListenerConfig, from_clients: Option<FromClients>) -> Self {
        Self { access: config.access.clone(), mode: config.tls.mode, from_clients }
    }
}

impl Listener {
    /// Opens a listener, by its socket among `sockets` where it has one there. Nobody is accepted before
    /// [`crate::accept`] serves it.
    pub(crate) fn open(
        config: &ListenerConfig,
        sockets: &mut Sockets,
    ) -> Result<(Arc<Self>, OwnedFd), Error> {
        let from_clients = FromClients::load(&config.tls)?;
        let mut file = FileOwner::Us;
        let (fd, bound) = match &config.address {
            address if sockets.has(address) => {
                file = match sockets.opened_by() {
                    OpenedBy::Systemd => FileOwner::Systemd,
                    OpenedBy::Predecessor => FileOwner::Predecessor,
                };
                sockets.take(address)?
            }
            Address::Unix(path) => (bind_unix(path, &config.address)?, config.address.clone()),
            Address::Tcp { host, port } => {
                let address = config.address.clone();
                let ip: IpAddr = host.parse().map_err(|_| Error::NotAnIp { address: address.clone() })?;
                bind_tcp(SocketAddr::new(ip, *port)).map_err(|source| Error::Listen { address, source })?
            }
        };
        let address = config.address.clone();
        let socket = fd.try_clone().map_err(|source| Error::Listen { address, source })?;
        let listener = Self {
            address: config.address.clone(),
            bound,
            socket: Mutex::new(Some(socket)),
            handed_over: AtomicBool::new(false),
            file: Mutex::new(file),
            writer: AtomicBool::new(config.role == ListenerRole::Writer),
            max_sessions: AtomicUsize::new(config.max_sessions),
            max_connecting: AtomicUsize::new(config.max_connecting),
            measured: AtomicBool::new(config.insight != Insight::Off),
            label: format!("{} {}", config.role, config.address).into(),
            taken: AtomicUsize::new(0),
            connecting: AtomicUsize::new(0),
            terms: ArcSwap::from_pointee(Terms::of(config, from_clients)),
            accepted: AtomicU64::new(0),
            refusals: Arc::default(),
            logins: LoginCounters::default(),
            closing: Notify::new(),
            fails: AtomicBool::new(false),
            config: ArcSwap::from_pointee(config.clone()),
        };
        Ok((Arc::new(listener), fd))
    }

    pub(crate) fn role(&self) -> ListenerRole {
        if self.writer.load(Relaxed) { ListenerRole::Writer } else { ListenerRole::Reader }
    }

    /// What its configuration says.
    pub(crate) fn config(&self) -> Arc<ListenerConfig> {
        self.config.load_full()
    }

    /// A client gets no session: counted and logged.
    pub(crate) fn refuse(&self, why: RefusalReason, details: RefusalDetails) {
        self.refusals.refuse(&self.address, why, details);
    }

    /// What insight calls it.
    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    /// The same, if its sessions are measured.
    pub(crate) fn insight(&self) -> Option<Arc<str>> {
        self.measured.load(Relaxed).then(|| self.label.clone())
    }

    pub(crate) fn max_sessions(&self) -> usize {
        self.max_sessions.load(Relaxed)
    }

    pub(crate) fn max_connecting(&self) -> usize {
        self.max_connecting.load(Relaxed)
    }

    /// Clients that are logging in now.
    pub(crate) fn connecting(&self) -> usize {
        self.connecting.load(Relaxed)
    }

    /// On what terms clients come in now.
    pub(crate) fn terms(&self) -> Arc<Terms> {
        self.terms.load_full()
    }

    pub(crate) fn sessions(&self) -> usize {
        self.taken.load(Relaxed)
    }

    /// Takes over what a new configuration says; sessions that exist stay as they are.
    pub(crate) fn change(
        &self,
        config: &ListenerConfig,
        from_clients: Option<FromClients>,
    ) -> ListenerChange {
        let client_cert = self.config.swap(Arc::new(config.clone())).tls.client_cert;
        let writer = config.role == ListenerRole::Writer;
        let role = self.writer.swap(writer, Relaxed) != writer;
        let sessions = self.max_sessions.swap(config.max_sessions, Relaxed) != config.max_sessions;
        let connecting = self.max_connecting.swap(config.max_connecting, Relaxed) != config.max_connecting;
        let measured = config.insight != Insight::Off;
        let insight = self.measured.swap(measured, Relaxed) != measured;
        let before = self.terms.swap(Arc::new(Terms::of(config, from_clients.clone())));
        let certificate = from_clients
            .zip(before.from_clients.as_ref())
            .is_some_and(|(now, before)| now.is_renewed_since(before));
        let terms = before.mode != config.tls.mode
            || before.access != config.access
            || client_cert != config.tls.client_cert;
        ListenerChange { configuration: role || sessions || connecting || insight || terms, certificate }
    }

    /// The listening socket, for a process that takes over; `None` when the listener is closed.
    pub(crate) fn socket(&self) -> Option<OwnedFd> {
        self.socket_slot().as_ref().and_then(|socket| socket.try_clone().ok())
    }

    /// The process before this one has left: a file that it had made is ours, unless it says that it is one
    /// of `lent`.
    pub(crate) fn predecessor_left(&self, lent: &[PathBuf]) {
        let mut file = self.file_owner();
        if *file == FileOwner::Predecessor {
            let is_lent = matches!(&self.address, Address::Unix(path) if lent.contains(path));
            *file = if is_lent { FileOwner::Systemd } else { FileOwner::Us };
        }
    }

    /// The file of a unix socket that systemd opened, which is nobody's here to remove.
    pub(crate) fn lent_file(&self) -> Option<&PathBuf> {
        match &self.address {
            Address::Unix(path) if *self.file_owner() == FileOwner::Systemd => Some(path),
            _ => None,
        }
    }

    fn file_owner(&self) -> MutexGuard<'_, FileOwner> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another process listens on this socket from now on: stops accepting and leaves everything as it is.
    pub(crate) fn hand_over(&self) {
        self.handed_over.store(true, Relaxed);
        self.close();
    }

    fn socket_slot(&self) -> MutexGuard<'_, Option<OwnedFd>> {
        self.socket.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one of the places for sessions and one for logins under way, if both limits leave one.
    pub(crate) fn take_place(&self) -> Result<(), RefusalReason> {
        let below = |limit: usize| move |n: usize| (n < limit).then_some(n + 1);
        let sessions = self.taken.fetch_update(Relaxed, Relaxed, below(self.max_sessions()));
        sessions.map_err(|_| RefusalReason::MaxSessions)?;
        let connecting = self.connecting.fetch_update(Relaxed, Relaxed, below(self.max_connecting()));
        connecting.map(drop).map_err(|_| {
            self.give_back_place();
            RefusalReason::MaxConnecting
        })
    }

    /// A session has ended.
    pub(crate) fn give_back_place(&self) {
        self.taken.fetch_sub(1, Relaxed);
    }

    pub(crate) fn login_over(&self) {
        self.connecting.fetch_sub(1, Relaxed);
    }

    /// Whether its task was asked to panic; once.
    pub(crate) fn takes_fault(&self) -> bool {
        self.fails.swap(false, Relaxed)
    }

    /// Lets its task panic, for a test.
    pub(crate) fn fail(&self) {
        self.fails.store(true, Relaxed);
        self.closing.notify_one();
    }

    /// Stops accepting; sessions that exist stay.
    pub(crate) fn close(&self) {
        self.closing.notify_one();
        self.socket_slot().take();
        let ours = !self.handed_over.load(Relaxed) && *self.file_owner() == FileOwner::Us;
        if let Address::Unix(path) = &self.address
            && ours
        {
            // Somebody may have removed it, or put their own there; both are theirs to mend.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl ListeningSocket {
    pub(crate) fn new(address: &Address, fd: OwnedFd) -> io::Result<Self> {
        Ok(match address {
            Address::Tcp { .. } =>
            {
                #[expect(
                    deprecated,
                    reason = "an OwnedFd keeps its descriptor, which is all that its unsafe successor asks for"
                )]
                Self::Tcp(AsyncFd::with_interest(fd, Interest::READABLE)?)
            }
            Address::Unix(_) => Self::Unix(tokio::net::UnixListener::from_std(fd.into())?),
        })
    }

    /// The next client, if there is one, asking the kernel and not the runtime.
    pub(crate) fn accept_now(&self) -> rustix::io::Result<OwnedFd> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        match self {
            Self::Tcp(listener) => accept_with(listener.get_ref(), flags),
            Self::Unix(listener) => accept_with(listener, flags),
        }
    }

    /// The next client, not on this thread's runtime: another thread's will have it.
    ///
    /// # Errors
    /// `EINVAL` when it does not listen, or did not for a while: then it must be watched anew.
    pub(crate) async fn accept(&self) -> io::Result<(Socket, Option<SocketAddr>)> {
        match self {
            Self::Tcp(listener) => {
                let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
                loop {
                    // Clients that come without end let others run, too.
                    tokio::task::coop::consume_budget().await;
                    let mut watched = listener.readable().await?;
                    match acceptfrom_with(listener.get_ref(), flags) {
                        Ok((socket, peer)) => {
                            let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
                            return Ok((Socket::Tcp(socket), peer));
                        }
                        // The runtime keeps in mind for good that it was shut down.
                        Err(Errno::AGAIN) if watched.ready().is_read_closed() => {
                            return Err(Errno::INVAL.into());
                        }
                        Err(Errno::AGAIN) => watched.clear_ready(),
                        Err(Errno::INTR) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
            }
            Self::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                Ok((Socket::Unix(stream.into_std()?.into()), None))
            }
        }
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

/// Listens on a path, as mysqld does: open to every local user; a file that nobody listens on any more is
/// replaced.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the file of a unix socket is there after its listener has closed: opened by itself, or by
    /// somebody else, and closed after `then`.
    fn file_stays(opened_by: Option<OpenedBy>, then: impl Fn(&Listener, &Path)) -> bool {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("reader.sock");
        let fds = opened_by.map(|_| OwnedFd::from(UnixListener::bind(&path).unwrap())).into_iter().collect();
        let mut sockets = Sockets::new(fds, opened_by.unwrap_or_default()).unwrap();
        let config = ListenerConfig::new(Address::Unix(path.clone()), ListenerRole::Reader);
        let (listener, _fd) = Listener::open(&config, &mut sockets).unwrap();
        then(&listener, &path);
        listener.close();
        path.exists()
    }

    #[test]
    fn a_listener_removes_a_socket_file_only_if_it_is_its_own() {
        let (systemd, predecessor) = (Some(OpenedBy::Systemd), Some(OpenedBy::Predecessor));
        assert!(!file_stays(None, |_, _| ()), "it has made it");
        assert!(file_stays(None, |listener, _| listener.hand_over()), "another process has it");
        assert!(file_stays(systemd, |_, _| ()));
        assert!(file_stays(predecessor, |_, _| ()), "the process before still serves it");
        assert!(!file_stays(predecessor, |listener, _| listener.predecessor_left(&[])));
        let lent = |listener: &Listener, path: &Path| {
            assert_eq!(listener.lent_file(), None);
            listener.predecessor_left(&[path.to_owned()]);
            assert_eq!(listener.lent_file().map(PathBuf::as_path), Some(path), "the next process is told");
        };
        assert!(file_stays(predecessor, lent), "systemd had lent it to the process before");
    }
}
