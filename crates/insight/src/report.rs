//! Report: the ledgers of all threads added up, named, and grouped by whatever is asked.

use crate::figures::Figures;
use crate::fold::Map;
use crate::ledger::{Cell, Counts, Shared, Snapshot};
use crate::registry::{Entry, Names, OTHER};
use crate::request::{RequestFigures, Requests};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::Arc;
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
    /// What sent them.
    Endpoint,
    /// As whom.
    User,
    /// Where they came in.
    Listener,
    /// Who answered.
    Server,
}

/// Which span of time is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Since {
    /// The last ten to fifteen seconds, or since the start if that is less.
    #[default]
    Recent,
    /// All of it.
    Start,
}

/// Leaves out what does not match; names are matched exactly, digests by their number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// This digest only.
    pub digest: Option<String>,
    /// This endpoint only.
    pub endpoint: Option<String>,
    /// This server only.
    pub server: Option<String>,
}

/// Everything counted in a span of time.
#[derive(Clone, Debug, Default)]
struct Sheet {
    cells: Map<Cell, Figures>,
    counts: Counts,
    requests: Map<u32, RequestFigures>,
}

/// Adds up what the threads hand over; one for a router, owned by whoever asks the threads.
#[derive(Debug)]
pub struct Collector {
    shared: Arc<Shared>,
    requests: Requests,
    marks: VecDeque<(Instant, Sheet)>,
}

/// Figures of a span of time, by any dimension.
#[derive(Debug)]
pub struct Report {
    shared: Arc<Shared>,
    sheet: Sheet,
    /// How long the span is.
    pub span: Duration,
    /// Requests under way now.
    pub requests_under_way: usize,
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
    /// The figures.
    pub figures: Figures,
}

/// How many names there are of a kind with a limit, and whether any had to be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Names known.
    pub used: usize,
    /// Names that there is room for.
    pub limit: usize,
}

impl Collector {
    /// Nothing collected yet, at `now`.
    pub fn new(shared: Arc<Shared>, now: Instant) -> Self {
        let config = shared.config();
        let requests = Requests::new(config.requests * REQUESTS_PER_THREAD, config.request_quiet);
        Self { shared, requests, marks: VecDeque::from([(now, Sheet::default())]) }
    }

    /// Takes over the requests of snapshots; do this every second or so.
    pub fn absorb(&mut self, snapshots: &mut [Snapshot], now: Instant) {
        for snapshot in snapshots {
            self.requests.absorb(std::mem::take(&mut snapshot.requests));
        }
        self.requests.close(now);
    }

    /// Whether it is time to [`Collector::mark`] again.
    pub fn wants_mark(&self, now: Instant) -> bool {
        self.marks.back().is_none_or(|(at, _)| now.saturating_duration_since(*at) >= MARK)
    }

    /// Remembers the state now, of snapshots with their cells.
    pub fn mark(&mut self, snapshots: &[Snapshot], now: Instant) {
        let sheet = self.sheet(snapshots);
        self.marks.push_back((now, sheet));
        // Before the first marks are full the oldest is the start.
        if self.marks.len() > MARKS {
            self.marks.pop_front();
        }
    }

    /// The figures of a span up to now, from snapshots with their cells; `started` is when counting began.
    pub fn report(&self, snapshots: &[Snapshot], since: Since, started: Instant, now: Instant) -> Report {
        let mut sheet = self.sheet(snapshots);
        let from = match (since, self.marks.front()) {
            (Since::Recent, Some((at, earlier))) => {
                sheet.subtract(earlier);
                *at
            }
            _ => started,
        };
        Report {
            shared: self.shared.clone(),
            sheet,
            span: now.saturating_duration_since(from),
            requests_under_way: self.requests.under_way(),
            requests_untold: self.requests.untold,
        }
    }

    fn sheet(&self, snapshots: &[Snapshot]) -> Sheet {
        let mut sheet = Sheet { requests: self.requests.over().clone(), ..Sheet::default() };
        for snapshot in snapshots {
            sheet.counts.add(&snapshot.counts);
            for (cell, figures) in &snapshot.cells {
                sheet.cells.entry(*cell).or_default().merge(figures);
            }
        }
        sheet
    }
}

impl Sheet {
    /// Figures of the span since `earlier`. Counts of sessions and of what is left out stay those since the start.
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
}

impl Report {
    /// Figures by a dimension, in no order. Their sum is the same for every dimension.
    pub fn rows(&self, by: Dimension, filter: &Filter) -> Vec<Row> {
        let wanted = self.matcher(filter);
        let mut sums: Map<u32, Figures> = Map::default();
        for (cell, figures) in self.sheet.cells.iter().filter(|(cell, _)| wanted(**cell)) {
            sums.entry(by.of(*cell)).or_default().merge(figures);
        }
        let entries = self.names(by).entries();
        let row = |(number, figures): (u32, Figures)| match entries.get((number as usize).wrapping_sub(1)) {
            Some(Entry { hash, name, example }) => {
                let id = if by == Dimension::Digest { format!("{hash:016x}") } else { name.clone() };
                Row { name: name.clone(), id, example: example.clone(), figures }
            }
            None => Row { name: "(other)".to_owned(), id: "(other)".to_owned(), example: None, figures },
        };
        sums.into_iter().map(row).collect()
    }

    /// The sum of everything that matches.
    pub fn total(&self, filter: &Filter) -> Figures {
        let wanted = self.matcher(filter);
        let mut total = Figures::default();
        self.sheet.cells.iter().filter(|(cell, _)| wanted(**cell)).for_each(|(_, f)| total.merge(f));
        total
    }

    /// Finished requests by endpoint, in no order.
    pub fn requests(&self) -> Vec<(String, RequestFigures)> {
        let entries = self.shared.registry.endpoints.entries();
        let name = |number: u32| match entries.get((number as usize).wrapping_sub(1)) {
            Some(entry) => entry.name.clone(),
            None => "(other)".to_owned(),
        };
        self.sheet.requests.iter().map(|(number, figures)| (name(*number), figures.clone())).collect()
    }

    /// What happened beside counted commands, since the start.
    pub fn counts(&self) -> Counts {
        self.sheet.counts
    }

    /// How full the books of digests and endpoints are.
    pub fn room(&self, of: Dimension) -> Room {
        let names = self.names(of);
        Room { used: names.entries().len(), limit: names.limit() }
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
                match entries.iter().position(is) {
                    Some(at) => at as u32 + 1,
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
