//! An estimate of the miss-ratio curve from a trace of reads: what a larger buffer pool would miss.
//!
//! A server does not tell which pages are asked for, but the kernel tells which are read: what missed. The
//! reads that a larger pool would save are those that hit a list behind the pool, as long as the pool is
//! larger ([`of_reads`]): a page enters it when it leaves the pool, and leaves it when it is read. When it
//! leaves the pool is not seen. A page that is asked for once stays there for a number of reads of others
//! (its *stay*), and none can be read again before: the stay is taken from the shortest distances between two
//! reads of a page. Pages that are asked for again stay longer, and the estimate errs towards too little
//! saved. Of a smaller pool reads tell nothing.
//!
//! The list is a plain LRU one, and not InnoDB's with its old and young part: whether a page was asked for
//! again while it was in the pool, which is what moves it to the young part, is not in a trace of reads.
//!
//! **Spatial sampling** (SHARDS, Waldspurger et al., FAST 2015) makes it cheap: a page belongs to the sample
//! when the hash of its number says it does. All its reads are in the sample or none, and a list is simulated
//! by one of that share of its pages.

use crate::quantile;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, VecDeque};

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
        let (mut list, mut inside) = (Lru::new(behind), VecDeque::new());
        let (mut left, mut all) = (0_usize, 0_usize);
        for (at, request) in &sampled {
            let saved = list.remove(request.page);
            all += usize::from(*at >= begins);
            left += usize::from(!saved && *at >= begins);
            inside.push_back(*request);
            while inside.len() > stay {
                if let Some(gone) = inside.pop_front() {
                    list.request(gone.page);
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

/// Pages in the order in which they were last asked for; the one that nobody asked for longest goes first.
#[derive(Debug)]
pub struct Lru {
    capacity: usize,
    place: HashMap<u64, u32>,
    nodes: Vec<Node>,
    free: Vec<u32>,
    /// The newest, and the oldest.
    head: u32,
    tail: u32,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    page: u64,
    before: u32,
    after: u32,
}

impl Lru {
    /// An empty list of at most `capacity` pages.
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity: capacity.max(1),
            place: HashMap::with_capacity(capacity + 1),
            nodes: Vec::with_capacity(capacity + 1),
            free: Vec::new(),
            head: NONE,
            tail: NONE,
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
    pub fn request(&mut self, page: u64) -> bool {
        if let Some(at) = self.place.get(&page).copied() {
            self.unlink(at);
            self.link(at);
            return true;
        }
        if self.place.len() >= self.capacity {
            self.remove(self.nodes[self.tail as usize].page);
        }
        let node = Node { page, before: NONE, after: NONE };
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
        self.place.insert(page, at);
        self.link(at);
        false
    }

    /// Takes a page out; whether it was there.
    pub fn remove(&mut self, page: u64) -> bool {
        let Some(at) = self.place.remove(&page) else { return false };
        self.unlink(at);
        self.free.push(at);
        true
    }

    /// Puts it at the head.
    fn link(&mut self, at: u32) {
        let head = self.head;
        let node = &mut self.nodes[at as usize];
        (node.before, node.after) = (NONE, head);
        match head {
            NONE => self.tail = at,
            head => self.nodes[head as usize].before = at,
        }
        self.head = at;
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
    fn reads_tell_what_a_larger_pool_would_save() {
        let trace = zipf(3, 4_000.0, 0.6, 200_000);
        let mut pool = Lru::new(800);
        let reads: Vec<Request> = trace.iter().copied().filter(|one| !pool.request(one.page)).collect();
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
        fn the_list_is_an_exact_lru(pages in proptest::collection::vec(0_u64..60, 1..600), capacity in 1_usize..70) {
            let trace = trace(pages);
            let mut list = Lru::new(capacity);
            let misses = trace.iter().filter(|one| !list.request(one.page)).count();
            prop_assert_eq!(misses as f64 / trace.len() as f64, exact(&trace, capacity, 0));
        }

        #[test]
        fn the_list_never_holds_more_than_it_may_and_keeps_the_last(
            pages in proptest::collection::vec(0_u64..200, 1..800),
            capacity in 2_usize..50,
        ) {
            let mut pool = Lru::new(capacity);
            for request in trace(pages) {
                pool.request(request.page);
                prop_assert!(pool.len() <= capacity);
                prop_assert!(pool.request(request.page), "it is there right afterwards");
            }
        }

        #[test]
        fn a_sampled_lru_is_close_to_the_exact_one(seed in 0_u64..1000, exponent in 0.3..1.1_f64) {
            let trace = zipf(seed, 3_000.0, exponent, 40_000);
            let sample: Vec<Request> = trace.iter().copied().filter(|one| is_sampled(one.page, 0.25)).collect();
            let mut list = Lru::new(250);
            let misses = sample.iter().enumerate().filter(|(_, one)| !list.request(one.page)).count();
            let found = misses as f64 / (trace.len() as f64 * 0.25);
            prop_assert!((found - exact(&trace, 1_000, 0)).abs() < 0.08, "{}", found);
        }
    }
}
