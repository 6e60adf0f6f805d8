//! Registry: the numbers that digests, endpoints, users, servers and listeners have while the router runs.
//!
//! Shared by all threads and asked only about what a thread has not met before; what each is asked about often it keeps
//! itself. Each kind has a limit. What comes beyond it gets [`OTHER`], the number under which everything untold is counted;
//! from then on the kind is closed, and asking takes no lock, so that a flood of new names costs no more than old ones.

use crate::fold::Map;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The number of everything beyond a limit.
pub const OTHER: u32 = 0;

/// All names.
#[derive(Debug)]
pub struct Registry {
    /// Statements without their literals.
    pub digests: Names,
    /// Endpoints: tags, or what stands in for them.
    pub endpoints: Names,
    /// Database users.
    pub users: Names,
    /// Servers.
    pub servers: Names,
    /// Listeners.
    pub listeners: Names,
}

/// Users told apart.
const USERS: usize = 200;
/// Servers and listeners told apart: far beyond any fleet, so that churn of names cannot grow the book for ever.
const PLACES: usize = 500;

/// The names of one kind.
#[derive(Debug)]
pub struct Names {
    limit: usize,
    open: Mutex<Open>,
    /// The numbers, once the limit is reached.
    closed: OnceLock<Map<u64, u32>>,
}

#[derive(Debug, Default)]
struct Open {
    numbers: Map<u64, u32>,
    entries: Vec<Entry>,
}

/// One name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// What identifies it, the same in every process.
    pub hash: u64,
    /// The name.
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
            servers: Names::new(PLACES),
            listeners: Names::new(PLACES),
        }
    }
}

impl Names {
    fn new(limit: usize) -> Self {
        Self { limit, open: Mutex::default(), closed: OnceLock::new() }
    }

    /// The number of a name, given one if there is room; [`OTHER`] if not. `entry` is asked only for a new name.
    pub fn number(&self, hash: u64, entry: impl FnOnce() -> Entry) -> u32 {
        if let Some(closed) = self.closed.get() {
            return closed.get(&hash).copied().unwrap_or(OTHER);
        }
        let mut open = self.open();
        if let Some(number) = open.numbers.get(&hash) {
            return *number;
        }
        if open.entries.len() >= self.limit {
            // Full, and somebody wants more: from here on nobody needs the lock.
            let _ = self.closed.set(open.numbers.clone());
            return OTHER;
        }
        open.entries.push(Entry { hash, ..entry() });
        let number = open.entries.len() as u32;
        open.numbers.insert(hash, number);
        number
    }

    /// Every name; the one with number `n` at place `n - 1`.
    pub fn entries(&self) -> Vec<Entry> {
        self.open().entries.clone()
    }

    /// How many names there may be.
    pub fn limit(&self) -> usize {
        self.limit
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        // A panic elsewhere leaves the two in step but for one entry without a number, which nobody can reach.
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
        let told: Vec<String> = names.entries().into_iter().map(|entry| entry.name).collect();
        assert_eq!(told, ["a", "b"]);
    }
}
