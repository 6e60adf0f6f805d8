//! What to send: transactions with weights, each a list of steps over statements with drawn parameters.
//!
//! A workload is data. It is worked out once (tables unrolled, ranges prepared) and then shared by all
//! threads; a client walks through the steps of a transaction and draws as it goes, without allocating.
//! Numbers that several statements of a transaction share (a table, a key that is deleted and inserted again)
//! are drawn into **slots** first.

mod column;
pub mod draw;
pub mod file;
pub mod named;
mod statement;
pub mod sysbench;

pub use column::Column;
pub use draw::{Draw, Parameter};
pub use named::Named;
pub use statement::Statement;

use crate::error::LoadError;
use draw::Draws;
use rand::Rng;

/// Where a statement goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Any server that is close enough to the present.
    Reader,
    /// The primary.
    Writer,
}

/// How statements travel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// Prepared once a session, executed with binary parameters.
    #[default]
    Prepared,
    /// The parameters written into the text.
    Text,
}

/// What to send.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Its name, e.g. `oltp_read_write`.
    pub name: String,
    /// What it was made with beside its name: sysbench's options that differ from their defaults, or which
    /// text a file had. Runs of one name and other options are of other workloads.
    pub options: String,
    /// How its statements travel, unless one says otherwise.
    pub protocol: Protocol,
    /// Statements, named by their place in this list.
    pub statements: Vec<Statement>,
    /// At least one.
    pub transactions: Vec<Transaction>,
    /// Slots that the steps use: the highest number and one.
    pub slots: usize,
    /// Whether any statement changes data.
    pub writes: bool,
}

/// A workload's name, with its options where there are any.
pub fn in_words(name: &str, options: &str) -> String {
    if options.is_empty() { name.to_owned() } else { format!("{name} ({options})") }
}

/// A unit of work: begun, measured and counted as a whole.
#[derive(Clone, Debug)]
pub struct Transaction {
    pub name: String,
    /// How often it is chosen: its weight over the sum of all.
    pub weight: u32,
    /// What it does, in order.
    pub steps: Vec<Step>,
}

/// What a client does next.
#[derive(Clone, Debug)]
pub enum Step {
    /// Draws a number into a slot.
    Draw { slot: usize, draw: Draw },
    /// Sends a statement and waits for its answer.
    Send {
        /// Its place in [`Workload::statements`].
        statement: usize,
        /// The slot that holds which variant of it (table), counted from 1; `None` for the first.
        variant: Option<usize>,
    },
}

/// Why a workload makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkloadError {
    #[error("it has no transaction with a weight above 0")]
    NoWeight,
    #[error("its transaction {transaction} sends nothing")]
    SendsNothing { transaction: String },
    #[error("its transaction {transaction} names what is not there")]
    UnknownStep { transaction: String },
    #[error("its statement {statement}: '{sql}' has {marks} question marks and {parameters} parameters")]
    Parameters { statement: String, sql: String, marks: usize, parameters: usize },
    #[error("its statement {statement}: it has no text")]
    NoText { statement: String },
    #[error("'{sql}' gives no row, and values are to be drawn from it")]
    NoRow { sql: String },
    #[error("'{sql}' gives something else than whole numbers; write 'text from'")]
    NotNumbers { sql: String },
}

impl Workload {
    /// Its name, and its options where there are any.
    pub fn in_words(&self) -> String {
        in_words(&self.name, &self.options)
    }

    /// Refuses what could not run: no transaction, no weight, a step that names what is not there.
    ///
    /// # Errors
    /// [`LoadError::Workload`] says what.
    pub fn check(&self) -> Result<(), LoadError> {
        self.fault().map_or(Ok(()), |source| Err(LoadError::Workload { workload: self.name.clone(), source }))
    }

    fn fault(&self) -> Option<WorkloadError> {
        if self.transactions.iter().map(|t| u64::from(t.weight)).sum::<u64>() == 0 {
            return Some(WorkloadError::NoWeight);
        }
        for Transaction { name, steps, .. } in &self.transactions {
            if !steps.iter().any(|step| matches!(step, Step::Send { .. })) {
                return Some(WorkloadError::SendsNothing { transaction: name.clone() });
            }
            for step in steps {
                let (known, slot) = match step {
                    Step::Draw { slot, .. } => (true, *slot),
                    Step::Send { statement, variant } => {
                        (*statement < self.statements.len(), variant.unwrap_or(0))
                    }
                };
                if !known || slot >= self.slots.max(1) {
                    return Some(WorkloadError::UnknownStep { transaction: name.clone() });
                }
            }
        }
        self.statements.iter().find_map(Statement::fault)
    }

    /// Which lanes its statements need.
    pub fn lanes(&self) -> impl Iterator<Item = Lane> + '_ {
        let uses = |lane| self.statements.iter().any(|statement| statement.lane == lane);
        [Lane::Reader, Lane::Writer].into_iter().filter(move |lane| uses(*lane))
    }

    /// Chooses a transaction by weight.
    pub fn choose(&self, rng: &mut impl Rng) -> usize {
        if self.transactions.len() == 1 {
            return 0;
        }
        let all: u32 = self.transactions.iter().map(|t| t.weight).sum();
        let mut left = rng.random_range(0..all);
        for (place, transaction) in self.transactions.iter().enumerate() {
            match left.checked_sub(transaction.weight) {
                Some(rest) => left = rest,
                None => return place,
            }
        }
        self.transactions.len() - 1
    }

    /// Appends the command that asks `statement` now. `prepared` is its number on this connection; `None`
    /// sends text.
    pub(crate) fn encode(
        &self,
        statement: usize,
        variant: usize,
        prepared: Option<statement::Prepared>,
        draws: &mut Draws<'_>,
        out: &mut Vec<u8>,
    ) {
        let statement = &self.statements[statement];
        match prepared {
            Some(prepared) => statement.execute(prepared, draws, out),
            None => statement.query(variant, draws, out),
        }
    }
}

pub(crate) use column::Cells;
pub(crate) use draw::Draws as ClientDraws;
pub(crate) use statement::Prepared;

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    #[test]
    fn transactions_are_chosen_by_their_weight() {
        let mut workload = sysbench::workload("oltp_point_select", &sysbench::Options::default()).unwrap();
        let one = workload.transactions[0].clone();
        workload.transactions = vec![
            Transaction { weight: 1, ..one.clone() },
            Transaction { weight: 0, ..one.clone() },
            Transaction { weight: 3, ..one },
        ];
        let mut rng = SmallRng::seed_from_u64(3);
        let mut counts = [0; 3];
        for _ in 0..40_000 {
            counts[workload.choose(&mut rng)] += 1;
        }
        assert_eq!(counts[1], 0);
        assert!((f64::from(counts[2]) / f64::from(counts[0]) - 3.0).abs() < 0.15, "{counts:?}");
    }
}
