//! Arithmetic: quantiles, intervals, and the comparison of configurations that were measured in blocks. No
//! I/O.
//!
//! * [`quantile`]: quantiles of a sample.
//! * [`comparison`]: a configuration beside the baseline, block by block: the ratio with its interval,
//!   whether it differs, whether it is equivalent.
//! * [`multiplicity`]: several comparisons at once: Holm's adjustment, Dunnett's critical value.

#![warn(missing_docs)]

pub mod comparison;
pub mod multiplicity;
pub mod quantile;

pub use comparison::{Effect, Interval};
