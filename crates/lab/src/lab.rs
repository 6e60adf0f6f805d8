//! A running lab: brought up, asked, taken down.

use crate::account::{self, Account, Passwords};
use crate::children::Children;
use crate::dir::{self, LabDir};
use crate::layout::{self, Layout};
use crate::link::Links;
use crate::program::Program;
use crate::server::{SOCKET_PATH_LIMIT, Server, Shared, close, options, write_private};
use crate::{Error, Network, Spec, datadir, option_file, port, replication};
use fleet::Zone;
use mysql_async::{Conn, Opts};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const START_LIMIT: Duration = Duration::from_secs(60);
const STOP_LIMIT: Duration = Duration::from_secs(10);
/// An answer of a server over its socket.
const SQL_LIMIT: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(10);

/// Real servers on this machine. Everything stops and disappears when this is dropped; [`Lab::down`] does it politely.
#[derive(Debug)]
pub struct Lab {
    pub(crate) running: Arc<Running>,
    came_up_in: Duration,
}

/// What makes up a running lab. Fields are dropped in this order: servers, then what started them, then their files.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) servers: Vec<Server>,
    pub(crate) children: Children,
    pub(crate) links: Links,
    pub(crate) layout: Layout,
    pub(crate) port: u16,
    pub(crate) program: Arc<Program>,
    pub(crate) passwords: Arc<Passwords>,
    /// Distances as they are now.
    pub(crate) network: Mutex<Network>,
    pub(crate) dir: LabDir,
}

impl Lab {
    /// Brings up everything below `base`: servers started, accounts made, replication running and caught up. Sweeps
    /// what dead owners left there first. Takes some seconds; dropping the future takes down what was started.
    pub async fn up(spec: &Spec, base: &Path) -> Result<Self, Error> {
        let started = Instant::now();
        let layout = spec.layout()?;
        Self::sweep(base)?;
        let program = Program::find(spec.server.program.as_deref())?;
        let dir = LabDir::create(base)?;
        check_socket_paths(dir.path(), &layout)?;
        let (port, ends) = port::take(&layout, &spec.network)?;
        let links = Links::start(ends)?;
        let shared = Shared {
            spec: Arc::new(spec.server.clone()),
            program: Arc::new(program),
            passwords: Arc::new(Passwords::random()),
        };
        write_credentials(dir.path(), &shared.passwords)?;
        let server = |(i, place): (usize, &layout::Place)| {
            Server::new(place.clone(), SocketAddrV4::new(layout.real(i), port), dir.path(), i + 1, &shared)
        };
        let servers = layout.servers.iter().enumerate().map(server).collect();
        let children = Children::start().map_err(Error::io("start a thread"))?;
        let Shared { program, passwords, .. } = shared;
        let network = Mutex::new(spec.network.clone());
        let running =
            Arc::new(Running { servers, children, links, layout, port, program, passwords, network, dir });
        running.clone().start_all().await?;
        let came_up_in = started.elapsed();
        tracing::info!(dir = %running.dir.path().display(), seconds = came_up_in.as_secs_f64(), "the lab is up");
        Ok(Self { running, came_up_in })
    }

    /// Kills what dead owners left running under `base` and removes their directories, which are returned.
    pub fn sweep(base: &Path) -> Result<Vec<PathBuf>, Error> {
        dir::sweep(base)
    }

    /// Shuts the servers down in order and removes everything.
    pub async fn down(self) -> Result<(), Error> {
        self.running.stop_all().await;
        Ok(())
    }

    /// How long [`Lab::up`] took.
    pub fn came_up_in(&self) -> Duration {
        self.came_up_in
    }

    /// The directory everything is in.
    pub fn dir(&self) -> &Path {
        self.running.dir.path()
    }

    /// The one port of the lab.
    pub fn port(&self) -> u16 {
        self.running.port
    }

    /// Flavour and version of the servers: `MariaDB 10.11.19`.
    pub fn version(&self) -> String {
        self.running.program.to_string()
    }

    /// Zones in order.
    pub fn zones(&self) -> &[Zone] {
        &self.running.layout.zones
    }

    /// Names of all servers, zone by zone.
    pub fn servers(&self) -> Vec<String> {
        self.running.names()
    }

    /// Where a server really listens, which is also what it calls itself.
    pub fn real(&self, server: &str) -> Result<SocketAddrV4, Error> {
        Ok(self.running.server(server)?.real)
    }

    /// How a zone reaches a server: the address of a link.
    pub fn reach(&self, zone: &str, server: &str) -> Result<SocketAddrV4, Error> {
        let (zone, server) = (self.running.zone(zone)?, self.running.index(server)?);
        Ok(SocketAddrV4::new(self.running.layout.link(zone, server), self.running.port))
    }

    /// What servers call themselves -> how a zone reaches them.
    pub fn address_map(&self, zone: &str) -> Result<Vec<(SocketAddrV4, SocketAddrV4)>, Error> {
        self.servers().iter().map(|s| Ok((self.real(s)?, self.reach(zone, s)?))).collect()
    }

    /// The address client `k` of a zone binds as its source, so that servers see where it is. `k` is below 50.
    pub fn client_address(&self, zone: &str, k: u8) -> Result<Ipv4Addr, Error> {
        Ok(layout::client(self.running.zone(zone)?, k))
    }

    /// The unix socket of a server: past all links.
    pub fn socket(&self, server: &str) -> Result<PathBuf, Error> {
        Ok(self.running.server(server)?.socket())
    }

    /// An option file with user and password, readable by the owner only (`mariadb --defaults-extra-file=`).
    pub fn credentials_file(&self, account: Account) -> PathBuf {
        credentials_file(self.dir(), account)
    }

    /// The password of an account in this lab.
    pub fn password(&self, account: Account) -> &str {
        self.running.passwords.of(account)
    }

    /// A connection of root over the server's socket.
    pub async fn connect(&self, server: &str) -> Result<Conn, Error> {
        self.running.server(server)?.connect().await
    }

    /// Options to connect over TCP, to `address` or as zone `from` reaches it.
    pub fn opts(&self, from: &str, server: &str, account: Account) -> Result<Opts, Error> {
        let address = self.reach(from, server)?;
        let opts = options().ip_or_hostname(address.ip().to_string()).tcp_port(address.port());
        Ok(opts.user(Some(account.user())).pass(Some(self.password(account))).into())
    }
}

impl Running {
    /// Data directories, processes, replication. On threads where it blocks; on failure everything is dropped.
    async fn start_all(self: Arc<Self>) -> Result<(), Error> {
        let lab = self.clone();
        blocking(move || lab.prepare_and_start()).await?;
        for server in &self.servers {
            server.wait_ready(START_LIMIT).await?;
        }
        for index in 0..self.servers.len() {
            self.replicate(index).await?;
        }
        for server in &self.servers {
            self.wait_replicating(server).await?;
        }
        Ok(())
    }

    fn prepare_and_start(&self) -> Result<(), Error> {
        let template = self.dir.path().join("template");
        let option_file = self.dir.path().join("template.cnf");
        write_private(&option_file, &option_file::template(&self.program))?;
        datadir::bootstrap(&self.program, &template, &option_file)?;
        for server in &self.servers {
            server.prepare(&template)?;
            // Writable, so that its accounts can be made; replicas are closed to writes before they follow.
            server.start(&self.children, false)?;
        }
        std::fs::remove_dir_all(&template).map_err(Error::io(format!("remove {}", template.display())))
    }

    /// Makes a server follow whom the description says, closed to writes; nothing to do for the primary.
    async fn replicate(&self, index: usize) -> Result<(), Error> {
        let server = &self.servers[index];
        let Some(source) = server.place.source else { return Ok(()) };
        let flavour = self.program.flavour;
        let mut statements = replication::read_only(flavour, true);
        statements.extend(self.follow(index, source, 0));
        server.run(&statements, SQL_LIMIT).await
    }

    /// Statements that make one server follow another over the link from its zone.
    pub(crate) fn follow(&self, replica: usize, source: usize, delay_s: u32) -> Vec<String> {
        let zone = self.layout.servers[replica].zone;
        let link = SocketAddrV4::new(self.layout.link(zone, source), self.port);
        replication::follow(self.program.flavour, link, self.passwords.of(Account::Repl), delay_s)
    }

    /// Waits until both threads of a replica run.
    pub(crate) async fn wait_replicating(&self, server: &Server) -> Result<(), Error> {
        if server.place.source.is_none() {
            return Ok(());
        }
        let deadline = Instant::now() + SQL_LIMIT;
        let mut conn = server.connect().await?;
        loop {
            let standing = replication::standing(self.program.flavour, server, &mut conn).await?;
            if standing.as_ref().is_some_and(|s| s.receiver_runs && s.applier_runs) {
                close(conn).await;
                return Ok(());
            }
            if Instant::now() > deadline {
                let last = standing.map_or("it follows nobody".to_owned(), |s| s.last_error);
                let what = format!("replication on server {}", server.name());
                return Err(Error::TooLate { what, limit: SQL_LIMIT, last });
            }
            tokio::time::sleep(POLL).await;
        }
    }

    async fn stop_all(&self) {
        // Replicas first: none complains that its source is gone. Waiting one after the other costs nothing,
        // because all were told before the first is waited for.
        let mut order: Vec<&Server> = self.servers.iter().collect();
        order.sort_by_key(|s| s.place.source.is_none());
        for server in order {
            server.stop(STOP_LIMIT).await;
        }
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.servers.iter().map(|s| s.name().to_owned()).collect()
    }

    pub(crate) fn index(&self, server: &str) -> Result<usize, Error> {
        let unknown = || Error::Unknown { name: server.to_owned(), known: self.names() };
        self.layout.server(server).ok_or_else(unknown)
    }

    pub(crate) fn server(&self, server: &str) -> Result<&Server, Error> {
        Ok(&self.servers[self.index(server)?])
    }

    pub(crate) fn zone(&self, zone: &str) -> Result<usize, Error> {
        let known = || self.layout.zones.iter().map(ToString::to_string).collect();
        self.layout.zone(zone).ok_or_else(|| Error::Unknown { name: zone.to_owned(), known: known() })
    }
}

pub(crate) fn credentials_file(dir: &Path, account: Account) -> PathBuf {
    dir.join("credentials").join(format!("{account}.cnf"))
}

fn write_credentials(dir: &Path, passwords: &Passwords) -> Result<(), Error> {
    let credentials = dir.join("credentials");
    std::fs::create_dir(&credentials).map_err(Error::io(format!("make {}", credentials.display())))?;
    for account in Account::ALL {
        write_private(&credentials_file(dir, account), &account::option_file(account, passwords))?;
    }
    Ok(())
}

fn check_socket_paths(dir: &Path, layout: &Layout) -> Result<(), Error> {
    let longest =
        layout.servers.iter().map(|s| dir.join(s.name.as_str()).join("sock").as_os_str().len()).max();
    match longest {
        Some(length) if length > SOCKET_PATH_LIMIT => {
            Err(Error::BaseTooLong { base: dir.to_owned(), length })
        }
        _ => Ok(()),
    }
}

/// Runs blocking work of the lab on a thread of the runtime.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
    }
}
