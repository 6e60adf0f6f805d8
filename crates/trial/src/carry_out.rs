//! Carries out an experiment from its spec to its report: what a dead process left is put back first, levels
//! that cannot be set here are left out, and it goes on from what is on disk already.

use crate::design::DesignError;
use crate::past::{Past, PastError};
use crate::preview::{self, RunWrites};
use crate::report::Report;
use crate::rig::HostRig;
use crate::run::{self, End, Event, Experiment, RunError};
use crate::spec::Spec;
use crate::store::{self, Begun, Store, StoreError};
use crate::text;
use knob::server::ServerError;
use knob::session::RestoreOutcome;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct CarryOutRequest {
    pub spec: Spec,
    /// The spec as it was written.
    pub text: String,
    /// Where figures are kept.
    pub dir: PathBuf,
    /// Go on with what is there.
    pub resume: bool,
    /// Show every write, and make none.
    pub dry_run: bool,
    /// The version of the program.
    pub version: String,
}

/// What came of it.
#[derive(Debug)]
pub enum CarryOutOutcome {
    /// What it would write.
    Preview(Vec<RunWrites>),
    /// It is over.
    Report(Box<Report>),
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum CarryOutError {
    #[error("a setting that a dead process left is not as it was; nothing was tried")]
    LeftBehind,
    /// A server that does not answer is no fault of the spec.
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error(transparent)]
    Design(#[from] DesignError),
    #[error("every cell has a level that cannot be set here; there is nothing to compare")]
    NothingPossible,
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It can go on.
    #[error("interrupted; everything is as it was")]
    Interrupted,
    /// What was kept cannot be read.
    #[error(transparent)]
    Past(#[from] PastError),
}

/// Does it; `say` hears how it goes, line by line.
///
/// # Errors
/// See [`CarryOutError`]; settings are put back all the same.
pub fn carry_out(
    request: CarryOutRequest,
    rig: &mut HostRig,
    stop: &AtomicBool,
    mut say: impl FnMut(&str),
) -> Result<CarryOutOutcome, CarryOutError> {
    let CarryOutRequest { spec, text, dir, resume, dry_run, version } = request;
    // First what a dead process left: it may have stopped the server.
    if !dry_run {
        let recovered = rig.session.recover();
        for one in &recovered {
            let how =
                if one.is_back() { "is put back" } else { "is NOT put back: see headroom knob journal" };
            say(&format!("left by a dead process: {} {how}", one.knobs.join(", ")));
        }
        if !recovered.iter().all(RestoreOutcome::is_back) {
            return Err(CarryOutError::LeftBehind);
        }
    }
    for address in rig.addresses() {
        rig.session.server(&address)?;
    }
    let (mut store, begun, trials) = if resume {
        let (store, history) = Store::resume(&dir, &text, &rig.words())?;
        (Some(store), history.begun, history.trials)
    } else {
        let (start, refused) = run::look(&spec, rig)?;
        let (server, elsewhere) = (rig.words(), rig.is_elsewhere());
        let begun = Begun { format: 0, at: store::now(), version, server, elsewhere, start, refused };
        (None, begun, Vec::new())
    };
    if begun.elsewhere {
        say("memory of the server is not watched: it is on another machine");
    }
    for level in &begun.refused {
        say(&format!("refused, not tried: {}={}: {}", level.knob, level.level, level.why));
    }
    let experiment = Experiment::new(spec, &begun.refused)?;
    if !resume {
        experiment.check_stages()?;
    }
    if dry_run {
        return Ok(CarryOutOutcome::Preview(preview::of(&experiment, rig)));
    }
    if experiment.possible.is_empty() {
        return Err(CarryOutError::NothingPossible);
    }
    let store = match &mut store {
        Some(store) => store,
        None => store.insert(Store::create(&dir, &text, &begun)?),
    };
    let mut tell = |event: &Event<'_>| say(&text::event(&experiment, event));
    match run::run(&experiment, &begun, trials, store, rig, stop, &mut tell)? {
        End::Interrupted => Err(CarryOutError::Interrupted),
        End::Ended(_) => Ok(CarryOutOutcome::Report(Box::new(Past::read(&dir)?.report))),
    }
}
