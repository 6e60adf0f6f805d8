//! A client: one user of the database with connections of its own and at most one transaction at a time. There may be more
//! of them than transactions at a time: then most are idle, and they take turns.

use rand::SeedableRng;
use rand::rngs::SmallRng;

/// One client.
#[derive(Debug)]
pub(super) struct Client {
    /// From 0 over all threads.
    pub(super) number: u32,
    pub(super) rng: SmallRng,
    pub(super) slots: Vec<i64>,
    pub(super) last_insert_id: u64,
    pub(super) task: Option<Task>,
    /// Since when it has been free.
    pub(super) free_since: u64,
    /// It stands in the queue of those that wait for something to do.
    pub(super) queued: bool,
}

/// A transaction under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    pub(super) transaction: usize,
    /// The step that comes next.
    pub(super) step: usize,
    /// When it should have begun.
    pub(super) due: u64,
    /// When it did.
    pub(super) began: u64,
    /// The statement that is out, and since when.
    pub(super) statement: usize,
    pub(super) sent: u64,
    /// By how much the generator itself has delayed it, at most.
    pub(super) excuse: u64,
    /// What the generator itself has added to it so far: it began late, and answers were read late. `None` where the latter
    /// is not known.
    pub(super) own: Option<u64>,
    /// It has failed and is being rolled back.
    pub(super) failed: bool,
}

impl Client {
    pub(super) fn new(number: u32, slots: usize) -> Self {
        Self {
            number,
            rng: SmallRng::seed_from_u64(u64::from(number)),
            slots: vec![0; slots],
            last_insert_id: 0,
            task: None,
            free_since: 0,
            queued: false,
        }
    }

    /// Draws from here on follow from the seed and a number alone: in a closed loop the client's, in an open one the
    /// arrival's, so that the n-th arrival asks the same whatever the server did before.
    pub(super) fn reseed(&mut self, seed: u64, number: u64) {
        self.rng = SmallRng::seed_from_u64(seed ^ number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }
}
