//! The steps of a switchover, which of them can be undone, and what follows what: a pure state machine.
//!
//! ```text
//!  lock -> record -> prepare -> catch up -> hold -> drain -> freeze -> await -> stop replication -> PROMOTE
//!    |                                                                                                 |
//!    '--- any failure: undo in reverse order, the primary takes writes again         mark -> release -> repoint -> verify
//! ```
//!
//! **Promote** is the point of no return: the candidate takes writes. Before it, a failure, a deadline or an
//! interrupt undoes what was done, newest first, the failed step included because it may have happened by
//! half. After it, a failure never goes back: the step is reported and the next one is done.
//!
//! What cannot be written into the journal fails like a step: before *promote* nothing more is begun and what
//! was done is undone; after it, and while undoing, the steps go on all the same.
//!
//! Two things end in doubt, and then nothing moves until a person decides: the answer to *promote* itself
//! (the connection broke, and the candidate cannot be asked), because whoever guesses may make two writers;
//! and a freeze that could not be undone, because then nobody takes writes.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What is done, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// One operation at a time: a lock on every server.
    Lock,
    /// The plan is written into a table of the primary, so that another host can finish or undo it.
    Record,
    /// Routers are told that a switchover is near: they ask more often.
    Prepare,
    /// The candidate reaches the primary's position of now, before anybody waits.
    CatchUp,
    /// Routers hold new writes.
    Hold,
    /// Open transactions end.
    Drain,
    /// The primary refuses writes, of administrators too.
    Freeze,
    /// The candidate has everything that the primary has.
    Await,
    /// The candidate's replication threads stop; semi-sync is made ready.
    StopReplication,
    /// The candidate takes writes. No way back from here.
    Promote,
    /// The new epoch is written on the new primary: the first write, and the proof that it takes some.
    Mark,
    /// Routers send writes to the new primary.
    Release,
    /// The former primary and the other replicas follow the new primary.
    Repoint,
    /// Everything replicates from where it should.
    Verify,
}

/// Facts about a step: one table drives execution, help and documentation.
#[derive(Clone, Copy, Debug)]
pub struct About {
    pub step: Step,
    /// As progress and the journal call it.
    pub name: &'static str,
    /// What takes it back; `None` where nothing needs to.
    pub undo: Option<&'static str>,
    /// Whether clients' writes wait while it lasts.
    pub writes_wait: bool,
}

/// All steps in their order.
pub const STEPS: [About; 14] = [
    about(Step::Lock, "lock", Some("give the lock back"), false),
    about(Step::Record, "record", Some("mark the record as undone"), false),
    about(Step::Prepare, "prepare", Some("withdraw the announcement"), false),
    about(Step::CatchUp, "catch up", None, false),
    about(Step::Hold, "hold", Some("withdraw the hold: routers send writes to the primary"), true),
    about(Step::Drain, "drain", None, true),
    about(Step::Freeze, "freeze", Some("let the primary take writes again"), true),
    about(Step::Await, "await", None, true),
    about(Step::StopReplication, "stop replication", Some("start the candidate's replication again"), true),
    about(Step::Promote, "promote", None, true),
    about(Step::Mark, "mark", None, true),
    about(Step::Release, "release", None, true),
    about(Step::Repoint, "repoint", None, false),
    about(Step::Verify, "verify", None, false),
];

const fn about(step: Step, name: &'static str, undo: Option<&'static str>, writes_wait: bool) -> About {
    About { step, name, undo, writes_wait }
}

/// Where a switchover stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum State {
    /// This step is to be done.
    Forward { step: Step },
    /// This step is to be undone, because of `why`.
    Undoing {
        step: Step,
        /// What failed first.
        why: String,
    },
    /// The candidate is the primary.
    Done,
    /// Everything is as it was before.
    Undone {
        /// What failed first.
        why: String,
    },
    /// Whether the candidate was promoted is not known, or the old primary could not be told to take writes
    /// again: it stays frozen.
    Undecided { why: String },
}

/// How a step, or its undoing, ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ended", rename_all = "snake_case")]
pub enum Event {
    /// It did what it should.
    Done,
    /// It did not, or was interrupted.
    Failed { why: String },
    /// Whether it happened cannot be found out.
    Unknown { why: String },
}

impl Step {
    /// The table's row.
    pub fn about(self) -> &'static About {
        &STEPS[self.index()]
    }

    /// Whether a failure of this step is undone.
    pub fn is_before_the_point_of_no_return(self) -> bool {
        self < Self::Promote
    }

    fn index(self) -> usize {
        self as usize
    }

    fn next(self) -> Option<Self> {
        STEPS.get(self.index() + 1).map(|about| about.step)
    }

    fn previous(self) -> Option<Self> {
        self.index().checked_sub(1).map(|index| STEPS[index].step)
    }
}

impl State {
    /// Where every switchover begins.
    pub const START: Self = Self::Forward { step: Step::Lock };

    /// Whether there is nothing left to do.
    pub fn is_over(&self) -> bool {
        !matches!(self, Self::Forward { .. } | Self::Undoing { .. })
    }

    #[must_use]
    pub fn next(self, event: Event) -> Self {
        match (self, event) {
            (Self::Forward { step }, Event::Done) => forward(step),
            (Self::Forward { step: Step::Promote }, Event::Unknown { why }) => Self::Undecided { why },
            (Self::Forward { step: Step::Promote }, Event::Failed { why }) => undo_before(Step::Promote, why),
            (Self::Forward { step }, Event::Failed { why } | Event::Unknown { why }) => {
                if step.is_before_the_point_of_no_return() {
                    Self::Undoing { step, why }
                } else {
                    forward(step)
                }
            }
            (
                Self::Undoing { step: Step::Freeze, why },
                Event::Failed { why: undo } | Event::Unknown { why: undo },
            ) => Self::Undecided { why: format!("{undo} (it was to be undone because {why})") },
            // What else could not be undone is kept in the journal by whoever performs; the rest is undone
            // all the same.
            (Self::Undoing { step, why }, _) => undo_before(step, why),
            (over, _) => over,
        }
    }

    /// Where to go on when it cannot be written down that this state's step begins, because of `why`.
    #[must_use]
    pub fn unwritten(self, why: String) -> Self {
        match self {
            Self::Forward { step } if step <= Step::Promote => undo_before(step, why),
            state => state,
        }
    }

    /// Where to go on after whoever did this was killed: `begun` is the last step that the journal says was
    /// begun, and `ended` how it ended, if the journal says so. Before the promotion everything is undone,
    /// whether that step ended or not: nobody has kept the primary closed since. `Promote` without an end
    /// must be found out first: `promoted` is the candidate's own answer, `None` when it gives none.
    pub fn resume(begun: Step, ended: Option<Event>, promoted: Option<bool>) -> Self {
        let why = || "whoever did this was stopped".to_owned();
        match (begun, ended) {
            // An end in doubt is the same as none: the candidate may answer now.
            (Step::Promote, None | Some(Event::Unknown { .. })) => match promoted {
                Some(true) => forward(Step::Promote),
                Some(false) => undo_before(Step::Promote, why()),
                None => Self::Undecided { why: "the candidate does not answer".to_owned() },
            },
            (step, None | Some(Event::Done)) if step.is_before_the_point_of_no_return() => {
                Self::Undoing { step, why: why() }
            }
            (step, Some(event)) => Self::Forward { step }.next(event),
            (step, None) => Self::Forward { step },
        }
    }
}

/// Why a switchover cannot be undone any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the candidate was promoted: clients may have written to it")]
pub struct AlreadyPromoted;

/// Undoing on demand what was left in doubt. Only a promotion that nobody knows the outcome of can be given
/// up by a person: before it, resuming undoes anyway, and after it clients may have been told that their
/// writes are safe.
///
/// # Errors
/// The candidate was promoted.
pub fn give_up(begun: Step, ended: Option<&Event>, promoted: Option<bool>) -> Result<State, AlreadyPromoted> {
    let is_promoted = begun > Step::Promote || (begun == Step::Promote && ended == Some(&Event::Done));
    if promoted == Some(true) || is_promoted {
        return Err(AlreadyPromoted);
    }
    let why = "asked for with --undo".to_owned();
    Ok(State::Undoing { step: begun.min(Step::StopReplication), why })
}

fn forward(step: Step) -> State {
    step.next().map_or(State::Done, |step| State::Forward { step })
}

fn undo_before(step: Step, why: String) -> State {
    match step.previous() {
        Some(step) => State::Undoing { step, why },
        None => State::Undone { why },
    }
}

impl Event {
    /// The same end of a step when it cannot be written down, because of `why`: what nobody could undo later
    /// is undone at once. A promotion has happened all the same.
    #[must_use]
    pub fn unwritten(self, step: Step, undo: bool, why: String) -> Self {
        let is_undone = !undo && step.is_before_the_point_of_no_return() && self == Self::Done;
        if is_undone { Self::Failed { why } } else { self }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.about().name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What the steps do to the world, for the promises below.
    #[derive(Clone, Debug, PartialEq)]
    struct World {
        primary_takes_writes: bool,
        candidate_takes_writes: bool,
        candidate_replicates: bool,
        announced: bool,
        held: bool,
    }

    impl World {
        const START: Self = Self {
            primary_takes_writes: true,
            candidate_takes_writes: false,
            candidate_replicates: true,
            announced: false,
            held: false,
        };

        fn done(&mut self, step: Step) {
            match step {
                Step::Prepare => self.announced = true,
                Step::Hold => self.held = true,
                Step::Freeze => self.primary_takes_writes = false,
                Step::StopReplication => self.candidate_replicates = false,
                Step::Promote => self.candidate_takes_writes = true,
                Step::Release => (self.announced, self.held) = (false, false),
                _ => {}
            }
        }

        fn undone(&mut self, step: Step) {
            match step {
                Step::Prepare => self.announced = false,
                Step::Hold => self.held = false,
                Step::Freeze => self.primary_takes_writes = true,
                Step::StopReplication => self.candidate_replicates = true,
                _ => {}
            }
        }

        fn writers(&self) -> u8 {
            u8::from(self.primary_takes_writes) + u8::from(self.candidate_takes_writes)
        }
    }

    fn failed() -> Event {
        Event::Failed { why: "made".to_owned() }
    }

    /// Plays a switchover in which `fails_at` fails, `half` telling whether it happened all the same.
    fn play(fails_at: Option<Step>, half: bool, unknown: bool) -> (State, World) {
        let (mut state, mut world) = (State::START, World::START);
        for _ in 0..100 {
            let event = match &state {
                State::Forward { step } if Some(*step) == fails_at => {
                    if half {
                        world.done(*step);
                    }
                    if unknown { Event::Unknown { why: "made".to_owned() } } else { failed() }
                }
                State::Forward { step } => {
                    world.done(*step);
                    Event::Done
                }
                State::Undoing { step, .. } => {
                    world.undone(*step);
                    Event::Done
                }
                _ => return (state, world),
            };
            assert!(world.writers() <= 1, "two writers: {state:?} {world:?}");
            state = state.next(event);
        }
        panic!("a switchover must end");
    }

    #[test]
    fn the_table_is_in_the_order_of_the_steps() {
        for (index, about) in STEPS.iter().enumerate() {
            assert_eq!(about.step.index(), index);
        }
    }

    #[test]
    fn what_fails_before_the_point_of_no_return_leaves_the_world_as_it_was() {
        for about in STEPS.iter().filter(|about| about.step.is_before_the_point_of_no_return()) {
            for half in [false, true] {
                let (state, world) = play(Some(about.step), half, false);
                assert!(matches!(state, State::Undone { .. }), "{} {state:?}", about.name);
                assert_eq!(world, World::START, "{} {half}", about.name);
            }
        }
    }

    #[test]
    fn a_freeze_that_cannot_be_undone_is_no_end() {
        let undoing = |step| State::Undoing { step, why: "the candidate is late".to_owned() };
        let State::Undecided { why } = undoing(Step::Freeze).next(failed()) else {
            panic!("nobody takes writes")
        };
        assert_eq!(why, "made (it was to be undone because the candidate is late)");
        // Whatever else stays, the primary takes writes.
        assert_eq!(undoing(Step::StopReplication).next(failed()), undoing(Step::Await));
    }

    #[test]
    fn a_promotion_that_was_refused_is_undone_and_one_in_doubt_moves_nothing() {
        let (state, world) = play(Some(Step::Promote), false, false);
        assert!(matches!(state, State::Undone { .. }));
        assert_eq!(world, World::START);
        for half in [false, true] {
            let (state, world) = play(Some(Step::Promote), half, true);
            assert!(matches!(state, State::Undecided { .. }));
            assert!(!world.primary_takes_writes, "the old primary stays frozen");
        }
    }

    #[test]
    fn what_fails_later_never_goes_back() {
        for about in STEPS.iter().filter(|about| about.step > Step::Promote) {
            let (state, world) = play(Some(about.step), true, false);
            assert_eq!(state, State::Done, "{}", about.name);
            assert!(world.candidate_takes_writes && !world.primary_takes_writes);
        }
    }

    #[test]
    fn nothing_fails_and_the_candidate_is_the_only_writer() {
        let (state, world) = play(None, false, false);
        assert_eq!(state, State::Done);
        assert!(world.candidate_takes_writes && !world.primary_takes_writes && !world.held);
    }

    #[test]
    fn a_candidate_that_was_promoted_is_never_given_up() {
        for about in STEPS {
            let ended = Some(Event::Done);
            let given_up = give_up(about.step, ended.as_ref(), None);
            assert_eq!(given_up.is_ok(), about.step < Step::Promote, "{}", about.name);
            assert!(give_up(about.step, None, Some(true)).is_err());
        }
        let doubt = give_up(Step::Promote, Some(&Event::Unknown { why: String::new() }), None).unwrap();
        assert!(matches!(doubt, State::Undoing { step: Step::StopReplication, .. }));
        // Restarted read-only since: it is still the primary.
        let resumed = State::resume(Step::Promote, Some(Event::Done), Some(false));
        assert_eq!(resumed, State::Forward { step: Step::Mark });
    }

    #[test]
    fn what_cannot_be_written_down_is_not_begun_before_the_promotion_and_goes_on_after_it() {
        let why = || "the disk is full".to_owned();
        assert_eq!(State::START.unwritten(why()), State::Undone { why: why() });
        for about in STEPS {
            let (step, forward) = (about.step, State::Forward { step: about.step });
            let undoing = State::Undoing { step, why: "made".to_owned() };
            assert_eq!(undoing.clone().unwritten(why()), undoing, "undoing goes on");
            assert_eq!(Event::Done.unwritten(step, true, why()), Event::Done);
            assert_eq!(failed().unwritten(step, false, why()), failed(), "the first reason stays");
            let (begun, ended) =
                (forward.clone().unwritten(why()), Event::Done.unwritten(step, false, why()));
            if step > Step::Promote {
                assert_eq!((begun, ended), (forward, Event::Done), "{}", about.name);
            } else {
                assert_eq!(begun, undo_before(step, why()), "{}", about.name);
                assert_eq!(ended == Event::Done, step == Step::Promote, "{}", about.name);
            }
        }
    }

    #[test]
    fn whoever_goes_on_before_the_promotion_undoes_whatever_has_ended() {
        for about in STEPS {
            for promoted in [None, Some(false)] {
                let state = State::resume(about.step, Some(Event::Done), promoted);
                match about.step {
                    step if step < Step::Promote => {
                        assert!(
                            matches!(&state, State::Undoing { step: from, .. } if *from == step),
                            "{state:?}"
                        );
                    }
                    step => assert_eq!(state, forward(step), "{}", about.name),
                }
            }
        }
        let late = State::resume(Step::Await, Some(failed()), None);
        assert_eq!(
            late,
            State::Undoing { step: Step::Await, why: "made".to_owned() },
            "the first reason stays"
        );
    }

    proptest! {
        #[test]
        fn killed_at_any_step_and_resumed_there_is_at_most_one_writer_and_an_end(
            at in 0usize..STEPS.len(), half in any::<bool>(), answers in any::<bool>(),
        ) {
            let killed_at = STEPS[at].step;
            let mut world = World::START;
            for about in &STEPS[..at] {
                world.done(about.step);
            }
            if half {
                world.done(killed_at);
            }
            // The announcements are locks of a connection: they end with whoever held them.
            (world.announced, world.held) = (false, false);
            let promoted = answers.then_some(world.candidate_takes_writes);
            let mut state = State::resume(killed_at, None, promoted);
            for _ in 0..100 {
                match &state {
                    State::Forward { step } => world.done(*step),
                    State::Undoing { step, .. } => world.undone(*step),
                    _ => break,
                }
                prop_assert!(world.writers() <= 1, "{state:?} {world:?}");
                state = state.next(Event::Done);
            }
            prop_assert!(state.is_over());
            match state {
                State::Done => prop_assert!(world.candidate_takes_writes),
                State::Undone { .. } => prop_assert_eq!(world, World::START),
                State::Undecided { .. } => prop_assert!(killed_at == Step::Promote && !answers),
                _ => unreachable!("over"),
            }
        }
    }
}
