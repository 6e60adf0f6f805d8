//! An estimate of the miss-ratio curve from a trace of pages: what a buffer pool of another size would miss.
//!
//! Two things make it cheap. **Spatial sampling** (SHARDS, Waldspurger et al., FAST 2015): a page belongs to
//! the sample when the hash of its number says it does. All its requests are in the sample or none, and a
//! pool is simulated by one of that share of its pages. **A small simulation** of the policy itself
//! (Waldspurger et al., ATC 2017), because InnoDB's is no plain LRU: a page that is read enters at the head
//! of the *old* part of the list (3/8 of it); it moves to the head of the young part when it is asked for
//! again, at least `old_blocks_time` after it was first asked for; a page in the first quarter of the young
//! part stays where it is.
//!
//! What a sample holds by chance too much or too little of is put right as in SHARDS-adj: the difference to
//! the number of requests that a fair sample has is counted as hits.
//!
//! **A trace of reads.** A server does not tell which pages are asked for, but the kernel tells which are
//! read: what missed. The reads that a larger pool would save are those that hit a list behind the pool, as
//! long as the pool is larger ([`of_reads`]): a page enters it when it leaves the pool, and leaves it when it
//! is read. When it leaves the pool is not seen. A page that is asked for once stays there for a number of
//! reads of others (its *stay*), and none can be read again before: the stay is taken from the shortest
//! distances between two reads of a page. Pages that are asked for again stay longer, and the estimate errs
//! towards too little saved. Of a smaller pool reads tell nothing.

use crate::quantile;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, VecDeque};

/// Share of the list that is old, as InnoDB's default `innodb_old_blocks_pct = 37`.
const OLD: f64 = 3.0 / 8.0;
/// A page this far at the front of the young part is not moved when it is asked for again.
const FRONT: f64 = 0.25;
/// A simulated pool has at least this number of pages, or its steps are too coarse.
pub const FEWEST_PAGES: usize = 64;
const MODULUS: u64 = 1 << 24;
const NONE: u32 = u32::MAX;

/// A request for a page, or a read of one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// When, ms from any moment on.
    pub at_ms: f64,
    /// Which.
    pub page: u64,
}

/// A pool size, and what it is estimated to miss.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Pages of the pool.
    pub pages: u64,
    /// Share of the requests.
    pub miss_ratio: f64,
}

/// Whether a page belongs to a sample of this share of all pages.
pub fn is_sampled(page: u64, share: f64) -> bool {
    mixed(page) % MODULUS < (share * MODULUS as f64) as u64
}

/// The finaliser of splitmix64: every bit of the number moves every bit of the hash.
fn mixed(page: u64) -> u64 {
    let mut hash = page.wrapping_add(0x9E37_79B9_7F4A_7C15);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    hash ^ (hash >> 31)
}

/// The share of pages to sample: the smallest pool still has [`FEWEST_PAGES`] pages, and at most `most`
/// requests are simulated.
pub fn share(smallest_pages: u64, requests: usize, most: usize) -> f64 {
    let for_pages = FEWEST_PAGES as f64 / smallest_pages.max(1) as f64;
    let for_time = most as f64 / requests.max(1) as f64;
    for_time.max(for_pages).min(1.0)
}

/// What pools of these sizes would miss of the requests, by a sample of this share of the pages. What is
/// before `warm` (a share of the trace) fills the pools and is not counted.
pub fn miss_ratios(
    trace: &[Request],
    pools: &[u64],
    share: f64,
    warm: f64,
    old_blocks_ms: f64,
) -> Vec<Estimate> {
    let sampled: Vec<Request> = trace.iter().copied().filter(|one| is_sampled(one.page, share)).collect();
    let begins = (trace.len() as f64 * warm) as usize;
    let from = trace.get(begins).map_or(f64::INFINITY, |one| one.at_ms);
    let fair = (trace.len() - begins.min(trace.len())) as f64 * share;
    let one = |pages: u64| {
        let mut pool = MidpointLru::new(((pages as f64 * share).round() as usize).max(1), old_blocks_ms);
        let mut misses = 0_usize;
        for request in &sampled {
            let hit = pool.request(*request);
            misses += usize::from(!hit && request.at_ms >= from);
        }
        let miss_ratio = if fair > 0.0 { (misses as f64 / fair).min(1.0) } else { 0.0 };
        Estimate { pages, miss_ratio }
    };
    pools.iter().map(|pages| one(*pages)).collect()
}

/// Of the distances between two reads of a page, this share is taken to be chance.
const SHORTEST: f64 = 0.02;

/// What pools larger than today's would miss, from the reads that today's makes and the miss ratio that it
/// has. Sizes up to today's are left out: reads tell nothing of them. The first half of the reads fills the
/// list.
pub fn of_reads(reads: &[Request], today_pages: u64, today: f64, pools: &[u64], share: f64) -> Vec<Estimate> {
    let begins = reads.len() / 2;
    let stay = (stay(reads) * share).round() as usize;
    let sampled = reads.iter().enumerate().filter(|(_, one)| is_sampled(one.page, share));
    let sampled: Vec<(usize, Request)> = sampled.map(|(at, one)| (at, *one)).collect();
    let one = |pages: u64| {
        let behind = (((pages - today_pages) as f64 * share).round() as usize).max(1);
        let (mut list, mut inside) = (MidpointLru::plain(behind), VecDeque::new());
        let (mut left, mut all) = (0_usize, 0_usize);
        for (at, request) in &sampled {
            let saved = list.remove(request.page);
            all += usize::from(*at >= begins);
            left += usize::from(!saved && *at >= begins);
            inside.push_back(*request);
            while inside.len() > stay {
                if let Some(gone) = inside.pop_front() {
                    list.request(gone);
                }
            }
        }
        Estimate { pages, miss_ratio: if all > 0 { today * left as f64 / all as f64 } else { today } }
    };
    pools.iter().filter(|pages| **pages > today_pages).map(|pages| one(*pages)).collect()
}

/// Reads of other pages while a page that is asked for once is in the pool.
fn stay(reads: &[Request]) -> f64 {
    let mut last: HashMap<u64, usize> = HashMap::new();
    let distances = reads.iter().enumerate().filter_map(|(at, one)| Some(at - last.insert(one.page, at)?));
    let distances = quantile::sorted(distances.map(|distance| distance as f64).collect());
    quantile::quantile(&distances, SHORTEST).unwrap_or(0.0)
}

/// InnoDB's list of pages. From its head: the young part, then the old one; what is evicted is at the end.
#[derive(Debug)]
pub struct MidpointLru {
    capacity: usize,
    old_share: f64,
    old_blocks_ms: f64,
    place: HashMap<u64, u32>,
    nodes: Vec<Node>,
    free: Vec<u32>,
    head: u32,
    tail: u32,
    /// The first of the old part.
    old_head: u32,
    old_count: usize,
    /// Pages made young so far: a page's own number at that time says how far from the head it is at most.
    clock: u64,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    page: u64,
    before: u32,
    after: u32,
    is_old: bool,
    first_ms: f64,
    clock: u64,
}

impl MidpointLru {
    /// An empty pool of `capacity` pages.
    pub fn new(capacity: usize, old_blocks_ms: f64) -> Self {
        Self::with(capacity, OLD, old_blocks_ms)
    }

    /// A plain LRU list.
    pub fn plain(capacity: usize) -> Self {
        Self::with(capacity, 0.0, 0.0)
    }

    fn with(capacity: usize, old_share: f64, old_blocks_ms: f64) -> Self {
        Self {
            capacity: capacity.max(1),
            old_share,
            old_blocks_ms,
            place: HashMap::with_capacity(capacity + 1),
            nodes: Vec::with_capacity(capacity + 1),
            free: Vec::new(),
            head: NONE,
            tail: NONE,
            old_head: NONE,
            old_count: 0,
            clock: 0,
        }
    }

    /// Pages that are in it.
    pub fn len(&self) -> usize {
        self.place.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.place.is_empty()
    }

    /// Asks for a page; whether it was there. It is afterwards.
    pub fn request(&mut self, request: Request) -> bool {
        let Some(at) = self.place.get(&request.page).copied() else {
            self.insert(request);
            return false;
        };
        let node = self.nodes[at as usize];
        let front = (FRONT * (self.place.len() - self.old_count) as f64) as u64;
        let moves = match node.is_old {
            true => request.at_ms - node.first_ms >= self.old_blocks_ms,
            // A plain list moves each page to its head.
            false => self.old_share == 0.0 || self.clock - node.clock > front,
        };
        if moves {
            self.unlink(at);
            self.link_young(at);
            self.balance();
        }
        true
    }

    /// Takes a page out; whether it was there.
    pub fn remove(&mut self, page: u64) -> bool {
        let Some(at) = self.place.remove(&page) else { return false };
        self.unlink(at);
        self.free.push(at);
        self.balance();
        true
    }

    fn insert(&mut self, request: Request) {
        if self.place.len() >= self.capacity {
            let last = self.tail;
            self.unlink(last);
            self.place.remove(&self.nodes[last as usize].page);
            self.free.push(last);
        }
        let node = Node {
            page: request.page,
            before: NONE,
            after: NONE,
            is_old: false,
            first_ms: request.at_ms,
            clock: self.clock,
        };
        let at = match self.free.pop() {
            Some(at) => {
                self.nodes[at as usize] = node;
                at
            }
            None => {
                self.nodes.push(node);
                u32::try_from(self.nodes.len() - 1).unwrap_or(NONE - 1)
            }
        };
        self.place.insert(request.page, at);
        if self.old_share > 0.0 && self.old_head != NONE {
            self.link_old(at);
        } else {
            self.link_young(at);
        }
        self.balance();
    }

    fn link_young(&mut self, at: u32) {
        self.clock += 1;
        let head = self.head;
        let node = &mut self.nodes[at as usize];
        (node.before, node.after, node.is_old, node.clock) = (NONE, head, false, self.clock);
        match head {
            NONE => self.tail = at,
            head => self.nodes[head as usize].before = at,
        }
        self.head = at;
    }

    /// Before the first of the old part.
    fn link_old(&mut self, at: u32) {
        let after = self.old_head;
        let before = self.nodes[after as usize].before;
        let node = &mut self.nodes[at as usize];
        (node.before, node.after, node.is_old) = (before, after, true);
        self.nodes[after as usize].before = at;
        match before {
            NONE => self.head = at,
            before => self.nodes[before as usize].after = at,
        }
        self.old_head = at;
        self.old_count += 1;
    }

    fn unlink(&mut self, at: u32) {
        let node = self.nodes[at as usize];
        match node.before {
            NONE => self.head = node.after,
            before => self.nodes[before as usize].after = node.after,
        }
        match node.after {
            NONE => self.tail = node.before,
            after => self.nodes[after as usize].before = node.before,
        }
        if node.is_old {
            self.old_count -= 1;
            if self.old_head == at {
                self.old_head = node.after;
            }
        }
    }

    /// Moves the border until the old part has its share.
    fn balance(&mut self) {
        if self.old_share == 0.0 {
            return;
        }
        let wanted = ((self.place.len() as f64 * self.old_share) as usize).max(1);
        while self.old_count < wanted {
            let last_young = match self.old_head {
                NONE => self.tail,
                first => self.nodes[first as usize].before,
            };
            if last_young == NONE {
                return;
            }
            self.nodes[last_young as usize].is_old = true;
            self.old_head = last_young;
            self.old_count += 1;
        }
        while self.old_count > wanted {
            let first = self.old_head;
            let after = self.nodes[first as usize].after;
            self.nodes[first as usize].is_old = false;
            self.nodes[first as usize].clock = self.clock.saturating_sub(self.place.len() as u64);
            self.old_head = after;
            self.old_count -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand::rngs::StdRng;
    use rand_distr::{Distribution, Zipf};

    fn trace(pages: impl IntoIterator<Item = u64>) -> Vec<Request> {
        pages.into_iter().enumerate().map(|(at, page)| Request { at_ms: at as f64, page }).collect()
    }

    /// An LRU list as in a textbook: a vector, the newest first.
    fn exact(trace: &[Request], capacity: usize, from: usize) -> f64 {
        let mut list: Vec<u64> = Vec::new();
        let mut misses = 0;
        for (at, request) in trace.iter().enumerate() {
            match list.iter().position(|page| *page == request.page) {
                Some(place) => drop(list.remove(place)),
                None => misses += usize::from(at >= from),
            }
            list.insert(0, request.page);
            list.truncate(capacity);
        }
        misses as f64 / (trace.len() - from).max(1) as f64
    }

    fn zipf(seed: u64, pages: f64, exponent: f64, count: usize) -> Vec<Request> {
        let mut rng = StdRng::seed_from_u64(seed);
        let law = Zipf::new(pages, exponent).unwrap();
        trace((0..count).map(|_| law.sample(&mut rng) as u64))
    }

    #[test]
    fn a_scan_does_not_push_out_what_is_used() {
        let mut pool = MidpointLru::new(100, 5.0);
        let ask = |pool: &mut MidpointLru, at_ms: f64, pages: std::ops::Range<u64>| {
            pages.filter(|page| pool.request(Request { at_ms, page: *page })).count()
        };
        // A full pool; then 40 pages that are asked for again and again.
        ask(&mut pool, 0.0, 5000..5100);
        ask(&mut pool, 1.0, 0..20);
        ask(&mut pool, 10.0, 0..20);
        ask(&mut pool, 11.0, 20..40);
        ask(&mut pool, 20.0, 20..40);
        ask(&mut pool, 30.0, 1000..3000);
        assert_eq!(ask(&mut pool, 40.0, 0..40), 40, "a plain LRU would have none left");
        assert!(pool.len() <= 100);
    }

    #[test]
    fn the_sample_tells_what_the_whole_trace_does() {
        // 20,000 pages, a pool of a tenth to a half; a tenth of the pages in the sample.
        let trace = zipf(7, 20_000.0, 0.8, 300_000);
        let pools = [2_000, 5_000, 10_000];
        let whole = miss_ratios(&trace, &pools, 1.0, 0.3, 0.0);
        let sampled = miss_ratios(&trace, &pools, 0.1, 0.3, 0.0);
        for (whole, sampled) in whole.iter().zip(&sampled) {
            assert!((whole.miss_ratio - sampled.miss_ratio).abs() < 0.03, "{whole:?} {sampled:?}");
        }
        assert!(whole[0].miss_ratio > whole[1].miss_ratio && whole[1].miss_ratio > whole[2].miss_ratio);
    }

    #[test]
    fn reads_tell_what_a_larger_pool_would_save() {
        let trace = zipf(3, 4_000.0, 0.6, 200_000);
        let mut pool = MidpointLru::plain(800);
        let reads: Vec<Request> = trace.iter().copied().filter(|one| !pool.request(*one)).collect();
        let today = reads.len() as f64 / trace.len() as f64;
        let estimates = of_reads(&reads, 800, today, &[400, 1_600, 2_400, 3_600], 1.0);
        assert_eq!(estimates.len(), 3, "nothing is told of a smaller pool");
        for one in estimates {
            let truth = exact(&trace, one.pages as usize, 100_000);
            assert!((one.miss_ratio - truth).abs() < 0.06, "{one:?} {truth}");
        }
    }

    #[test]
    fn the_share_keeps_small_pools_whole_enough() {
        assert_eq!(share(32, 1_000, 1_000_000), 1.0);
        assert!((share(64_000, 100_000_000, 10_000) - 0.001).abs() < 1e-9, "64 pages of the smallest pool");
        assert!((share(64_000, 1_000_000, 500_000) - 0.5).abs() < 1e-9);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn a_plain_list_is_an_exact_lru(pages in proptest::collection::vec(0_u64..60, 1..600), capacity in 1_usize..70) {
            let trace = trace(pages);
            let mut list = MidpointLru::plain(capacity);
            let misses = trace.iter().filter(|one| !list.request(**one)).count();
            prop_assert_eq!(misses as f64 / trace.len() as f64, exact(&trace, capacity, 0));
        }

        #[test]
        fn the_list_never_holds_more_than_it_may_and_keeps_the_last(
            pages in proptest::collection::vec(0_u64..200, 1..800),
            capacity in 2_usize..50,
        ) {
            let mut pool = MidpointLru::new(capacity, 3.0);
            for request in trace(pages) {
                pool.request(request);
                prop_assert!(pool.len() <= capacity);
                prop_assert!(pool.request(request), "it is there right afterwards");
            }
        }

        #[test]
        fn a_sampled_lru_is_close_to_the_exact_one(seed in 0_u64..1000, exponent in 0.3..1.1_f64) {
            let trace = zipf(seed, 3_000.0, exponent, 40_000);
            let sample: Vec<Request> = trace.iter().copied().filter(|one| is_sampled(one.page, 0.25)).collect();
            let mut list = MidpointLru::plain(250);
            let misses = sample.iter().enumerate().filter(|(_, one)| !list.request(**one)).count();
            let found = misses as f64 / (trace.len() as f64 * 0.25);
            prop_assert!((found - exact(&trace, 1_000, 0)).abs() < 0.08, "{}", found);
        }
    }
}
