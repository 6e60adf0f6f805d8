//! What a person, and what a program, reads of a look at a dead primary.

use super::risk::LossRisk;
use super::scene::Scene;
use super::unfinished::Stopped;
use crate::Error;
use crate::check::{Finding, Level, at_a_replica};
use crate::facts::Facts;
use fleet::ServerName;
use serde::Serialize;
use term::Paint;

/// `--json` where nothing was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NotDone {
    pub done: bool,
    pub why: String,
}

/// `headroom failover --rejoin SERVER --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rejoined {
    pub server: ServerName,
    /// Whom it follows now; none when it was refused.
    pub follows: Option<ServerName>,
    /// What it has and the new primary does not.
    pub own_transactions: Option<String>,
    /// What to do about that.
    pub mend: Option<String>,
    /// What somebody may want to know of its events.
    pub notes: Vec<String>,
    /// Its events that run still, and what to do.
    pub remarks: Vec<String>,
}

/// `headroom failover --check --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Checked {
    pub dead: String,
    pub candidate: Option<String>,
    pub why_nobody: Option<String>,
    pub nothing_lost_because: Option<String>,
    pub could_be_lost: Option<String>,
    /// Too few would be left to acknowledge: semi-sync stays off at the candidate.
    pub semi_sync_stays_off: bool,
    /// Statements by which events that the dead primary may have run are enabled at the candidate.
    pub events_left: Vec<String>,
    /// Events that are enabled at the candidate, `schema.name`: they run once it takes writes.
    pub events_enabled: Vec<String>,
    /// The account does not see all events of the candidate: there may be others.
    pub events_unknown: bool,
    pub silent: Vec<ServerName>,
    /// Servers that take part: replicas of the dead one, and of those.
    pub replicas: Vec<ServerName>,
    /// Whether there can be no others: false for a dead primary, which cannot be asked.
    pub replicas_complete: bool,
    /// The running router that was asked which servers it knows; none where none of this fleet answered.
    pub asked_router: Option<String>,
    /// Whether our own account may do what the failover needs on the replicas that answer.
    pub own_privileges: Finding,
}

impl Checked {
    /// Who would take over, and what could be lost; a `gray` primary could be asked for its replicas.
    pub fn of(
        scene: &Scene,
        chosen: &Result<ServerName, Error>,
        loss: &Result<String, LossRisk>,
        gray: bool,
        asked_router: Option<&str>,
    ) -> Self {
        Self {
            dead: scene.primary.name.to_string(),
            candidate: chosen.as_ref().ok().map(ServerName::to_string),
            why_nobody: chosen.as_ref().err().map(ToString::to_string),
            nothing_lost_because: loss.as_ref().ok().cloned(),
            could_be_lost: loss.as_ref().err().map(ToString::to_string),
            semi_sync_stays_off: chosen.as_ref().is_ok_and(|chosen| scene.semi_sync_stays_off(chosen)),
            events_left: chosen.as_ref().map_or_else(|_| Vec::new(), |chosen| events_of(scene, chosen)),
            events_enabled: chosen
                .as_ref()
                .map_or_else(|_| Vec::new(), |chosen| enabled_names(scene, chosen)),
            events_unknown: chosen.as_ref().is_ok_and(|chosen| events_are_unknown(scene, chosen)),
            silent: scene.silent.clone(),
            replicas: scene.known().into_iter().cloned().collect(),
            replicas_complete: gray,
            asked_router: asked_router.map(str::to_owned),
            own_privileges: scene.own_privileges(chosen.as_ref().ok()),
        }
    }
}

/// The same for people.
pub fn check(
    scene: &Scene,
    chosen: &Result<ServerName, Error>,
    loss: &Result<String, LossRisk>,
    gray: bool,
    asked_router: Option<&str>,
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
    if let Ok(candidate) = chosen.as_ref()
        && scene.semi_sync_stays_off(candidate)
    {
        text.push_str(&format!("{} {}\n", paint.yellow("WARN"), semi_sync_stays_off(candidate.as_str())));
    }
    if let Ok(candidate) = chosen.as_ref()
        && let Some(words) = events_left(candidate.as_str(), &events_of(scene, candidate))
    {
        text.push_str(&format!("{} {words}\n", paint.yellow("WARN")));
    }
    if let Ok(candidate) = chosen.as_ref()
        && let Some(words) = events_enabled(scene, candidate)
    {
        text.push_str(&format!("{} {words}\n", paint.yellow("WARN")));
    }
    if let Ok(candidate) = chosen.as_ref()
        && events_are_unknown(scene, candidate)
    {
        text.push_str(&format!("{} {}\n", paint.yellow("WARN"), events_unknown(candidate.as_str())));
    }
    if !gray {
        text.push_str(&format!("{} {}\n", paint.yellow("WARN"), others_unknown(scene, asked_router)));
    }
    let privileges = scene.own_privileges(chosen.as_ref().ok());
    let level = match privileges.level {
        Level::Pass => None,
        Level::Warn => Some(paint.yellow("WARN")),
        Level::Stop => Some(paint.red("STOP")),
    };
    if let Some(level) = level {
        let mend = privileges.mend.unwrap_or_default();
        text.push_str(&format!("{level} {}\n  -> {mend}\n", privileges.facts));
    }
    for (server, why) in &scene.unread {
        text.push_str(&format!("{} {server} was not read: {why}\n", paint.yellow("WARN")));
    }
    text
}

/// What is said where no replica looks for the primary.
pub fn all_stopped(scene: &Scene) -> String {
    format!(
        "the receivers of all replicas are stopped, as a failover leaves them that was cut off (its host finishes it with \
         headroom failover --resume, any other with --from-servers as well). To look whether {} is dead they have to run: {}",
        scene.primary.name,
        scene.receive_again()
    )
}

/// What is said of replicas that a failover stopped which promoted nobody.
pub fn nobody_promoted(stopped: &Stopped) -> String {
    format!(
        "nobody was promoted, and no replica of {} looks for it. What lets them look again: {}",
        stopped.primary,
        stopped.statements()
    )
}

fn facts_of<'a>(scene: &'a Scene, candidate: &ServerName) -> Option<&'a Facts> {
    scene.replicas.iter().find(|facts| facts.server == *candidate)
}

fn events_of(scene: &Scene, candidate: &ServerName) -> Vec<String> {
    let statements = |facts: &Facts| {
        let events = facts.replica_side_events.iter().flatten();
        events.map(|event| facts.dialect().enable_event(event)).collect()
    };
    facts_of(scene, candidate).map_or_else(Vec::new, statements)
}

fn enabled_names(scene: &Scene, candidate: &ServerName) -> Vec<String> {
    let events = facts_of(scene, candidate).and_then(|facts| facts.events.as_deref()).unwrap_or_default();
    events.iter().map(|event| format!("{}.{}", event.schema, event.name)).collect()
}

/// What is said, before it takes over, of events that are enabled at the candidate; nothing where there are
/// none.
fn events_enabled(scene: &Scene, candidate: &ServerName) -> Option<String> {
    let facts = facts_of(scene, candidate)?;
    let events = facts.events.as_deref().filter(|events| !events.is_empty())?;
    let statements: Vec<String> =
        events.iter().map(|event| facts.dialect().disable_event_on_replica(event)).collect();
    Some(format!(
        "{} events are enabled at {candidate}, so they change data there once it takes writes. Whether the dead primary \
         ran them nobody can tell. Those that shall not run, at {candidate} before: {}",
        events.len(),
        at_a_replica(facts, &listed(&statements))
    ))
}

/// What is said of events that run since a failover, because they were enabled at who took over; nothing
/// where there are none.
pub fn events_run(candidate: &str, statements: &[String]) -> Option<String> {
    let (count, listed) = (statements.len(), listed(statements));
    (count > 0).then(|| {
        format!(
            "{count} events were enabled at {candidate}, so they run there now. Whether the dead primary ran them nobody \
             can tell: those that shall not run, at {candidate}: {listed}"
        )
    })
}

/// What is said of events that nobody runs after a failover; nothing where there are none.
pub fn events_left(candidate: &str, statements: &[String]) -> Option<String> {
    let (count, listed) = (statements.len(), listed(statements));
    (count > 0).then(|| {
        format!(
            "{count} events do not run at {candidate}, because it was a replica. Which of them the dead primary ran nobody \
             can tell: enable these at {candidate}: {listed}"
        )
    })
}

/// The first of them, and how many more there are.
pub(super) fn listed(statements: &[String]) -> String {
    const SHOWN: usize = 20;
    let count = statements.len();
    let shown = statements.get(..count.min(SHOWN)).unwrap_or_default().join("; ");
    let more = if count > SHOWN { format!("; and {} more", count - SHOWN) } else { String::new() };
    shown + &more
}

fn events_are_unknown(scene: &Scene, candidate: &ServerName) -> bool {
    facts_of(scene, candidate)
        .is_some_and(|facts| facts.replica_side_events.is_none() || facts.events.is_none())
}

/// What is said where the account does not see all events.
pub fn events_unknown(candidate: &str) -> String {
    format!(
        "whether {candidate} has events that the dead primary ran, and that stand still there, or others that run there \
         once it takes writes, is not known: the account may not see them all. GRANT EVENT ON *.* to it, or look with one \
         that may: SELECT EVENT_SCHEMA, EVENT_NAME, STATUS FROM information_schema.EVENTS"
    )
}

/// What is said where too few are left to acknowledge.
pub fn semi_sync_stays_off(candidate: &str) -> String {
    format!(
        "semi-sync stays off at {candidate}: too few replicas are left to acknowledge. A crash loses what it had not sent \
         until enough follow and you switch it on there (rpl_semi_sync_master_enabled, rpl_semi_sync_source_enabled)"
    )
}

/// What nobody can tell once a primary is dead: replicas that were found through it only, and that no router
/// remembers. One of them would stay behind, might hold writes that the others lack, and could acknowledge
/// what the dead one commits.
pub fn others_unknown(scene: &Scene, asked_router: Option<&str>) -> String {
    let known: Vec<&str> = scene.known().into_iter().map(ServerName::as_str).collect();
    let remembered = asked_router.map_or_else(
        || "and no running router of this fleet was found to ask".to_owned(),
        |router| format!("the router at {router} knows of no more"),
    );
    format!(
        "replicas known: {}; {} cannot be asked for others, {remembered}. One that is missing here is left behind, and \
         what is said of loss leaves it out: add it to [fleet] seeds",
        known.join(", "),
        scene.primary.name
    )
}
