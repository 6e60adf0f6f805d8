//! Arithmetic: quantiles, intervals, and the comparison of what was measured. No I/O; it uses no other crate
//! of ours. Read first:
//!
//! * [`comparison`]: a configuration beside the baseline, block by block: the ratio with its interval,
//!   whether it differs, whether it is equivalent;
//! * [`multiplicity`]: several comparisons at once: Holm's adjustment, Dunnett's critical value;
//! * [`quantile`]: quantiles of a sample.

#![warn(missing_docs)]

pub mod chi_square;
pub mod comparison;
pub mod least_squares;
pub mod multiplicity;
pub mod quantile;
pub mod ratio;
pub mod slope;
pub mod student;

pub use comparison::{Effect, Interval};
pub use ratio::Ratio;
pub use slope::Slope;
