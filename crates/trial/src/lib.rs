//! Experiments as values: what is varied, which cells are tried in which order, which go on, what is said in
//! the end. Nothing is run here, and nothing is random but what a generator given as an argument makes so:
//! the same seed is the same experiment.
//!
//! * [`spec`]: the TOML file, raw then checked.
//! * [`design`]: factors and levels become cells: all of them, Plackett-Burman folded, or one factor at a
//!   time.
//! * [`order`]: randomised complete blocks with the baseline twice and an A/A cell.
//! * [`halving`]: many cells once, the better ones again, the best and fresh blocks for the last word.
//! * [`verdict`]: better, worse, equivalent, undecided.
//! * [`cost`]: how long it takes and what it can find, before anything is touched.

pub mod cost;
pub mod design;
pub mod halving;
pub mod order;
pub mod spec;
pub mod verdict;
