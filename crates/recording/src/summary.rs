//! Summary: what came of a recording, for people and programs, and what to do where nothing came.

use crate::event::Event;
use crate::output::Output;
use serde::Serialize;
use std::path::PathBuf;

/// What was recorded.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RecordingSummary {
    pub file: PathBuf,
    pub sealed: bool,
    pub seconds: f64,
    pub sessions: u64,
    pub commands: u64,
    /// Events that are missing because whoever wrote the file could not keep up.
    pub lost: u64,
    /// Sessions that bypassed the router when it began.
    pub bypassed: u64,
    /// Sessions that it relayed then.
    pub relayed: u64,
    pub bytes: u64,
    /// Why it ended.
    pub ended: String,
    /// Where nothing was recorded: what to do.
    pub advice: Vec<String>,
}

impl RecordingSummary {
    /// Of a recording that begins in this file.
    pub fn of(output: &Output) -> Self {
        Self { file: output.path().to_owned(), sealed: output.is_sealed(), ..Self::default() }
    }

    /// One event more.
    pub fn count(&mut self, event: &Event) {
        match event {
            Event::SessionStart(_) => self.sessions += 1,
            Event::Command(said) => self.commands += u64::from(!said.before),
            Event::RecordingEnd(stopped) => {
                self.lost = stopped.lost;
                self.seconds = stopped.at_us as f64 / 1e6;
                self.ended.clone_from(&stopped.why);
            }
            Event::RecordingStart(_) | Event::SessionEnd(_) => {}
        }
    }

    /// In words.
    pub fn text(&self) -> String {
        let Self { seconds, sessions, commands, lost, bypassed, bytes, ended, .. } = self;
        let mut text = format!(
            "{commands} commands of {sessions} sessions in {seconds:.1} s, {:.1} MB{}, in {}; {ended}.\n",
            *bytes as f64 / 1e6,
            if self.sealed { " sealed" } else { "" },
            self.file.display()
        );
        if *lost > 0 {
            text += &format!(
                "{lost} events are missing: this command could not keep up with them. A sample (--sample) is smaller.\n"
            );
        }
        if *bypassed > 0 {
            text += &format!(
                "{bypassed} sessions bypassed the router when it began (zero-hop) and are not in it; those opened since are.\n"
            );
        }
        for line in &self.advice {
            text += &format!("Nothing was recorded: {line}.\n");
        }
        text
    }

    /// What to do where nothing came; `live`: from a running router, and not from a log.
    pub fn advise(&self, live: bool) -> Vec<String> {
        if self.commands > 0 {
            return Vec::new();
        }
        if !live {
            return vec![
                "the log has no statement that was understood; is it the right file and kind?".to_owned(),
            ];
        }
        let mut advice = Vec::new();
        if self.bypassed > 0 {
            advice.push(format!(
                "{} sessions bypass the router, and the router does not see what they send. While it records, new sessions \
                 pass through it: have the pool open its connections anew (restart it, or wait for their maximal age) while \
                 this command runs, or set zero_hop = \"off\" first and reload",
                self.bypassed
            ));
        }
        if self.relayed > 0 {
            advice.push(format!(
                "{} sessions were relayed, and none sent a command that begins outside a transaction and can be read; record \
                 for longer (--for)",
                self.relayed
            ));
        }
        if self.bypassed + self.relayed == 0 {
            advice.push(
                "no client was connected; is it the router that your clients use (--router)?".to_owned(),
            );
        }
        advice
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_nothing_came_it_says_why_and_what_to_do() {
        let of = |bypassed, relayed, commands| {
            let summary = RecordingSummary { bypassed, relayed, commands, ..RecordingSummary::default() };
            summary.advise(true).join("\n")
        };
        assert!(of(20, 0, 0).contains("20 sessions bypass the router"), "{}", of(20, 0, 0));
        assert!(of(0, 3, 0).contains("outside a transaction") && !of(0, 3, 0).contains("bypass"));
        assert!(of(0, 0, 0).contains("--router"));
        assert_eq!(of(20, 3, 1), "");
        assert!(RecordingSummary::default().advise(false)[0].contains("log"));
    }
}
