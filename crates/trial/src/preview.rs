//! What a run would write, from what is there now; nothing is written.

use crate::order::Run;
use crate::rig::HostRig;
use crate::run::Experiment;
use serde::Serialize;

/// The writes of the baseline, or of a cell.
#[derive(Debug, Serialize)]
pub struct RunWrites {
    pub run: String,
    pub writes: Vec<knob::apply::Write>,
    /// Why it could not be run.
    pub refused: Option<String>,
}

/// For the baseline and each possible cell.
pub fn of(experiment: &Experiment, rig: &mut HostRig) -> Vec<RunWrites> {
    let cells = experiment.possible.iter().map(|cell| Run::Cell(*cell));
    let mut one = |run: Run| {
        let (writes, refused) = match rig.writes(&experiment.assignments(run)) {
            Ok(writes) => (writes, None),
            Err(why) => (Vec::new(), Some(why.to_string())),
        };
        RunWrites { run: experiment.words(run), writes, refused }
    };
    std::iter::once(Run::Baseline).chain(cells).map(&mut one).collect()
}

/// For people.
pub fn text(all: &[RunWrites]) -> String {
    let mut text = String::new();
    for RunWrites { run, writes, refused } in all {
        text.push_str(&format!("{run}\n"));
        for write in writes {
            let note = write.note.as_ref().map_or_else(String::new, |note| format!(" ({note})"));
            text.push_str(&format!("  {}: {} -> {}{note}\n", write.item, write.from, write.to));
        }
        match refused {
            Some(why) => text.push_str(&format!("  refused: {why}\n")),
            None if writes.is_empty() => text.push_str("  nothing: it is so already\n"),
            None => {}
        }
    }
    text + "Nothing was written.\n"
}
