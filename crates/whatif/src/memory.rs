//! The buffer pool at several sizes: what misses, and how long transactions take.
//!
//! **Warning:** it resizes the buffer pool of a server again and again and loads it. It is for a replica out
//! of rotation, or a lab.
//!
//! The sizes go from the largest down: a pool that shrinks keeps part of what is used, and only the first
//! one has to be filled from nothing. MariaDB 10.11 drops used pages as well when it shrinks: the miss ratio
//! is far too high at first, and falls as long as the disk takes to bring them back. At each size the load
//! runs until the miss ratio is steady ([`is_warm`]) and the pool full, then some windows are measured. Every
//! size is set through the journal of `knob`: it is put back when the session ends, on Ctrl-C, and after a
//! kill by the next `headroom knob restore`.

mod answer;
mod warm;

pub(crate) use answer::in_words;
pub use answer::{MemoryAnswer, Row, answer};
pub use warm::is_warm;

use crate::pool_load::{PoolLoad, Sender};
use crate::server::{Server, ServerError, rise};
use crate::words::{ValueError, bytes, figure};
use config::Credentials;
use fleet::Address;
use knob::apply::{self, Manner, Status};
use knob::journal::Author;
use knob::session::{RestoreOutcome, Which};
use knob::{Host, Refusal, Session, session, value};
use load::{Arrivals, LoadError};
use plan::memory::{Measured, NoCurve, WINDOWS};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use warm::{WARM_LEAST, is_filling};

/// A resize is waited for this long.
const RESIZE: Duration = Duration::from_secs(120);
/// A size is warmed up for at most this long, unless something else is said.
const WARM_MOST: Duration = Duration::from_mins(5);

/// What is done.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Of the pool, bytes; in any order.
    pub sizes: Vec<u64>,
    /// Length of a window.
    pub window: Duration,
    /// Windows that are measured at each size.
    pub windows: u32,
    /// A size is warmed up for at most this long.
    pub warm_most: Duration,
    pub arrivals: Arrivals,
}

/// The server whose pool is resized.
#[derive(Clone, Debug)]
pub struct PoolServer {
    pub address: Address,
    /// Who may set its variables.
    pub who: Credentials,
    /// The directory of the journal of settings.
    pub journal: PathBuf,
    /// The command, for the journal.
    pub command: String,
}

/// What was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    pub sizes: Vec<Measured>,
    /// Of the pool, before and after.
    pub today_bytes: u64,
    pub notes: Vec<String>,
    /// Whether the pool is as it was.
    pub is_back: bool,
}

impl Measurement {
    /// The answer, or why there is none and whether the pool is as it was.
    ///
    /// # Errors
    /// Fewer than three sizes; [`MemoryError::NotBack`] where the pool is not as it was either.
    pub fn answer(self, subject: String, workload: String) -> Result<MemoryAnswer, MemoryError> {
        let is_back = self.is_back;
        answer(subject, workload, self).map_err(|why| MemoryError::from(why).unless_back(is_back))
    }
}

/// Why it ended.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Knob(#[from] knob::Error),
    #[error(transparent)]
    NoCurve(#[from] NoCurve),
    /// The server does not take a size.
    #[error("a buffer pool of {size} was refused: {why}")]
    Refused {
        size: String,
        /// In words.
        why: String,
    },
    /// The server's own limit.
    #[error(
        "the largest size is {asked}, and the server can grow its pool to {most} at most; start it with innodb_buffer_pool_size_max, or ask for less"
    )]
    Limit { asked: String, most: String },
    /// The server rounds them to others.
    #[error(
        "the pool of this server has a size in steps of {step} (innodb_buffer_pool_chunk_size, times innodb_buffer_pool_instances); ask for {possible} instead of {asked}"
    )]
    Steps { asked: String, possible: String, step: String },
    /// It did not become that large.
    #[error("after {} s the pool is {found} and not {asked}", RESIZE.as_secs())]
    Slow { asked: String, found: String },
    /// It was ended.
    #[error("interrupted; nothing was kept")]
    Interrupted,
    /// A killed process left a setting of this server or host, and it cannot be put back.
    #[error(
        "a killed process left {knobs}, which cannot be put back: {why}. Nothing was tried: what is in force is not \
         what was before. headroom knob restore tries again"
    )]
    LeftBehind { knobs: String, why: Refusal },
    /// The original size could not be set again.
    #[error("{why}; and the pool could not be put back: headroom knob restore tries again")]
    NotBack {
        /// What went wrong first.
        why: Box<MemoryError>,
    },
}

impl MemoryError {
    /// The same, with the pool that is not as it was.
    fn unless_back(self, is_back: bool) -> Self {
        if is_back { self } else { Self::NotBack { why: Box::new(self) } }
    }
}

/// How many sizes are tried.
pub const SIZES: RangeInclusive<usize> = 3..=7;

/// Reads sizes such as `16G`, as many as are allowed; one that is there twice, as `1G` and `1024M`, counts
/// once.
///
/// # Errors
/// One is no size, or their number is not allowed.
pub fn parse_sizes(texts: &[String], allowed: RangeInclusive<usize>) -> Result<Vec<u64>, ValueError> {
    let size = |text: &String| {
        let bytes = value::size(text).filter(|bytes| *bytes > 0);
        bytes.ok_or_else(|| ValueError::NoSize { text: text.clone() })
    };
    let mut sizes: Vec<u64> = Vec::new();
    for size in texts.iter().map(size) {
        let size = size?;
        if !sizes.contains(&size) {
            sizes.push(size);
        }
    }
    if allowed.contains(&sizes.len()) {
        Ok(sizes)
    } else {
        Err(ValueError::Sizes { allowed, found: sizes.len() })
    }
}

/// How long a size is warmed up for at most: as it is said, else five minutes, or twelve passes of a longer
/// recording. `pass` is how long one of a recording takes.
///
/// # Errors
/// No size can be seen to be warm within the time that is said.
pub fn warm_most(said: Option<Duration>, pass: Option<Duration>) -> Result<Duration, ValueError> {
    let Some(pass) = pass else { return Ok(said.unwrap_or(WARM_MOST)) };
    let (most, least) = (said.unwrap_or(WARM_MOST.max(2 * WARM_LEAST * pass)), WARM_LEAST * pass);
    if most < least {
        return Err(ValueError::WarmTooShort { passes: WARM_LEAST, pass, least });
    }
    Ok(most)
}

/// Whether a server with these variables can have these sizes. One with `innodb_buffer_pool_size_max` has no
/// chunks any more, though it may still have the variable.
///
/// # Errors
/// What to ask for instead.
fn check_sizes(sizes: &[u64], variables: &BTreeMap<String, String>) -> Result<(), MemoryError> {
    let of = |name: &str| variables.get(name).and_then(|text| text.parse::<u64>().ok()).filter(|n| *n > 0);
    let most = of("innodb_buffer_pool_size_max");
    let largest = sizes.iter().copied().max().unwrap_or(0);
    if let Some(most) = most.filter(|most| largest > *most) {
        return Err(MemoryError::Limit { asked: bytes(largest), most: bytes(most) });
    }
    let chunk = of("innodb_buffer_pool_chunk_size");
    let step = chunk.filter(|_| !variables.contains_key("innodb_buffer_pool_size_max"));
    let Some(step) = step.map(|chunk| chunk * of("innodb_buffer_pool_instances").unwrap_or(1)) else {
        return Ok(());
    };
    if sizes.iter().all(|size| size.is_multiple_of(step)) {
        return Ok(());
    }
    let mib = |sizes: Vec<u64>| sizes.iter().map(|size| in_mib(*size)).collect::<Vec<_>>().join(",");
    let mut possible: Vec<u64> = sizes.iter().map(|size| size.div_ceil(step) * step).collect();
    possible.dedup();
    Err(MemoryError::Steps { asked: mib(sizes.to_vec()), possible: mib(possible), step: bytes(step) })
}

/// A size as `--sizes` takes it.
fn in_mib(size: u64) -> String {
    if size.is_multiple_of(1 << 20) { format!("{}M", size >> 20) } else { size.to_string() }
}

impl Experiment {
    /// What is sent at each size: another rate or number of clients is another load.
    pub(crate) fn load_in_words(&self, clients: u32) -> String {
        match &self.arrivals {
            Arrivals::Closed { think } if think.is_zero() => format!("{clients} clients"),
            Arrivals::Closed { think } => {
                format!("{clients} clients that think for {} ms", think.as_millis())
            }
            Arrivals::Open(open) => format!("{} a second, {clients} clients", figure(open.rate)),
        }
    }

    /// How long it takes at least.
    pub fn length(&self) -> Duration {
        let each = self.window * (self.windows + WARM_LEAST);
        each * u32::try_from(self.sizes.len()).unwrap_or(u32::MAX)
    }

    /// Does it, and puts the pool back. Blocks.
    ///
    /// # Errors
    /// See [`MemoryError`]; the pool is put back all the same.
    pub fn run(
        &self,
        on: &PoolServer,
        load: &PoolLoad,
        stop: &Arc<AtomicBool>,
        mut each: impl FnMut(&str),
    ) -> Result<Measurement, MemoryError> {
        let mut session = Session::open(Host::new("/"), &on.journal, session::as_account(on.who.clone()))?;
        recover(&mut session, &on.address.to_string(), &mut each)?;
        let mut server = Server::open(&on.address, &on.who)?;
        let today_bytes = server.pool_bytes()?;
        let manner = Manner::of(Author::here(&on.command));
        let mut pool = Pool { session, manner, address: on.address.to_string(), server };
        let measured = self.all_sizes(&mut pool, load, stop, each);
        let restored = pool.session.restore(&Which::Own, false);
        let is_back = restored.iter().all(RestoreOutcome::is_back);
        match measured {
            Ok((sizes, notes)) => Ok(Measurement { sizes, today_bytes, notes, is_back }),
            Err(why) => Err(why.unless_back(is_back)),
        }
    }

    fn all_sizes(
        &self,
        pool: &mut Pool,
        load: &PoolLoad,
        stop: &Arc<AtomicBool>,
        mut each: impl FnMut(&str),
    ) -> Result<(Vec<Measured>, Vec<String>), MemoryError> {
        let mut sizes = self.sizes.clone();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        sizes.dedup();
        let server = &mut pool.server;
        const LIMITS: [&str; 3] =
            ["innodb_buffer_pool_size_max", "innodb_buffer_pool_chunk_size", "innodb_buffer_pool_instances"];
        check_sizes(&sizes, &server.variables(&LIMITS)?)?;
        let load = load.connect(&self.arrivals, self.window, stop)?;
        let (mut measured, mut notes) = (Vec::new(), load.notes());
        let mut refused = None;
        for size in sizes {
            each(&format!("{}: resizing", bytes(size)));
            match pool.resize(size, stop) {
                Ok(()) => {}
                // What was measured is kept.
                Err(why @ (MemoryError::Refused { .. } | MemoryError::Slow { .. })) => {
                    notes.push(format!("{} is left out: {why}", bytes(size)));
                    refused.get_or_insert(why);
                    continue;
                }
                Err(why) => return Err(why),
            }
            let server = &mut pool.server;
            let began = Instant::now();
            let mut seen: Vec<f64> = Vec::new();
            let (mut steady, mut fills) = (true, false);
            let mut seed = 0;
            while fills || !is_warm(&seen) {
                if began.elapsed() > self.warm_most {
                    steady = false;
                    notes.push(format!(
                        "{}: not steady after {} s (--warm-most){}: its miss ratio is an upper bound, its lower end is open, and no knee is named",
                        bytes(size),
                        self.warm_most.as_secs(),
                        if fills { ", its pool still fills" } else { "" }
                    ));
                    break;
                }
                let window = window(&load, server, seed, stop)?;
                seed += 1;
                each(&format!("{}: warming up, {}", bytes(size), window.misses_in_words()));
                seen.extend(window.misses());
                fills = window.fills;
            }
            let mut windows = Vec::new();
            for at in 0..self.windows {
                let window = window(&load, server, 1000 + u64::from(at), stop)?;
                each(&format!("{}: {}, {}", bytes(size), window.misses_in_words(), window.p99_in_words()));
                windows.push(window);
            }
            let (one, unsound) = together(size, steady, &windows);
            if let Some(why) = left_out(&one) {
                notes.push(format!("{} is left out: {why}", bytes(size)));
                continue;
            }
            if let Some(why) = unsound {
                notes.push(format!(
                    "{}: its response times must not be used, and it has no p99: {why}",
                    bytes(size)
                ));
            }
            measured.push(one);
        }
        match refused {
            Some(why) if measured.len() < *SIZES.start() => Err(why),
            _ => Ok((measured, notes)),
        }
    }
}

/// Puts back what a killed process left: a size that it left in force would be taken for today's.
fn recover(session: &mut Session, address: &str, each: &mut dyn FnMut(&str)) -> Result<(), MemoryError> {
    let mut recovered = session.recover();
    knob::text::restored(&recovered, "headroom knob restore").lines().for_each(&mut *each);
    recovered.retain(|one| one.failed.is_some());
    if recovered.is_empty() {
        return Ok(());
    }
    let server = session.server(address).map_err(knob::Error::Server)?;
    let server = server.identity().map_err(knob::Error::Server)?;
    match recovered.iter().find(|one| one.concerns(std::slice::from_ref(&server))) {
        Some(RestoreOutcome { knobs, failed: Some(why), .. }) => {
            Err(MemoryError::LeftBehind { knobs: knobs.join(", "), why: why.clone() })
        }
        _ => Ok(()),
    }
}

fn window(
    load: &Sender<'_>,
    server: &mut Server,
    seed: u64,
    stop: &Arc<AtomicBool>,
) -> Result<Window, MemoryError> {
    const READS: [&str; 4] = [
        "Innodb_buffer_pool_read_requests",
        "Innodb_buffer_pool_reads",
        "Innodb_buffer_pool_pages_free",
        PAGES[0],
    ];
    let before = server.counters(&READS)?;
    let sent = load.send(seed, stop)?;
    let after = server.counters(&READS)?;
    if stop.load(Ordering::Relaxed) {
        return Err(MemoryError::Interrupted);
    }
    let (reads, requests) = (rise(&before, &after, READS[1])?, rise(&before, &after, READS[0])?);
    let free = after.get(READS[2]).zip(after.get(READS[3]));
    Ok(Window {
        reads,
        requests,
        fills: free.is_some_and(|(free, pages)| is_filling(*free, *pages, reads / requests.max(1.0))),
        p99_ms: sent.p99_ms,
        per_s: sent.per_s,
        done: sent.done,
        unsound: sent.unsound,
    })
}

/// What was sent and counted for a while.
struct Window {
    /// Pages read from the disk.
    reads: f64,
    /// Pages asked for.
    requests: f64,
    /// Whether what it read went into pages of the pool that were never used.
    fills: bool,
    /// `None` where nothing was answered.
    p99_ms: Option<f64>,
    per_s: f64,
    /// Transactions, or commands of a recording.
    done: f64,
    /// Why the load's own figures must not be used.
    unsound: Option<String>,
}

impl Window {
    /// Share of the pages that were read from the disk; `None` where none was asked for, which is not the
    /// same as that none was missed.
    fn misses(&self) -> Option<f64> {
        (self.requests > 0.0).then(|| self.reads / self.requests)
    }

    fn misses_in_words(&self) -> String {
        self.misses()
            .map_or_else(|| "nothing was read".to_owned(), |misses| format!("{:.2} % miss", misses * 100.0))
    }

    fn p99_in_words(&self) -> String {
        let answered = |p99: f64| format!("p99 {} ms", figure(p99));
        self.p99_ms.map_or_else(|| "nothing was answered".to_owned(), answered)
    }
}

/// What the windows of a size say together, and why their response times must not be used.
fn together(bytes: u64, steady: bool, windows: &[Window]) -> (Measured, Option<String>) {
    let unsound = windows.iter().find_map(|window| window.unsound.clone());
    let p99_ms = windows.iter().filter(|_| unsound.is_none()).filter_map(|window| window.p99_ms);
    // Of all windows: one alone may be a stall, with many pages and hardly a transaction.
    let requests: f64 = windows.iter().map(|window| window.requests).sum();
    let done: f64 = windows.iter().map(|window| window.done).sum();
    let measured = Measured {
        bytes,
        miss_ratio: windows.iter().filter_map(Window::misses).collect(),
        p99_ms: p99_ms.collect(),
        per_s: windows.iter().map(|window| window.per_s).collect(),
        requests_each: if done > 0.0 { requests / done } else { 0.0 },
        steady,
    };
    (measured, unsound)
}

/// Why a size is no point of the curve.
fn left_out(measured: &Measured) -> Option<String> {
    match measured.miss_ratio.len() {
        0 => Some("no page was asked for in any window".to_owned()),
        few if few < WINDOWS => Some(format!(
            "pages were asked for in {few} window only: how far its miss ratio scatters is not known"
        )),
        _ => None,
    }
}

/// The buffer pool of a server while it is resized.
struct Pool {
    session: Session,
    manner: Manner,
    address: String,
    server: Server,
}

impl Pool {
    fn resize(&mut self, size: u64, stop: &AtomicBool) -> Result<(), MemoryError> {
        let assignment = format!("server.innodb_buffer_pool_size={size}");
        let asked = self.session.server(&self.address).map_err(knob::Error::Server)?;
        let changes = apply::check(&Host::new("/"), Some(asked), &[assignment], &[])?;
        for outcome in self.session.apply(&changes, Some(&self.address), &self.manner) {
            if let Status::Refused { refusal } = outcome.status {
                return Err(MemoryError::Refused { size: bytes(size), why: refusal.to_string() });
            }
        }
        let server = &mut self.server;
        until_resized(size, stop, || {
            let found = server.pool_bytes()?;
            Ok((found, bytes_of_pages(&server.counters(&PAGES)?)))
        })
    }
}

const PAGES: [&str; 2] = ["Innodb_buffer_pool_pages_total", "Innodb_page_size"];

/// Of the pool's pages together; 0 where the server does not tell.
fn bytes_of_pages(counters: &BTreeMap<String, f64>) -> f64 {
    counters.get(PAGES[0]).zip(counters.get(PAGES[1])).map_or(0.0, |(pages, each)| pages * each)
}

/// How large it is: by its pages, else as the server says.
fn reached(found: u64, real: f64) -> u64 {
    if real > 0.0 { real as u64 } else { found }
}

/// A server may say the new size at once and take its time to get there. `look` tells both: the size that it
/// says, and that of its pages, 0 where it does not tell.
fn until_resized(
    size: u64,
    stop: &AtomicBool,
    mut look: impl FnMut() -> Result<(u64, f64), MemoryError>,
) -> Result<(), MemoryError> {
    let began = Instant::now();
    loop {
        let (found, real) = look()?;
        if found == size && (real == 0.0 || (real / size as f64 - 1.0).abs() < 0.25) {
            return Ok(());
        }
        if stop.load(Ordering::Relaxed) {
            return Err(MemoryError::Interrupted);
        }
        if began.elapsed() > RESIZE {
            return Err(MemoryError::Slow { asked: bytes(size), found: bytes(reached(found, real)) });
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knob::identity::{ADDRESS, Facts};
    use knob::server::{Kind, Variable};

    type Answer<T> = Result<T, knob::server::ServerError>;

    /// A server that leaves a resize without an answer.
    struct Silent(String);

    impl knob::server::Server for Silent {
        fn identity(&mut self) -> Answer<Facts> {
            let facts = [(ADDRESS, self.0.clone()), ("server_uuid", format!("of {}", self.0))];
            Ok(facts.map(|(key, value)| (key.to_owned(), value)).into())
        }

        fn describe(&mut self, _: &str) -> Answer<Option<Variable>> {
            Ok(Some(Variable { kind: Kind::Text, dynamic: Some(true) }))
        }

        fn global(&mut self, _: &str) -> Answer<String> {
            Ok("134217728".to_owned())
        }

        fn set_global(&mut self, _: &str, _: &str) -> Answer<()> {
            let (address, why) = (self.0.clone(), "no answer".to_owned());
            Err(knob::server::ServerError::Unanswered { address, why })
        }

        fn reconnect(&mut self) -> Answer<()> {
            Ok(())
        }
    }

    #[test]
    fn a_size_that_a_killed_run_left_and_that_cannot_be_put_back_is_not_taken_for_todays() {
        let dir = tempfile::tempdir().unwrap();
        let open = || {
            let connect: session::Connect =
                Box::new(|at| Ok(Box::new(Silent(at.to_owned())) as Box<dyn knob::server::Server>));
            Session::open(Host::new("/nowhere"), dir.path(), connect).unwrap()
        };
        let mut killed = open();
        let change = ["server.innodb_buffer_pool_size=33554432".to_owned()];
        let server = killed.server("a").unwrap();
        let changes = apply::check(&Host::new("/nowhere"), Some(server), &change, &[]).unwrap();
        killed.apply(&changes, Some("a"), &Manner { keep: true, ..Manner::of(Author::default()) });
        drop(killed);
        let mut said = String::new();
        let refused = recover(&mut open(), "a", &mut |line| said.push_str(line)).unwrap_err().to_string();
        assert!(refused.contains("left server.innodb_buffer_pool_size"), "{refused}");
        assert!(refused.contains("headroom knob restore"), "{refused}");
        assert!(said.contains("134217728"), "the original is named: {said}");
        assert!(recover(&mut open(), "b", &mut |_| ()).is_ok(), "it is of another server");
    }

    #[test]
    fn a_window_in_which_no_page_was_asked_for_missed_nothing_and_says_nothing() {
        let window = |reads: f64, requests: f64, done: f64, unsound: Option<&str>| Window {
            reads,
            requests,
            fills: false,
            p99_ms: (done > 0.0).then_some(5.0),
            per_s: done / 5.0,
            done,
            unsound: unsound.map(str::to_owned),
        };
        let (busy, idle) = (window(100.0, 1_000.0, 50.0, None), window(0.0, 0.0, 0.0, None));
        assert_eq!((busy.misses(), idle.misses()), (Some(0.1), None));
        assert_eq!(idle.misses_in_words(), "nothing was read");
        assert_eq!(busy.p99_in_words(), "p99 5.00 ms");
        assert_eq!(idle.p99_in_words(), "nothing was answered");
        // A stall at the end: pages of others, and no transaction.
        let stalled = window(40.0, 200.0, 0.0, None);
        let (found, unsound) = together(1, true, &[busy, idle, stalled]);
        assert_eq!((found.miss_ratio, found.p99_ms.len(), unsound), (vec![0.1, 0.2], 1, None));
        assert!((found.requests_each - 24.0).abs() < 1e-9, "{}", found.requests_each);
        let (found, unsound) = together(1, true, &[window(0.0, 0.0, 0.0, Some("none succeeded"))]);
        assert!(found.miss_ratio.is_empty() && found.p99_ms.is_empty() && found.requests_each == 0.0);
        assert_eq!(unsound.as_deref(), Some("none succeeded"));
        let why = |windows: &[Window]| left_out(&together(1, true, windows).0).unwrap_or_default();
        let (busy, idle) = (|| window(100.0, 1_000.0, 50.0, None), || window(0.0, 0.0, 0.0, None));
        assert!(why(&[idle()]).starts_with("no page was asked for"));
        assert!(why(&[busy(), idle()]).starts_with("pages were asked for in 1 window only"));
        assert_eq!(why(&[busy(), idle(), busy()]), "");
    }

    #[test]
    fn sizes_that_the_server_would_round_are_refused_with_those_that_it_takes() {
        let variables = |all: &[(&str, u64)]| {
            all.iter()
                .map(|(name, value)| ((*name).to_owned(), value.to_string()))
                .collect::<BTreeMap<_, _>>()
        };
        let mysql =
            variables(&[("innodb_buffer_pool_chunk_size", 128 << 20), ("innodb_buffer_pool_instances", 8)]);
        let refused = check_sizes(&[3 << 30, 1500 << 20, 1200 << 20], &mysql).unwrap_err().to_string();
        assert!(refused.contains("steps of 1.00 GiB"), "{refused}");
        assert!(refused.contains("ask for 3072M,2048M instead of 3072M,1500M,1200M"), "{refused}");
        assert!(check_sizes(&[3 << 30, 1 << 30], &mysql).is_ok());
        let new = variables(&[
            ("innodb_buffer_pool_size_max", 4 << 30),
            ("innodb_buffer_pool_chunk_size", 1 << 30),
        ]);
        assert!(check_sizes(&[1500 << 20], &new).is_ok(), "its chunks do not count");
        assert!(matches!(check_sizes(&[5 << 30], &new), Err(MemoryError::Limit { .. })));
        assert!(check_sizes(&[1500 << 20], &variables(&[])).is_ok());
    }

    #[test]
    fn a_resize_that_takes_its_time_is_not_waited_for_once_somebody_asks_for_the_end() {
        let stop = AtomicBool::new(false);
        let mut looks = 0;
        let ended = until_resized(64 << 20, &stop, || {
            looks += 1;
            stop.store(looks == 2, Ordering::Relaxed);
            Ok((64 << 20, f64::from(256 << 20)))
        });
        assert!(matches!(ended, Err(MemoryError::Interrupted)), "{ended:?}");
        assert_eq!(looks, 2);
        assert!(until_resized(64 << 20, &stop, || Ok((64 << 20, 0.0))).is_ok(), "it is there");
        assert_eq!(
            (reached(64 << 20, 0.0), reached(64 << 20, 8e6)),
            (64 << 20, 8_000_000),
            "not told is not 0"
        );
        let told =
            |names: &[&str]| bytes_of_pages(&names.iter().map(|name| ((*name).to_owned(), 8.0)).collect());
        assert_eq!((told(&PAGES), told(&PAGES[..1]), told(&[])), (64.0, 0.0, 0.0));
    }

    #[test]
    fn sizes_are_read_and_counted() {
        let read = |text: &str| parse_sizes(&text.split(',').map(str::to_owned).collect::<Vec<_>>(), SIZES);
        assert_eq!(read("64M,128m,1G").unwrap(), [64 << 20, 128 << 20, 1 << 30]);
        let wrong = |text: &str| read(text).unwrap_err().to_string();
        assert_eq!(wrong("1G,2G"), "name 3 to 7 different sizes; there are 2");
        assert_eq!(wrong("1G,1024M,2G"), "name 3 to 7 different sizes; there are 2");
        assert_eq!(read("1G,1024M,2G,3G").unwrap(), [1 << 30, 2 << 30, 3 << 30]);
        assert_eq!(wrong("1G,2G,much"), "'much' is no size; write for example 16G");
    }

    #[test]
    fn a_pool_that_is_not_back_is_said_also_where_there_is_no_answer() {
        let of = |is_back: bool| {
            let measured = Measurement { sizes: Vec::new(), today_bytes: 1, notes: Vec::new(), is_back };
            measured.answer("db1".into(), "w".into()).unwrap_err()
        };
        assert!(matches!(of(true), MemoryError::NoCurve(_)));
        let left = of(false);
        assert!(matches!(&left, MemoryError::NotBack { why } if matches!(**why, MemoryError::NoCurve(_))));
        assert!(left.to_string().contains("headroom knob restore"), "{left}");
    }

    #[test]
    fn a_time_in_which_no_size_can_be_seen_to_be_warm_is_refused() {
        let seconds = Duration::from_secs;
        let short = warm_most(Some(seconds(59)), Some(seconds(10))).unwrap_err().to_string();
        assert!(
            short.contains("after 6 passes of 10 s") && short.contains("give it 60 s or more"),
            "{short}"
        );
        assert_eq!(warm_most(Some(seconds(60)), Some(seconds(10))), Ok(seconds(60)));
        assert_eq!(warm_most(None, Some(seconds(100))), Ok(seconds(1200)));
        assert_eq!(warm_most(None, None), Ok(WARM_MOST));
    }
}
