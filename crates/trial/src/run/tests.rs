//! Whole experiments on a rig that answers from a formula: what is measured again, given up, put back, and
//! gone on with after an end in the middle.

use super::*;
use crate::store::tests::{EXAMPLE, begun};
use crate::store::{self, History};
use std::path::Path;

/// A host of two knobs, whose load takes what they are set to.
#[derive(Default)]
struct Simulated {
    now: BTreeMap<String, String>,
    sent: usize,
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
}

impl Simulated {
    fn new() -> Self {
        Self { now: begun().start, ..Self::default() }
    }
}

impl Rig for Simulated {
    fn value(&mut self, knob: &str) -> Result<String, RigError> {
        self.now.get(knob).cloned().ok_or_else(|| Refusal::Absent { what: knob.to_owned() }.into())
    }

    fn refusal(&mut self, level: &Assignment) -> Result<Option<Refusal>, RigError> {
        let refused = self.refuses == Some(&format!("{}={}", level.knob, level.value));
        Ok(refused.then(|| Refusal::Denied { why: "read only".to_owned() }))
    }

    fn apply(&mut self, assignments: &[Assignment]) -> Result<(), RigError> {
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
        Ok(())
    }

    fn reset(&mut self, data: bool) -> Result<(), RigError> {
        self.resets += usize::from(data);
        Ok(())
    }

    fn restore(&mut self, what: Restore) -> Result<(), RigError> {
        if self.stuck {
            return Err(RigError::NotBack(vec!["server.a: somebody changed it".to_owned()]));
        }
        let held = what == Restore::NotHeld;
        self.now.extend(begun().start.into_iter().filter(|(knob, _)| !(held && self.held.contains(knob))));
        Ok(())
    }

    fn pause(&mut self, _: Duration) {}

    fn connect(&mut self, _: Point) -> Result<(), RigError> {
        let set = |text: &&str| self.now.iter().any(|(knob, value)| format!("{knob}={value}") == *text);
        if self.breaks.filter(set).is_some() {
            self.breaks = None;
            return Err(RigError::NotConnected);
        }
        Ok(())
    }

    fn send(
        &mut self,
        _: Duration,
        _: u64,
        go_on: &mut dyn FnMut(&Second, Option<f64>) -> bool,
    ) -> Result<Stretch, RigError> {
        let here = !self.elsewhere;
        go_on(&Second::default(), here.then_some(0.5));
        self.sent += 1;
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
        Ok(Stretch { window, host, memory: here.then_some(0.5), ..Stretch::default() })
    }

    fn disconnect(&mut self) {}
}

fn experiment(refused: &[RefusedLevel]) -> Experiment {
    Experiment::new(Spec::parse(EXAMPLE, "t.toml").unwrap(), refused).unwrap()
}

fn go(dir: &Path, rig: &mut Simulated, stop: &AtomicBool) -> Result<End, RunError> {
    let experiment = experiment(&[]);
    let (mut store, trials) = match store::read(dir) {
        Err(_) => (Store::create(dir, EXAMPLE, &begun()).unwrap(), Vec::new()),
        Ok(_) => {
            let (store, history) = Store::resume(dir, EXAMPLE, &begun().server).unwrap();
            (store, history.trials)
        }
    };
    run(&experiment, &begun(), trials, &mut store, rig, stop, &mut |_| {})
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
