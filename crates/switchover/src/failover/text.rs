//! What a person, and what a program, reads of a look at a dead primary.

use super::risk::LossRisk;
use super::scene::Scene;
use crate::Error;
use fleet::ServerName;
use serde::Serialize;
use term::Paint;

/// `headroom failover --check --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Checked {
    pub dead: String,
    pub candidate: Option<String>,
    pub why_nobody: Option<String>,
    pub nothing_lost_because: Option<String>,
    pub could_be_lost: Option<String>,
    pub silent: Vec<ServerName>,
}

impl Checked {
    /// Who would take over, and what could be lost.
    pub fn of(scene: &Scene, chosen: &Result<ServerName, Error>, loss: &Result<String, LossRisk>) -> Self {
        Self {
            dead: scene.primary.name.to_string(),
            candidate: chosen.as_ref().ok().map(ServerName::to_string),
            why_nobody: chosen.as_ref().err().map(ToString::to_string),
            nothing_lost_because: loss.as_ref().ok().cloned(),
            could_be_lost: loss.as_ref().err().map(ToString::to_string),
            silent: scene.silent.clone(),
        }
    }
}

/// The same for people.
pub fn check(
    scene: &Scene,
    chosen: &Result<ServerName, Error>,
    loss: &Result<String, LossRisk>,
    paint: Paint,
) -> String {
    let mut text = format!("dead: {}\n", scene.primary.name);
    text.push_str(&match chosen {
        Ok(candidate) => format!("takes over: {candidate}, it has received most\n"),
        Err(why) => format!("{} {why}\n", paint.red("nobody takes over:")),
    });
    text.push_str(&match loss {
        Ok(facts) => format!("{} {facts}\n", paint.green("nothing acknowledged is lost:")),
        Err(loss) => format!("{} {loss}\n", paint.yellow("could be lost:")),
    });
    for server in &scene.silent {
        text.push_str(&format!("{} {server} does not answer\n", paint.yellow("WARN")));
    }
    text
}
