//! The loop: apply, warm up, measure, put back, write down. What is next, when a warm-up is over and when a
//! cell is given up is decided elsewhere.
//!
//! A trial during which no server answered, or the server was started anew, says nothing about its settings:
//! it is no outcome and is not written down. It is waited for the server, and the same trial is run again.

mod attempt;
mod outage;

use crate::design::{Design, DesignError, Levels};
use crate::guard::{self, Window};
use crate::order::Run;
use crate::schedule::{self, Next, TrialSlot};
use crate::spec::{Data, Every, Factor, Point, Spec};
use crate::store::{
    self, Begun, Ended, HostFigures, Outcome, RefusedLevel, Second, Store, StoreError, Trial,
};
use attempt::{Made, PlannedTrial, trial};
use fleet::Blame;
use knob::{Host, Refusal, name};
use load::Seed;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// A knob and the value it is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The knob with its target.
    pub knob: String,
    pub value: String,
    /// Whether a dangerous value is meant.
    pub danger: bool,
    /// Whether it is kept from trial to trial for as long as it stays the same, because a change is
    /// expensive.
    pub held: bool,
}

/// What came of sending for a while.
#[derive(Clone, Debug, Default)]
pub struct Stretch {
    pub window: Window,
    /// How long it took, with the wait for what was under way in the end.
    pub took: Duration,
    /// How far chance alone moves it ([`guard::WarmUpWindow::error`]).
    pub error: Option<f64>,
    /// Why they must not be used.
    pub void: Vec<String>,
    /// What else to know.
    pub notes: Vec<String>,
    pub series: Vec<Second>,
    pub host: HostFigures,
    /// Memory in use in the end, of the server's host or of the limit of its cgroup, whichever share is the
    /// larger; `None` where that host is not seen.
    pub memory: Option<f64>,
    /// What `diagnose` names as the bottleneck of this stretch.
    pub bottleneck: Option<String>,
}

/// What an experiment is run on: settings that are changed and put back, and a load. All errors are words.
pub trait Rig {
    /// Whether every server answers now.
    ///
    /// # Errors
    /// One does not.
    fn answers(&mut self) -> Result<(), RigError>;

    /// Whether the server has run through since the settings were applied.
    ///
    /// # Errors
    /// It does not answer, or was started anew: its settings may be lost, and its cache is.
    fn ran_through(&mut self) -> Result<(), RigError>;

    /// The present value of a knob.
    ///
    /// # Errors
    /// It cannot be read.
    fn value(&mut self, knob: &str) -> Result<String, RigError>;

    /// Why a level cannot be set here, as far as that shows without trying.
    ///
    /// # Errors
    /// The spec is wrong: an unknown knob, an impossible value, a danger that is not named.
    fn refusal(&mut self, level: &Assignment) -> Result<Option<Refusal>, RigError>;

    /// Makes the data as they were, if asked to, and lets the server write its dirty pages.
    ///
    /// # Errors
    /// They are not.
    fn reset(&mut self, data: bool) -> Result<(), RigError>;

    /// Sets everything and reads it back, what is held first: it may restart the server.
    ///
    /// # Errors
    /// What was refused; the rest may be set.
    fn apply(&mut self, assignments: &[Assignment]) -> Result<(), RigError>;

    /// Puts everything back, or all but what is held.
    ///
    /// # Errors
    /// What is not back.
    fn restore(&mut self, what: Restore) -> Result<(), RigError>;

    /// Waits, unless everything is to end.
    fn pause(&mut self, time: Duration);

    /// Connects the clients of a load.
    ///
    /// # Errors
    /// They cannot be connected.
    fn connect(&mut self, point: Point) -> Result<(), RigError>;

    /// Sends for a while; `go_on` is asked every second, with the share of memory in use (as in
    /// [`Stretch`]) where the server's host is seen.
    ///
    /// # Errors
    /// A fault of our own.
    fn send(
        &mut self,
        time: Duration,
        seed: Seed,
        go_on: &mut dyn FnMut(&Second, Option<f64>) -> bool,
    ) -> Result<Stretch, RigError>;

    /// Ends the clients.
    fn disconnect(&mut self);
}

/// What is put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restore {
    All,
    /// What is expensive to change stays for the next trial.
    NotHeld,
}

/// An experiment that is ready to run.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// What was asked for.
    pub spec: Spec,
    pub design: Design,
    /// Cells whose levels were all accepted beforehand.
    pub possible: Vec<usize>,
    /// Factors that cannot be set at all, not even to their baseline: they stay as they are.
    left_out: Vec<usize>,
}

impl Experiment {
    /// The cells that are left where these levels cannot be set.
    ///
    /// # Errors
    /// See [`DesignError`].
    pub fn new(spec: Spec, refused: &[RefusedLevel]) -> Result<Self, DesignError> {
        let design = crate::design::design(&spec.factors, &spec.constraints, spec.design)?;
        let is_refused = |factor: usize, level: usize| {
            let factor = &spec.factors[factor];
            refused.iter().any(|one| one.knob == factor.knob && one.level == factor.levels[level])
        };
        let left_out: Vec<usize> =
            (0..spec.factors.len()).filter(|at| is_refused(*at, spec.factors[*at].baseline)).collect();
        let fits = |cell: &usize| {
            let levels = &design.cells[*cell];
            levels.iter().enumerate().all(|(factor, level)| {
                *level == design.baseline[factor]
                    || !(left_out.contains(&factor) || is_refused(factor, *level))
            })
        };
        let possible = (0..design.cells.len()).filter(fits).collect();
        Ok(Self { spec, design, possible, left_out })
    }

    /// Whether the first stage is meant as it will be: every cell is run once.
    ///
    /// # Errors
    /// The spec says fewer cells than there are.
    pub fn check_stages(&self) -> Result<(), DesignError> {
        let (asked, cells) = (self.spec.stages.as_ref().and_then(|all| all.first()), self.possible.len());
        match asked.filter(|stage| stage.cells < cells) {
            Some(stage) => Err(DesignError::FirstStage { asked: stage.cells, cells }),
            None => Ok(()),
        }
    }

    pub fn levels(&self, run: Run) -> &Levels {
        match run {
            Run::LeadIn | Run::Baseline | Run::Same => &self.design.baseline,
            Run::Cell(cell) => &self.design.cells[cell],
        }
    }

    pub fn assignments(&self, run: Run) -> Vec<Assignment> {
        let set = |(at, level): (usize, &usize)| {
            let factor = &self.spec.factors[at];
            let (knob, value) = (factor.knob.clone(), factor.levels[*level].clone());
            let (danger, held) = (factor.danger, factor.whole_plot);
            (!self.left_out.contains(&at)).then_some(Assignment { knob, value, danger, held })
        };
        self.levels(run).iter().enumerate().filter_map(set).collect()
    }

    /// In what a cell differs from the baseline: knob and value.
    pub fn settings(&self, run: Run) -> Vec<(String, String)> {
        let levels = self.levels(run).iter().zip(&self.design.baseline).zip(&self.spec.factors);
        levels
            .filter(|((level, base), _)| level != base)
            .map(|((level, _), factor)| (factor.knob.clone(), factor.levels[*level].clone()))
            .collect()
    }

    pub fn words(&self, run: Run) -> String {
        match run {
            Run::LeadIn => "lead-in (the baseline, not compared)".to_owned(),
            Run::Baseline => "baseline".to_owned(),
            Run::Same => "A/A cell".to_owned(),
            Run::Cell(_) => {
                let settings = self.settings(run);
                settings.iter().map(|(knob, value)| format!("{knob}={value}")).collect::<Vec<_>>().join(" ")
            }
        }
    }
}

/// How things go.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    Begins {
        next: Next,
        /// Trials left, with this one.
        left: usize,
        time_left: Duration,
    },
    Over(&'a Trial),
    /// No server answers, and it is waited for.
    Unanswered {
        why: &'a RigError,
        /// For this long at most.
        left: Duration,
    },
    /// The baseline is run first, and not counted.
    LeadIn,
    /// It answers again, and the trial is run once more.
    Again,
    /// The baseline is measured once more, to see whether everything is as it was.
    Returning,
}

/// How a run of the loop ended.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// There is an end in the store.
    Ended(Ended),
    /// It was to stop; everything is put back, and it can go on.
    Interrupted,
}

/// Why it cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The spec does not fit this host or server.
    #[error("{0}")]
    Spec(RigError),
    /// Something else than the experiment changed a setting, or it cannot be put back.
    #[error("a setting is not back as it was, so nothing more is tried: {0}")]
    NotBack(RigError),
    /// The trial is not counted, and can be run later.
    #[error(
        "{why}: the trial is not counted, and once the server answers the experiment can go on (--resume){}",
        left.as_ref().map_or_else(String::new, |left| format!(", which first puts back what is still changed: {left}"))
    )]
    Unanswered {
        why: Box<RigError>,
        /// What is not back either.
        left: Option<Box<RigError>>,
    },
    /// No cell can be set any more, whichever is next: the trial is not counted, and can be run later.
    #[error(
        "{0}; the trial is not counted, everything is put back, and the experiment can go on later (--resume)"
    )]
    Hindered(RigError),
    /// Without a baseline nothing can be compared.
    #[error("the baseline cannot be measured: {0}")]
    Baseline(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why what an experiment is run on did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum RigError {
    #[error(transparent)]
    Knob(#[from] knob::Error),
    #[error("{name}={value} is dangerous: {why}; if that is meant, write danger = true into its [[factor]]")]
    Danger { name: String, value: String, why: String },
    /// A setting cannot be read.
    #[error(transparent)]
    Unreadable(#[from] Refusal),
    /// Settings, or knobs, with why they were refused.
    #[error("{}", .0.iter().map(|(what, why)| format!("{what}: {why}")).collect::<Vec<_>>().join("; "))]
    Refused(Vec<(String, Refusal)>),
    /// Settings that are not as they were, in words.
    #[error("{}", .0.join("; "))]
    NotBack(Vec<String>),
    /// Settings that are not as they were because their server does not answer, in words.
    #[error("{}", .0.join("; "))]
    NotBackYet(Vec<String>),
    /// Somebody else's trial, of another host perhaps, is on the server.
    #[error(
        "another trial runs on {server}, by its session {session}: one at a time, for each changes what the other \
         measures. Where that one was cut off: KILL {session} there"
    )]
    Claimed { server: String, session: String },
    /// Its settings may be lost, and its cache is.
    #[error("{server} was started anew during the trial")]
    Restarted { server: String },
    #[error(transparent)]
    Load(#[from] load::LoadError),
    #[error("nothing is connected")]
    NotConnected,
    /// The data are not as they were.
    #[error("the reset before a trial failed: {0}")]
    Reset(String),
    /// The same, in the words of the server or of the connection to it.
    #[error("the reset before a trial failed: {source}{hint}")]
    ResetLoad {
        source: Box<load::LoadError>,
        /// What is needed for it.
        hint: &'static str,
    },
}

impl RigError {
    /// Whose fault it is.
    pub fn blame(&self) -> Blame {
        match self {
            Self::Knob(error) => error.blame(),
            Self::Load(error) => error.blame(),
            Self::ResetLoad { source, .. } => source.blame(),
            Self::Danger { .. }
            | Self::Unreadable(_)
            | Self::Refused(_)
            | Self::NotBack(_)
            | Self::Claimed { .. } => Blame::Config,
            Self::Reset(_) | Self::NotBackYet(_) | Self::Restarted { .. } => Blame::Server,
            Self::NotConnected => Blame::Bug,
        }
    }

    /// Whether it is because a server did not answer, and not because of what it was asked for.
    pub fn is_unanswered(&self) -> bool {
        use knob::server::ServerError::{Unanswered, Unreachable};
        use load::LoadError::Connect;
        match self {
            Self::Knob(knob::Error::Server(Unanswered { .. } | Unreachable { .. })) => true,
            Self::Load(error) => matches!(error, Connect { .. }),
            Self::ResetLoad { source, .. } => matches!(**source, Connect { .. }),
            // One that was told and gave no answer in time is there all the same.
            Self::Refused(all) => all.iter().any(|(_, why)| matches!(why, Refusal::Unreachable { .. })),
            Self::Unreadable(why) => matches!(why, Refusal::Unreachable { .. }),
            Self::NotBackYet(_) | Self::Restarted { .. } => true,
            _ => false,
        }
    }

    /// Whether it would refuse every cell alike, and says nothing of the one that was to be set: a tuner
    /// or another trial was started meanwhile, the journal cannot be written, or a statement that was to end
    /// runs on.
    pub fn hinders_all(&self) -> bool {
        use load::LoadError::StillRunning;
        match self {
            Self::Load(error) => matches!(error, StillRunning { .. }),
            Self::ResetLoad { source, .. } => matches!(**source, StillRunning { .. }),
            Self::Knob(error) => matches!(error, knob::Error::Tuner { .. } | knob::Error::Journal { .. }),
            Self::Refused(all) => all.iter().any(|(_, why)| matches!(why, Refusal::Journal { .. })),
            Self::Claimed { .. } => true,
            _ => false,
        }
    }
}

impl RunError {
    /// Whose fault it is.
    pub fn blame(&self) -> Blame {
        match self {
            Self::Spec(error) | Self::NotBack(error) | Self::Hindered(error) => error.blame(),
            Self::Baseline(_) | Self::Unanswered { .. } => Blame::Server,
            Self::Store(_) => Blame::Config,
        }
    }
}

/// Looks at everything before anything is touched: what each knob is, and which levels cannot be set.
///
/// # Errors
/// The spec is wrong for this host or server.
pub fn look(
    spec: &Spec,
    rig: &mut dyn Rig,
) -> Result<(BTreeMap<String, String>, Vec<RefusedLevel>), RunError> {
    let (mut start, mut refused) = (BTreeMap::new(), Vec::new());
    for factor in &spec.factors {
        if let Ok(value) = rig.value(&factor.knob) {
            start.insert(factor.knob.clone(), value);
        }
        for level in &factor.levels {
            let (knob, value) = (factor.knob.clone(), level.clone());
            let level = Assignment { knob, value, danger: factor.danger, held: factor.whole_plot };
            if let Some(refusal) = rig.refusal(&level).map_err(RunError::Spec)? {
                let why = refusal.to_string();
                refused.push(RefusedLevel { knob: level.knob, level: level.value, why });
            }
        }
    }
    Ok((start, refused))
}

/// Sets the baseline once and puts it back: what the kernel or the server refuses of it shows only by trying.
/// Its factors stay as they are then, and the rest is tried. Where the baseline is what is there already,
/// nothing is written.
///
/// # Errors
/// A setting is not back.
pub fn try_baseline(experiment: &Experiment, rig: &mut dyn Rig) -> Result<Vec<RefusedLevel>, RunError> {
    let tried = rig.apply(&experiment.assignments(Run::Baseline));
    if let Err(why) = rig.restore(Restore::All)
        && !why.is_unanswered()
    {
        return Err(RunError::NotBack(why));
    }
    let refused = match tried {
        // A server that does not answer is waited for when the first trial begins.
        Err(error) if error.is_unanswered() || error.hinders_all() => Vec::new(),
        Err(RigError::Refused(refused)) => refused,
        _ => Vec::new(),
    };
    let host = Host::new("/");
    let of_factor = |(what, why): (String, Refusal)| {
        let is_it = |factor: &&Factor| {
            // By its own name, and by that under which it was applied: `/dev/vda` is vda.
            let applied = name::parse(&host, &factor.knob).map(|name| name.to_string()).ok();
            let mut names = [Some(factor.knob.clone()), applied].into_iter().flatten();
            names.any(|name| what == name || what.starts_with(&format!("{name}=")))
        };
        let factor = experiment.spec.factors.iter().find(is_it)?;
        let (knob, level) = (factor.knob.clone(), factor.levels[factor.baseline].clone());
        Some(RefusedLevel { knob, level, why: why.to_string() })
    };
    Ok(refused.into_iter().filter_map(of_factor).collect())
}

/// Below it are stages, blocks and the windows of a warm-up.
const OF_A_TRIAL: u32 = 40;

/// Moments of the trials of a block are the same, so that they differ in nothing but their settings. Keys are
/// not: the rows that one trial has read are in the cache of the next.
fn seed(of_all: u64, place: TrialSlot) -> Seed {
    let moments = of_all.wrapping_add(u64::from(place.block) * 8 + place.stage as u64);
    let trial = (place.load as u64) << 16 | (place.position as u64 + 1) << 2 | u64::from(place.attempt);
    Seed { moments, keys: moments.wrapping_add(trial << OF_A_TRIAL) }
}

/// Runs what is left. Everything is put back between trials and before it returns.
///
/// # Errors
/// See [`RunError`].
pub fn run(
    experiment: &Experiment,
    begun: &Begun,
    mut trials: Vec<Trial>,
    store: &mut Store,
    rig: &mut dyn Rig,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&Event<'_>),
) -> Result<End, RunError> {
    let spec = &experiment.spec;
    let points = spec.load.points();
    // Of this process: one that goes on with an experiment does not rely on what a killed one left.
    let mut data_of = None;
    let mut is_first = true;
    let complete = loop {
        let progress = schedule::progress(spec, &experiment.design, &experiment.possible, &trials);
        let Some(next) = progress.next else { break progress.cut == 0 };
        let spent: f64 = trials.iter().map(|trial| trial.seconds).sum();
        let each = match trials.len() {
            0 => spec.timing.trial().as_secs_f64(),
            count => spent / count as f64,
        };
        let time_left = Duration::from_secs_f64(each * progress.left as f64);
        // No new trial begins after the budget.
        let in_budget = spec.budget.map(|budget| budget.saturating_sub(Duration::from_secs_f64(spent)));
        let time_left = in_budget.map_or(time_left, |most| most.min(time_left));
        tell(&Event::Begins { next, left: progress.left, time_left });
        let seed = seed(spec.seed, next.place);
        let held_against = match next.run {
            Run::Cell(_) => baselines(&trials, next.place.load),
            Run::LeadIn | Run::Baseline | Run::Same => None,
        };
        let point = points[next.place.load];
        let block = (next.place.load, next.place.stage, next.place.block);
        let data = spec.reset.every == Every::Trial || data_of.replace(block) != Some(block);
        let (run, again, slow_before) = (next.run, next.place.attempt > 0, next.slow_before);
        // That of a block is its first trial.
        let lead_in = std::mem::take(&mut is_first) && run != Run::LeadIn;
        let wanted = PlannedTrial { run, point, seed, data, lead_in, again, slow_before };
        let made = trial(experiment, wanted, held_against.as_ref(), rig, stop, tell)?;
        let Some(Made { at, seconds, outcome }) = made else { return Ok(End::Interrupted) };
        let done = Trial { place: next.place, run: next.run, at, seconds, outcome };
        store.keep(&done)?;
        tell(&Event::Over(&done));
        trials.push(done);
        if let Err(error) = baseline_stands(&trials) {
            outage::settle(Restore::All, rig, stop, tell)?;
            return Err(error);
        }
    };
    outage::settle(Restore::All, rig, stop, tell)?;
    tell(&Event::Returning);
    let mut back = Vec::new();
    for (number, point) in points.into_iter().enumerate() {
        let run = Run::Baseline;
        let seed = Seed { moments: spec.seed, keys: !spec.seed.wrapping_add((number as u64) << OF_A_TRIAL) };
        let made_anew = spec.reset.data != Data::Keep && spec.reset.every == Every::Block;
        let lead_in = std::mem::take(&mut is_first) || made_anew;
        let wanted = PlannedTrial { run, point, seed, data: true, lead_in, again: true, slow_before: false };
        match trial(experiment, wanted, None, rig, stop, tell)? {
            None => return Ok(End::Interrupted),
            Some(made) => back.push(made.outcome.figure()),
        }
    }
    outage::settle(Restore::All, rig, stop, tell)?;
    // What cannot be read would count as changed.
    if let Err(why) = rig.answers()
        && !outage::wait(why, rig, stop, tell)?
    {
        return Ok(End::Interrupted);
    }
    let differ = begun.start.iter().filter_map(|(knob, then)| {
        let now = rig.value(knob).unwrap_or_else(|why| format!("unreadable: {why}"));
        (now != *then).then(|| (knob.clone(), then.clone(), now))
    });
    let ended = Ended { at: store::now(), complete, differ: differ.collect(), back };
    store.end(&ended)?;
    Ok(End::Ended(ended))
}

/// A baseline that is refused, given up or void from the start leaves nothing to compare with.
fn baseline_stands(trials: &[Trial]) -> Result<(), RunError> {
    let is_baseline = |trial: &&Trial| matches!(trial.run, Run::LeadIn | Run::Baseline);
    let Some(last) = trials.last().filter(is_baseline) else { return Ok(()) };
    let of_load = || trials.iter().filter(|trial| trial.place.load == last.place.load);
    let any = of_load().filter(is_baseline).any(|trial| trial.outcome.figure().is_some());
    match &last.outcome {
        Outcome::Refused { why } | Outcome::GivenUp { why } => Err(RunError::Baseline(why.clone())),
        Outcome::Void { why, .. } if !any && last.place.attempt > 0 => Err(RunError::Baseline(why.clone())),
        _ => Ok(()),
    }
}

/// What a cell of this load is held against.
fn baselines(trials: &[Trial], load: usize) -> Option<Window> {
    let of_load = trials.iter().rev().filter(|trial| trial.place.load == load);
    let baselines = of_load.filter(|trial| matches!(trial.run, Run::LeadIn | Run::Baseline));
    guard::held_against(baselines.filter_map(|trial| match &trial.outcome {
        Outcome::Measured(measured) => Some(measured.window),
        _ => None,
    }))
}

#[cfg(test)]
mod tests;
