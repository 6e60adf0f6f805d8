//! Report: the ledgers of all threads added up, named, and grouped by whatever is asked.
//!
//! Sessions that were picked as one in this many count for as many in [`Report::rows`] and [`Report::total`],
//! with the standard error that this has ([`crate::sampling`]); [`Report::measured`] has what was measured
//! and no more.

use crate::aging::LastSeen;
use crate::figures::Figures;
use crate::ledger::{Cell, Counts, Labels, Numbers, SampleSums, Shared, Snapshot};
use crate::registry::{Entry, Names, OTHER};
use crate::request::{RequestFigures, Requests};
use crate::sampling::{self, Clusters};
use serde::{Deserialize, Serialize};
use sql::fold::{self, Map};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// How often the book is marked, so that figures of the recent past can be told.
pub const MARK: Duration = Duration::from_secs(5);
/// Marks kept: the recent past is between one mark less than this and this old.
const MARKS: usize = 3;
/// Requests under way that are followed, for each that a thread may have.
const REQUESTS_PER_THREAD: usize = 16;

/// What figures are grouped by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dimension {
    /// Statements without their literals.
    #[default]
    Digest,
    Endpoint,
    User,
    Listener,
    Server,
}

/// Which span of time is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Since {
    /// The last ten to fifteen seconds, or since the start if that is less.
    #[default]
    Recent,
    Start,
}

/// Leaves out what does not match; names are matched exactly, digests by their number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub digest: Option<String>,
    pub endpoint: Option<String>,
    pub server: Option<String>,
}

/// Everything counted in a span of time.
#[derive(Clone, Debug, Default)]
struct Sheet {
    cells: Map<Cell, Figures>,
    samples: Map<Cell, SampleSums>,
    counts: Counts,
    requests: Map<u32, RequestFigures>,
}

/// What had been counted for names before they gave up their places, and stands among all others since: what
/// `(other)` leaves out where it is a counter. As rows have it: of all sessions.
#[derive(Clone, Debug, Default)]
struct TakenOver {
    endpoints: Figures,
    servers: Figures,
    requests: RequestFigures,
}

/// Adds up what the threads hand over; one for a router, owned by whoever asks the threads.
#[derive(Debug)]
pub struct Collector {
    shared: Arc<Shared>,
    requests: Requests,
    marks: VecDeque<(Instant, Sheet)>,
    digests: LastSeen,
    endpoints: LastSeen,
    servers: LastSeen,
    listeners: LastSeen,
    taken_over: TakenOver,
}

/// Figures of a span of time, by any dimension.
#[derive(Debug)]
pub struct Report {
    shared: Arc<Shared>,
    sheet: Sheet,
    /// Sessions that stand for others, by place (a cell without digest, endpoint and user).
    clusters: Map<Cell, Clusters>,
    /// Nothing where the span is the recent past: there it is new to nobody.
    taken_over: TakenOver,
    /// How long the span is.
    pub span: Duration,
    /// Requests that there was no room for, since the start.
    pub requests_untold: u64,
}

/// Figures of one digest, endpoint, user, listener or server.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its name; `(other)` for all that came after the limit.
    pub name: String,
    /// What identifies a digest: 16 hexadecimal digits, the same on every host.
    pub id: String,
    /// A statement as it came, where the operator asked for examples.
    pub example: Option<String>,
    /// The figures, of all sessions as far as those that were measured stand for others.
    pub figures: Figures,
    /// What of the commands was measured.
    pub sample: Sample,
}

/// How a number of commands is known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// Commands measured.
    pub measured: u64,
    /// They came of one session in this many at the most; 1 when all sessions were measured.
    pub one_in: u32,
    /// The variance of the number of commands.
    variance: f64,
}

impl Sample {
    /// The standard error of the number of commands; 0 when all were measured.
    pub fn error(&self) -> f64 {
        self.variance.sqrt()
    }

    /// Adds what was measured elsewhere.
    pub fn add(&mut self, other: &Self) {
        self.measured += other.measured;
        self.one_in = self.one_in.max(other.one_in);
        self.variance += other.variance;
    }
}

/// How many names there are of a kind with a limit, and whether any had to be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    pub used: usize,
    /// Names that there is room for.
    pub limit: usize,
}

impl Collector {
    /// Nothing collected yet, at `now`.
    pub fn new(shared: Arc<Shared>, now: Instant) -> Self {
        let config = shared.config();
        let requests = Requests::new(config.requests * REQUESTS_PER_THREAD, config.request_quiet);
        let marks = VecDeque::from([(now, Sheet::default())]);
        Self {
            shared,
            requests,
            marks,
            digests: LastSeen::default(),
            endpoints: LastSeen::default(),
            servers: LastSeen::default(),
            listeners: LastSeen::default(),
            taken_over: TakenOver::default(),
        }
    }

    /// Takes over the requests of snapshots; do this every second or so.
    pub fn absorb(&mut self, snapshots: &mut [Snapshot], now: Instant) {
        let numbers = Numbers::of(&self.shared.registry);
        for snapshot in snapshots {
            self.requests.absorb(std::mem::take(&mut snapshot.requests), |number| numbers.endpoint(number));
        }
        self.requests.close(now);
    }

    /// Whether it is time to [`Collector::mark`] again.
    pub fn wants_mark(&self, now: Instant) -> bool {
        self.marks.back().is_none_or(|(at, _)| now.saturating_duration_since(*at) >= MARK)
    }

    /// Remembers the state now, of snapshots with their cells, and has names that were not seen for long give
    /// up their places where places run short.
    pub fn mark(&mut self, snapshots: &[Snapshot], now: Instant) {
        let sheet = self.sheet(snapshots);
        self.look_who_is_seen(&sheet, snapshots, now);
        if let Some((_, before)) = self.marks.back() {
            self.taken_over.forget_what_is_gone(before, &sheet);
        }
        self.shared.stretch.fetch_add(1, Relaxed);
        self.marks.push_back((now, sheet));
        // Before the first marks are full the oldest is the start.
        if self.marks.len() > MARKS {
            self.marks.pop_front();
        }
        self.retire(now);
    }

    fn look_who_is_seen(&mut self, sheet: &Sheet, snapshots: &[Snapshot], now: Instant) {
        let Self { shared, digests, endpoints, servers, listeners, .. } = self;
        digests.follow(shared.registry.digests.numbers().into_values(), now);
        endpoints.follow(shared.registry.endpoints.numbers().into_values(), now);
        listeners.follow(shared.registry.listeners.numbers().into_values(), now);
        let by_hash = shared.registry.servers.numbers();
        servers.follow(by_hash.values().copied(), now);
        // A session keeps the number of its server, also while it says nothing.
        for (name, _) in snapshots.iter().flat_map(Snapshot::readable) {
            if let Some(number) = by_hash.get(&fold::hash(name.as_bytes())) {
                servers.see(*number, now);
            }
        }
        let before = self.marks.back().map(|(_, sheet)| &sheet.cells);
        let count =
            |cells: Option<&Map<Cell, Figures>>, cell| cells.and_then(|c| c.get(cell)).map_or(0, |f| f.count);
        for (cell, figures) in &sheet.cells {
            if figures.count > count(before, cell) {
                digests.see(cell.digest(), now);
                endpoints.see(cell.endpoint(), now);
                servers.see(cell.server(), now);
                listeners.see(cell.listener(), now);
            }
        }
    }

    fn retire(&mut self, now: Instant) {
        let registry = &self.shared.registry;
        let digests = self.digests.retiring(registry.digests.limit(), now);
        let endpoints = self.endpoints.retiring(registry.endpoints.limit(), now);
        let servers = self.servers.retiring(registry.servers.limit(), now);
        let listeners = self.listeners.retiring(registry.listeners.limit(), now);
        if digests.is_empty() && endpoints.is_empty() && servers.is_empty() && listeners.is_empty() {
            return;
        }
        registry.digests.retire(&digests);
        registry.endpoints.retire(&endpoints);
        registry.servers.retire(&servers);
        registry.listeners.retire(&listeners);
        self.shared.era.fetch_add(1, Relaxed);
        let numbers = Numbers::of(registry);
        if let Some((_, sheet)) = self.marks.back() {
            self.taken_over.add(sheet, &numbers);
        }
        self.requests.renumber(|endpoint| numbers.endpoint(endpoint));
        self.marks.iter_mut().for_each(|(_, sheet)| sheet.renumber(&numbers));
    }

    /// The figures of a span up to now, from snapshots with their cells; `started` is when counting began.
    pub fn report(&self, snapshots: &[Snapshot], since: Since, started: Instant, now: Instant) -> Report {
        let mut sheet = self.sheet(snapshots);
        let recent = Some(&self.marks).filter(|marks| since == Since::Recent && !marks.is_empty());
        let clusters = match recent {
            Some(marks) => recent_clusters(marks, &sheet, now),
            None => sheet.samples.iter().map(|(place, picked)| (*place, picked.since_the_start())).collect(),
        };
        let from = match recent.and_then(VecDeque::front) {
            Some((at, earlier)) => {
                sheet.subtract(earlier);
                *at
            }
            None => started,
        };
        Report {
            shared: self.shared.clone(),
            sheet,
            clusters,
            taken_over: if recent.is_some() { TakenOver::default() } else { self.taken_over.clone() },
            span: now.saturating_duration_since(from),
            requests_untold: self.requests.untold,
        }
    }

    fn sheet(&self, snapshots: &[Snapshot]) -> Sheet {
        let numbers = Numbers::of(&self.shared.registry);
        let mut sheet = Sheet { requests: self.requests.over().clone(), ..Sheet::default() };
        for snapshot in snapshots {
            sheet.counts.add(&snapshot.counts);
            for (cell, figures) in &snapshot.cells {
                sheet.cells.entry(numbers.cell(*cell)).or_default().merge(figures);
            }
            for (place, picked) in &snapshot.samples {
                sheet.samples.entry(numbers.cell(at(*place))).or_default().add(picked);
            }
        }
        sheet
    }
}

/// The cell of a place without digest, endpoint and user.
fn at(place: Labels) -> Cell {
    Cell::new(OTHER, OTHER, Labels { user: OTHER, ..place })
}

/// What is known of sessions that stand for others, from the oldest mark on.
fn recent_clusters(marks: &VecDeque<(Instant, Sheet)>, sheet: &Sheet, now: Instant) -> Map<Cell, Clusters> {
    let points: Vec<(Instant, &Sheet)> =
        marks.iter().map(|(at, sheet)| (*at, sheet)).chain([(now, sheet)]).collect();
    let of = |place: &Cell| {
        let known = |sheet: &Sheet| sheet.samples.get(place).copied().unwrap_or_default();
        let stretch = |pair: &[(Instant, &Sheet)]| {
            // A thread that did not answer in time is missing in one of them.
            let squares =
                known(pair[1].1).squares_by_stretch.saturating_sub(known(pair[0].1).squares_by_stretch);
            (pair[1].0.saturating_duration_since(pair[0].0).as_secs_f64(), squares as f64)
        };
        let stretches: Vec<(f64, f64)> = points.windows(2).map(stretch).collect();
        let commands = known(sheet).commands.saturating_sub(known(points[0].1).commands);
        Clusters { commands: commands as f64, squares: sampling::over(&stretches) }
    };
    sheet.samples.keys().map(|place| (*place, of(place))).collect()
}

impl SampleSums {
    pub(crate) fn add(&mut self, other: &Self) {
        self.commands += other.commands;
        self.squares += other.squares;
        self.squares_by_stretch += other.squares_by_stretch;
    }

    fn since_the_start(&self) -> Clusters {
        Clusters { commands: self.commands as f64, squares: self.squares as f64 }
    }
}

impl Sheet {
    /// Figures of the span since `earlier`. Counts of sessions and of what is left out stay those since the
    /// start.
    fn subtract(&mut self, earlier: &Self) {
        for (cell, figures) in &mut self.cells {
            if let Some(before) = earlier.cells.get(cell) {
                figures.subtract(before);
            }
        }
        for (endpoint, figures) in &mut self.requests {
            if let Some(before) = earlier.requests.get(endpoint) {
                figures.subtract(before);
            }
        }
        self.cells.retain(|_, figures| figures.count > 0);
        self.requests.retain(|_, figures| figures.count > 0);
    }

    /// Commands of all names without a place.
    fn others(&self, by: Dimension) -> u64 {
        let others = self.cells.iter().filter(|(cell, _)| by.of(**cell) == OTHER);
        others.map(|(cell, figures)| figures.count * u64::from(cell.one_in().max(1))).sum()
    }

    /// What was counted for names that have given up their places counts for all others.
    fn renumber(&mut self, numbers: &Numbers) {
        for (cell, figures) in std::mem::take(&mut self.cells) {
            self.cells.entry(numbers.cell(cell)).or_default().merge(&figures);
        }
        for (endpoint, figures) in std::mem::take(&mut self.requests) {
            self.requests.entry(numbers.endpoint(endpoint)).or_default().merge(&figures);
        }
        for (place, picked) in std::mem::take(&mut self.samples) {
            self.samples.entry(numbers.cell(place)).or_default().add(&picked);
        }
    }
}

impl TakenOver {
    /// Adds what `sheet` has of names that have no place any more.
    fn add(&mut self, sheet: &Sheet, numbers: &Numbers) {
        for (cell, figures) in &sheet.cells {
            let now = numbers.cell(*cell);
            if now.endpoint() != cell.endpoint() {
                self.endpoints.merge_times(figures, cell.one_in());
            }
            if now.server() != cell.server() {
                self.servers.merge_times(figures, cell.one_in());
            }
        }
        for (endpoint, figures) in &sheet.requests {
            if numbers.endpoint(*endpoint) != *endpoint {
                self.requests.merge(figures);
            }
        }
    }

    /// Where all others have less than before, a thread began anew and its counters with it: what was taken
    /// over of it was lost, and left out it would be missing from what comes.
    fn forget_what_is_gone(&mut self, before: &Sheet, sheet: &Sheet) {
        for (by, taken_over) in
            [(Dimension::Endpoint, &mut self.endpoints), (Dimension::Server, &mut self.servers)]
        {
            if sheet.others(by) < before.others(by) {
                *taken_over = Figures::default();
            }
        }
    }

    fn of(&self, by: Dimension) -> Figures {
        match by {
            Dimension::Endpoint => self.endpoints.clone(),
            Dimension::Server => self.servers.clone(),
            // Of these there are no counters.
            Dimension::Digest | Dimension::User | Dimension::Listener => Figures::default(),
        }
    }
}

/// Figures of a group, and what of them was measured at which place.
#[derive(Debug, Default)]
struct Sum {
    figures: Figures,
    measured: Map<Cell, u64>,
}

impl Sum {
    fn add(&mut self, cell: Cell, figures: &Figures) {
        self.figures.merge_times(figures, cell.one_in());
        *self.measured.entry(at(cell.labels())).or_default() += figures.count;
    }

    fn sample(&self, clusters: &Map<Cell, Clusters>) -> Sample {
        let mut sample = Sample { one_in: 1, ..Sample::default() };
        for (place, measured) in &self.measured {
            let known = clusters.get(place).copied().unwrap_or_default();
            let one_in = place.one_in();
            let variance = sampling::variance(one_in, *measured as f64, &known);
            sample.add(&Sample { measured: *measured, one_in, variance });
        }
        sample
    }
}

impl Report {
    /// Figures by a dimension, in no order. Their sum is the same for every dimension.
    pub fn rows(&self, by: Dimension, filter: &Filter) -> Vec<Row> {
        self.rows_without(by, filter, &Figures::default())
    }

    /// Figures of endpoints or servers as counters have them: `(other)` has only what came while it was
    /// other, so that it does not jump by the whole past of a name that gives up its place.
    pub fn counters(&self, by: Dimension) -> Vec<Row> {
        self.rows_without(by, &Filter::default(), &self.taken_over.of(by))
    }

    fn rows_without(&self, by: Dimension, filter: &Filter, taken_over: &Figures) -> Vec<Row> {
        let wanted = self.matcher(filter);
        let mut sums: Map<u32, Sum> = Map::default();
        for (cell, figures) in self.sheet.cells.iter().filter(|(cell, _)| wanted(**cell)) {
            sums.entry(by.of(*cell)).or_default().add(*cell, figures);
        }
        if let Some(others) = sums.get_mut(&OTHER) {
            others.figures.subtract(taken_over);
        }
        let named = |(number, sum): (u32, Sum)| (number, (sum.sample(&self.clusters), sum.figures));
        let rows = self.named(by, sums.into_iter().map(named));
        rows.map(|(entry, (sample, figures))| {
            let id = match by {
                Dimension::Digest if entry.hash != 0 => format!("{:016x}", entry.hash),
                _ => entry.name.clone(),
            };
            Row { id, name: entry.name, example: entry.example, figures, sample }
        })
        .collect()
    }

    /// What was measured by a dimension, in no order: sessions that stand for others count once.
    pub fn measured(&self, by: Dimension) -> Vec<(String, Figures)> {
        let mut sums: Map<u32, Figures> = Map::default();
        for (cell, figures) in &self.sheet.cells {
            sums.entry(by.of(*cell)).or_default().merge(figures);
        }
        self.named(by, sums.into_iter()).map(|(entry, figures)| (entry.name, figures)).collect()
    }

    fn named<T>(
        &self,
        by: Dimension,
        of: impl Iterator<Item = (u32, T)>,
    ) -> impl Iterator<Item = (Entry, T)> {
        let entries = self.names(by).entries();
        let other = Entry { name: "(other)".to_owned(), ..Entry::default() };
        of.map(move |(number, value)| (entries.get(&number).unwrap_or(&other).clone(), value))
    }

    /// The sum of everything that matches, and what of it was measured.
    pub fn total(&self, filter: &Filter) -> (Figures, Sample) {
        let wanted = self.matcher(filter);
        let mut total = Sum::default();
        self.sheet.cells.iter().filter(|(cell, _)| wanted(**cell)).for_each(|(cell, f)| total.add(*cell, f));
        let sample = total.sample(&self.clusters);
        (total.figures, sample)
    }

    /// Finished requests by endpoint, in no order.
    pub fn requests(&self) -> Vec<(String, RequestFigures)> {
        let requests = self.sheet.requests.iter().map(|(number, figures)| (*number, figures.clone()));
        self.named(Dimension::Endpoint, requests).map(|(entry, figures)| (entry.name, figures)).collect()
    }

    /// The same as counters: see [`Report::counters`].
    pub fn request_counters(&self) -> Vec<(String, RequestFigures)> {
        let requests = self.sheet.requests.iter().map(|(number, figures)| {
            let mut figures = figures.clone();
            if *number == OTHER {
                figures.subtract(&self.taken_over.requests);
            }
            (*number, figures)
        });
        self.named(Dimension::Endpoint, requests).map(|(entry, figures)| (entry.name, figures)).collect()
    }

    /// What happened beside counted commands, since the start.
    pub fn counts(&self) -> Counts {
        self.sheet.counts
    }

    /// How full the books of digests and endpoints are.
    pub fn room(&self, of: Dimension) -> Room {
        let names = self.names(of);
        Room { used: names.used(), limit: names.limit() }
    }

    fn names(&self, of: Dimension) -> &Names {
        let registry = &self.shared.registry;
        match of {
            Dimension::Digest => &registry.digests,
            Dimension::Endpoint => &registry.endpoints,
            Dimension::User => &registry.users,
            Dimension::Listener => &registry.listeners,
            Dimension::Server => &registry.servers,
        }
    }

    fn matcher(&self, filter: &Filter) -> impl Fn(Cell) -> bool + use<> {
        let number = |by: Dimension, wanted: &Option<String>| {
            wanted.as_ref().map(|wanted| {
                let entries = self.names(by).entries();
                let is = |e: &Entry| match by {
                    Dimension::Digest => format!("{:016x}", e.hash) == *wanted,
                    _ => e.name == *wanted,
                };
                match entries.iter().find(|(_, entry)| is(entry)) {
                    Some((number, _)) => *number,
                    None if wanted == "(other)" => OTHER,
                    None => u32::MAX,
                }
            })
        };
        let digest = number(Dimension::Digest, &filter.digest);
        let endpoint = number(Dimension::Endpoint, &filter.endpoint);
        let server = number(Dimension::Server, &filter.server);
        move |cell| {
            digest.is_none_or(|n| n == cell.digest())
                && endpoint.is_none_or(|n| n == cell.endpoint())
                && server.is_none_or(|n| n == cell.server())
        }
    }
}

impl Dimension {
    fn of(self, cell: Cell) -> u32 {
        match self {
            Self::Digest => cell.digest(),
            Self::Endpoint => cell.endpoint(),
            Self::User => cell.user(),
            Self::Listener => cell.listener(),
            Self::Server => cell.server(),
        }
    }
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.sessions += other.sessions;
        self.opaque_tls += other.opaque_tls;
        self.opaque_compression += other.opaque_compression;
        self.opaque_old += other.opaque_old;
        self.opaque_earlier += other.opaque_earlier;
        self.lost += other.lost;
        self.unanswered += other.unanswered;
        self.long += other.long;
        self.unknown_prepared += other.unknown_prepared;
        self.without_cell += other.without_cell;
        self.without_request += other.without_request;
    }
}
