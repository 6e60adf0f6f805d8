//! Registry: the numbers that digests, endpoints, users, servers and listeners have while the router runs.
//!
//! Shared by all threads and asked only about what a thread has not met before; what each is asked about
//! often it keeps itself. Each kind has a limit. What comes beyond it gets [`OTHER`], the number under which
//! everything untold is counted; from then on the kind is closed, and asking takes no lock, so that a flood
//! of new names costs no more than old ones.
//!
//! Places that were not used for a while are given up when they run short ([`Names::retire`]; which ones is
//! `aging`'s to decide), and the kind is open again. A number is never given twice, so that whoever still
//! holds a retired one cannot count for somebody else: what comes under it counts as [`OTHER`].

use arc_swap::ArcSwapOption;
use sql::fold::Map;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The number of everything beyond a limit.
pub const OTHER: u32 = 0;

#[derive(Debug)]
pub struct Registry {
    /// Statements without their literals.
    pub digests: Names,
    /// Endpoints: tags, or what stands in for them.
    pub endpoints: Names,
    pub users: Names,
    pub servers: Names,
    pub listeners: Names,
}

/// Users told apart.
const USERS: usize = 200;
/// Servers and listeners told apart: far beyond any fleet, so that churn of names cannot grow the book for
/// ever.
const PLACES: usize = 500;
/// Bits of their numbers, which are never given twice: a new server every ten seconds has one for a year.
pub(crate) const SERVER_BITS: u32 = 22;
pub(crate) const LISTENER_BITS: u32 = 10;

/// The names of one kind.
#[derive(Debug)]
pub struct Names {
    limit: usize,
    /// The last number that there is.
    highest: u32,
    open: Mutex<Open>,
    /// The numbers, while the limit is reached.
    closed: ArcSwapOption<Map<u64, u32>>,
    /// At least half of the places are taken.
    crowded: AtomicBool,
}

#[derive(Debug, Default)]
struct Open {
    numbers: Map<u64, u32>,
    entries: Map<u32, Entry>,
    /// The number that was given last.
    last: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// What identifies it, the same in every process.
    pub hash: u64,
    pub name: String,
    /// A statement as it came, where the operator asked for examples.
    pub example: Option<String>,
}

impl Registry {
    /// An empty book with these limits.
    pub fn new(digests: usize, endpoints: usize) -> Self {
        Self {
            digests: Names::new(digests),
            endpoints: Names::new(endpoints),
            users: Names::new(USERS),
            servers: Names::up_to(PLACES, (1 << SERVER_BITS) - 1),
            listeners: Names::up_to(PLACES, (1 << LISTENER_BITS) - 1),
        }
    }
}

impl Names {
    fn new(limit: usize) -> Self {
        Self::up_to(limit, u32::MAX)
    }

    fn up_to(limit: usize, highest: u32) -> Self {
        Self {
            limit,
            highest,
            open: Mutex::default(),
            closed: ArcSwapOption::empty(),
            crowded: AtomicBool::new(false),
        }
    }

    /// The number of a name, given one if there is room; [`OTHER`] if not. `entry` is asked only for a new
    /// name.
    pub fn number(&self, hash: u64, entry: impl FnOnce() -> Entry) -> u32 {
        if let Some(closed) = self.closed.load().as_ref() {
            return closed.get(&hash).copied().unwrap_or(OTHER);
        }
        let mut open = self.open();
        if let Some(number) = open.numbers.get(&hash) {
            return *number;
        }
        if open.entries.len() >= self.limit || open.last >= self.highest {
            // Full, and somebody wants more: from here on nobody needs the lock.
            self.closed.store(Some(Arc::new(open.numbers.clone())));
            return OTHER;
        }
        open.last += 1;
        let number = open.last;
        open.entries.insert(number, Entry { hash, ..entry() });
        open.numbers.insert(hash, number);
        self.crowded.store(2 * open.entries.len() >= self.limit, Relaxed);
        number
    }

    /// Whether half of the places are taken: then a name has to come twice before it is worth one.
    pub fn is_crowded(&self) -> bool {
        self.crowded.load(Relaxed)
    }

    /// Takes the places of these numbers away; they are never given again.
    pub(crate) fn retire(&self, numbers: &[u32]) {
        let mut open = self.open();
        for number in numbers {
            if let Some(entry) = open.entries.remove(number) {
                open.numbers.remove(&entry.hash);
            }
        }
        self.crowded.store(2 * open.entries.len() >= self.limit, Relaxed);
        self.closed.store(None);
    }

    /// Every name, by its number.
    /// The name of each number in use.
    pub fn names(&self) -> Map<u32, String> {
        self.open().entries.iter().map(|(number, entry)| (*number, entry.name.clone())).collect()
    }

    pub(crate) fn entries(&self) -> Map<u32, Entry> {
        self.open().entries.clone()
    }

    /// Numbers in use, by the hash of their name.
    pub(crate) fn numbers(&self) -> Map<u64, u32> {
        self.open().numbers.clone()
    }

    /// How many names there are.
    pub fn used(&self) -> usize {
        self.open().entries.len()
    }

    /// How many names there may be.
    pub fn limit(&self) -> usize {
        self.limit
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        // A panic elsewhere leaves the two in step but for one entry without a number, which nobody can
        // reach.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str) -> Entry {
        Entry { name: name.to_owned(), ..Entry::default() }
    }

    #[test]
    fn names_keep_their_number_and_those_beyond_the_limit_share_one() {
        let names = Names::new(2);
        assert_eq!((names.number(7, || entry("a")), names.number(9, || entry("b"))), (1, 2));
        assert_eq!(names.number(7, || panic!("known already")), 1);
        assert_eq!(names.number(11, || panic!("no room")), OTHER);
        assert_eq!((names.number(9, || panic!("known")), names.number(11, || panic!("no room"))), (2, OTHER));
        let mut told: Vec<String> = names.entries().into_values().map(|entry| entry.name).collect();
        told.sort();
        assert_eq!(told, ["a", "b"]);
    }

    #[test]
    fn there_is_no_number_beyond_the_highest() {
        let names = Names::up_to(2, 2);
        assert_eq!((names.number(7, || entry("a")), names.number(9, || entry("b"))), (1, 2));
        names.retire(&[1]);
        assert_eq!(names.number(11, || panic!("no number")), OTHER);
    }

    #[test]
    fn a_place_that_is_given_up_is_free_again_and_its_number_never() {
        let names = Names::new(2);
        names.number(7, || entry("a"));
        names.number(9, || entry("b"));
        assert_eq!(names.number(11, || panic!("no room")), OTHER);
        names.retire(&[1]);
        assert_eq!(names.number(11, || entry("c")), 3);
        assert_eq!((names.used(), names.number(7, || panic!("no room"))), (2, OTHER));
    }
}
