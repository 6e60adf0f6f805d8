//! Quantities with a range, so that a nonsensical value cannot travel.

use crate::Blame;
use serde::Serialize;

/// A relative capacity, > 0 and finite; 1 is one ordinary server.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct Weight(f64);

/// Why a number is not what its unit asks for.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum UnitError {
    /// Not positive and finite.
    #[error("{0} is not a weight; a weight is above 0 and at most 1000")]
    NotAWeight(f64),
}

impl UnitError {
    /// Whose fault it is: whoever wrote it.
    pub fn blame(&self) -> Blame {
        Blame::Config
    }
}

impl Weight {
    /// The weight of a server nobody weighed.
    pub const ONE: Self = Self(1.0);

    /// Checks that `value` is above 0 and at most 1000.
    pub fn new(value: f64) -> Result<Self, UnitError> {
        if value > 0.0 && value <= 1000.0 { Ok(Self(value)) } else { Err(UnitError::NotAWeight(value)) }
    }

    /// Relative to an ordinary server.
    pub fn value(self) -> f64 {
        self.0
    }
}
