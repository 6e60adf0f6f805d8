//! Sessions kept open, handed out longest-idle first, or the one returned last.
//!
//! A slot is a `mysql_async` pool of one: its check-out looks at the socket without a round trip and connects
//! anew when the other side has closed it. Our own queue of slots gives the order, which the driver's pool
//! does not (it hands out the session returned last, so that a lightly used pool would put all load on a few
//! sessions).

use super::counts::Pool as Name;
use super::{AppSpec, Failure, FailureKind, PoolOrder};
use crate::error::driver_words;
use fleet::Address;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, DriverError, Opts, OptsBuilder, PoolConstraints, PoolOpts};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// A bounded pool of sessions.
#[derive(Debug)]
pub(super) struct Pool {
    name: Name,
    slots: Mutex<VecDeque<Slot>>,
    free: Semaphore,
    order: PoolOrder,
    size: usize,
    connect_deadline: Duration,
    statement_deadline: Duration,
}

/// A place for one session; where it leads stays, the session in it may change.
#[derive(Debug)]
struct Slot {
    opts: Opts,
    one: mysql_async::Pool,
    /// `@@server_id` of the server the session is on; 0 until known. Written by whoever connects.
    server: Arc<AtomicU32>,
}

/// A session in use. Dropping it gives it back.
pub(super) struct PooledSession<'a> {
    pool: &'a Pool,
    slot: Option<Slot>,
    conn: Option<Conn>,
    sound: bool,
}

impl Pool {
    /// Slots for `size` sessions, spread over the addresses in turn. Nothing is opened yet.
    pub(super) fn new(name: Name, spec: &AppSpec, addresses: &[Address], size: usize) -> Self {
        let slots = addresses.iter().cycle().take(size).map(|address| Slot::new(options(spec, address)));
        Self {
            name,
            slots: Mutex::new(slots.collect()),
            free: Semaphore::new(size),
            order: spec.order,
            size,
            connect_deadline: spec.connect_deadline,
            statement_deadline: spec.statement_deadline,
        }
    }

    /// Opens every session, one after the other.
    pub(super) async fn open_all(&self) -> Result<(), Failure> {
        // All are held until all are open: a session that is given back may be the next one handed out.
        let mut open = Vec::with_capacity(self.size);
        for _ in 0..self.size {
            open.push(self.check_out().await?);
        }
        Ok(())
    }

    pub(super) fn name(&self) -> Name {
        self.name
    }

    /// The next session by the pool's order, opened anew if the other side has closed it.
    pub(super) async fn check_out(&self) -> Result<PooledSession<'_>, Failure> {
        let permit = self.free.acquire().await;
        if let Ok(permit) = permit {
            permit.forget();
        }
        let slot = match self.order {
            PoolOrder::OldestFirst => self.slots().pop_front(),
            PoolOrder::NewestFirst => self.slots().pop_back(),
        };
        let mut session = PooledSession { pool: self, slot, conn: None, sound: true };
        let Some(slot) = &session.slot else {
            return Err(failure(FailureKind::Connect, None, Instant::now(), "the pool is closed"));
        };
        // The driver looks at what the runtime knows of the socket; this lets the runtime look first, so that
        // a close that has arrived is seen, as the read that go-sql-driver tries would see it.
        tokio::task::yield_now().await;
        let asked = Instant::now();
        match timeout(self.connect_deadline, slot.one.get_conn()).await {
            Ok(Ok(conn)) => {
                session.conn = Some(conn);
                Ok(session)
            }
            outcome => {
                session.sound = false;
                let said = match outcome {
                    Ok(Err(error)) => driver_words(&error),
                    _ => format!("no session after {} ms", self.connect_deadline.as_millis()),
                };
                Err(failure(FailureKind::Connect, None, asked, said))
            }
        }
    }

    /// Sessions per server, as last seen.
    pub(super) fn sessions(&self) -> BTreeMap<u32, usize> {
        let mut per_server = BTreeMap::new();
        for slot in self.slots().iter() {
            *per_server.entry(slot.server.load(Ordering::Relaxed)).or_default() += 1;
        }
        per_server
    }

    /// Closes what is idle; later check-outs fail.
    pub(super) async fn close(&self) {
        let mut farewells = JoinSet::new();
        for slot in std::mem::take(&mut *self.slots()) {
            // Whoever does not say goodbye in time is dead or silent, and goes with its socket.
            farewells.spawn(timeout(Duration::from_millis(500), slot.one.disconnect()));
        }
        while farewells.join_next().await.is_some() {}
    }

    fn slots(&self) -> std::sync::MutexGuard<'_, VecDeque<Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    fn new(opts: OptsBuilder) -> Self {
        let server = Arc::new(AtomicU32::new(0));
        let seen = Arc::clone(&server);
        let opts = Opts::from(opts.after_connect(move |conn| {
            let seen = Arc::clone(&seen);
            Box::pin(async move {
                seen.store(server_id(conn).await?, Ordering::Relaxed);
                Ok(())
            })
        }));
        Self { one: mysql_async::Pool::new(opts.clone()), opts, server }
    }

    /// Forgets a session in doubt: the driver would wait for its pending answer before it opens another.
    fn renew(&mut self) {
        let doubtful = std::mem::replace(&mut self.one, mysql_async::Pool::new(self.opts.clone()));
        tokio::spawn(async move {
            let _ = timeout(Duration::from_secs(1), doubtful.disconnect()).await;
        });
    }
}

impl PooledSession<'_> {
    /// `@@server_id` of the server it is on.
    pub(super) fn server(&self) -> u32 {
        self.slot.as_ref().map_or(0, |s| s.server.load(Ordering::Relaxed))
    }

    /// Runs one statement and reads all of its answer.
    pub(super) async fn run(&mut self, sql: &str) -> Result<(), Failure> {
        let server = Some(self.server());
        let sent = Instant::now();
        let Some(conn) = self.conn.as_mut() else {
            return Err(failure(FailureKind::Ended, server, sent, "the session has ended"));
        };
        let (kind, said) = match timeout(self.pool.statement_deadline, conn.query_drop(sql)).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => (kind_of(&error), driver_words(&error)),
            Err(_) => {
                let limit = self.pool.statement_deadline.as_millis();
                (FailureKind::Silent, format!("no answer after {limit} ms"))
            }
        };
        self.sound = false;
        Err(failure(kind, server, sent, said))
    }
}

impl Drop for PooledSession<'_> {
    fn drop(&mut self) {
        let Some(mut slot) = self.slot.take() else { return };
        if !self.sound {
            slot.renew();
        }
        drop(self.conn.take());
        self.pool.slots().push_back(slot);
        self.pool.free.add_permits(1);
    }
}

/// Opens a session to the first reader address, asks which server it is on, and closes it.
pub(super) async fn probe(spec: &AppSpec) -> Result<u32, Failure> {
    let asked = Instant::now();
    let failed = |kind, said: String| failure(kind, None, asked, said);
    let Some(address) = spec.readers.first() else {
        return Err(failed(FailureKind::Connect, "no reader address".to_owned()));
    };
    let look = async {
        let mut conn = Conn::new(options(spec, address)).await?;
        let server = server_id(&mut conn).await?;
        conn.disconnect().await?;
        Ok::<u32, mysql_async::Error>(server)
    };
    match timeout(spec.connect_deadline, look).await {
        Ok(Ok(server)) => Ok(server),
        Ok(Err(error)) => Err(failed(FailureKind::Connect, driver_words(&error))),
        Err(_) => Err(failed(
            FailureKind::Silent,
            format!("nothing after {} ms", spec.connect_deadline.as_millis()),
        )),
    }
}

async fn server_id(conn: &mut Conn) -> Result<u32, mysql_async::Error> {
    let id: Option<u32> = conn.query_first("SELECT @@server_id").await?;
    Ok(id.unwrap_or(0))
}

/// A refusal leaves the session as it was; everything else ends it.
fn kind_of(error: &mysql_async::Error) -> FailureKind {
    match error {
        mysql_async::Error::Server(_) => FailureKind::Refused,
        mysql_async::Error::Driver(DriverError::PoolDisconnected) => FailureKind::Connect,
        _ => FailureKind::Ended,
    }
}

fn failure(kind: FailureKind, server: Option<u32>, sent: Instant, said: impl Into<String>) -> Failure {
    Failure { kind, server: server.filter(|s| *s != 0), sent, at: Instant::now(), said: said.into() }
}

/// Nothing but the login on the way in: no settings are asked for, no switch to the server's unix socket, no
/// reset when a session is given back.
fn options(spec: &AppSpec, address: &Address) -> OptsBuilder {
    let one = PoolOpts::default()
        .with_constraints(PoolConstraints::new(0, 1).unwrap_or_default())
        .with_inactive_connection_ttl(Duration::from_secs(3600))
        .with_reset_connection(false);
    let opts = OptsBuilder::default()
        .user(Some(crate::Account::App.user()))
        .pass(Some(&spec.password))
        .db_name(Some(crate::DATABASE))
        .prefer_socket(false)
        .tcp_nodelay(true)
        .max_allowed_packet(Some(16 << 20))
        .wait_timeout(Some(28_800))
        .stmt_cache_size(0)
        .pool_opts(one);
    match address {
        Address::Tcp { host, port } => opts.ip_or_hostname(host.clone()).tcp_port(*port),
        Address::Unix(path) => opts.socket(path.to_str().map(str::to_owned)),
    }
}
