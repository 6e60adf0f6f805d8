//! An experiment that lies on disk, ended or not, with what came of it.

use crate::design::DesignError;
use crate::report::{self, Report};
use crate::run::Experiment;
use crate::spec::Spec;
use crate::store::{self, History, StoreError};
use config::Complaints;
use std::path::Path;

/// What was asked for, what was done, and what came of it.
#[derive(Debug)]
pub struct Past {
    pub experiment: Experiment,
    pub history: History,
    pub report: Report,
}

/// Why it cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum PastError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The spec that was kept is wrong.
    #[error(transparent)]
    Spec(#[from] Complaints),
    #[error(transparent)]
    Design(#[from] DesignError),
}

impl Past {
    /// That of this directory.
    ///
    /// # Errors
    /// There is none, or it was damaged.
    pub fn read(dir: &Path) -> Result<Self, PastError> {
        let history = store::read(dir)?;
        let spec = Spec::parse(&history.spec, "spec.toml")?;
        let experiment = Experiment::new(spec, &history.begun.refused)?;
        let report = report::report(&experiment, &history);
        Ok(Self { experiment, history, report })
    }
}
