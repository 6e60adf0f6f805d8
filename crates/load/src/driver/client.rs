//! A client: one user of the database with connections of its own and at most one transaction at a time.

use rand::SeedableRng;
use rand::rngs::SmallRng;

#[derive(Debug)]
pub(super) struct Client {
    /// From 0 over all threads.
    pub(super) number: u32,
    pub(super) rng: SmallRng,
    pub(super) slots: Vec<i64>,
    pub(super) last_insert_id: u64,
    pub(super) task: Option<Task>,
}

/// A transaction under way. Moments are in ns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    pub(super) transaction: usize,
    /// The step that comes next.
    pub(super) step: usize,
    /// When it should have begun.
    pub(super) due_ns: u64,
    /// When it did.
    pub(super) began_ns: u64,
    /// The statement that is out, and since when.
    pub(super) statement: usize,
    pub(super) sent_ns: u64,
    /// By how much the generator itself has delayed it, at most.
    pub(super) delay_ns: u64,
    /// What the generator itself has added to it so far: it began late, and answers were read late. `None`
    /// where the latter is not known.
    pub(super) own_ns: Option<u64>,
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
        }
    }

    /// Draws from here on follow from the seed and a number alone: in a closed loop the client's, in an open
    /// one the arrival's, so that the n-th arrival asks the same whatever the server did before.
    pub(super) fn reseed(&mut self, seed: u64, number: u64) {
        self.rng = SmallRng::seed_from_u64(seed ^ number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }
}
