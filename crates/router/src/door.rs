//! Door: where clients come in. Accepts, counts, and hands each client to the thread that has the fewest sessions.
//!
//! One thread, the first of the workers, accepts for all listeners. The hash of `SO_REUSEPORT` would leave cores idle with few clients; an accept
//! and a hand-over cost a few microseconds a session, and nothing a query.

use crate::error::Error;
use crate::refuse;
use crate::reserve::{Reserve, is_exhausted};
use crate::session::Arrival;
use crate::sockets::Sockets;
use crate::stream::Socket;
use crate::supervise::{Health, PAUSE, Panicked, caught};
use crate::tls::FromClients;
use crate::turned_away::{Counts, Refused, TurnedAway};
use crate::worker::{Handle, Message};
use arc_swap::ArcSwap;
use config::{Access, ClientTlsMode, Insight, Listener};
use fleet::{Address, ListenerRole};
use rustix::net::{SocketFlags, accept_with};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4096;
/// The pause after an accept that failed for want of descriptors.
const BREATH: Duration = Duration::from_millis(50);
/// Before a listener that cannot be watched is tried again.
const WATCH_AGAIN: Duration = Duration::from_secs(1);

/// A listener that is open.
#[derive(Debug)]
pub(crate) struct Door {
    /// The address as configured.
    pub(crate) address: Address,
    /// The address as bound: differs when port 0 was asked for.
    pub(crate) bound: Address,
    /// The listening socket once more, to be handed to a process that takes over.
    ear: Mutex<Option<OwnedFd>>,
    /// Another process listens on: what stands in the file system is its.
    handed_over: AtomicBool,
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
    pub(crate) turned_away: Arc<Counts>,
    /// Logins that came to their end, by what carries them: in the open (or by unix socket), in TLS that ends here, and
    /// in a form that we cannot read.
    pub(crate) logins: [AtomicU64; 3],
    closing: Notify,
    /// Its task is to panic, for a test.
    fails: AtomicBool,
    /// The configuration in force.
    listener: ArcSwap<Listener>,
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

/// A client's place at a door: counted among its sessions until dropped, and among those that are logging in until
/// [`Place::logged_in`].
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) door: Arc<Door>,
    /// Where the client comes from, as far as is known; `None` by unix socket.
    pub(crate) client: Option<IpAddr>,
    connecting: bool,
}

impl Terms {
    fn of(listener: &Listener, from_clients: Option<FromClients>) -> Self {
        Self { access: listener.access.clone(), mode: listener.tls.mode, from_clients }
    }
}

impl Place {
    /// Takes a place, if both limits leave one.
    fn take(door: &Arc<Door>, client: Option<IpAddr>) -> Result<Self, TurnedAway> {
        let below = |limit: usize| move |n: usize| (n < limit).then_some(n + 1);
        let sessions = door.taken.fetch_update(Relaxed, Relaxed, below(door.max_sessions()));
        sessions.map_err(|_| TurnedAway::MaxSessions)?;
        let mut place = Self { door: door.clone(), client, connecting: false };
        let connecting = door.connecting.fetch_update(Relaxed, Relaxed, below(door.max_connecting()));
        connecting.map_err(|_| TurnedAway::MaxConnecting)?;
        place.connecting = true;
        Ok(place)
    }

    /// A place at a door that nobody comes to.
    #[cfg(test)]
    pub(crate) fn nowhere() -> Self {
        let listener = Listener::new(Address::tcp("127.0.0.1", 0), ListenerRole::Reader);
        Self::take(&Door::open(&listener, &mut Sockets::default()).expect("a free port").0, None)
            .expect("the only place")
    }

    /// The client gets no session: counted, and told to the log.
    pub(crate) fn refuse(&self, why: TurnedAway, refused: Refused) {
        self.door.refuse(why, Refused { client: self.client, ..refused });
    }

    /// The client is logged in (or goes on in a form that we cannot read).
    pub(crate) fn logged_in(&mut self) {
        if std::mem::take(&mut self.connecting) {
            self.door.connecting.fetch_sub(1, Relaxed);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.logged_in();
        self.door.taken.fetch_sub(1, Relaxed);
    }
}

impl Door {
    /// Opens a listener, by its socket among `sockets` where it has one there. Nobody is accepted before [`serve`].
    pub(crate) fn open(listener: &Listener, sockets: &mut Sockets) -> Result<(Arc<Self>, OwnedFd), Error> {
        let from_clients = FromClients::load(&listener.tls)?;
        let (fd, bound) = match &listener.address {
            address if sockets.has(address) => sockets.take(address)?,
            Address::Unix(path) => (bind_unix(path, &listener.address)?, listener.address.clone()),
            Address::Tcp { host, port } => {
                let address = listener.address.clone();
                let ip: IpAddr = host.parse().map_err(|_| Error::NotAnIp { address: address.clone() })?;
                bind_tcp(SocketAddr::new(ip, *port)).map_err(|source| Error::Listen { address, source })?
            }
        };
        let address = listener.address.clone();
        let ear = fd.try_clone().map_err(|source| Error::Listen { address, source })?;
        let door = Self {
            address: listener.address.clone(),
            bound,
            ear: Mutex::new(Some(ear)),
            handed_over: AtomicBool::new(false),
            writer: AtomicBool::new(listener.role == ListenerRole::Writer),
            max_sessions: AtomicUsize::new(listener.max_sessions),
            max_connecting: AtomicUsize::new(listener.max_connecting),
            measured: AtomicBool::new(listener.insight != Insight::Off),
            label: format!("{} {}", listener.role, listener.address).into(),
            taken: AtomicUsize::new(0),
            connecting: AtomicUsize::new(0),
            terms: ArcSwap::from_pointee(Terms::of(listener, from_clients)),
            accepted: AtomicU64::new(0),
            turned_away: Arc::default(),
            logins: Default::default(),
            closing: Notify::new(),
            fails: AtomicBool::new(false),
            listener: ArcSwap::from_pointee(listener.clone()),
        };
        Ok((Arc::new(door), fd))
    }

    pub(crate) fn role(&self) -> ListenerRole {
        if self.writer.load(Relaxed) { ListenerRole::Writer } else { ListenerRole::Reader }
    }

    /// What its configuration says.
    pub(crate) fn listener(&self) -> Arc<Listener> {
        self.listener.load_full()
    }

    /// A client gets no session: counted, and told to the log.
    fn refuse(&self, why: TurnedAway, refused: Refused) {
        self.turned_away.refuse(&self.address, why, refused);
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

    /// Sessions now.
    pub(crate) fn sessions(&self) -> usize {
        self.taken.load(Relaxed)
    }

    /// Takes over what a new configuration says; sessions that exist stay as they are. Returns whether anything changed.
    pub(crate) fn change(&self, listener: &Listener, from_clients: Option<FromClients>) -> bool {
        let asked = self.listener.swap(Arc::new(listener.clone())).tls.client_cert;
        let writer = listener.role == ListenerRole::Writer;
        let role = self.writer.swap(writer, Relaxed) != writer;
        let sessions = self.max_sessions.swap(listener.max_sessions, Relaxed) != listener.max_sessions;
        let connecting =
            self.max_connecting.swap(listener.max_connecting, Relaxed) != listener.max_connecting;
        let measured = listener.insight != Insight::Off;
        let insight = self.measured.swap(measured, Relaxed) != measured;
        let before = self.terms.swap(Arc::new(Terms::of(listener, from_clients)));
        let terms = before.mode != listener.tls.mode
            || before.access != listener.access
            || asked != listener.tls.client_cert;
        role || sessions || connecting || insight || terms
    }

    /// The listening socket, for a process that takes over; `None` when the door is closed.
    pub(crate) fn ear(&self) -> Option<OwnedFd> {
        self.ear_slot().as_ref().and_then(|ear| ear.try_clone().ok())
    }

    /// Another process listens on this socket from now on: stops accepting and leaves everything as it is.
    pub(crate) fn hand_over(&self) {
        self.handed_over.store(true, Relaxed);
        self.close();
    }

    fn ear_slot(&self) -> MutexGuard<'_, Option<OwnedFd>> {
        self.ear.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets its task panic, for a test.
    pub(crate) fn fail(&self) {
        self.fails.store(true, Relaxed);
        self.closing.notify_one();
    }

    /// Stops accepting; sessions that exist stay.
    pub(crate) fn close(&self) {
        self.closing.notify_one();
        self.ear_slot().take();
        if self.handed_over.load(Relaxed) {
            return;
        }
        if let Address::Unix(path) = &self.address {
            // Somebody may have removed it, or put their own there; both are theirs to mend.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A listening socket that the door's runtime watches.
pub(crate) enum Ear {
    Tcp(tokio::net::TcpListener),
    Unix(tokio::net::UnixListener),
}

/// Accepts until the door is closed, and starts anew when it panics or cannot. Runs on the door's thread. All doors together have at
/// most `most_sessions`.
pub(crate) async fn keep(
    door: Arc<Door>,
    fd: OwnedFd,
    workers: Arc<[Handle]>,
    most_sessions: usize,
    health: Arc<Health>,
) {
    let part = format!("listener {}", door.bound);
    let mut fd = Some(fd);
    // Where there is no socket any more, the door has been closed.
    while let Some(fd) = fd.take().or_else(|| door.ear()) {
        match caught(serve(&door, fd, &workers, most_sessions, || health.set_idle(&part, None))).await {
            Ok(Ok(())) => break,
            Ok(Err(error)) => {
                tracing::error!(address = %door.address, %error, "cannot watch the listener; tried again");
                health.set_idle(&part, Some(format!("it cannot be watched ({error}): nobody is accepted")));
                tokio::time::sleep(WATCH_AGAIN).await;
            }
            Err(Panicked) => {
                health.ended(&part, "it panicked");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    health.set_idle(&part, None);
}

async fn serve(
    door: &Arc<Door>,
    fd: OwnedFd,
    workers: &[Handle],
    most_sessions: usize,
    serves: impl FnOnce(),
) -> io::Result<()> {
    let ear = Ear::new(&door.address, fd)?;
    serves();
    let mut reserve = Reserve::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = door.closing.notified() => {
                assert!(!door.fails.swap(false, Relaxed), "a fault was asked for");
                return Ok(());
            }
            accepted = ear.accept() => accepted,
        };
        match accepted {
            Ok((socket, peer)) => admit(door, socket, peer, workers, most_sessions),
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) if is_exhausted(&error) && reserve.refuse_one(&ear) => {
                door.turned_away.add(TurnedAway::NoDescriptor);
                reserve.say(door, &error);
            }
            Err(error) => {
                reserve.say(door, &error);
                tokio::time::sleep(BREATH).await;
                reserve.restock();
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

    /// The next client, if there is one, asking the kernel and not the runtime.
    pub(crate) fn accept_now(&self) -> rustix::io::Result<OwnedFd> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        match self {
            Self::Tcp(listener) => accept_with(listener, flags),
            Self::Unix(listener) => accept_with(listener, flags),
        }
    }

    /// The next client, taken off this thread's runtime again: another thread's will have it.
    async fn accept(&self) -> io::Result<(Socket, Option<SocketAddr>)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok((Socket::Tcp(stream.into_std()?.into()), Some(peer)))
            }
            Self::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                Ok((Socket::Unix(stream.into_std()?.into()), None))
            }
        }
    }
}

fn admit(
    door: &Arc<Door>,
    socket: Socket,
    peer: Option<SocketAddr>,
    workers: &[Handle],
    most_sessions: usize,
) {
    // A proxy's clients are looked at when it has told who they are.
    let stranger = peer.filter(|peer| {
        let access = &door.terms.load().access;
        !access.trusts(peer.ip()) && !access.admits(peer.ip())
    });
    if let Some(stranger) = stranger {
        let error = refuse::not_allowed(stranger.ip());
        door.refuse(TurnedAway::NotAllowed, Refused::told(&error).from(Some(stranger.ip())));
        let _ = rustix::io::write(socket.fd(), &error.before_greeting());
        return;
    }
    let sessions: usize = workers.iter().map(Handle::sessions).sum();
    let place = match Place::take(door, peer.map(|peer| peer.ip())) {
        Ok(_) if sessions >= most_sessions => Err(TurnedAway::NoDescriptor),
        other => other,
    };
    let place = match place {
        Ok(place) => place,
        Err(why) => {
            let error = match why {
                TurnedAway::MaxConnecting => refuse::too_many_connecting(door.max_connecting()),
                TurnedAway::NoDescriptor => refuse::no_descriptor(most_sessions),
                _ => refuse::too_many(door.max_sessions()),
            };
            door.refuse(why, Refused::told(&error).from(peer.map(|peer| peer.ip())));
            // One small packet into a fresh socket always fits.
            let _ = rustix::io::write(socket.fd(), &error.before_greeting());
            return;
        }
    };
    door.accepted.fetch_add(1, Relaxed);
    // Threads that stand still come last.
    let Some(worker) = workers.iter().min_by_key(|w| (w.pulse().is_unfit(), w.sessions())) else { return };
    let counted = worker.count();
    let arrival = Arrival { socket, peer, role: door.role(), at: Instant::now(), place, counted };
    if let Err(Message::Arrival(arrival)) = worker.tell(Message::Arrival(arrival)) {
        // The process ends because of it, as soon as that is seen.
        door.turned_away.add(TurnedAway::NoServer);
        let error = refuse::own_fault("one of its threads has ended");
        let _ = rustix::io::write(arrival.socket.fd(), &error.before_greeting());
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
