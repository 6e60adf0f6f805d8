//! Servers that follow a script, clients that speak raw packets, and a router in front of them. No real
//! server.

use crate::sight;
use config::{Listener, RouterConfig};
use fleet::{
    Address, KnownZone, Lag, LagSource, ListenerRole, Replication, Role, Server, ServerName, Snapshot, State,
    Zone, ZoneSource,
};
use router::Router;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use wire::response::OkPacket;
use wire::{Capabilities, Command, ErrPacket, Greeting, Login, Status, packet};

/// Less than what a peer is given by default: that a shorter time is kept must show.
const PATIENCE: Duration = Duration::from_secs(28);

/// The default of everything but the way of bytes, which is the test program's, and of the time that servers
/// are given: none is suspected because this machine stands still for a moment.
pub(crate) fn defaults() -> RouterConfig {
    RouterConfig {
        data_path: super::DATA_PATH,
        attempt_deadline: Duration::from_secs(20),
        connect_deadline: Duration::from_secs(20),
        ..RouterConfig::default()
    }
}

/// What a scripted server does with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Script {
    /// Greets, takes every login, answers every command with OK.
    Serves,
    /// Greets, takes every login, then sends back what comes.
    Echoes,
    /// Greets, and never answers the login.
    Mute,
    /// The same, and offers TLS.
    MuteTls,
    /// Greets and closes at once, as a server does that is shut down.
    Leaves,
    /// Greets and closes after this long without a login, as servers do after their `connect_timeout`.
    GivesUp(Duration),
    /// Greets, takes the login, answers every command with this many mebibytes of random rows.
    Floods(usize),
    /// Serves the first command, and then its host is dead: nothing that is sent to it is acknowledged, and
    /// nothing comes.
    Vanishes,
    /// The same as [`Script::Serves`], but greets only after this long, as a server does whose host has no
    /// processor free.
    ServesLate(Duration),
    /// Accepts and says nothing.
    Hangs,
    /// Says half of a greeting and closes.
    Breaks,
    /// Says an error instead of a greeting.
    Errs(u16),
    /// Nobody listens.
    Refuses,
}

/// A scripted server.
pub(crate) struct Fake {
    pub(crate) name: &'static str,
    pub(crate) port: u16,
    pub(crate) accepted: Arc<AtomicUsize>,
    /// First packets of clients that it has read; the router's own goodbyes are none.
    pub(crate) logins: Arc<AtomicUsize>,
    /// Commands seen, in order.
    pub(crate) commands: Arc<Mutex<Vec<Command>>>,
    /// Bytes its kernel has taken from a flood.
    pub(crate) flooded: Arc<AtomicUsize>,
    task: Option<tokio::task::JoinHandle<()>>,
}

impl Fake {
    pub(crate) async fn start(name: &'static str, script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let accepted = Arc::new(AtomicUsize::new(0));
        let flooded = Arc::new(AtomicUsize::new(0));
        let logins = Arc::new(AtomicUsize::new(0));
        let commands = Arc::new(Mutex::new(Vec::new()));
        let mut fake = Self {
            name,
            port,
            accepted: accepted.clone(),
            logins: logins.clone(),
            commands: commands.clone(),
            flooded: flooded.clone(),
            task: None,
        };
        if script == Script::Refuses {
            return fake;
        }
        fake.task = Some(tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                accepted.fetch_add(1, SeqCst);
                let seen = (logins.clone(), commands.clone(), flooded.clone());
                tokio::spawn(play(name, script, stream, seen));
            }
        }));
        fake
    }

    pub(crate) fn saw(&self, command: Command) -> usize {
        self.commands.lock().unwrap().iter().filter(|c| **c == command).count()
    }

    /// As the snapshot has it: an answering replica in zone a.
    pub(crate) fn server(&self, role: Role) -> Server {
        let mut server = Server::unasked(ServerName::new(self.name), Address::tcp("127.0.0.1", self.port));
        server.role = role;
        server.state = State::Answering;
        server.replication = Replication::Running;
        server.zone = Some(KnownZone { zone: Zone::new("a"), by: ZoneSource::Rule });
        let zero = Duration::ZERO;
        server.lag = Some(Lag { at_least: zero, uncertainty: zero, source: LagSource::GtidSamples });
        server
    }

    pub(crate) fn replica(&self) -> Server {
        self.server(Role::Replica)
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

async fn play(
    name: &'static str,
    script: Script,
    mut stream: TcpStream,
    (logins, commands, flooded): (Arc<AtomicUsize>, Arc<Mutex<Vec<Command>>>, Arc<AtomicUsize>),
) {
    stream.set_nodelay(true).unwrap();
    let mut greeting = Vec::new();
    packet::write(&mut greeting, &mut 0, &hello(name).encode());
    match script {
        Script::Hangs => {
            let _ = stream.read(&mut [0; 1]).await;
        }
        Script::Breaks => {
            let _ = stream.write_all(&greeting[..greeting.len() / 2]).await;
        }
        Script::Errs(code) => {
            let err = ErrPacket::new(code, b"08004", "scripted");
            let _ = stream.write_all(&err.before_greeting()).await;
        }
        Script::Leaves => {
            let _ = stream.write_all(&greeting).await;
        }
        Script::GivesUp(after) => {
            let _ = stream.write_all(&greeting).await;
            tokio::time::sleep(after).await;
        }
        Script::Mute => {
            let _ = stream.write_all(&greeting).await;
            std::future::pending::<()>().await;
        }
        Script::MuteTls => {
            let mut offers = hello(name);
            offers.capabilities |= Capabilities::SSL;
            let mut greeting = Vec::new();
            packet::write(&mut greeting, &mut 0, &offers.encode());
            let _ = stream.write_all(&greeting).await;
            std::future::pending::<()>().await;
        }
        Script::Echoes => {
            let _ = stream.write_all(&greeting).await;
            let _ = read_packet(&mut stream).await;
            let _ = ok(&mut stream, 2, Status::AUTOCOMMIT).await;
            let (mut from, mut to) = stream.split();
            let _ = tokio::io::copy(&mut from, &mut to).await;
        }
        Script::Serves | Script::ServesLate(_) | Script::Floods(_) | Script::Vanishes => {
            if let Script::ServesLate(after) = script {
                tokio::time::sleep(after).await;
            }
            let _ = stream.write_all(&greeting).await;
            let _ = serve(script, stream, logins, commands, flooded).await;
        }
        Script::Refuses => {}
    }
}

async fn serve(
    script: Script,
    mut stream: TcpStream,
    logins: Arc<AtomicUsize>,
    commands: Arc<Mutex<Vec<Command>>>,
    flooded: Arc<AtomicUsize>,
) -> Option<()> {
    let (_, login) = read_packet(&mut stream).await?;
    if Login::parse(&login).is_ok_and(|login| login.user == b"headroom_client_left") {
        // The router parts in order for a client that has left or was refused.
        let no = ErrPacket::new(1045, b"28000", "Access denied").packet(2, Capabilities::PROTOCOL_41);
        return stream.write_all(&no).await.ok();
    }
    logins.fetch_add(1, SeqCst);
    ok(&mut stream, 2, Status::AUTOCOMMIT).await?;
    let mut status = Status::AUTOCOMMIT;
    loop {
        let (_, payload) = read_packet(&mut stream).await?;
        let command = Command::from_byte(payload[0]);
        commands.lock().unwrap().push(command);
        match (command, &payload[1..]) {
            (Command::Quit, _) => return Some(()),
            (Command::Query, b"BEGIN") => status = Status::AUTOCOMMIT | Status::IN_TRANS,
            (Command::Query, b"COMMIT") => status = Status::AUTOCOMMIT,
            (Command::Query, b"SLOW") => tokio::time::sleep(Duration::from_millis(300)).await,
            _ => {}
        }
        if let Script::Floods(mebibytes) = script {
            flood(&mut stream, mebibytes, &flooded).await?;
        }
        ok(&mut stream, 1, status).await?;
        if script == Script::Vanishes {
            vanish(&stream);
            std::future::pending::<()>().await;
        }
    }
}

/// From now on this end of a connection takes nothing in, not even for an acknowledgement: as if its host
/// were dead.
pub(crate) fn vanish(stream: &TcpStream) {
    // BPF_RET | BPF_K: keep this many bytes of every packet.
    let nothing = [socket2::SockFilter::new(6, 0, 0, 0)];
    socket2::SockRef::from(stream).attach_filter(&nothing).unwrap();
}

async fn flood(stream: &mut TcpStream, mebibytes: usize, flooded: &AtomicUsize) -> Option<()> {
    let piece = vec![b'x'; 1 << 16];
    for _ in 0..mebibytes * 16 {
        stream.write_all(&piece).await.ok()?;
        flooded.fetch_add(piece.len(), SeqCst);
    }
    Some(())
}

async fn ok(stream: &mut TcpStream, sequence: u8, status: Status) -> Option<()> {
    let mut out = Vec::new();
    let ok =
        OkPacket { affected_rows: 0, last_insert_id: 0, status, warnings: 0, info: &[], raw_changes: &[] };
    packet::write(&mut out, &mut { sequence }, &ok.encode(Capabilities::PROTOCOL_41));
    stream.write_all(&out).await.ok()
}

fn hello(name: &str) -> Greeting {
    Greeting {
        version: name.to_owned(),
        connection_id: 7,
        nonce: vec![b'n'; 20],
        capabilities: Capabilities::PROTOCOL_41 | Capabilities::SECURE_CONNECTION,
        charset: 45,
        status: Status::AUTOCOMMIT,
        auth_plugin: String::new(),
    }
}

/// One packet; `None` at the end of the stream.
pub(crate) async fn read_packet(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> Option<(u8, Vec<u8>)> {
    let mut header = [0; 4];
    stream.read_exact(&mut header).await.ok()?;
    let header = packet::Header::parse(header);
    let mut payload = vec![0; header.length as usize];
    stream.read_exact(&mut payload).await.ok()?;
    Some((header.sequence, payload))
}

/// A client that speaks raw packets over any stream.
pub(crate) struct Client<S> {
    pub(crate) stream: S,
    /// The name of the server that greeted.
    pub(crate) server: String,
}

/// What a client got instead of a greeting.
pub(crate) type Refusal = ErrPacket;

impl Client<TcpStream> {
    pub(crate) async fn connect(port: u16) -> Result<Self, Refusal> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self::greet(stream).await
    }

    /// Connected and logged in.
    pub(crate) async fn login(port: u16) -> Self {
        let mut client = Self::connect(port).await.unwrap();
        client.log_in().await;
        client
    }
}

impl<S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin> Client<S> {
    pub(crate) async fn greet(mut stream: S) -> Result<Self, Refusal> {
        let (_, payload) = read_packet(&mut stream).await.expect("a greeting or an error");
        match Greeting::parse(&payload) {
            Ok(greeting) => Ok(Self { stream, server: greeting.version }),
            Err(_) => Err(ErrPacket::parse(&payload).unwrap()),
        }
    }

    /// Reads nothing of 64 MiB until the flood stands still, which it must do long before its end; then all,
    /// and its OK.
    pub(crate) async fn swallows_a_flood(&mut self, server: &Fake) {
        // The flood stands still once every kernel buffer on the way is full.
        let mut before = usize::MAX;
        within(20, async {
            while before != server.flooded.load(SeqCst) || before == 0 {
                before = server.flooded.load(SeqCst);
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
        })
        .await;
        assert!(before < 40 << 20, "{before} bytes were taken though nobody reads");
        let mut left = 64usize << 20;
        let mut buffer = vec![0; 1 << 16];
        while left > 0 {
            let most = left.min(buffer.len());
            left -= within(20, self.stream.read(&mut buffer[..most])).await.unwrap();
        }
        assert_eq!(within(5, self.answer()).await.unwrap()[0], 0);
    }

    pub(crate) async fn log_in(&mut self) {
        self.send_login().await;
        assert_eq!(self.answer().await.unwrap()[0], 0);
    }

    pub(crate) async fn send_login(&mut self) {
        let capabilities = Capabilities::PROTOCOL_41 | Capabilities::SECURE_CONNECTION;
        let login =
            Login { capabilities, max_packet: 1 << 24, charset: 45, user: b"app", ..Login::default() };
        self.send(1, &login.encode()).await;
    }

    pub(crate) async fn send(&mut self, sequence: u8, payload: &[u8]) {
        let mut out = Vec::new();
        packet::write(&mut out, &mut { sequence }, payload);
        self.stream.write_all(&out).await.unwrap();
    }

    pub(crate) async fn answer(&mut self) -> Option<Vec<u8>> {
        Some(read_packet(&mut self.stream).await?.1)
    }

    /// A statement; `None` when the session has ended.
    pub(crate) async fn query(&mut self, text: &str) -> Option<Vec<u8>> {
        let mut payload = vec![Command::Query.byte()];
        payload.extend_from_slice(text.as_bytes());
        self.command(&payload).await
    }

    pub(crate) async fn command(&mut self, payload: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        packet::write(&mut out, &mut 0, payload);
        self.stream.write_all(&out).await.ok()?;
        self.answer().await
    }

    /// Waits until the session is closed from the other side.
    pub(crate) async fn closed(&mut self) {
        assert_eq!(self.answer().await, None);
    }
}

/// A router in front of scripted servers.
pub(crate) struct Front {
    pub(crate) router: Router,
    pub(crate) snapshots: watch::Sender<Arc<Snapshot>>,
    pub(crate) suspected: Arc<Mutex<Vec<String>>>,
}

impl Front {
    pub(crate) fn start(config: RouterConfig, roles: &[ListenerRole], servers: Vec<Server>) -> Self {
        let listeners = roles
            .iter()
            .map(|role| Listener { max_sessions: 100, ..Listener::new(Address::tcp("127.0.0.1", 0), *role) });
        Self::with_listeners(config, listeners.collect(), servers)
    }

    pub(crate) fn with_listeners(
        config: RouterConfig,
        listeners: Vec<Listener>,
        servers: Vec<Server>,
    ) -> Self {
        let (snapshots, receiver) = watch::channel(Arc::new(sight::snapshot(1, servers)));
        let suspected = Arc::new(Mutex::new(Vec::new()));
        let seen = suspected.clone();
        let suspect = move |name: &ServerName, why: &str| seen.lock().unwrap().push(format!("{name}: {why}"));
        let router = Router::start(config, listeners, receiver, suspect).unwrap();
        Self { router, snapshots, suspected }
    }

    /// The port of listener number `at`.
    pub(crate) fn port(&self, at: usize) -> u16 {
        match self.router.status().listeners[at].address {
            Address::Tcp { port, .. } => port,
            Address::Unix(_) => panic!("not a TCP listener"),
        }
    }

    /// The fleet looks like this from now on.
    pub(crate) fn publish(&self, servers: Vec<Server>) {
        let round = self.snapshots.borrow().round + 1;
        self.snapshots.send(Arc::new(sight::snapshot(round, servers))).unwrap();
    }

    /// Waits, with a deadline, until the status is as wanted.
    pub(crate) async fn until(&self, what: &str, wanted: impl Fn(&router::Status) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !wanted(&self.router.status()) {
            assert!(Instant::now() < deadline, "never: {what}; {:#?}", self.router.status().servers);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Fails a test that takes too long instead of hanging it. A machine that others use too may stand still for
/// some seconds.
pub(crate) async fn within<T>(seconds: u64, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(seconds).max(PATIENCE), future).await.expect("in time")
}
