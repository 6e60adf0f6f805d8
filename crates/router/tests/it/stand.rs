//! One real server with a certificate, a router in front of it, and clients with and without TLS.

use crate::sight;
use config::{Access, ClientTls, ClientTlsMode, Listener, RouterConfig, ServerTls, Tls, TlsMode};
use fleet::{
    Address, KnownZone, Lag, LagSource, ListenerRole, Replication, Role, Server, ServerName, Snapshot, State,
    Zone, ZoneSource,
};
use lab::{Lab, Spec};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder, SslOpts};
use router::{Router, Status};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use testkit::certificate::{Authority, Certificate};
use tokio::sync::watch;

/// A server, its authority, and a place for files.
pub(crate) struct Stand {
    pub(crate) lab: Lab,
    pub(crate) authority: Authority,
    pub(crate) listener: Certificate,
    pub(crate) dir: tempfile::TempDir,
}

/// A router in front of the stand's server.
pub(crate) struct Front {
    pub(crate) router: Router,
    config: RouterConfig,
    listeners: Vec<Listener>,
    _snapshots: watch::Sender<Arc<Snapshot>>,
}

impl Stand {
    /// `program` is the server program; its certificate is for `db.test` and for no address.
    pub(crate) async fn up(program: Option<PathBuf>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::new(dir.path(), "authority");
        let (server, listener) =
            (authority.sign("server", &["db.test"]), authority.sign("listener", &["localhost", "127.0.0.1"]));
        let path = |path: &PathBuf| path.display().to_string();
        let mut spec = Spec::new(&[("a", 1)])
            .option("ssl_ca", &path(&authority.ca))
            .option("ssl_cert", &path(&server.cert))
            .option("ssl_key", &path(&server.key));
        if let Some(program) = program {
            spec = spec.program(program);
        }
        Self::with(spec, dir, authority, listener).await
    }

    /// A server whose certificate is of X.509 version 1.
    pub(crate) async fn with_version_one() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::new(dir.path(), "authority");
        let (server, listener) =
            (authority.sign_version_one("server"), authority.sign("listener", &["localhost", "127.0.0.1"]));
        let spec = Spec::new(&[("a", 1)])
            .option("ssl_ca", &authority.ca.display().to_string())
            .option("ssl_cert", &server.cert.display().to_string())
            .option("ssl_key", &server.key.display().to_string());
        Self::with(spec, dir, authority, listener).await
    }

    /// A mysqld with the certificates that it makes in its data directory.
    pub(crate) async fn with_own_certificates(program: PathBuf) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::new(dir.path(), "authority");
        let listener = authority.sign("listener", &["localhost", "127.0.0.1"]);
        let spec = Spec::new(&[("a", 1)]).program(program).option("auto_generate_certs", "ON");
        Self::with(spec, dir, authority, listener).await
    }

    /// A server that looks up the names of hosts and blocks those that break off 100 connections in a row, as
    /// it does by default.
    pub(crate) async fn with_defaults_of_servers(program: PathBuf) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::new(dir.path(), "authority");
        let listener = authority.sign("listener", &["localhost", "127.0.0.1"]);
        let spec = Spec::new(&[("a", 1)])
            .program(program)
            .option("skip_name_resolve", "OFF")
            .option("max_connect_errors", "100");
        Self::with(spec, dir, authority, listener).await
    }

    async fn with(spec: Spec, dir: tempfile::TempDir, authority: Authority, listener: Certificate) -> Self {
        let lab = Lab::up(&spec, dir.path()).await.unwrap();
        Self { lab, authority, listener, dir }
    }

    /// The server as the router reaches it by TCP.
    pub(crate) fn tcp(&self) -> Address {
        let real = self.lab.real("a1").unwrap();
        Address::tcp(real.ip().to_string(), real.port())
    }

    pub(crate) fn tls_of_clients(&self, mode: ClientTlsMode) -> ClientTls {
        let files = mode.is_ended_here();
        ClientTls {
            mode,
            cert: files.then(|| self.listener.cert.clone()),
            key: files.then(|| self.listener.key.clone()),
            ..ClientTls::default()
        }
    }

    pub(crate) fn to_servers(&self, mode: TlsMode, server_name: Option<&str>) -> ServerTls {
        let ca =
            matches!(mode, TlsMode::VerifyCa | TlsMode::VerifyIdentity).then(|| self.authority.ca.clone());
        let tls = Tls { mode, ca, cert: None, key: None };
        ServerTls { tls, server_name: server_name.map(str::to_owned), ..ServerTls::default() }
    }

    /// A router with one TCP listener and one unix socket.
    /// A router that takes the word of proxies on loopback, and tells the server.
    pub(crate) fn front_behind_proxy(&self, clients: &ClientTls, servers: ServerTls) -> Front {
        let access = Access { allow: None, proxies: vec!["127.0.0.1/32".parse().unwrap()] };
        self.front_with(self.tcp(), clients, servers, &access)
    }

    pub(crate) fn front(&self, reach: Address, clients: &ClientTls, servers: ServerTls) -> Front {
        self.front_with(reach, clients, servers, &Access::default())
    }

    fn front_with(&self, reach: Address, clients: &ClientTls, servers: ServerTls, access: &Access) -> Front {
        let tells = !access.proxies.is_empty();
        let socket = self.dir.path().join(format!("front-{}.sock", rand::random::<u32>()));
        let listener = |address| Listener {
            access: access.clone(),
            tls: clients.clone(),
            ..Listener::new(address, ListenerRole::Writer)
        };
        let listeners = vec![listener(Address::tcp("127.0.0.1", 0)), listener(Address::Unix(socket))];
        let (snapshots, receiver) = watch::channel(Arc::new(snapshot(reach, tells)));
        let config = RouterConfig {
            tls: servers,
            threads: Some(1),
            hold_deadline: Duration::from_millis(500),
            // A slow machine is no reason to give up on the server.
            attempt_deadline: Duration::from_secs(20),
            connect_deadline: Duration::from_secs(20),
            ..RouterConfig::default()
        };
        let router = Router::start(config.clone(), listeners.clone(), receiver, |_, _| {}).unwrap();
        Front { router, config, listeners, _snapshots: snapshots }
    }

    /// Runs a statement as root, past the router.
    pub(crate) async fn root(&self, statement: &str) {
        let mut root = self.lab.connect("a1").await.unwrap();
        root.query_drop(statement).await.unwrap();
        root.disconnect().await.unwrap();
    }

    pub(crate) async fn down(self) {
        self.lab.down().await.unwrap();
    }
}

impl Front {
    pub(crate) fn port(&self) -> u16 {
        match self.router.status().listeners[0].address {
            Address::Tcp { port, .. } => port,
            Address::Unix(_) => unreachable!(),
        }
    }

    pub(crate) fn socket(&self) -> String {
        match &self.router.status().listeners[1].address {
            Address::Unix(path) => path.display().to_string(),
            Address::Tcp { .. } => unreachable!(),
        }
    }

    /// The same configuration again, its files as they are now.
    pub(crate) fn reload(&self) -> Result<router::Changes, router::Error> {
        self.router.reconfigure(self.config.clone(), self.listeners.clone())
    }

    pub(crate) async fn down(self) {
        self.router.stop(Duration::from_secs(1)).await;
    }
}

impl Front {
    /// Waits, with a deadline, until the status is as wanted.
    pub(crate) async fn until(&self, what: &str, wanted: impl Fn(&Status) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !wanted(&self.router.status()) {
            assert!(Instant::now() < deadline, "never: {what}; {:#?}", self.router.status());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// How a client comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// TCP in the open.
    Plain,
    /// TCP with TLS, the certificate verified.
    Tls,
    /// By unix socket.
    Socket,
}

/// Logs in by the driver, and gives the session or the driver's error.
pub(crate) async fn log_in(
    stand: &Stand,
    front: &Front,
    way: Way,
    account: (&str, &str),
) -> mysql_async::Result<Conn> {
    log_in_at(stand, front.port(), front.socket(), way, account).await
}

/// The same, at a port that leads there.
pub(crate) async fn log_in_at(
    stand: &Stand,
    port: u16,
    socket: String,
    way: Way,
    (user, password): (&str, &str),
) -> mysql_async::Result<Conn> {
    let mut opts = OptsBuilder::default()
        .ip_or_hostname("localhost")
        .tcp_port(port)
        .prefer_socket(false)
        .max_allowed_packet(Some(1 << 20))
        .wait_timeout(Some(600))
        .user(Some(user))
        .pass(Some(password));
    match way {
        Way::Plain => {}
        Way::Socket => opts = opts.socket(Some(socket)),
        Way::Tls => {
            let ca = stand.authority.ca.clone();
            opts = opts.ssl_opts(SslOpts::default().with_root_certs(vec![ca.into()]));
        }
    }
    Conn::new(opts).await
}

/// The cipher of the session between router and server, by the server; empty for none.
pub(crate) async fn cipher(conn: &mut Conn) -> String {
    let (_, cipher): (String, String) =
        conn.query_first("SHOW SESSION STATUS LIKE 'Ssl_cipher'").await.unwrap().unwrap();
    cipher
}

fn snapshot(reach: Address, proxy_protocol: bool) -> Snapshot {
    let name = ServerName::new("a1");
    let mut server = Server::unasked(name.clone(), reach);
    server.role = Role::Primary;
    server.state = State::Answering;
    server.proxy_protocol = proxy_protocol;
    server.replication = Replication::Running;
    let zone = Zone::new("a");
    server.zone = Some(KnownZone { zone: zone.clone(), by: ZoneSource::Rule });
    server.lag =
        Some(Lag { at_least: Duration::ZERO, uncertainty: Duration::ZERO, source: LagSource::GtidSamples });
    sight::snapshot(1, vec![server])
}
