//! A running lab: brought up, asked, taken down.

use crate::account::{self, Account, Passwords};
use crate::children::Children;
use crate::dir::{self, LabDir};
use crate::fault::{Change, Fault, InForce};
use crate::layout::{self, Layout};
use crate::link::{LinkReport, Links};
use crate::program::{Flavour, Program};
use crate::running::Running;
use crate::server::{SOCKET_PATH_LIMIT, Server, Shared, options, write_private};
use crate::status::Status;
use crate::{Error, Spec, control, port};
use fleet::Zone;
use mysql_async::{Conn, Opts};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// Real servers on this machine. Everything stops and disappears when this is dropped; [`Lab::down`] does it
/// politely.
#[derive(Debug)]
pub struct Lab {
    running: Arc<Running>,
    control: Option<AbortHandle>,
    came_up_in: Duration,
}

impl Lab {
    /// Brings up everything below `base`: servers started, accounts made, replication running and caught up.
    /// Sweeps what dead owners left there first. Takes some seconds; dropping the future takes down what was
    /// started.
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
        let server = |(i, place): (usize, &layout::ServerSlot)| {
            Server::new(place.clone(), SocketAddrV4::new(layout.real(i), port), dir.path(), i + 1, &shared)
        };
        let servers = layout.servers.iter().enumerate().map(server).collect();
        let children = Children::start().map_err(Error::io("start a thread"))?;
        let Shared { program, passwords, .. } = shared;
        let sources: Vec<Option<usize>> = layout.servers.iter().map(|s| s.source).collect();
        let links_count = layout.links().count();
        let running = Running {
            servers,
            children,
            links,
            layout,
            port,
            program,
            passwords,
            network: spec.network.clone(),
            state: Mutex::new(InForce::new(sources, links_count)),
            turn: tokio::sync::Mutex::new(()),
            gone: AtomicBool::new(false),
            preparing: Mutex::new(()),
            asked_down: Notify::new(),
            dir,
        };
        // From here on dropping this future, or an error, takes down what was started.
        let mut lab = Self { running: Arc::new(running), control: None, came_up_in: Duration::ZERO };
        lab.running.clone().start_all().await?;
        lab.control = Some(control::serve(&lab.running)?);
        lab.came_up_in = started.elapsed();
        tracing::info!(dir = %lab.dir().display(), seconds = lab.came_up_in.as_secs_f64(), "the lab is up");
        Ok(lab)
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

    /// Begins a fault at a server (`b1`) or between two zones (`a:b`, either order; `a:a` is within one).
    pub async fn fault(&self, target: &str, fault: Fault) -> Result<(), Error> {
        self.running.change(target, Change::Begin(fault)).await
    }

    /// Begins or ends a fault, or ends all that is wrong at a place.
    pub async fn change(&self, target: &str, change: Change) -> Result<(), Error> {
        self.running.change(target, change).await
    }

    /// Ends everything that is wrong at a server or between two zones.
    pub async fn heal(&self, target: &str) -> Result<(), Error> {
        self.running.change(target, Change::Heal).await
    }

    /// Ends everything that is wrong.
    pub async fn heal_all(&self) -> Result<(), Error> {
        self.running.heal_all().await
    }

    /// Changes the round-trip time between two zones (or within one).
    pub async fn set_round_trip(&self, a: &str, b: &str, time: Duration) -> Result<(), Error> {
        let round_trip_us = u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
        self.fault(&format!("{a}:{b}"), Fault::Slow { round_trip_us }).await
    }

    /// Every server and link as it is now; a server that does not answer within a second is shown as such.
    pub async fn status(&self) -> Status {
        self.running.status().await
    }

    /// What every link has carried, link by link.
    pub fn links(&self) -> Vec<LinkReport> {
        self.running.link_reports()
    }

    /// Returns when somebody asked over the control socket that the lab go down.
    pub async fn asked_down(&self) {
        self.running.asked_down.notified().await;
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

    /// Their family.
    pub fn flavour(&self) -> Flavour {
        self.running.program.flavour
    }

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

    /// The address client `k` of a zone binds as its source, so that servers see where it is. `k` is below
    /// 50.
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

    /// Waits until a replica has applied everything that its source has now.
    ///
    /// # Errors
    /// It has not within `limit`, or a server does not answer.
    pub async fn wait_applied(&self, replica: &str, source: &str, limit: Duration) -> Result<(), Error> {
        let (replica, source) = (self.running.index(replica)?, self.running.index(source)?);
        self.running.wait_for_all(replica, source, limit).await
    }

    /// Waits until a user has no session on a server any more. Only then have all its statements been
    /// counted: the server counts one after it has answered it, on a busy machine quite a while after.
    ///
    /// # Errors
    /// There are some after `limit` still, or the server does not answer.
    pub async fn wait_gone(&self, server: &str, user: &str, limit: Duration) -> Result<(), Error> {
        self.running.server(server)?.wait_gone(user, limit).await
    }

    /// Options for a connection from a zone over its link. Its source is what the kernel chooses; servers see
    /// 127.F.0.254.
    pub fn opts(&self, from: &str, server: &str, account: Account) -> Result<Opts, Error> {
        let address = self.reach(from, server)?;
        let opts = options().ip_or_hostname(address.ip().to_string()).tcp_port(address.port());
        Ok(opts.user(Some(account.user())).pass(Some(self.password(account))).into())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Some(control) = self.control.take() {
            control.abort();
        }
        self.running.abandon();
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
