//! One client: opens sessions one after the other, keeps each for a while, asks, and compares what comes.

use super::blame::How;
use super::client_pool::ClientPool;
use super::question::{Failed, Question, Shape};
use hdrhistogram::Histogram;
use lab::DATABASE;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, DriverError, Error};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// An answer that takes longer will not come: longer than every fault with its consequences.
const PATIENCE: Duration = Duration::from_secs(30);
/// A session is kept this long, seconds, from and to.
const LIFE_S: (f64, f64) = (1.0, 40.0);
/// Who reads slowly rests this long, seconds, from and to: at most as long as a server waits (its
/// `net_write_timeout` is 60 s).
const REST_S: (f64, f64) = (32.0, 50.0);
/// After a failure, so that a router which is down is not stormed.
const BREATH: Duration = Duration::from_millis(50);
/// Every this many of the large answers is one of more than 16 MiB in a row.
const WIDE_EVERY: u32 = 40;

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    /// Rows by key, as text.
    Points,
    /// Some hundred rows each time, as text.
    Ranges,
    /// Both, prepared.
    Prepared,
    /// Connects, asks once and closes.
    Cycle,
    /// Two reads in a transaction.
    Transaction,
    /// Adds rows, over the writer.
    Writer,
    /// Answers of some MiB.
    Large,
    /// Text and prepared on one session.
    Mixed,
    /// A long answer, and rests in the middle of it.
    Slow,
}

impl Kind {
    const ALL: [Self; 9] = [
        Self::Points,
        Self::Ranges,
        Self::Prepared,
        Self::Cycle,
        Self::Transaction,
        Self::Writer,
        Self::Large,
        Self::Mixed,
        Self::Slow,
    ];

    /// What client number so-and-so does.
    pub(super) fn of(client: u32) -> Self {
        Self::ALL[client as usize % Self::ALL.len()]
    }

    /// How much longer it pauses than others when there is a rate, since its statements are heavier.
    pub(super) fn weight(self) -> u32 {
        if self == Self::Large { 40 } else { 1 }
    }

    fn question(self, rng: &mut StdRng, asked: u32) -> Question {
        let one_of = |rng: &mut StdRng, shapes: &[Shape]| shapes[rng.random_range(0..shapes.len())];
        let shape = match self {
            Self::Points | Self::Cycle | Self::Writer => Shape::Point,
            Self::Ranges => Shape::Range,
            Self::Prepared => one_of(rng, &[Shape::PreparedPoint, Shape::PreparedRange]),
            Self::Large if asked.is_multiple_of(WIDE_EVERY) => Shape::Wide,
            Self::Large => Shape::Large,
            Self::Slow => Shape::Long,
            Self::Transaction | Self::Mixed => {
                one_of(rng, &[Shape::Point, Shape::PreparedPoint, Shape::Range, Shape::PreparedRange])
            }
        };
        Question { shape, number: rng.random_range(0..shape.count()) }
    }
}

/// What a client did in the end.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) number: u32,
    pub(super) kind: Kind,
    /// Microseconds from asking to the last byte.
    pub(super) times: Histogram<u64>,
    /// Rows it tried to write, numbered from 0.
    pub(super) written: u32,
    /// Those it never heard about.
    pub(super) doubtful: Vec<u32>,
}

/// A client at work.
struct Client {
    pool: Arc<ClientPool>,
    rng: StdRng,
    asked: u32,
    due: Instant,
    done: Done,
}

/// A session of it.
struct SoakSession {
    conn: Conn,
    server: Option<String>,
    /// When all was well with it last.
    well_s: f64,
}

/// The session is of no more use; why has been noted.
struct Lost;

/// Works until it is told to stop.
pub(super) async fn run(pool: Arc<ClientPool>, number: u32) -> anyhow::Result<Done> {
    let rng = StdRng::seed_from_u64(pool.seed ^ (u64::from(number) << 32));
    let times = Histogram::new_with_bounds(1, 120_000_000, 3)?;
    let done = Done { number, kind: Kind::of(number), times, written: 0, doubtful: Vec::new() };
    let mut client = Client { pool, rng, asked: 0, due: Instant::now(), done };
    while !client.pool.stop.is_cancelled() {
        if client.session().await.is_err() {
            tokio::time::sleep(BREATH).await;
        }
    }
    Ok(client.done)
}

impl Client {
    async fn session(&mut self) -> Result<(), Lost> {
        let mut session = self.open().await?;
        let life = Duration::from_secs_f64(self.rng.random_range(LIFE_S.0..LIFE_S.1));
        let opened = Instant::now();
        let once = self.done.kind == Kind::Cycle;
        while self.paced().await {
            match self.done.kind {
                Kind::Transaction => self.transaction(&mut session).await?,
                Kind::Writer => self.write(&mut session).await?,
                _ => self.ask(&mut session, false).await?,
            }
            if once || opened.elapsed() > life {
                break;
            }
        }
        // Said or not: a session that the router ended meanwhile is as good.
        let _ = tokio::time::timeout(PATIENCE, session.conn.disconnect()).await;
        Ok(())
    }

    /// Waits for the next turn; `false` when there is none any more.
    async fn paced(&mut self) -> bool {
        let interval = self.pool.interval * self.done.kind.weight();
        // Who is late does not catch up: this is no measurement of a rate.
        self.due = (self.due + interval).max(Instant::now());
        tokio::select! {
            () = tokio::time::sleep_until(self.due.into()) => !self.pool.stop.is_cancelled(),
            () = self.pool.stop.cancelled() => false,
        }
    }

    async fn open(&mut self) -> Result<SoakSession, Lost> {
        let kind = self.done.kind;
        let opts = if kind == Kind::Writer { &self.pool.writer } else { &self.pool.reader };
        let began_s = self.pool.now();
        let conn = match tokio::time::timeout(PATIENCE, Conn::new(opts.clone())).await {
            Ok(Ok(conn)) => conn,
            Ok(Err(error)) => {
                let how = how(&error, How::EndedAtLogin);
                self.pool.failed(kind, None, how, began_s, error.to_string());
                return Err(Lost);
            }
            Err(_) => {
                self.pool.failed(kind, None, How::Silent, began_s, "no login".to_owned());
                return Err(Lost);
            }
        };
        let mut session = SoakSession { conn, server: None, well_s: began_s };
        let (began_s, which) = (self.pool.now(), "SELECT @@bind_address");
        let asked = tokio::time::timeout(PATIENCE, session.conn.query_first::<String, _>(which)).await;
        // Who answers names itself: what was done to it meanwhile counts for this answer too.
        if let Ok(Ok(Some(at))) = &asked {
            session.server = Some(self.pool.names.get(at).unwrap_or(at).clone());
        }
        let answer = asked.map(|asked| asked.map_err(|error| (error, How::EndedBefore)));
        self.took(&mut session, began_s, answer, which)?;
        self.pool.counts.sessions.fetch_add(1, Relaxed);
        Ok(session)
    }

    async fn transaction(&mut self, session: &mut SoakSession) -> Result<(), Lost> {
        self.run::<u8>(session, How::EndedBefore, "START TRANSACTION").await?;
        self.ask(session, true).await?;
        self.ask(session, true).await?;
        self.run::<u8>(session, How::EndedInTransaction, "COMMIT").await?;
        self.pool.counts.transactions.fetch_add(1, Relaxed);
        Ok(())
    }

    async fn write(&mut self, session: &mut SoakSession) -> Result<(), Lost> {
        let number = self.done.written;
        self.done.written += 1;
        let row = format!(
            "INSERT INTO {DATABASE}.soak_written (client, number) VALUES ({}, {number})",
            self.done.number
        );
        let written = self.run::<u8>(session, How::EndedBefore, &row).await;
        if written.is_err() {
            self.done.doubtful.push(number);
        }
        written.map(drop)
    }

    async fn ask(&mut self, session: &mut SoakSession, in_transaction: bool) -> Result<(), Lost> {
        self.asked = self.asked.wrapping_add(1);
        let question = self.done.kind.question(&mut self.rng, self.asked);
        let began_s = self.pool.now();
        let slow = self.done.kind == Kind::Slow;
        let rest_s = if slow { self.rng.random_range(REST_S.0..REST_S.1) } else { 0.0 };
        let rest = Duration::from_secs_f64(rest_s);
        let pool = self.pool.clone();
        let resting = async {
            if slow {
                // Nobody is waited for at the end of the load.
                let _ = tokio::time::timeout(rest, pool.stop.cancelled()).await;
            }
        };
        let asking = question.ask_resting(&mut session.conn, resting);
        let asked = tokio::time::timeout(PATIENCE + rest, asking).await;
        let ended = |answered| match (in_transaction, answered) {
            (true, _) => How::EndedInTransaction,
            (false, true) => How::EndedWithin,
            (false, false) => How::EndedBefore,
        };
        let answer = asked.map(|asked| asked.map_err(|Failed { error, answered }| (error, ended(answered))));
        let sum = self.took(session, began_s, answer, &format!("{question:?}"))?;
        if !self.pool.answers.agree(question, sum) {
            self.pool.counts.wrong.fetch_add(1, Relaxed);
            let text = format!("{question:?}: another checksum than directly");
            let server = session.server.as_deref();
            self.pool.failed(self.done.kind, server, How::Garbled, began_s, text);
        }
        Ok(())
    }

    /// A statement whose answer has one value or none.
    async fn run<T>(&mut self, session: &mut SoakSession, ended: How, text: &str) -> Result<T, Lost>
    where
        T: mysql_async::prelude::FromValue + Default + Send + 'static,
    {
        let began_s = self.pool.now();
        let asked = tokio::time::timeout(PATIENCE, session.conn.query_first::<T, _>(text)).await;
        let answer = asked.map(|asked| asked.map_err(|error| (error, ended)));
        self.took(session, began_s, answer, text).map(Option::unwrap_or_default)
    }

    /// Counts an answer, or says whose failure it is that there is none.
    fn took<T>(
        &mut self,
        session: &mut SoakSession,
        began_s: f64,
        answer: Result<Result<T, (Error, How)>, tokio::time::error::Elapsed>,
        what: &str,
    ) -> Result<T, Lost> {
        let pool = &self.pool;
        let server = session.server.as_deref();
        match answer {
            Ok(Ok(answer)) => {
                let now_s = pool.now();
                pool.counts.statements.fetch_add(1, Relaxed);
                // Of one that rested on purpose it says nothing how long it took.
                if self.done.kind != Kind::Slow {
                    pool.took(server.unwrap_or("?"), began_s, || format!("{:?}: {what}", self.done.kind));
                }
                self.done.times.saturating_record(((now_s - began_s) * 1e6) as u64);
                session.well_s = now_s;
                Ok(answer)
            }
            Ok(Err((error, ended))) => {
                let text = format!("{what}: {error}");
                pool.failed(self.done.kind, server, how(&error, ended), session.well_s, text);
                Err(Lost)
            }
            Err(_) => {
                let text = format!("{what}: nothing for {} s", PATIENCE.as_secs());
                pool.failed(self.done.kind, server, How::Silent, session.well_s, text);
                Err(Lost)
            }
        }
    }
}

/// What an error says; `ended` is how it is called when the connection ended.
fn how(error: &Error, ended: How) -> How {
    match error {
        Error::Server(_) => How::Refused,
        Error::Io(_) | Error::Driver(DriverError::ConnectionClosed) => ended,
        _ => How::Garbled,
    }
}
