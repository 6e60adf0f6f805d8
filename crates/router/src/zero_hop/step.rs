//! Step: what is done about the programs, by how things stand and what the configuration asks for. Pure.
//!
//! Two ends are for good or for as long as somebody else wants it. What was switched off from outside stays
//! off until this process is started anew: whoever did it would otherwise have to do it again every ten
//! seconds. And what another process has taken over is its own as long as it lives: two that take it back
//! from each other would let connections go by the picks of either in turn.

use config::ZeroHop as Mode;

/// Where it is not available, it is tried again after this many ticks: somebody may have mounted what was
/// missing.
const TRY_AGAIN: u32 = 100;
/// Ticks between two looks whether the process that took over still lives.
const LIVES_LOOK: u32 = 5;

/// How things stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Nothing has been decided yet.
    New,
    /// Not asked for.
    Off,
    /// The kernel does not allow it, or something failed.
    Unavailable,
    /// Somebody has removed what was pinned.
    SwitchedOff,
    /// Another process writes what is pinned under our name.
    TakenOver,
    InForce,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Stay,
    /// Bring the programs in, or take them over.
    Open,
    /// Attach them to another cgroup.
    Move,
    /// Remove them, also those that a process before this one has left.
    Close,
}

/// The next step at this tick. `moves` is whether they are in another cgroup than the one asked for; `lives`
/// says whether another process that lives writes what is pinned under our name.
pub(super) fn step(
    standing: Standing,
    wanted: Mode,
    moves: bool,
    tick: u32,
    lives: impl Fn() -> bool,
) -> Step {
    match (standing, wanted) {
        (Standing::SwitchedOff, _) | (Standing::Off, Mode::Off) => Step::Stay,
        (Standing::TakenOver, _) if !tick.is_multiple_of(LIVES_LOOK) || lives() => Step::Stay,
        (_, Mode::Off) => Step::Close,
        (Standing::InForce, _) if moves => Step::Move,
        (Standing::InForce, _) => Step::Stay,
        (Standing::Unavailable, _) if !tick.is_multiple_of(TRY_AGAIN) || lives() => Step::Stay,
        (Standing::New | Standing::Off | Standing::Unavailable | Standing::TakenOver, _) => Step::Open,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Mode; 3] = [Mode::Off, Mode::Auto, Mode::Require];

    /// The steps of two minutes.
    fn steps(standing: Standing, wanted: Mode, lives: bool) -> Vec<Step> {
        (1..1200).map(|tick| step(standing, wanted, false, tick, || lives)).collect()
    }

    #[test]
    fn what_was_switched_off_from_outside_stays_off_until_the_next_start() {
        for wanted in ALL {
            assert!(steps(Standing::SwitchedOff, wanted, false).iter().all(|step| *step == Step::Stay));
        }
    }

    #[test]
    fn what_another_process_took_over_is_its_own_as_long_as_it_lives_and_ours_soon_after() {
        for (wanted, after) in
            [(Mode::Auto, Step::Open), (Mode::Require, Step::Open), (Mode::Off, Step::Close)]
        {
            assert!(steps(Standing::TakenOver, wanted, true).iter().all(|step| *step == Step::Stay));
            let soon = steps(Standing::TakenOver, wanted, false).iter().position(|step| *step == after);
            assert!(soon.is_some_and(|ticks| ticks < 10), "within a second: {soon:?}");
        }
    }

    #[test]
    fn what_is_not_available_is_tried_now_and_then_and_what_is_not_wanted_is_removed_once() {
        let opened =
            |standing| steps(standing, Mode::Auto, false).iter().filter(|s| **s == Step::Open).count();
        assert_eq!((opened(Standing::Unavailable), opened(Standing::InForce)), (11, 0));
        let begin = |wanted| step(Standing::New, wanted, false, 0, || unreachable!("nobody took over"));
        assert_eq!(ALL.map(begin), [Step::Close, Step::Open, Step::Open]);
        let off = |standing| step(standing, Mode::Off, false, 1, || false);
        assert_eq!((off(Standing::InForce), off(Standing::Off)), (Step::Close, Step::Stay));
    }

    #[test]
    fn another_cgroup_takes_effect_at_the_next_tick() {
        for (moves, expected) in [(true, Step::Move), (false, Step::Stay)] {
            assert_eq!(step(Standing::InForce, Mode::Auto, moves, 7, || false), expected);
        }
        assert_eq!(step(Standing::InForce, Mode::Off, true, 7, || false), Step::Close);
    }
}
