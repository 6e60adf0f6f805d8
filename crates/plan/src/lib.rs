//! Arithmetic: quantiles, intervals, and the comparison of what was measured. No I/O; it uses no other crate
//! of ours. Read first:
//!
//! * [`comparison`]: a configuration beside the baseline, block by block: the ratio with its interval,
//!   whether it differs, whether it is equivalent;
//! * [`multiplicity`]: several comparisons at once: Holm's adjustment;
//! * [`quantile`]: quantiles of a sample;
//! * [`queue`]: response time at another load or on other cores;
//! * [`scalability`]: throughput at a concurrency, from closed loops; [`open_law`]: the same from open ones;
//! * [`memory`]: misses and response times at another size of the buffer pool;
//! * [`reads`]: an estimate of misses from a trace of pages, sampled;
//! * [`disks`]: response times with another disk;
//! * [`placement`]: which role on which host; [`replicas`]: how many readers in each zone; [`growth`]: when.

#![warn(missing_docs)]

pub mod chi_square;
pub mod comparison;
pub mod disks;
pub mod growth;
pub mod least_squares;
pub mod memory;
pub mod multiplicity;
pub mod open_law;
pub mod placement;
pub mod quantile;
pub mod queue;
pub mod ratio;
pub mod reads;
pub mod regression;
pub mod replicas;
pub mod scalability;
pub mod slope;
pub mod student;

pub use comparison::{Effect, Interval};
pub use ratio::Ratio;
pub use slope::Slope;
