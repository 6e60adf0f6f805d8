//! Ledger: what one thread of the data plane has counted, and what it knows by heart of the [`Registry`].
//!
//! Nothing here is shared: the thread that owns it writes, and hands out a copy when it is asked
//! ([`Ledger::snapshot`]). A command costs one look-up for its digest, one for its endpoint and one for its
//! cell; the only allocations are for what was not met before.
//!
//! A cell is a digest at an endpoint on a server, of one listener and user. Any grouping is a sum of cells,
//! so the figures by digest, by endpoint and by server agree exactly. When a thread has no room for a new
//! cell its commands count for the digest and endpoint of all others, on their server and listener. When
//! names give up their places ([`crate::aging`]), the next copy puts their cells into those of all others
//! too.
//!
//! A session that was picked as one in this many says so, and its cells stand for that many: the ledger
//! counts what was measured, a report scales it ([`crate::sampling`]).

use crate::aging::Doorkeeper;
use crate::figures::{Figures, Measurement};
use crate::registry::{Entry, LISTENER_BITS, Names, OTHER, Registry, SERVER_BITS};
use crate::request::{Open, Parts};
use config::InsightConfig;
use sql::fold::{self, Map};
use sql::{Dialect, Digester, TagKeys, TagValue, Tags, is_secret, last_comment};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use wire::Command;
use wire::attributes::Attributes;

/// Cells a thread holds for each digest it may tell apart.
const CELLS_PER_DIGEST: usize = 8;
/// Bytes of a statement that are read for its digest.
pub const READ: usize = 16 * 1024;
/// Bytes of the end of a longer one that are read for its tags.
pub const TAIL: usize = 1024;
/// Buffers for statements that came in pieces, kept for the next ones.
const SPARE: usize = 8;
/// Bytes kept of an example.
const EXAMPLE: usize = 1024;

/// What all threads share.
#[derive(Debug)]
pub struct Shared {
    pub registry: Registry,
    keys: TagKeys,
    config: InsightConfig,
    /// Grows each time that names gave up their places.
    pub(crate) era: AtomicU64,
    /// Grows with each mark of the collector.
    pub(crate) stretch: AtomicU64,
}

/// Where a command belongs, packed: digest, endpoint, server, listener, user, and for how many sessions it
/// stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Cell(u128);

/// What is known of the sessions of a place that were picked as one in this many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SampleSums {
    pub(crate) commands: u64,
    /// The sum over sessions of their commands squared, ...
    pub(crate) squares: u64,
    /// ... and the same with the commands of each stretch of time by itself, summed over the stretches.
    pub(crate) squares_by_stretch: u64,
}

/// What one session of those has sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SessionCount {
    commands: u64,
    stretch: u64,
    of_stretch: u64,
}

/// Where a session's commands belong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Labels {
    pub(crate) server: u32,
    pub(crate) listener: u32,
    pub(crate) user: u32,
    /// It was picked as one in this many; 0 and 1 are one that stands for itself.
    pub(crate) one_in: u32,
}

/// What a statement says of where it comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) endpoint: Option<u32>,
    pub(crate) request: Option<u64>,
}

/// A statement, told by its digest and tags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StatementKey {
    pub(crate) digest: u32,
    pub(crate) tag: Tag,
}

/// A statement's text as far as it was kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text<'t> {
    /// The whole of it or its first [`READ`] bytes.
    pub(crate) start: &'t [u8],
    /// The last bytes of a longer one.
    pub(crate) tail: &'t [u8],
    pub(crate) attributes: Option<Attributes<'t>>,
}

/// What happened beside counted commands; sums since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub sessions: u64,
    /// Sessions that could not be read because of TLS between client and server.
    pub opaque_tls: u64,
    pub opaque_compression: u64,
    /// Because of a protocol from before 4.1.
    pub opaque_old: u64,
    /// Sessions that bypass the router that had begun before it came.
    pub opaque_earlier: u64,
    /// Sessions whose bytes made no sense from some point on, or that lost some.
    pub lost: u64,
    /// Commands whose session ended before they were answered.
    pub unanswered: u64,
    /// Statements longer than is read: told apart by their start.
    pub long: u64,
    /// Executions of prepared statements that are not known (too many in one session).
    pub unknown_prepared: u64,
    /// Commands that a thread had no cell for.
    pub without_cell: u64,
    /// Commands of requests that there was no room for.
    pub without_request: u64,
}

#[derive(Debug)]
pub struct Ledger {
    shared: Arc<Shared>,
    digester: Digester,
    digests: Map<u64, u32>,
    endpoints: Map<u64, u32>,
    /// Numbers of commands that are no statements, by command byte.
    commands: [Option<u32>; 256],
    cell_at: Map<Cell, u32>,
    cells: Vec<(Cell, Figures)>,
    samples: Vec<(Labels, SampleSums)>,
    /// Sessions that are open and can be read, by server, with those that they stand for.
    readable: HashMap<Box<str>, Rc<std::cell::Cell<u64>>>,
    requests: Open,
    pub(crate) counts: Counts,
    /// The [`Shared::era`] that the numbers above are of.
    pub(crate) era: u64,
    met: Doorkeeper,
    spare: Vec<Vec<u8>>,
    scratch: String,
}

/// A copy of a ledger, for whoever adds them up.
#[derive(Debug)]
pub struct Snapshot {
    pub(crate) cells: Vec<(Cell, Figures)>,
    pub(crate) samples: Vec<(Labels, SampleSums)>,
    pub(crate) counts: Counts,
    pub(crate) requests: Parts,
    pub(crate) times: Vec<Time>,
    pub(crate) readable: Vec<(Box<str>, u64)>,
}

/// What is known of the time that statements of one digest take on one server: sums since the start, of one
/// cell of one thread. What the server refused is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time {
    cell: Cell,
    /// See [`Figures::timed`].
    pub count: u64,
    /// See [`Figures::log_sum`].
    pub log_sum: u64,
    /// See [`Figures::timed_ns`].
    pub sum_ns: u64,
}

impl Time {
    /// The number of the digest in the registry.
    pub fn digest(&self) -> u32 {
        self.cell.digest()
    }

    /// For how many sessions each of its own stands.
    pub fn one_in(&self) -> u32 {
        self.cell.one_in().max(1)
    }

    /// The number of the server in the registry.
    pub fn server(&self) -> u32 {
        self.cell.server()
    }
}

impl Snapshot {
    /// The times of everything counted so far, cell by cell.
    pub fn times(&self) -> &[Time] {
        &self.times
    }

    /// How many open sessions the readable ones on each server stand for, themselves among them.
    pub fn readable(&self) -> &[(Box<str>, u64)] {
        &self.readable
    }
}

/// A session that can be read, counted while this lives.
#[derive(Debug)]
pub(crate) struct Readable {
    of_server: Rc<std::cell::Cell<u64>>,
    one_in: u32,
}

impl Drop for Readable {
    fn drop(&mut self) {
        self.of_server.set(self.of_server.get().saturating_sub(u64::from(self.one_in)));
    }
}

impl Shared {
    pub fn new(config: InsightConfig) -> Arc<Self> {
        let registry = Registry::new(config.digests, config.endpoints);
        let keys = TagKeys::new(&config.endpoint_keys, &config.request_keys);
        Arc::new(Self { registry, keys, config, era: AtomicU64::new(0), stretch: AtomicU64::new(0) })
    }

    /// The configuration it was made for.
    pub fn config(&self) -> &InsightConfig {
        &self.config
    }
}

impl Ledger {
    pub fn new(shared: Arc<Shared>) -> Self {
        let requests = Open::new(shared.config.requests);
        let era = shared.era.load(Relaxed);
        Self {
            shared,
            digester: Digester::new(),
            digests: Map::default(),
            endpoints: Map::default(),
            commands: [None; 256],
            cell_at: Map::default(),
            cells: Vec::new(),
            samples: Vec::new(),
            readable: HashMap::new(),
            requests,
            counts: Counts::default(),
            era,
            met: Doorkeeper::default(),
            spare: Vec::new(),
            scratch: String::new(),
        }
    }

    /// A copy of what was counted; `cells` only if asked for, and the requests since the last time.
    pub fn snapshot(&mut self, cells: bool) -> Snapshot {
        self.forget_retired();
        let counts = Counts { without_request: self.requests.untold, ..self.counts };
        let time = |(cell, figures): &(Cell, Figures)| Time {
            cell: *cell,
            count: figures.timed,
            log_sum: figures.log_sum,
            sum_ns: figures.timed_ns,
        };
        let times = self.cells.iter().map(time).collect();
        let cells = if cells { self.cells.clone() } else { Vec::new() };
        self.readable.retain(|_, sessions| Rc::strong_count(sessions) > 1);
        let readable = self.readable.iter().map(|(name, sessions)| (name.clone(), sessions.get())).collect();
        let (samples, requests) = (self.samples.clone(), self.requests.take());
        Snapshot { cells, samples, counts, requests, times, readable }
    }

    /// A session that can be read and stands for `one_in` begins on this server.
    pub(crate) fn readable(&mut self, server: &str, one_in: u32) -> Readable {
        let one_in = one_in.max(1);
        let of_server = self.readable.entry(server.into()).or_default().clone();
        of_server.set(of_server.get() + u64::from(one_in));
        Readable { of_server, one_in }
    }

    /// Where names gave up their places since the last time: what they had counts for all others from now on.
    /// Sessions that hold a number of before may still count for it; a report takes that for the others too.
    fn forget_retired(&mut self) {
        let era = self.shared.era.load(Relaxed);
        if self.era == era {
            return;
        }
        self.era = era;
        let numbers = Numbers::of(&self.shared.registry);
        self.digests.retain(|_, number| numbers.digests.contains(number));
        self.endpoints.retain(|_, number| numbers.endpoints.contains(number));
        self.commands = [None; 256];
        self.cell_at.clear();
        for (cell, figures) in std::mem::take(&mut self.cells) {
            let cell = numbers.cell(cell);
            let at = *self.cell_at.entry(cell).or_insert_with(|| {
                self.cells.push((cell, Figures::default()));
                self.cells.len() as u32 - 1
            });
            self.cells[at as usize].1.merge(&figures);
        }
        for (labels, sums) in std::mem::take(&mut self.samples) {
            let labels = numbers.cell(Cell::new(OTHER, OTHER, labels)).labels();
            match self.samples.iter().position(|(known, _)| *known == labels) {
                Some(at) => self.samples[at].1.add(&sums),
                None => self.samples.push((labels, sums)),
            }
        }
    }

    /// There is a session that cannot be read, because it had begun before anybody looked.
    pub fn began_earlier(&mut self) {
        self.counts.opaque_earlier += 1;
    }

    pub(crate) fn names(&self) -> &Registry {
        &self.shared.registry
    }

    /// The digest and tags of a statement. One that is prepared is looked at only now, however often it is
    /// executed: `lasting`.
    pub(crate) fn statement(&mut self, text: &Text<'_>, dialect: Dialect, lasting: bool) -> StatementKey {
        let hash = self.digester.read(text.start, dialect);
        let shared = self.shared.clone();
        let names = &shared.registry.digests;
        let digest = match self.digests.get(&hash) {
            Some(number) => *number,
            None if !lasting && names.is_crowded() && !self.met.knows(hash) => OTHER,
            None => known(&mut self.digests, names, hash, || {
                // A password stays out of it, as it stays out of recordings.
                let example = (shared.config.examples && !is_secret(text.start)).then(|| {
                    let shown = &text.start[..text.start.len().min(EXAMPLE)];
                    String::from_utf8_lossy(shown).into_owned()
                });
                Entry { hash, name: self.digester.text(), example }
            }),
        };
        let mut tags = Tags::default();
        if let Some(attributes) = text.attributes {
            note(&shared.keys, &mut tags, attributes);
        }
        if let Some(comment) = last_comment(text.tail) {
            shared.keys.read(&mut tags, comment);
        }
        for (from, to) in self.digester.comments() {
            shared.keys.read(&mut tags, &text.start[from..to]);
        }
        StatementKey { digest, tag: self.tag(&shared, &tags) }
    }

    /// The tags of attributes alone.
    pub(crate) fn attributes(&mut self, attributes: Attributes<'_>) -> Tag {
        let shared = self.shared.clone();
        let mut tags = Tags::default();
        note(&shared.keys, &mut tags, attributes);
        self.tag(&shared, &tags)
    }

    fn tag(&mut self, shared: &Shared, tags: &Tags<'_>) -> Tag {
        let endpoint = shared.keys.endpoint(tags).map(|value| self.endpoint(shared, value));
        Tag { endpoint, request: shared.keys.request(tags).map(|value| fold::hash(value.request_id())) }
    }

    fn endpoint(&mut self, shared: &Shared, value: TagValue<'_>) -> u32 {
        let (first, second) = value.raw();
        let raw = fold::mix(fold::hash(first), fold::hash(second) | 1);
        if let Some(number) = self.endpoints.get(&raw) {
            return *number;
        }
        if shared.registry.endpoints.is_crowded() && !self.met.knows(raw) {
            return OTHER;
        }
        value.decode(&mut self.scratch);
        let number = named(&shared.registry.endpoints, &self.scratch);
        // The same name may be written in many ways; not all of them are worth remembering.
        if number != OTHER && self.endpoints.len() < 4 * shared.registry.endpoints.limit() {
            self.endpoints.insert(raw, number);
        }
        number
    }

    /// The number that a command has that is no statement.
    pub(crate) fn command(&mut self, command: Command) -> u32 {
        let byte = usize::from(command.byte());
        if let Some(number) = self.commands[byte] {
            return number;
        }
        let number = named(&self.shared.registry.digests, &format!("({command})"));
        self.commands[byte] = Some(number);
        number
    }

    pub(crate) fn record(&mut self, cell: Cell, measurement: &Measurement) {
        let at = match self.cell_at.get(&cell) {
            Some(at) => *at,
            None => self.room(cell),
        };
        self.cells[at as usize].1.record(measurement);
    }

    /// Counts it for the sessions that were picked as one in this many; `sent` is one of them.
    pub(crate) fn sample(&mut self, labels: Labels, sent: &mut SessionCount) {
        let stretch = self.shared.stretch.load(Relaxed);
        if sent.stretch != stretch {
            (sent.stretch, sent.of_stretch) = (stretch, 0);
        }
        // Listeners times servers: a handful.
        let labels = Labels { user: 0, ..labels };
        let at = self.samples.iter().position(|(known, _)| *known == labels).unwrap_or_else(|| {
            self.samples.push((labels, SampleSums::default()));
            self.samples.len() - 1
        });
        let sums = &mut self.samples[at].1;
        sums.commands += 1;
        // The square of one more is so much more.
        sums.squares += 2 * sent.commands + 1;
        sums.squares_by_stretch += 2 * sent.of_stretch + 1;
        sent.commands += 1;
        sent.of_stretch += 1;
    }

    /// Counts it for its request.
    pub(crate) fn request(&mut self, id: u64, endpoint: u32, begun: Instant, time: Duration) {
        self.requests.add(id, endpoint, begun, time);
    }

    fn room(&mut self, cell: Cell) -> u32 {
        let limit = self.shared.config.digests.saturating_mul(CELLS_PER_DIGEST);
        let cell = if self.cells.len() < limit { cell } else { cell.others() };
        if cell == cell.others() && self.cells.len() >= limit {
            self.counts.without_cell += 1;
        }
        if let Some(at) = self.cell_at.get(&cell) {
            return *at;
        }
        let at = self.cells.len() as u32;
        self.cells.push((cell, Figures::default()));
        self.cell_at.insert(cell, at);
        at
    }

    /// A buffer for a statement that comes in pieces.
    pub(crate) fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    pub(crate) fn give(&mut self, mut buffer: Vec<u8>) {
        if self.spare.len() < SPARE {
            buffer.clear();
            self.spare.push(buffer);
        }
    }
}

/// Digests, endpoints, servers and listeners that have their places now.
pub(crate) struct Numbers {
    digests: HashSet<u32>,
    endpoints: HashSet<u32>,
    servers: HashSet<u32>,
    listeners: HashSet<u32>,
}

impl Numbers {
    pub(crate) fn of(registry: &Registry) -> Self {
        let all = |names: &Names| names.numbers().into_values().collect();
        Self {
            digests: all(&registry.digests),
            endpoints: all(&registry.endpoints),
            servers: all(&registry.servers),
            listeners: all(&registry.listeners),
        }
    }

    /// The endpoint, or that of all others when it has given up its place.
    pub(crate) fn endpoint(&self, number: u32) -> u32 {
        if self.endpoints.contains(&number) { number } else { OTHER }
    }

    /// The cell with all others in the place of what has given up its own.
    pub(crate) fn cell(&self, cell: Cell) -> Cell {
        let digest = if self.digests.contains(&cell.digest()) { cell.digest() } else { OTHER };
        let mut labels = cell.labels();
        if !self.servers.contains(&labels.server) {
            labels.server = OTHER;
        }
        if !self.listeners.contains(&labels.listener) {
            labels.listener = OTHER;
        }
        Cell::new(digest, self.endpoint(cell.endpoint()), labels)
    }
}

impl Cell {
    const ENDPOINT: u32 = 32;
    const SERVER: u32 = 64;
    const LISTENER: u32 = Self::SERVER + SERVER_BITS;
    const USER: u32 = Self::LISTENER + LISTENER_BITS;
    const ONE_IN: u32 = Self::USER + 8;
    /// More sessions than one stands for.
    const MOST: u32 = (1 << 24) - 1;

    pub(crate) fn new(digest: u32, endpoint: u32, labels: Labels) -> Self {
        Self(
            u128::from(digest)
                | u128::from(endpoint) << Self::ENDPOINT
                | u128::from(labels.server) << Self::SERVER
                | u128::from(labels.listener) << Self::LISTENER
                | u128::from(labels.user) << Self::USER
                | u128::from(labels.one_in.min(Self::MOST)) << Self::ONE_IN,
        )
    }

    fn part(self, from: u32, bits: u32) -> u32 {
        (self.0 >> from & ((1 << bits) - 1)) as u32
    }

    pub(crate) fn digest(self) -> u32 {
        self.part(0, 32)
    }

    pub(crate) fn endpoint(self) -> u32 {
        self.part(Self::ENDPOINT, 32)
    }

    pub(crate) fn server(self) -> u32 {
        self.part(Self::SERVER, SERVER_BITS)
    }

    pub(crate) fn listener(self) -> u32 {
        self.part(Self::LISTENER, LISTENER_BITS)
    }

    pub(crate) fn user(self) -> u32 {
        self.part(Self::USER, 8)
    }

    /// For how many sessions its own stand.
    pub(crate) fn one_in(self) -> u32 {
        self.part(Self::ONE_IN, 24)
    }

    pub(crate) fn labels(self) -> Labels {
        Labels { server: self.server(), listener: self.listener(), user: self.user(), one_in: self.one_in() }
    }

    /// The cell of the same place for what there is no room to tell apart.
    fn others(self) -> Self {
        Self::new(OTHER, OTHER, Labels { user: OTHER, ..self.labels() })
    }
}

/// The number of a name that is its own identity.
pub(crate) fn named(names: &Names, name: &str) -> u32 {
    names.number(fold::hash(name.as_bytes()), || Entry { name: name.to_owned(), ..Entry::default() })
}

fn known(mine: &mut Map<u64, u32>, names: &Names, hash: u64, entry: impl FnOnce() -> Entry) -> u32 {
    if let Some(number) = mine.get(&hash) {
        return *number;
    }
    let number = names.number(hash, entry);
    if number != OTHER {
        mine.insert(hash, number);
    }
    number
}

fn note<'t>(keys: &TagKeys, tags: &mut Tags<'t>, attributes: Attributes<'t>) {
    for (name, value) in attributes {
        if let Some(value) = value {
            keys.note(tags, name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_says_what_was_put_into_it() {
        let labels = Labels { server: (1 << SERVER_BITS) - 1, listener: 1023, user: 255, one_in: u32::MAX };
        let cell = Cell::new(7, u32::MAX, labels);
        assert_eq!((cell.digest(), cell.endpoint()), (7, u32::MAX));
        assert_eq!(cell.labels(), Labels { one_in: Cell::MOST, ..labels });
        let labels = Labels { server: 1024, listener: 0, user: 0, one_in: 16 };
        assert_eq!(Cell::new(OTHER, OTHER, labels).labels(), labels);
    }
}
