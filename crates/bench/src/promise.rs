//! What was asked of a bench and what came of it, as values and as a table.

use super::report::section::section;
use serde::Serialize;

/// One thing that was asked.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Promise {
    /// In words, with the bound.
    pub(crate) asked: String,
    /// In words, with the figure.
    pub(crate) measured: String,
    /// `None` where it was not measured, or the run is too short to tell.
    pub(crate) met: Option<bool>,
}

impl Promise {
    pub(crate) fn new(asked: &str, measured: String, met: impl Into<Option<bool>>) -> Self {
        Self { asked: asked.to_owned(), measured, met: met.into() }
    }
}

/// Whether nothing that was measured falls short.
pub(crate) fn all_met(promises: &[Promise]) -> bool {
    promises.iter().all(|promise| promise.met != Some(false))
}

/// All of them, as a table.
pub(crate) fn table(promises: &[Promise]) -> String {
    let met = |met: Option<bool>| met.map_or("not known", |met| if met { "yes" } else { "NO" }).to_owned();
    let rows = promises.iter().map(|p| vec![p.asked.clone(), p.measured.clone(), met(p.met)]);
    section("Asked and measured", &["asked", "measured", "met"], rows)
}
