//! Capacity: what a server can carry, relative to the others.
//!
//! ```text
//! capacity = weight x min(speed, warmth)
//! ```
//!
//! The weight is the operator's, the speed is measured ([`crate::speed`]), the warmth is how far the server
//! has come since it was cold ([`crate::heat`]). The lower of the two counts and not their product: the
//! statements of a cold server are slow because it is cold. This is the only place where they are put
//! together: pick, flow table, placement and rebalancer all read the result from the view.

use serde::Serialize;

/// The parts of a server's capacity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Capacity {
    /// What the operator says it can carry; 1 is the usual.
    pub weight: f64,
    /// How fast its statements are beside the same ones elsewhere, 1/4 to 1; 1 while that is not known.
    pub speed: f64,
    /// How warm it is, above 0 to 1.
    pub warmth: f64,
}

impl Capacity {
    /// What it counts for, above 0 for a weight above 0.
    pub fn value(&self) -> f64 {
        self.weight * self.speed.min(self.warmth)
    }
}
