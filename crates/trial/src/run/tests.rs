//! Whole experiments on a rig that answers from a formula: what is measured again, given up, put back, and
//! gone on with after an end in the middle.

use super::*;
use crate::store::tests::{EXAMPLE, begun};
use crate::store::{self, History};
use std::path::Path;
use std::sync::atomic::Ordering;

/// A host of two knobs, whose load takes what they are set to.
#[derive(Default)]
struct Simulated {
    now: BTreeMap<String, String>,
    sent: usize,
    /// Of each stretch.
    seeds: Vec<Seed>,
    stops_after: Option<(usize, std::sync::Arc<AtomicBool>)>,
    refuses: Option<&'static str>,
    slow: Option<&'static str>,
    /// How often what is slow is so; `None` for always.
    slow_for: Option<usize>,
    stuck: bool,
    /// The first connection at this setting fails.
    breaks: Option<&'static str>,
    /// The server is on another machine, and this one's memory is full.
    elsewhere: bool,
    held: std::collections::BTreeSet<String>,
    restarts: usize,
    resets: usize,
    /// "data" where they were made anew, else the settings of each run.
    log: Vec<String>,
    /// In this stretch, counted from 1, the server ends; it answers again after this many questions.
    down: Option<(usize, usize)>,
    /// At this setting it ends while it is sent to, each time.
    crashes: Option<&'static str>,
    /// It was started anew since the settings were applied.
    anew: bool,
    /// After this number of stretches a program runs that changes the same settings.
    tuner_after: Option<usize>,
    /// The response times of each stretch fall all the time.
    drifts: bool,
    /// The standard error of the throughput of each stretch, as a share of it.
    by_chance: f64,
    /// What is under way at the end of each stretch takes this time.
    drain: Duration,
    /// A person asks for the end while it is waited for.
    stops_in_pause: Option<std::sync::Arc<AtomicBool>>,
}

impl Simulated {
    fn new() -> Self {
        Self { now: begun().start, ..Self::default() }
    }

    fn is_down(&self) -> bool {
        self.down.is_some_and(|(after, questions)| self.sent >= after && questions > 0)
    }

    fn there(&self) -> Result<(), RigError> {
        let (address, why) = ("127.0.0.1:1".to_owned(), "connection refused".to_owned());
        let nobody = knob::server::ServerError::Unreachable { address, why };
        if self.is_down() { Err(knob::Error::Server(nobody).into()) } else { Ok(()) }
    }
}

impl Rig for Simulated {
    fn answers(&mut self) -> Result<(), RigError> {
        let there = self.there();
        if let Some((_, questions)) = self.down.as_mut().filter(|_| there.is_err()) {
            *questions -= 1;
            // A start puts back what was set.
            if *questions == 0 {
                self.now = begun().start;
                self.held.clear();
            }
        }
        there
    }

    fn ran_through(&mut self) -> Result<(), RigError> {
        self.there()?;
        if self.anew { Err(RigError::Restarted { server: "127.0.0.1:1".to_owned() }) } else { Ok(()) }
    }

    fn value(&mut self, knob: &str) -> Result<String, RigError> {
        self.now.get(knob).cloned().ok_or_else(|| Refusal::Absent { what: knob.to_owned() }.into())
    }

    fn refusal(&mut self, level: &Assignment) -> Result<Option<Refusal>, RigError> {
        let refused = self.refuses == Some(&format!("{}={}", level.knob, level.value));
        Ok(refused.then(|| Refusal::Denied { why: "read only".to_owned() }))
    }

    fn apply(&mut self, assignments: &[Assignment]) -> Result<(), RigError> {
        self.there()?;
        if self.tuner_after.is_some_and(|after| self.sent >= after) {
            let (program, why) = ("tuned".to_owned(), "sets kernel settings".to_owned());
            return Err(knob::Error::Tuner { program, pid: 7, why }.into());
        }
        for one in assignments {
            if self.refuses == Some(&format!("{}={}", one.knob, one.value)) {
                let refusal = Refusal::Denied { why: "refused".to_owned() };
                return Err(RigError::Refused(vec![(one.knob.clone(), refusal)]));
            }
            if one.held {
                self.held.insert(one.knob.clone());
                self.restarts += usize::from(self.now[&one.knob] != one.value);
            }
            self.now.insert(one.knob.clone(), one.value.clone());
        }
        self.log.push(self.now.values().cloned().collect::<Vec<_>>().join(" "));
        Ok(())
    }

    fn reset(&mut self, data: bool) -> Result<(), RigError> {
        self.there()?;
        self.resets += usize::from(data);
        self.log.extend(data.then(|| "data".to_owned()));
        Ok(())
    }

    fn restore(&mut self, what: Restore) -> Result<(), RigError> {
        if self.stuck {
            return Err(RigError::NotBack(vec!["server.a: somebody changed it".to_owned()]));
        }
        if self.is_down() && self.now != begun().start {
            return Err(RigError::NotBackYet(vec!["server.a: connection refused".to_owned()]));
        }
        let held = what == Restore::NotHeld;
        self.now.extend(begun().start.into_iter().filter(|(knob, _)| !(held && self.held.contains(knob))));
        Ok(())
    }

    fn pause(&mut self, _: Duration) {
        if let Some(stop) = self.stops_in_pause.as_ref().filter(|_| self.is_down()) {
            stop.store(true, Ordering::Relaxed);
        }
    }

    fn connect(&mut self, _: Point) -> Result<(), RigError> {
        self.there()?;
        self.anew = false;
        let set = |text: &&str| self.now.iter().any(|(knob, value)| format!("{knob}={value}") == *text);
        if self.breaks.filter(set).is_some() {
            self.breaks = None;
            return Err(RigError::NotConnected);
        }
        Ok(())
    }

    fn send(
        &mut self,
        time: Duration,
        seed: Seed,
        go_on: &mut dyn FnMut(&Second, Option<f64>) -> bool,
    ) -> Result<Stretch, RigError> {
        let here = !self.elsewhere;
        go_on(&Second::default(), here.then_some(0.5));
        self.sent += 1;
        self.seeds.push(seed);
        if self
            .crashes
            .is_some_and(|text| self.now.iter().any(|(knob, value)| format!("{knob}={value}") == text))
        {
            self.down = Some((0, 2));
        }
        if self.is_down() {
            self.anew = true;
            return Ok(Stretch { void: vec!["nothing was answered".to_owned()], ..Stretch::default() });
        }
        if let Some((after, stop)) = &self.stops_after {
            stop.store(self.sent >= *after, Ordering::Relaxed);
        }
        // A little noise that follows from nothing but the count: two blocks never agree to the digit.
        let noise = 1.0 + (self.sent * 7_919 % 13) as f64 / 2_000.0;
        let per_second = if self.now["server.a"] == "2" { 50.0 } else { 100.0 } * noise;
        let set = |text: &str| self.now.iter().any(|(knob, value)| format!("{knob}={value}") == text);
        let slow = self.slow.is_some_and(set) && self.slow_for != Some(0);
        self.slow_for = self.slow_for.map(|left| left.saturating_sub(usize::from(slow)));
        let p99_ms = if slow { 90.0 } else { 10.0 };
        let window = Window { per_second, p99_ms, ..Window::default() };
        let host = HostFigures { memory: if here { 0.5 } else { 0.99 }, ..HostFigures::default() };
        let second = |at: u32| Second { done: 100, p99_ms: 100.0 / f64::from(at + 1), ..Second::default() };
        let series = (0..16).filter(|_| self.drifts).map(second).collect();
        let (error, memory) = (Some(self.by_chance), here.then_some(0.5));
        let took = time + self.drain;
        Ok(Stretch { window, took, error, host, series, memory, ..Stretch::default() })
    }

    fn disconnect(&mut self) {}
}

fn experiment(refused: &[RefusedLevel]) -> Experiment {
    Experiment::new(Spec::parse(EXAMPLE, "t.toml").unwrap(), refused).unwrap()
}

fn go(dir: &Path, rig: &mut Simulated, stop: &AtomicBool) -> Result<End, RunError> {
    go_on(&experiment(&[]), dir, rig, stop)
}

fn go_on(
    experiment: &Experiment,
    dir: &Path,
    rig: &mut Simulated,
    stop: &AtomicBool,
) -> Result<End, RunError> {
    let (mut store, trials) = match store::read(dir) {
        Err(_) => (Store::create(dir, EXAMPLE, &begun()).unwrap(), Vec::new()),
        Ok(_) => {
            let (store, history) = Store::resume(dir, EXAMPLE, &begun().server).unwrap();
            (store, history.trials)
        }
    };
    run(experiment, &begun(), trials, &mut store, rig, stop, &mut |_| {})
}

#[test]
fn a_run_that_is_stopped_puts_back_and_goes_on_where_it_was() {
    let (whole, parts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let end = go(whole.path(), &mut Simulated::new(), &AtomicBool::new(false)).unwrap();
    let End::Ended(ended) = end else { panic!("{end:?}") };
    assert!(ended.complete && ended.differ.is_empty() && ended.back[0].is_some(), "{ended:?}");

    let stop = std::sync::Arc::new(AtomicBool::new(false));
    let mut rig = Simulated { stops_after: Some((30, stop.clone())), ..Simulated::new() };
    assert_eq!(go(parts.path(), &mut rig, &stop).unwrap(), End::Interrupted);
    assert_eq!(rig.now, begun().start, "everything is back");
    let so_far = store::read(parts.path()).unwrap().trials.len();
    assert!((5..20).contains(&so_far), "{so_far}");
    go(parts.path(), &mut Simulated::new(), &AtomicBool::new(false)).unwrap();
    let runs = |history: History| history.trials.iter().map(|one| (one.place, one.run)).collect::<Vec<_>>();
    assert_eq!(runs(store::read(parts.path()).unwrap()), runs(store::read(whole.path()).unwrap()));
}

#[test]
fn no_stretch_draws_the_keys_of_another_and_a_block_is_due_at_the_same_moments() {
    let dir = tempfile::tempdir().unwrap();
    let mut rig = Simulated::new();
    go(dir.path(), &mut rig, &AtomicBool::new(false)).unwrap();
    let mut keys: Vec<u64> = rig.seeds.iter().map(|seed| seed.keys).collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), rig.seeds.len());
    let moments: std::collections::BTreeSet<u64> = rig.seeds.iter().map(|seed| seed.moments).collect();
    assert!(moments.len() < keys.len() / 2, "{} of {}", moments.len(), keys.len());
}

#[test]
fn what_takes_a_restart_is_changed_by_plots_and_the_data_are_reset_before_each_block() {
    let dir = tempfile::tempdir().unwrap();
    let text = EXAMPLE.replacen("knob = \"server.a\"", "whole_plot = true\nknob = \"server.a\"", 1);
    let text = text.replace("kind = \"one-at-a-time\"", "kind = \"full\"");
    let spec = Spec::parse(&text, "t.toml").unwrap();
    let experiment = Experiment::new(spec, &[]).unwrap();
    let mut store = Store::create(dir.path(), &text, &begun()).unwrap();
    let mut rig = Simulated::new();
    let stop = AtomicBool::new(false);
    run(&experiment, &begun(), Vec::new(), &mut store, &mut rig, &stop, &mut |_| {}).unwrap();
    let trials = store::read(dir.path()).unwrap().trials;
    let off =
        |trial: &&Trial| experiment.assignments(trial.run).iter().any(|one| one.held && one.value != "0");
    let cells_off = trials.iter().filter(off).count();
    // Three plots and the baseline looked in on twice: a few changes a block, not one a trial.
    assert!(rig.restarts <= 4 * 5 && rig.restarts < cells_off * 2, "{} of {cells_off}", rig.restarts);
    assert_eq!(rig.resets, 4 + 1, "each block, and the baseline in the end");
    assert_eq!(rig.now, begun().start, "everything is back in the end");
}

#[test]
fn what_is_refused_or_too_slow_is_never_counted_and_the_rest_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let mut rig = Simulated { refuses: Some("server.b=1"), slow: Some("server.b=2"), ..Simulated::new() };
    go(dir.path(), &mut rig, &AtomicBool::new(false)).unwrap();
    let history = store::read(dir.path()).unwrap();
    let of = |cell| {
        let mut of = history.trials.iter().filter(|trial| trial.run == Run::Cell(cell));
        of.next().map(|trial| trial.outcome.clone())
    };
    assert!(matches!(of(2), Some(Outcome::Refused { why }) if why.contains("server.b")));
    let slow: Vec<&Outcome> =
        history.trials.iter().filter(|one| one.run == Run::Cell(3)).map(|one| &one.outcome).collect();
    assert!(
        matches!(slow[..], [Outcome::Void { why, slow: true }, Outcome::GivenUp { why: again }]
            if why.contains("9.0 times") && again.contains("9.0 times")),
        "{slow:?}"
    );
    let last: Vec<Run> =
        history.trials.iter().filter(|one| one.place.stage == 1).map(|one| one.run).collect();
    assert!(last.contains(&Run::Cell(0)) && !last.contains(&Run::Cell(2)) && !last.contains(&Run::Cell(3)));
}

#[test]
fn the_memory_of_the_machine_that_sends_ends_nothing_of_a_server_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let mut rig = Simulated { elsewhere: true, ..Simulated::new() };
    go(dir.path(), &mut rig, &AtomicBool::new(false)).unwrap();
    let history = store::read(dir.path()).unwrap();
    assert!(history.trials.iter().all(|one| matches!(one.outcome, Outcome::Measured(_))));
}

#[test]
fn a_cell_that_is_slow_once_is_tried_again_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    // All of one warm-up, as far as it becomes steady.
    let mut rig = Simulated { slow: Some("server.b=1"), slow_for: Some(3), ..Simulated::new() };
    go(dir.path(), &mut rig, &AtomicBool::new(false)).unwrap();
    let history = store::read(dir.path()).unwrap();
    let outcomes: Vec<&Outcome> =
        history.trials.iter().filter(|one| one.run == Run::Cell(2)).map(|one| &one.outcome).collect();
    let [Outcome::Void { why, .. }, Outcome::Measured(_), ..] = outcomes[..] else { panic!("{outcomes:?}") };
    assert!(why.contains("after the warm-up p99"), "{why}");
    assert!(outcomes.iter().all(|one| !matches!(one, Outcome::GivenUp { .. })), "{outcomes:?}");
}

#[test]
fn a_cell_that_is_slow_for_the_first_time_in_its_second_attempt_is_not_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let (breaks, slow) = (Some("server.b=1"), Some("server.b=1"));
    let mut rig = Simulated { breaks, slow, slow_for: Some(3), ..Simulated::new() };
    go(dir.path(), &mut rig, &AtomicBool::new(false)).unwrap();
    let history = store::read(dir.path()).unwrap();
    let outcomes: Vec<&Outcome> =
        history.trials.iter().filter(|one| one.run == Run::Cell(2)).map(|one| &one.outcome).collect();
    let [Outcome::Void { slow: false, .. }, Outcome::Void { slow: true, .. }, ..] = outcomes[..] else {
        panic!("{outcomes:?}")
    };
    assert!(outcomes.iter().all(|one| !matches!(one, Outcome::GivenUp { .. })), "{outcomes:?}");
}

#[test]
fn a_level_that_is_refused_beforehand_takes_its_cells_out_and_a_whole_factor_if_it_is_the_baseline() {
    let refused = |knob: &str, level: &str| RefusedLevel {
        knob: knob.to_owned(),
        level: level.to_owned(),
        why: "no".to_owned(),
    };
    assert_eq!(experiment(&[refused("server.b", "1")]).possible, [0, 1, 3]);
    let without = experiment(&[refused("server.b", "0")]);
    assert_eq!(without.possible, [0, 1]);
    assert!(without.assignments(Run::Baseline).iter().all(|one| one.knob != "server.b"), "it is left alone");
}

#[test]
fn what_is_not_back_or_no_baseline_ends_everything() {
    let dir = tempfile::tempdir().unwrap();
    let mut rig = Simulated { stuck: true, ..Simulated::new() };
    let error = go(dir.path(), &mut rig, &AtomicBool::new(false)).unwrap_err();
    assert!(matches!(error, RunError::NotBack(_)), "{error}");
    let dir = tempfile::tempdir().unwrap();
    let mut rig = Simulated { refuses: Some("server.a=0"), ..Simulated::new() };
    let error = go(dir.path(), &mut rig, &AtomicBool::new(false)).unwrap_err();
    assert!(matches!(error, RunError::Baseline(_)), "{error}");
}

#[test]
fn a_baseline_that_is_refused_on_trying_leaves_its_factor_as_it_is_and_the_rest_is_tried() {
    let mut rig = Simulated { refuses: Some("server.a=0"), ..Simulated::new() };
    let refused = try_baseline(&experiment(&[]), &mut rig).unwrap();
    let levels: Vec<(&str, &str)> =
        refused.iter().map(|one| (one.knob.as_str(), one.level.as_str())).collect();
    assert_eq!(levels, [("server.a", "0")]);
    assert_eq!(rig.now, begun().start, "it is put back");
    let (rest, dir) = (experiment(&refused), tempfile::tempdir().unwrap());
    assert_eq!(rest.possible, [2, 3], "those of the other factor");
    go_on(&rest, dir.path(), &mut rig, &AtomicBool::new(false)).unwrap();
    let trials = store::read(dir.path()).unwrap().trials;
    assert!(trials.iter().all(|one| matches!(one.outcome, Outcome::Measured(_))), "{trials:?}");
    assert!(try_baseline(&rest, &mut Simulated::new()).unwrap().is_empty());
    let stuck = try_baseline(&rest, &mut Simulated { stuck: true, ..Simulated::new() });
    assert!(matches!(stuck, Err(RunError::NotBack(_))), "{stuck:?}");
}

/// Whatever it was about to do: reset, apply, warm up, measure; of a baseline or a cell.
#[test]
fn a_server_that_is_restarted_costs_no_trial_and_no_cell() {
    let whole = tempfile::tempdir().unwrap();
    go(whole.path(), &mut Simulated::new(), &AtomicBool::new(false)).unwrap();
    let whole = store::read(whole.path()).unwrap().trials;
    for after in [0, 1, 3, 4, 5, 6, 8, 9, 13, 17, 21, 30, 33, 50, 101, 105, 108] {
        let dir = tempfile::tempdir().unwrap();
        let mut rig = Simulated { down: Some((after, 5)), ..Simulated::new() };
        let end = go(dir.path(), &mut rig, &AtomicBool::new(false)).unwrap();
        let End::Ended(ended) = end else { panic!("{end:?}") };
        assert!(ended.complete && ended.differ.is_empty() && ended.back[0].is_some(), "{after}: {ended:?}");
        let trials = store::read(dir.path()).unwrap().trials;
        assert_eq!(trials.len(), whole.len(), "after {after}");
        for trial in &trials {
            assert!(matches!(trial.outcome, Outcome::Measured(_)), "after {after}: {trial:?}");
            assert_eq!(trial.place.attempt, 0);
        }
        assert_eq!(rig.now, begun().start);
    }
}

#[test]
fn a_server_that_does_not_come_back_ends_the_run_without_an_outcome_and_it_goes_on_later() {
    // Of each trial's four stretches the last is the measurement.
    for after in [0, 4, 5, 13, 14] {
        let dir = tempfile::tempdir().unwrap();
        let mut rig = Simulated { down: Some((after, usize::MAX)), ..Simulated::new() };
        let error = go(dir.path(), &mut rig, &AtomicBool::new(false)).unwrap_err();
        let words = error.to_string();
        assert!(matches!(error, RunError::Unanswered { .. }), "{after}: {words}");
        assert!(words.contains("connection refused") && words.contains("--resume"), "{words}");
        let so_far = store::read(dir.path()).unwrap();
        assert!(so_far.ended.is_none() && so_far.trials.len() == after.saturating_sub(1) / 4);
        let end = go(dir.path(), &mut Simulated::new(), &AtomicBool::new(false)).unwrap();
        assert!(matches!(end, End::Ended(Ended { complete: true, .. })), "{end:?}");
        let trials = store::read(dir.path()).unwrap().trials;
        assert!(trials.iter().all(|trial| matches!(trial.outcome, Outcome::Measured(_))));
    }
}

#[test]
fn what_is_still_changed_when_nobody_answers_is_said() {
    // In the middle of the stretches of the first cell that sets something.
    let error = (8..40).find_map(|after| {
        let dir = tempfile::tempdir().unwrap();
        let mut rig = Simulated { down: Some((after, usize::MAX)), ..Simulated::new() };
        match go(dir.path(), &mut rig, &AtomicBool::new(false)) {
            Err(error @ RunError::Unanswered { left: Some(_), .. }) => Some(error),
            _ => None,
        }
    });
    let words = error.unwrap().to_string();
    assert!(words.contains("first puts back") && words.contains("server.a"), "{words}");
}

#[test]
fn a_person_can_end_the_wait_for_a_server() {
    // In the lead-in, whose settings are those at the start, and in a cell.
    let ended = [0, 5].map(|after| {
        let dir = tempfile::tempdir().unwrap();
        let stop = std::sync::Arc::new(AtomicBool::new(false));
        let down = Some((after, usize::MAX));
        let mut rig = Simulated { down, stops_in_pause: Some(stop.clone()), ..Simulated::new() };
        go(dir.path(), &mut rig, &stop)
    });
    assert!(matches!(ended[0], Ok(End::Interrupted)), "{ended:?}");
    assert!(
        matches!(ended[1], Err(RunError::Unanswered { left: Some(_), .. })),
        "not all is back: {ended:?}"
    );
}

#[test]
fn a_cell_that_ends_the_server_each_time_is_given_up_and_the_rest_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let mut rig = Simulated { crashes: Some("server.b=1"), ..Simulated::new() };
    let end = go(dir.path(), &mut rig, &AtomicBool::new(false)).unwrap();
    assert!(matches!(end, End::Ended(Ended { complete: true, .. })), "{end:?}");
    let trials = store::read(dir.path()).unwrap().trials;
    let (of_it, others): (Vec<&Trial>, Vec<&Trial>) =
        trials.iter().partition(|trial| trial.run == Run::Cell(2));
    let [Trial { outcome: Outcome::GivenUp { why }, .. }] = of_it[..] else { panic!("{of_it:?}") };
    assert!(why.contains("3 times"), "{why}");
    assert!(others.iter().all(|trial| matches!(trial.outcome, Outcome::Measured(_))));
}

#[test]
fn the_time_that_is_left_is_no_more_than_the_budget() {
    let text = EXAMPLE.replacen("[load]", "budget = \"10m\"\n[load]", 1);
    let experiment = Experiment::new(Spec::parse(&text, "t.toml").unwrap(), &[]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::create(dir.path(), &text, &begun()).unwrap();
    let mut first = None;
    let mut tell = |event: &Event<'_>| {
        if let Event::Begins { time_left, .. } = event {
            first.get_or_insert(*time_left);
        }
    };
    let (mut rig, stop) = (Simulated::new(), AtomicBool::new(false));
    run(&experiment, &begun(), Vec::new(), &mut store, &mut rig, &stop, &mut tell).unwrap();
    // 26 trials of 50.7 s.
    assert_eq!(first, Some(Duration::from_secs(600)));
}

#[test]
fn an_open_loop_that_drifts_is_run_again_and_its_lead_in_is_not() {
    let text = EXAMPLE.replacen("threads = [4]", "rates = [100.0]", 1);
    let experiment = Experiment::new(Spec::parse(&text, "t.toml").unwrap(), &[]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::create(dir.path(), &text, &begun()).unwrap();
    let mut rig = Simulated { drifts: true, ..Simulated::new() };
    let stop = AtomicBool::new(false);
    run(&experiment, &begun(), Vec::new(), &mut store, &mut rig, &stop, &mut |_| {}).unwrap();
    let trials = store::read(dir.path()).unwrap().trials;
    let is_void = |trial: &Trial| matches!(trial.outcome, Outcome::Void { .. });
    for trial in &trials {
        let expected = trial.run != Run::LeadIn && trial.place.attempt == 0;
        assert_eq!(is_void(trial), expected, "{trial:?}");
    }
    assert!(trials.iter().any(is_void));
}

#[test]
fn windows_of_few_transactions_are_taken_together_within_a_warm_up_of_the_usual_length() {
    // Three windows tell with an error of 2 %, three pairs of them with 4 %; with 5 % nobody can tell.
    let cases = [(0.02, Some(true), 7.5), (0.04, Some(true), 15.0), (0.05, None, 15.0)];
    for (by_chance, steady, sent_s) in cases {
        let dir = tempfile::tempdir().unwrap();
        let mut rig = Simulated { by_chance, ..Simulated::new() };
        go(dir.path(), &mut rig, &AtomicBool::new(false)).unwrap();
        for trial in store::read(dir.path()).unwrap().trials {
            let Outcome::Measured(measured) = &trial.outcome else { panic!("{trial:?}") };
            assert_eq!((measured.steady, measured.warm_up_s), (steady, sent_s), "{by_chance}");
        }
    }
}

#[test]
fn what_is_waited_for_behind_each_window_is_part_of_the_time_to_warm_up() {
    // Windows of 2.5 s that take 3.5 s each; 2.501 s is what they take where nothing is slow.
    for (drain_ms, passed_s) in [(1000, 14.0), (1, 15.006)] {
        let dir = tempfile::tempdir().unwrap();
        let drain = Duration::from_millis(drain_ms);
        let mut rig = Simulated { by_chance: 0.05, drain, ..Simulated::new() };
        go(dir.path(), &mut rig, &AtomicBool::new(false)).unwrap();
        for trial in store::read(dir.path()).unwrap().trials {
            let Outcome::Measured(measured) = &trial.outcome else { panic!("{trial:?}") };
            assert!((measured.warm_up_s - passed_s).abs() < 1e-9, "{measured:?}");
        }
    }
}

#[test]
fn a_tuner_that_is_started_meanwhile_ends_the_run_and_costs_no_cell() {
    for after in [0, 4, 12, 20] {
        let dir = tempfile::tempdir().unwrap();
        let mut rig = Simulated { tuner_after: Some(after), ..Simulated::new() };
        let error = go(dir.path(), &mut rig, &AtomicBool::new(false)).unwrap_err();
        let words = error.to_string();
        assert!(matches!(error, RunError::Hindered(_)), "{after}: {words}");
        assert!(words.contains("tuned") && words.contains("--resume"), "{words}");
        assert_eq!(rig.now, begun().start, "everything is back");
        go(dir.path(), &mut Simulated::new(), &AtomicBool::new(false)).unwrap();
        let trials = store::read(dir.path()).unwrap().trials;
        assert!(trials.iter().all(|one| matches!(one.outcome, Outcome::Measured(_))), "{after}: {trials:?}");
    }
}

#[test]
fn the_first_run_of_a_process_and_after_data_that_were_made_anew_counts_for_nothing() {
    let mut experiment = experiment(&[]);
    experiment.spec.reset.data = Data::Tables;
    let settings = |run: Run| {
        let values = experiment.assignments(run).into_iter().map(|one| one.value);
        values.collect::<Vec<_>>().join(" ")
    };
    let dir = tempfile::tempdir().unwrap();
    let stop = std::sync::Arc::new(AtomicBool::new(false));
    let mut rig = Simulated { stops_after: Some((10, stop.clone())), ..Simulated::new() };
    assert_eq!(go_on(&experiment, dir.path(), &mut rig, &stop).unwrap(), End::Interrupted);
    assert_eq!(rig.log[..2], ["data".to_owned(), settings(Run::LeadIn)], "a block begins with its own");
    let before = store::read(dir.path()).unwrap().trials;
    assert_eq!(before.len(), 2);

    // In the middle of a block.
    let mut rig = Simulated::new();
    go_on(&experiment, dir.path(), &mut rig, &AtomicBool::new(false)).unwrap();
    let trials = store::read(dir.path()).unwrap().trials;
    let next = trials[before.len()].run;
    assert_ne!(next, Run::LeadIn);
    assert_eq!(rig.log[..3], ["data".to_owned(), settings(Run::LeadIn), settings(next)]);
    assert_eq!(trials.iter().filter(|trial| trial.run == Run::LeadIn).count(), 4, "each block's own alone");
    // The baseline in the end.
    let baseline = settings(Run::Baseline);
    assert_eq!(rig.log[rig.log.len() - 3..], ["data".to_owned(), baseline.clone(), baseline]);
    assert_eq!(rig.log.iter().filter(|what| *what == "data").count(), 4 + 1);
}
