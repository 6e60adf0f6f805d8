//! What makes up a running lab, and how its servers come to run and replicate.

use crate::account::{Account, Passwords};
use crate::children::Children;
use crate::dir::LabDir;
use crate::fault::InForce;
use crate::layout::Layout;
use crate::link::Links;
use crate::program::Program;
use crate::server::{Server, close, write_private};
use crate::{Error, Network, datadir, option_file, replication};
use std::net::SocketAddrV4;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

pub(crate) const START_LIMIT: Duration = Duration::from_secs(120);
pub(crate) const STOP_LIMIT: Duration = Duration::from_secs(10);
/// An answer of a server over its socket.
pub(crate) const SQL_LIMIT: Duration = Duration::from_secs(60);
pub(crate) const POLL: Duration = Duration::from_millis(10);
/// Whoever makes data directories notices within this time that nobody wants them any more.
const NOTICED_WITHIN: Duration = Duration::from_secs(10);

/// What makes up a running lab. Fields are dropped in this order: servers, then what started them, then their
/// files.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) servers: Vec<Server>,
    pub(crate) children: Children,
    pub(crate) links: Links,
    pub(crate) layout: Layout,
    pub(crate) port: u16,
    pub(crate) program: Arc<Program>,
    pub(crate) passwords: Arc<Passwords>,
    /// Distances of the description.
    pub(crate) network: Network,
    /// What is wrong now, and who follows whom.
    pub(crate) state: Mutex<InForce>,
    /// Held while something is changed.
    pub(crate) turn: tokio::sync::Mutex<()>,
    /// Set when the owner let go: nothing is started any more.
    pub(crate) gone: AtomicBool,
    /// Held while data directories are made and servers started.
    pub(crate) preparing: Mutex<()>,
    /// Rung when somebody asked over the control socket that the lab go down.
    pub(crate) asked_down: Notify,
    pub(crate) dir: LabDir,
}

impl Running {
    /// Data directories, processes, replication. On threads where it blocks; on failure everything is
    /// dropped.
    pub(crate) async fn start_all(self: Arc<Self>) -> Result<(), Error> {
        let lab = self.clone();
        blocking(move || lab.prepare_and_start()).await?;
        for server in &self.servers {
            server.wait_ready(START_LIMIT).await?;
        }
        for index in 0..self.servers.len() {
            self.replicate(index).await?;
        }
        for server in self.servers.iter().filter(|s| s.place.source.is_some()) {
            self.wait_replicating(server).await?;
        }
        Ok(())
    }

    fn prepare_and_start(&self) -> Result<(), Error> {
        let _preparing = self.preparing.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_wanted()?;
        let template = self.dir.path().join("template");
        let option_file = self.dir.path().join("template.cnf");
        let tmpdir = self.dir.path().join("template.tmp");
        std::fs::create_dir(&tmpdir).map_err(Error::io(format!("make {}", tmpdir.display())))?;
        write_private(&option_file, &option_file::template(&self.program, &tmpdir))?;
        datadir::bootstrap(&self.program, &template, &option_file)?;
        for server in &self.servers {
            self.is_wanted()?;
            server.prepare(&template)?;
            self.is_wanted()?;
            // Writable, so that its accounts can be made; replicas are closed to writes before they follow.
            server.start(&self.children, false)?;
        }
        std::fs::remove_dir_all(&template).map_err(Error::io(format!("remove {}", template.display())))
    }

    fn is_wanted(&self) -> Result<(), Error> {
        if self.gone.load(Ordering::Acquire) { Err(Error::Down) } else { Ok(()) }
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

    /// Shuts everything down in order, at the same time.
    pub(crate) async fn stop_all(&self) {
        self.gone.store(true, Ordering::Release);
        for server in &self.servers {
            server.ask_to_stop();
        }
        for server in &self.servers {
            server.stop(STOP_LIMIT).await;
        }
    }

    /// Kills everything now and removes the directory. Nothing starts afterwards.
    pub(crate) fn abandon(&self) {
        self.gone.store(true, Ordering::Release);
        for server in &self.servers {
            server.kill();
        }
        self.dir.destroy();
        // A thread may be at its data directories. What it has started meanwhile is killed, until it notices.
        let began = Instant::now();
        while matches!(self.preparing.try_lock(), Err(TryLockError::WouldBlock))
            && began.elapsed() < NOTICED_WITHIN
        {
            std::thread::sleep(POLL);
            self.dir.destroy();
        }
        self.dir.destroy();
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

/// Runs blocking work of the lab on a thread of the runtime.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
    }
}
