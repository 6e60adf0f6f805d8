//! Experiments: what is varied, which cells are tried in which order, which go on, what is said in the end.
//!
//! Values first, with no I/O; nothing is random but what a generator given as an argument makes so: the same
//! seed is the same experiment.
//!
//! * [`spec`]: the TOML file, raw then checked.
//! * [`design`]: factors and levels become cells: all of them, Plackett-Burman folded, or one factor at a
//!   time.
//! * [`order`]: randomised complete blocks with the baseline twice and an A/A cell.
//! * [`halving`]: many cells once, the better ones again, the best and fresh blocks for the last word.
//! * [`schedule`]: which trial is next, given those that were run: how an experiment goes on after a crash.
//! * [`guard`]: when a warm-up is over, and when a cell is given up.
//! * [`verdict`]: better, worse, equivalent, undecided.
//! * [`cost`]: how long it takes and what it can find, before anything is touched.
//! * [`simulation`]: the method on hosts whose truth is known.
//! * [`effects`]: what each factor does, and which pairs.
//! * [`compare`]: two experiments, and many over time.
//! * [`report`]: what came of it, as values.
//!
//! May use `fleet`, `config`, `plan`, `chart`, `diagnose`, `load`, `knob` and `term`. Read first:
//! `spec.rs`, `schedule.rs`, `run.rs`.
//!
//! Then what does it:
//!
//! * [`store`]: a line on disk for each trial, written as it ends.
//! * [`run`]: the loop: apply, warm up, measure, put back, write.
//! * [`rig`]: what it is run on: settings through `knob`, the workload through `load`.
//! * [`preview`]: every write that it would make.
//! * [`carry_out`]: all of it, from a spec to its report; [`past`]: what lies on disk.

pub mod carry_out;
pub mod compare;
pub mod cost;
pub mod design;
pub mod effects;
pub mod figures;
pub mod guard;
pub mod halving;
pub mod init;
pub mod order;
pub mod page;
pub mod past;
pub mod preview;
pub mod report;
pub mod rig;
pub mod run;
pub mod schedule;
pub mod simulation;
pub mod snippet;
pub mod spec;
pub mod store;
pub mod text;
pub mod verdict;
