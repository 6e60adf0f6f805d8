//! One file a command: its flags, and what it does with the crates below.

pub(crate) mod agent;
pub(crate) mod check;
pub(crate) mod completions;
#[cfg(feature = "lab")]
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod drain;
pub(crate) mod failover;
pub(crate) mod fleet;
pub(crate) mod guard;
pub(crate) mod inventory;
pub(crate) mod knob;
#[cfg(feature = "lab")]
pub(crate) mod lab;
pub(crate) mod load;
pub(crate) mod man;
pub(crate) mod measure;
pub(crate) mod plan;
pub(crate) mod probe;
pub(crate) mod record;
pub(crate) mod replay;
pub(crate) mod report;
pub(crate) mod route;
pub(crate) mod status;
pub(crate) mod switchover;
pub(crate) mod top;
pub(crate) mod trial;
pub(crate) mod watch;
pub(crate) mod zero_hop;

use std::process::ExitCode;
use term::{exit, terminal};

/// "No" is the answer: exit code 1. With `json` its reason is printed for a program, too, as
/// `{"refused": WHY}`; whoever calls has told a person.
fn refused(why: &str, json: bool) -> anyhow::Result<ExitCode> {
    if json {
        terminal::print_json(&serde_json::json!({ "refused": why }))?;
    }
    Ok(exit::no())
}
