//! Carries out an experiment from its spec to its report: what a dead process left is put back first, levels
//! that cannot be set here are left out, and it goes on from what is on disk already.

use crate::design::DesignError;
use crate::order::Run;
use crate::past::{Past, PastError};
use crate::preview::{self, RunWrites};
use crate::report::Report;
use crate::rig::HostRig;
use crate::run::{self, End, Event, Experiment, RigError, RunError};
use crate::schedule::{self, TrialSlot};
use crate::spec::{Spec, is_of_this_machine};
use crate::store::{self, Begun, RefusedLevel, Store, StoreError};
use crate::text;
use knob::server::ServerError;
use knob::tuner;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

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
    /// The command that puts back what is in this journal, with its flags.
    pub restore: String,
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
    #[error("a setting of this host or server that a dead process left is not as it was; nothing was tried")]
    LeftBehind,
    /// A server that does not answer is no fault of the spec.
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error(transparent)]
    Design(#[from] DesignError),
    #[error("every cell has a level that cannot be set here; there is nothing to compare")]
    NothingPossible,
    /// Gone on with, some cells would be run twice and others never.
    #[error(transparent)]
    OtherOrder(Box<OtherOrder>),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It can go on.
    #[error("interrupted; everything is as it was")]
    Interrupted,
    /// The same before there is anything to go on with.
    #[error("interrupted before the first trial; everything is as it was, and nothing is kept")]
    NotBegun,
    /// What was kept cannot be read.
    #[error(transparent)]
    Past(#[from] PastError),
}

impl CarryOutError {
    /// Whether "no" is the answer, not an error: a setting is not as it was before, or a program runs that
    /// changes the same ones.
    pub fn is_refused(&self) -> bool {
        let tuner = |error: &RigError| matches!(error, RigError::Knob(knob::Error::Tuner { .. }));
        match self {
            Self::LeftBehind | Self::Run(RunError::NotBack(_)) => true,
            Self::Run(RunError::Spec(error) | RunError::Hindered(error)) => tuner(error),
            _ => false,
        }
    }

    /// Whether the spec asks for what cannot be. What a server or this host answers is none of that.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Run(RunError::Spec(RigError::Danger { .. })) => true,
            Self::Run(RunError::Spec(RigError::Knob(error))) => error.is_usage(),
            _ => false,
        }
    }
}

/// What was run is not what this version would have run.
#[derive(Debug, thiserror::Error)]
#[error(
    "{dir} was begun by version {begun}, whose order of trials is not that of this one: it ran \
     {recorded} where this one has {expected} (stage {}, block {}, trial {}); go on with that version, or \
     name another --dir",
    place.stage + 1, place.block + 1, place.position + 1
)]
pub struct OtherOrder {
    pub dir: PathBuf,
    /// The version that began it.
    pub begun: String,
    pub place: TrialSlot,
    /// What was run there, and what stands there, in words.
    pub recorded: String,
    pub expected: String,
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
    let CarryOutRequest { spec, text, dir, resume, dry_run, restore, version } = request;
    // First what a dead process left: it may have stopped the server.
    let mut not_back = Vec::new();
    if !dry_run {
        let recovered = rig.session.recover();
        if !recovered.is_empty() {
            say("left by a process that is dead:");
            knob::text::restored(&recovered, &restore).lines().for_each(&mut say);
        }
        not_back.extend(recovered.into_iter().filter(|one| !one.is_back()));
    }
    let mut servers = Vec::new();
    for address in rig.addresses() {
        servers.push(rig.session.server(&address)?.identity()?);
    }
    if not_back.iter().any(|one| one.concerns(&servers)) {
        return Err(CarryOutError::LeftBehind);
    }
    if !not_back.is_empty() {
        say("that is of another server: the trial begins all the same");
    }
    let (mut store, mut begun, trials) = if resume {
        let (store, history) = Store::resume(&dir, &text, &rig.words())?;
        for (what, then, now) in history.begun.setup_differs(&rig.setup()) {
            say(&format!(
                "Warning: {what} was {then} when the experiment was begun, and is {now}: its figures are of \
                 both"
            ));
        }
        (Some(store), history.begun, history.trials)
    } else {
        let (start, refused) = run::look(&spec, rig)?;
        let (server, elsewhere, setup) = (rig.words(), rig.is_elsewhere(), rig.setup());
        let begun = Begun { format: 0, at: store::now(), version, server, elsewhere, setup, start, refused };
        (None, begun, Vec::new())
    };
    if begun.elsewhere {
        say("memory of the server is not watched: it is on another machine");
        for factor in spec.factors.iter().filter(|factor| is_of_this_machine(&factor.knob)) {
            say(&format!(
                "Warning: {} is set on this machine, and the server is taken to be on another one: then it \
                 changes the load generator alone. Where the server is here, name it by its IP address",
                factor.knob
            ));
        }
    }
    if let Some(unknown) = tuner::doubt(&rig.host, spec.factors.iter().map(|factor| factor.knob.as_str())) {
        say(&format!("Warning: {unknown}"));
    }
    let refusal =
        |level: &RefusedLevel| format!("refused, not tried: {}={}: {}", level.knob, level.level, level.why);
    begun.refused.iter().map(refusal).for_each(|words| say(&words));
    let mut experiment = Experiment::new(spec, &begun.refused)?;
    if !resume {
        experiment.check_stages()?;
    }
    let (design, possible) = (&experiment.design, &experiment.possible);
    if let Some((trial, here)) = schedule::misplaced(&experiment.spec, design, possible, &trials) {
        let words = |run: Run| match run {
            // A design of that version's.
            Run::Cell(cell) if cell >= design.cells.len() => format!("cell {cell}"),
            run => experiment.words(run),
        };
        let expected = here.map_or_else(|| "nothing".to_owned(), words);
        let (begun, place, recorded) = (begun.version, trial.place, words(trial.run));
        let other = OtherOrder { dir, begun, place, recorded, expected };
        return Err(CarryOutError::OtherOrder(Box::new(other)));
    }
    if dry_run {
        return Ok(CarryOutOutcome::Preview(preview::of(&experiment, rig)));
    }
    // Before the first setting is changed: that may be a restart.
    if !resume {
        Store::check(&dir, &text)?;
    }
    // What is refused first may hide what is refused after it.
    let tries = if resume { 0 } else { experiment.spec.factors.len() };
    for _ in 0..tries {
        // A try may take a restart.
        if stop.load(Ordering::Relaxed) {
            return Err(CarryOutError::NotBegun);
        }
        let refused = run::try_baseline(&experiment, rig)?;
        if refused.is_empty() {
            break;
        }
        refused.iter().map(refusal).for_each(|words| say(&words));
        begun.refused.extend(refused);
        experiment = Experiment::new(experiment.spec, &begun.refused)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::EXAMPLE;
    use fleet::Address;
    use knob::apply::{self, Manner};
    use knob::identity::{ADDRESS, Facts};
    use knob::journal::Author;
    use knob::server::{Kind, Server, Variable};
    use knob::session::Connect;
    use knob::{Host, Session};
    use load::workload::sysbench;
    use load::{Account, Target};
    use std::path::Path;
    use std::sync::Arc;

    /// A server that leaves a change without an answer: its entry stays open.
    struct Silent(String);

    impl Server for Silent {
        fn identity(&mut self) -> Result<Facts, ServerError> {
            let facts = [(ADDRESS, self.0.clone()), ("server_uuid", format!("of {}", self.0))];
            Ok(facts.map(|(key, value)| (key.to_owned(), value)).into())
        }

        fn describe(&mut self, _: &str) -> Result<Option<Variable>, ServerError> {
            Ok(Some(Variable { kind: Kind::Text, dynamic: Some(true) }))
        }

        fn global(&mut self, _: &str) -> Result<String, ServerError> {
            Ok("151".to_owned())
        }

        fn set_global(&mut self, _: &str, _: &str) -> Result<(), ServerError> {
            Err(ServerError::Unanswered { address: self.0.clone(), why: "no answer".to_owned() })
        }

        fn reconnect(&mut self) -> Result<(), ServerError> {
            Ok(())
        }
    }

    /// A session that reaches all servers but one.
    fn session(journal: &Path, removed: &'static str) -> Session {
        let connect: Connect = Box::new(move |address| match address == removed {
            true => Err(ServerError::Unreachable { address: address.to_owned(), why: "nobody".to_owned() }),
            false => Ok(Box::new(Silent(address.to_owned())) as Box<dyn Server>),
        });
        Session::open(Host::new("/nowhere"), journal, connect).unwrap()
    }

    /// What a trial at this server is run on, and the flag that ends it.
    fn rig(at: &str, session: Session) -> (HostRig, Arc<AtomicBool>) {
        let address: Address = at.parse().unwrap();
        let account = Account { user: String::new(), password: String::new(), database: String::new() };
        let workload = sysbench::workload("oltp_point_select", &sysbench::Options::default()).unwrap();
        let (stop, target) = (Arc::new(AtomicBool::new(false)), Target::single(address.clone(), account));
        let (host, workload) = (Host::new("/nowhere"), Arc::new(workload));
        let (server, manner) = (Some(address.to_string()), Manner::of(Author::default()));
        (HostRig::new(session, host, server, manner, Vec::new(), workload, target, stop.clone()), stop)
    }

    fn request(dir: PathBuf, resume: bool) -> CarryOutRequest {
        CarryOutRequest {
            spec: Spec::parse(EXAMPLE, "t.toml").unwrap(),
            text: EXAMPLE.to_owned(),
            dir,
            resume,
            dry_run: false,
            restore: "headroom knob restore".to_owned(),
            version: "test".to_owned(),
        }
    }

    #[test]
    fn one_that_is_ended_before_its_first_trial_has_nothing_to_go_on_with() {
        let dir = tempfile::tempdir().unwrap();
        let (mut rig, stop) = rig("127.0.0.1:1", session(&dir.path().join("knobs"), ""));
        stop.store(true, Ordering::Relaxed);
        let kept = dir.path().join("none");
        let error = carry_out(request(kept.clone(), false), &mut rig, &stop, |_| {}).unwrap_err();
        assert!(matches!(error, CarryOutError::NotBegun) && !kept.exists(), "{error}");
        let error = carry_out(request(kept, true), &mut rig, &stop, |_| {}).unwrap_err();
        assert!(matches!(error, CarryOutError::Store(StoreError::Missing(_))), "{error}");
    }

    /// What comes of a trial at a server where something is left at this or another one, which may be
    /// `removed`; what it says before.
    fn carried_out(at: &str, left_at: &str, removed: &'static str) -> (CarryOutError, String) {
        let dir = tempfile::tempdir().unwrap();
        let manner = Manner::of(Author::default());
        let mut first = session(dir.path(), "");
        let change = ["server.max_connections=77".to_owned()];
        let checked =
            apply::check(&Host::new("/nowhere"), Some(first.server(left_at).unwrap()), &change, &[]).unwrap();
        first.apply(&checked, Some(left_at), &Manner { keep: true, ..manner });
        drop(first);
        let (mut rig, stop) = rig(at, session(dir.path(), removed));
        // There is nothing to go on with: where it comes as far as that, it was not refused before.
        let request = request(dir.path().join("none"), true);
        let mut said = String::new();
        let mut say = |line: &str| said.push_str(&format!("{line}\n"));
        let error = carry_out(request, &mut rig, &stop, &mut say).unwrap_err();
        (error, said)
    }

    #[test]
    fn what_is_left_at_a_server_that_is_removed_hinders_no_trial_at_another_and_is_named_in_words() {
        let (error, said) = carried_out("127.0.0.1:1", "10.0.0.9:3306", "10.0.0.9:3306");
        assert!(matches!(error, CarryOutError::Store(StoreError::Missing(_))), "{error}");
        assert!(said.contains("server.max_connections  NOT put back"), "{said}");
        assert!(said.contains("before: @@GLOBAL.max_connections = 151"), "{said}");
        assert!(said.contains("restore --server '10.0.0.9:3306' --forget"), "{said}");
    }

    #[test]
    fn a_program_beside_it_is_a_no_a_server_without_an_answer_an_error_and_a_wrong_knob_a_wrong_spec() {
        let of = |error: knob::Error| {
            let error = CarryOutError::Run(RunError::Spec(error.into()));
            (error.is_refused(), error.is_usage())
        };
        let (program, why) = ("tuned".to_owned(), "sets kernel settings".to_owned());
        assert_eq!(of(knob::Error::Tuner { program, pid: 7, why }), (true, false));
        let (address, why) = ("127.0.0.1:1".to_owned(), "nobody".to_owned());
        assert_eq!(of(ServerError::Unreachable { address, why }.into()), (false, false));
        let (name, near) = ("server".to_owned(), String::new());
        assert_eq!(of(knob::Error::UnknownKnob { name, near }), (false, true));
    }

    #[test]
    fn what_is_left_at_the_server_of_the_trial_refuses_it() {
        let (error, said) = carried_out("127.0.0.1:1", "127.0.0.1:1", "");
        assert!(matches!(error, CarryOutError::LeftBehind), "{error}");
        assert!(error.is_refused() && !CarryOutError::Interrupted.is_refused());
        assert!(said.contains("NOT put back") && said.contains("before: "), "{said}");
    }
}
