//! A figure that was predicted beside what came.

use crate::promise::Promise;
use plan::Interval;
use serde::Serialize;

const WITHIN: f64 = 0.20;

#[derive(Clone, Debug, Serialize)]
pub(super) struct Pair {
    pub(super) what: String,
    pub(super) predicted: Option<Interval>,
    pub(super) came: Option<f64>,
    pub(super) refused: Option<String>,
}

impl Pair {
    /// Within 20 %, or refused; `change` says what was changed in between.
    pub(super) fn promise(&self, change: &str) -> Promise {
        let asked = format!("{change}, {}: within 20 %, or refused", self.what);
        match (self.predicted, self.came, &self.refused) {
            (Some(predicted), Some(came), _) => {
                let error = predicted.estimate / came - 1.0;
                let words = format!(
                    "{} predicted, {came:.2} came ({:+.0} %)",
                    whatif::words::interval(&predicted),
                    error * 100.0
                );
                Promise::new(&asked, words, error.abs() <= WITHIN)
            }
            (None, _, Some(why)) => Promise::new(&asked, format!("refused: {why}"), true),
            (_, None, _) => Promise::new(&asked, "nothing sound was measured there".to_owned(), false),
            (None, _, None) => Promise::new(&asked, "nothing was predicted".to_owned(), false),
        }
    }
}
