//! Which journal `--resume` goes on with.

use super::{OperatorArgs, fleet_now};
use crate::environment::Environment;
use crate::source::SourceArgs;
use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use switchover::journal::{self, Journal, JournalRecord, Newest};
use switchover::perform::{self, Logins, Plan};
use switchover::step::State;
use term::terminal;

/// The newest journal, with what stands in it; an older one where that is over or damaged. `None` where
/// nothing is left to do, which is said.
///
/// # Errors
/// There is none, none can be read, or a damaged one may be what is meant.
pub(super) async fn find(
    operator: &OperatorArgs,
    source: &SourceArgs,
    json: bool,
    environment: &Environment,
) -> anyhow::Result<Option<(Journal, Vec<JournalRecord>)>> {
    let directory = operator.journals(environment)?;
    let Newest { journal, lines, damaged } = journal::reopen_newest(&directory)?.with_context(|| {
        format!(
            "there is no journal in {}; name its directory with --journal, or go on by what the servers show: \
             --from-servers",
            directory.display()
        )
    })?;
    damaged.iter().for_each(|error| terminal::complain(&format!("{error}; what it began is not known")));
    let is_over = journal::is_over(&lines);
    // In place of a damaged one goes on only what is of the fleet that is meant.
    if !is_over && damaged.is_empty() {
        return Ok(Some((journal, lines)));
    }
    match left_from(journal.path(), lines.first(), operator, source, environment).await? {
        Some(path) if path == journal.path() => Ok(Some((journal, lines))),
        Some(older) => {
            if is_over {
                let over = journal.path().display();
                terminal::complain(&format!("{over} is over, {} is not: it goes on", older.display()));
            }
            Ok(Some(Journal::reopen(&older)?))
        }
        None if damaged.is_empty() => {
            say_over(journal.path(), &lines, json)?;
            Ok(None)
        }
        None => bail!("no older journal has anything left; what the servers show: --from-servers"),
    }
}

/// Why a journal is not gone on with where the servers have a later epoch.
pub(super) fn superseded(path: &Path, plan: &Plan, epoch: u64) -> String {
    format!(
        "{} is of epoch {}, and the servers are at epoch {epoch}: what it began is over, nothing was touched",
        path.display(),
        plan.epoch
    )
}

/// Nothing is left to do.
fn say_over(path: &Path, lines: &[JournalRecord], json: bool) -> anyhow::Result<()> {
    if json {
        let over = lines.iter().rev().find_map(|line| match line {
            JournalRecord::Over { state, .. } => Some(state),
            _ => None,
        });
        terminal::print_json(&Over { journal: path, over })?;
    } else {
        terminal::complain(&format!("{}: this switchover is over, nothing is left to do", path.display()));
    }
    Ok(())
}

/// `--resume --json` where nothing is left to do.
#[derive(serde::Serialize)]
struct Over<'a> {
    journal: &'a Path,
    over: Option<&'a State>,
}

/// The newest journal that is not over, where the newest of all is: what was refused or undone since hides
/// none, nor what is damaged. Only one of the fleet that is meant: the one that is named, else that of the
/// journal at `from`, which begins with `newest`. The others are named.
async fn left_from(
    from: &Path,
    newest: Option<&JournalRecord>,
    operator: &OperatorArgs,
    source: &SourceArgs,
    environment: &Environment,
) -> anyhow::Result<Option<PathBuf>> {
    let journal::Unfinished { left, unread } = journal::unfinished(from);
    for error in unread {
        terminal::complain(&format!("whether something older was cut off is not known: {error}"));
    }
    if left.is_empty() {
        return Ok(None);
    }
    let admin = operator.admin_alone(source, environment)?;
    let snapshot = fleet_now(source, &admin, environment).await;
    let logins = Logins { admin, replication: Default::default(), flags: operator.flags(source) };
    let is_meant = |plan: &Plan| match (&snapshot, newest) {
        (Some(snapshot), _) => plan.is_of(snapshot),
        (None, Some(JournalRecord::Plan { plan: newest, .. })) => plan.shares_a_server(newest),
        (None, _) => false,
    };
    let mut older = None;
    for (path, plan) in left {
        if !is_meant(&plan) {
            let of =
                if snapshot.is_some() { "this fleet" } else { "the newest one; --config names its fleet" };
            terminal::complain(&format!("{} is not over, and names no server of {of}", path.display()));
        } else if older.is_none() {
            match perform::superseded(&plan, &logins).await {
                Some(epoch) => terminal::complain(&superseded(&path, &plan, epoch)),
                None => older = Some(path),
            }
        }
    }
    Ok(older)
}
