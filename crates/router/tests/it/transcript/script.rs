//! The script, and who asks it: a session in raw packets, straight to a real server or through a router.

use config::{ClientTls, ClientTlsMode, DataPath, Listener, RouterConfig, Tls, TlsMode};
use fleet::{
    Address, Demand, DemandSource, ListenerRole, Role, Server, ServerName, Snapshot, State, WriterStatus,
};
use lab::{Lab, Spec};
use mysql_async::prelude::Queryable;
use router::Router;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::{Duration, Instant};
use testkit::certificate::Authority;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsConnector;
use wire::{Capabilities, Command, Login, Phase, Tracker, packet};

/// One more byte than a piece of a packet can carry, and then some.
const BIG: usize = 17 << 20;

/// FNV-1a: byte by byte, so that the cuts between reads do not matter.
const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x100_0000_01b3;

/// Which server is asked, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    /// The plugin of the server's accounts.
    pub(crate) plugin: &'static str,
    /// What this client can apart from what every client can.
    pub(crate) more: Capabilities,
}

/// What carries a session: TCP, or TLS in it.
trait Carrier: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Carrier for T {}

/// A client that asks in raw packets, and knows by the tracker when an answer is whole.
struct Raw {
    kind: Kind,
    stream: Box<dyn Carrier>,
    tracker: Tracker,
    sequence: u8,
}

/// An answer: its start, how long it was, and a hash of every byte of it.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    what: String,
    start: Vec<u8>,
    bytes: usize,
    hash: u64,
}

impl Raw {
    async fn log_in(to: SocketAddrV4, kind: Kind, tls: Option<&TlsConnector>) -> Self {
        let stream = TcpStream::connect(to).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let mut raw = Self { kind, stream: Box::new(stream), tracker: Tracker::new(), sequence: 1 };
        while raw.tracker.phase() == Phase::Greeting {
            raw.read(&mut 0, &mut Vec::new()).await;
        }
        let capabilities = Capabilities::PROTOCOL_41
            | Capabilities::SECURE_CONNECTION
            | Capabilities::PLUGIN_AUTH
            | Capabilities::TRANSACTIONS
            | Capabilities::LOCAL_FILES
            | Capabilities::MULTI_STATEMENTS
            | Capabilities::MULTI_RESULTS
            | Capabilities::PS_MULTI_RESULTS
            | kind.more;
        let login = Login {
            capabilities,
            max_packet: 64 << 20,
            charset: 45,
            user: b"raw",
            database: b"",
            auth_plugin: kind.plugin.as_bytes(),
            ..Login::default()
        };
        match tls {
            Some(tls) => raw.log_in_sealed(&login, tls).await,
            None => {
                raw.send(&login.encode()).await;
                raw.answer("login", &[]).await;
            }
        }
        raw
    }

    /// Begins TLS and logs in inside it. The tracker is told as if there were none, as the router does it.
    async fn log_in_sealed(&mut self, login: &Login<'_>, tls: &TlsConnector) {
        let asking = Login { capabilities: login.capabilities | Capabilities::SSL, ..*login }.encode();
        let mut out = Vec::new();
        packet::write(&mut out, &mut self.sequence, &asking[..32]);
        self.stream.write_all(&out).await.unwrap();
        let plain = std::mem::replace(&mut self.stream, Box::new(tokio::io::empty()));
        self.stream = Box::new(tls.connect("localhost".try_into().unwrap(), plain).await.unwrap());
        out.clear();
        packet::write(&mut out, &mut self.sequence, &asking);
        self.stream.write_all(&out).await.unwrap();
        self.stream.flush().await.unwrap();
        out.clear();
        packet::write(&mut out, &mut 1, &login.encode());
        self.tracker.client_bytes(&out);
        let mut answer = vec![0; packet::HEADER];
        self.stream.read_exact(&mut answer).await.unwrap();
        answer.resize(packet::HEADER + usize::from(answer[0]), 0);
        self.stream.read_exact(&mut answer[packet::HEADER..]).await.unwrap();
        answer[3] -= 1;
        self.tracker.server_bytes(&answer);
        assert!(self.tracker.is_idle(), "{answer:?}");
    }

    /// Sends a packet of what is under way.
    async fn send(&mut self, payload: &[u8]) {
        let mut out = Vec::new();
        packet::write(&mut out, &mut self.sequence, payload);
        self.tracker.client_bytes(&out);
        self.stream.write_all(&out).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    /// Begins a command.
    async fn command(&mut self, command: Command, body: &[u8]) {
        self.sequence = 0;
        let attributes = command == Command::Query && self.kind.more.contains(Capabilities::QUERY_ATTRIBUTES);
        // One attribute, not NULL, its type a string: its name and its value.
        let first: &[u8] = if attributes { b"\x01\x01\x00\x01\xfe\x00\x08endpoint\x05/cart" } else { &[] };
        self.send(&[&[command.byte()], first, body].concat()).await;
    }

    async fn read(&mut self, hash: &mut u64, start: &mut Vec<u8>) -> usize {
        let mut buffer = vec![0; 50_000];
        let read = tokio::time::timeout(Duration::from_secs(60), self.stream.read(&mut buffer));
        let read = read.await.expect("an answer in time");
        let read =
            read.unwrap_or_else(|error| panic!("{error} in {:?} of {:?}", self.tracker.phase(), self.kind));
        assert!(read > 0, "closed in {:?}", self.tracker.phase());
        self.tracker.server_bytes(&buffer[..read]);
        start.extend_from_slice(&buffer[..read.min(9usize.saturating_sub(start.len()))]);
        *hash = buffer[..read].iter().fold(*hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME));
        read
    }

    /// Reads until every command has been answered; a file that is asked for is `file`.
    async fn answer(&mut self, what: &str, file: &[u8]) -> Answer {
        let (mut start, mut bytes, mut hash) = (Vec::new(), 0, BASIS);
        while !self.tracker.is_idle() {
            bytes += self.read(&mut hash, &mut start).await;
            if self.tracker.phase() == Phase::Infile {
                self.sequence = self.tracker.next_sequence();
                for piece in file.chunks(300_000) {
                    self.send(piece).await;
                }
                self.send(&[]).await;
            }
        }
        Answer { what: what.to_owned(), start, bytes, hash }
    }

    async fn ask(&mut self, command: Command, body: &[u8]) -> Answer {
        self.command(command, body).await;
        let text = matches!(command, Command::Query | Command::StmtPrepare);
        let shown = if text { &body[..body.len().min(60)] } else { &[] };
        let what = format!("{command:?} {}", String::from_utf8_lossy(shown));
        self.answer(&what, &[]).await
    }

    /// Comes as itself, again. Where the server sends a nonce first, that is new each time: what it says is
    /// forgotten.
    async fn change_user(&mut self) -> Answer {
        let body = [b"raw\0\0test\0\x2d\0", self.kind.plugin.as_bytes(), b"\0"].concat();
        self.command(Command::ChangeUser, &body).await;
        let mut start = Vec::new();
        while start.len() < 5 {
            self.read(&mut 0, &mut start).await;
        }
        let first = start[packet::HEADER];
        if first == 0xfe {
            self.sequence = start[3].wrapping_add(1);
            self.send(&[]).await;
        }
        self.answer("change of user", &[]).await;
        Answer { what: "change of user".to_owned(), start: vec![first], bytes: 0, hash: 0 }
    }

    async fn query(&mut self, text: &str) -> Answer {
        self.ask(Command::Query, text.as_bytes()).await
    }
}

/// The script, by a new session. It leaves the server as it found it.
async fn transcript(to: SocketAddrV4, kind: Kind, tls: Option<&TlsConnector>) -> Vec<Answer> {
    let mut raw = Raw::log_in(to, kind, tls).await;
    let mut said = Vec::new();
    let large = "SELECT seq, REPEAT(CHAR(65 + seq % 26), seq % 3000), NULL FROM test.seq_1_to_20000";
    said.push(raw.query(large).await);
    said.push(
        raw.query("SELECT 1; SELECT seq FROM test.seq_1_to_1000; DO 0; SELECT nothing; SELECT 2").await,
    );
    said.push(raw.query("CALL test.several(3)").await);
    said.push(raw.query(&format!("SELECT SHA2('{}', 256)", "x".repeat(BIG))).await);
    said.push(raw.query(&format!("SELECT REPEAT('y', {BIG}), 'after'")).await);
    said.push(raw.query(&format!("SELECT REPEAT('z', {})", packet::MAX_PIECE - 4)).await);
    files(&mut raw, &mut said).await;
    prepared(&mut raw, &mut said).await;
    cursors(&mut raw, &mut said).await;
    // Several at once, before the first is answered.
    for text in ["SELECT 1", "SELECT seq FROM test.seq_1_to_500", "SELECT wrong", "DO 1"] {
        raw.command(Command::Query, text.as_bytes()).await;
    }
    said.push(raw.answer("pipelined", &[]).await);
    // What sessions tell of themselves: a schema, a variable, a transaction.
    for text in
        ["USE test", "SET NAMES latin1", "BEGIN", "INSERT INTO test.lines VALUES (1, 'one')", "ROLLBACK"]
    {
        said.push(raw.query(text).await);
    }
    said.push(raw.change_user().await);
    said.push(raw.query("SELECT DATABASE(), CURRENT_USER()").await);
    said.push(raw.ask(Command::ResetConnection, &[]).await);
    said.push(raw.ask(Command::Ping, &[]).await);
    assert_eq!(raw.tracker.progress().failed, 2, "those that are meant to: {said:#?}");
    raw.command(Command::Quit, &[]).await;
    said
}

/// `LOAD DATA LOCAL`, of a file and of an empty one.
async fn files(raw: &mut Raw, said: &mut Vec<Answer>) {
    let file: String = (0..200_000).map(|n| format!("{n}\tline {n}\n")).collect();
    for (what, file) in [("file", file.as_bytes()), ("empty file", &[])] {
        let load = b"LOAD DATA LOCAL INFILE 'some' INTO TABLE test.lines";
        raw.command(Command::Query, load).await;
        said.push(raw.answer(what, file).await);
        said.push(raw.query("SELECT COUNT(*), SUM(CRC32(CONCAT(id, text))) FROM test.lines").await);
    }
    said.push(raw.query("TRUNCATE test.lines").await);
}

/// A prepared statement with a parameter sent in pieces, 17 MiB in all.
async fn prepared(raw: &mut Raw, said: &mut Vec<Answer>) {
    said.push(raw.ask(Command::StmtPrepare, b"INSERT INTO test.blobs VALUES (?)").await);
    let id = statement(said);
    for piece in 0..17u8 {
        let body = [&id[..], &[0, 0], &vec![piece; 1 << 20]].concat();
        raw.command(Command::StmtSendLongData, &body).await;
    }
    // No flags, one iteration, no NULL, types follow: a long blob.
    let plain: &[u8] = &[0, 1, 0, 0, 0, 0, 1, 0xfb, 0];
    // With query attributes parameters are counted and have names.
    let named: &[u8] = &[0, 1, 0, 0, 0, 1, 0, 1, 0xfb, 0, 0];
    let has_names = raw.kind.more.contains(Capabilities::QUERY_ATTRIBUTES);
    let execute = [&id[..], if has_names { named } else { plain }].concat();
    said.push(raw.ask(Command::StmtExecute, &execute).await);
    raw.command(Command::StmtClose, &id).await;
    said.push(raw.query("SELECT LENGTH(b), SHA2(b, 256), b FROM test.blobs").await);
    said.push(raw.query("TRUNCATE test.blobs").await);
}

/// The id of the statement that was prepared last; forgotten in the transcript, because servers count all
/// sessions'.
fn statement(said: &mut [Answer]) -> [u8; 4] {
    let prepared = said.last_mut().unwrap();
    prepared.hash = 0;
    std::mem::take(&mut prepared.start)[5..9].try_into().unwrap()
}

/// A result that is fetched in parts.
async fn cursors(raw: &mut Raw, said: &mut Vec<Answer>) {
    let select = b"SELECT seq, REPEAT('c', 200) FROM test.seq_1_to_5000";
    said.push(raw.ask(Command::StmtPrepare, select).await);
    let id = statement(said);
    let read_only = 1;
    said.push(raw.ask(Command::StmtExecute, &[&id[..], &[read_only, 1, 0, 0, 0]].concat()).await);
    for rows in [1u32, 999, 3000, 5000] {
        said.push(raw.ask(Command::StmtFetch, &[id, rows.to_le_bytes()].concat()).await);
    }
    said.push(raw.ask(Command::StmtReset, &id).await);
}

fn router(reach: Address, data_path: DataPath, tls: ClientTls) -> (Router, watch::Sender<Arc<Snapshot>>) {
    let mut server = Server::unasked(ServerName::new("a1"), reach);
    server.role = Role::Primary;
    server.state = State::Answering;
    let writer = WriterStatus::Known { server: server.name.clone() };
    let demand = Demand {
        zones: vec![],
        source: DemandSource::StatementCounters,
        reads_per_second: 0.0,
        unplaced: 0.0,
        idle: true,
    };
    let snapshot =
        Snapshot { round: 1, servers: vec![server], writer, demand, ..Snapshot::empty(Instant::now()) };
    let (keep, snapshots) = watch::channel(Arc::new(snapshot));
    let config = RouterConfig { data_path, threads: Some(1), ..RouterConfig::default() };
    let listener = Listener { tls, ..Listener::new(Address::tcp("127.0.0.1", 0), ListenerRole::Writer) };
    (Router::start(config, vec![listener], snapshots, |_, _| {}).unwrap(), keep)
}

/// Brings the server up, and holds what is said through the router by each of its ways against what it says
/// directly.
pub(crate) async fn every_byte_is_the_servers(spec: Spec, tables: &[String], kinds: &[Kind]) {
    let dir = tempfile::tempdir().unwrap();
    let lab = Lab::up(&spec.option("local_infile", "ON"), dir.path()).await.unwrap();
    let mut root = lab.connect("a1").await.unwrap();
    root.query_drop("CREATE DATABASE IF NOT EXISTS test").await.unwrap();
    for statement in tables {
        root.query_drop(statement).await.unwrap();
    }
    for statement in [
        "CREATE USER raw@'%' IDENTIFIED BY ''",
        "GRANT ALL ON *.* TO raw@'%'",
        "CREATE TABLE test.lines (id INT, text VARCHAR(50))",
        "CREATE TABLE test.blobs (b LONGBLOB)",
        "CREATE PROCEDURE test.several(n INT) BEGIN SELECT n; SELECT seq FROM test.seq_1_to_300; \
         SIGNAL SQLSTATE '01000' SET MESSAGE_TEXT = 'only a warning'; END",
    ] {
        root.query_drop(statement).await.unwrap();
    }
    root.disconnect().await.unwrap();
    let real = lab.real("a1").unwrap();
    let authority = Authority::new(dir.path(), "authority");
    let ours = authority.sign("listener", &["localhost"]);
    let ends_here = ClientTls {
        mode: ClientTlsMode::Required,
        cert: Some(ours.cert),
        key: Some(ours.key),
        ..ClientTls::default()
    };
    let trust = Tls { mode: TlsMode::VerifyIdentity, ca: Some(authority.ca), ..Tls::default() };
    let sealed = TlsConnector::from(tls::client(&trust).unwrap().unwrap());
    let ways = [
        (DataPath::IoUring, None, ClientTls::default()),
        (DataPath::Epoll, None, ClientTls::default()),
        // TLS that ends at the router takes a way of its own, whatever the others take.
        (DataPath::IoUring, Some(&sealed), ends_here),
    ];
    for kind in kinds {
        let direct = transcript(real, *kind, None).await;
        assert!(direct.iter().map(|answer| answer.bytes).sum::<usize>() > 80_000_000, "{direct:#?}");
        for (way, sealed, ends_here) in &ways {
            let reach = Address::tcp(real.ip().to_string(), real.port());
            let (router, _keep) = router(reach, *way, ends_here.clone());
            let Address::Tcp { port, .. } = router.status().listeners[0].address else { unreachable!() };
            let through = transcript(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port), *kind, *sealed).await;
            for (through, straight) in through.iter().zip(&direct) {
                assert_eq!(through, straight, "{way} {kind:?}, TLS: {}", sealed.is_some());
            }
            let servers = &router.status().servers;
            assert_eq!(router.status().data_path, way.as_str());
            assert!(servers[0].commands > 20, "the session was readable to its end: {}", servers[0].commands);
            router.stop(Duration::from_secs(5)).await;
        }
    }
    lab.down().await.unwrap();
}
