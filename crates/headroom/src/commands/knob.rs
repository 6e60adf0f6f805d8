//! `headroom knob`: settings of this host and of a server, shown, changed, put back. The work is the crate
//! `knob`'s.

mod list;
mod profile;
mod set;

use crate::commands::refused;
use crate::credentials;
use crate::environment::Environment;
use anyhow::Context;
use clap::{Args, Subcommand};
use config::{Config, Credentials};
use fleet::Address;
use knob::journal::Journal;
use knob::session::{Connect, RestoreOutcome, Session, Which};
use knob::{Host, name, text};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use term::{CommandLine, exit, terminal};

const EXAMPLES: &str = "\
Examples:
  headroom knob list
      What this host has, with present values.
  headroom knob set memory.thp=never -- sysbench oltp_read_write run
      While the command runs; then it is put back.
  headroom knob set --keep block.scheduler@vda=none
      Until `headroom knob restore`.
  headroom knob journal
      What is changed, and by whom.";

/// Settings of this host and of a server.
#[derive(Subcommand, Debug, Clone)]
#[command(after_help = EXAMPLES)]
pub(crate) enum KnobCommand {
    /// What can be changed here, with the present values.
    List(list::ListArgs),
    /// One knob: what it does, takes and is now, and where that is documented.
    Show(list::ShowArgs),
    /// Change settings, and put them back when the command ends.
    Set(Box<set::SetArgs>),
    /// Put back what was changed and is still as it was left.
    Restore(RestoreArgs),
    /// What was changed, by whom, and what became of it.
    Journal(JournalArgs),
    /// Settings that others have published, with their reasons and what is stale today.
    Profile(profile::ProfileArgs),
}

/// Where things lie.
#[derive(Args, Debug, Clone)]
pub(crate) struct PlaceArgs {
    /// The directory of the journal [default: /var/lib/headroom/knobs for root, else
    /// ~/.local/share/headroom/knobs].
    #[arg(long, value_name = "DIR")]
    journal: Option<PathBuf>,
    /// Another directory than / below which sys, proc and programs are looked for.
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
}

/// A server and who we are to it.
#[derive(Args, Debug, Clone)]
pub(crate) struct LoginArgs {
    /// The server of the knobs that begin with `server.`
    #[arg(long, short, value_name = "HOST:PORT")]
    server: Option<Address>,
    /// Account that may set global variables [default: from the option file, else $HEADROOM_USER, else
    /// headroom].
    #[arg(long, short, value_name = "NAME")]
    user: Option<String>,
    /// Option file with user, password and TLS, in the format of ~/.my.cnf (which is the default).
    #[arg(long, value_name = "FILE")]
    option_file: Option<PathBuf>,
}

const RESTORE_EXAMPLES: &str = "\
Examples:
  headroom knob restore
      Everything that is open in the journal, newest first; what somebody else changed since stays, and is named.
  headroom knob restore block.scheduler@vda
      This one, and what is one state with it.
  headroom knob restore server.max_connections --server 10.0.0.8:3306
      At this server alone, where several are changed. Settings of this host are as without it.
  headroom knob restore --left
      Only what a dead process left: for ExecStopPost of a systemd unit.
  headroom knob restore --forget server.max_connections --server 10.0.0.9:3306
      That server is removed for good: its entry is closed, and nothing is put back.

Exit code 1 when something was left or could not be put back, or nothing is open of what was named.";

/// Put back what was changed and is still as it was left.
///
/// A setting that somebody else changed meanwhile stays as they left it and is named with its original value.
/// After a reboot settings of the kernel are back already: their entries are closed.
#[derive(Args, Debug, Clone)]
#[command(after_help = RESTORE_EXAMPLES)]
pub(crate) struct RestoreArgs {
    /// Knobs, as `headroom knob journal` shows them; all of them when none is named.
    #[arg(value_name = "KNOB")]
    knobs: Vec<String>,
    /// Only what a dead process left, not what was set with --keep.
    #[arg(long, conflicts_with = "knobs")]
    left: bool,
    /// Also what somebody else has changed since: their value is lost.
    #[arg(long)]
    force: bool,
    /// Close the entries of these knobs and put nothing back: their server or device is removed for good.
    /// What they were and what they are left at is printed, and stays in the journal. With --server only
    /// those of this server.
    #[arg(long, requires = "knobs", conflicts_with_all = ["left", "force"])]
    forget: bool,
    #[command(flatten)]
    login: LoginArgs,
    #[command(flatten)]
    place: PlaceArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What was changed, by whom, and what became of it.
#[derive(Args, Debug, Clone)]
#[command(after_help = "Examples:\n  headroom knob journal\n  headroom knob journal --all --json")]
pub(crate) struct JournalArgs {
    /// Also what is put back.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    place: PlaceArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs one of them.
pub(crate) async fn run(command: KnobCommand, environment: &Environment) -> anyhow::Result<ExitCode> {
    let json = matches!(&command, KnobCommand::Set(args) if args.json);
    let outcome = match command {
        KnobCommand::List(args) => list::list(args, environment).await,
        KnobCommand::Show(args) => list::show(args, environment).await,
        KnobCommand::Set(args) => set::set(*args, environment).await,
        KnobCommand::Restore(args) => restore(args, environment).await,
        KnobCommand::Journal(args) => journal(&args, environment),
        KnobCommand::Profile(args) => profile::profile(&args),
    };
    match outcome {
        // "No" is the answer: nothing was touched, and the words say what would have to be named or stopped.
        Err(error)
            if matches!(
                error.downcast_ref(),
                Some(knob::Error::Danger { .. } | knob::Error::Tuner { .. })
            ) =>
        {
            let why = exit::reason(&error);
            terminal::complain(&format!("headroom: {why}"));
            refused(&why, json)
        }
        other => other,
    }
}

async fn restore(args: RestoreArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let host = args.place.host();
    let which = match (args.left, args.knobs.is_empty()) {
        (true, _) => Which::Left,
        (false, true) => Which::All,
        (false, false) => {
            let names = args.knobs.iter().map(|text| Ok(name::parse(&host, text)?.to_string()));
            Which::Knobs(names.collect::<Result<_, knob::Error>>()?)
        }
    };
    let named = matches!(which, Which::Knobs(_));
    let command = restore_command(&args.place, &args.login);
    let connect = args.login.connect(environment)?;
    let (directory, force) = (args.place.journals(environment)?, args.force);
    let journals = directory.clone();
    let (forget, server) = (args.forget, args.login.address());
    let at = server.as_ref().map_or_else(String::new, |server| format!(" at {server}"));
    let restored = blocking(move || {
        let mut session = session(host, &directory, connect)?;
        match &which {
            Which::Knobs(knobs) if forget => Ok(session.forget(knobs, server.as_deref())?),
            _ => {
                let restored = session.restore_at(&which, force, server.as_deref());
                if server.is_some() && restored.iter().all(|outcome| outcome.server().is_none()) {
                    complain_of_what_is_left(&session);
                }
                anyhow::Ok(restored)
            }
        }
    })
    .await?;
    if args.json {
        terminal::print_json(&restored)?;
    } else if restored.is_empty() {
        let or_at = if at.is_empty() { String::new() } else { format!(" here or{at}") };
        terminal::print(&nothing(&or_at, &journals))?;
    } else {
        terminal::print(&text::restored(&restored, &command))?;
    }
    if named && restored.is_empty() {
        terminal::complain(&format!(
            "headroom: the journal has no open entry of that name{at}; `headroom knob journal` shows them"
        ));
        return Ok(exit::no());
    }
    // Closed without being put back is what was asked for.
    Ok(if args.forget { exit::DONE } else { verdict(&restored) })
}

/// A server may have been named by another address than now.
fn complain_of_what_is_left(session: &Session) {
    let open = session.journal().open_entries();
    let at = open.filter_map(|entry| entry.intent.facts.get(knob::identity::ADDRESS).cloned());
    let at: BTreeSet<String> = at.collect();
    if !at.is_empty() {
        let at = at.into_iter().collect::<Vec<_>>().join(", ");
        terminal::complain(&format!(
            "headroom: --server names none of these, which are left as they are: {at}"
        ));
    }
}

/// Takes the journal, and says what of it was lost.
fn session(host: Host, directory: &Path, connect: Connect) -> Result<Session, knob::Error> {
    let session = Session::open(host, directory, connect)?;
    if let Some(dropped) = session.journal().dropped() {
        terminal::complain(&format!("journal: {dropped}"));
    }
    Ok(session)
}

fn journal(args: &JournalArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let journals = args.place.journals(environment)?;
    let mut entries = Journal::read(&journals)?;
    entries.retain(|entry| args.all || entry.is_open());
    if args.json {
        terminal::print_json(&entries)?;
    } else if entries.is_empty() {
        terminal::print(&nothing("", &journals))?;
    } else {
        terminal::print(&text::journal(&entries, now()))?;
    }
    Ok(exit::DONE)
}

/// What is said where nothing is open: it is known of one journal, and each user has another.
fn nothing(or_at: &str, journals: &Path) -> String {
    let journals = journals.display();
    format!("Nothing is changed{or_at}, by the journal in {journals}; --journal names another user's.\n")
}

fn verdict(restored: &[RestoreOutcome]) -> ExitCode {
    if restored.iter().all(RestoreOutcome::is_back) { exit::DONE } else { exit::no() }
}

fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Runs what blocks beside the runtime, so that signals are heard meanwhile.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    tokio::task::spawn_blocking(work).await.context("the work on the settings ended by a panic")?
}

/// How what is in this journal is put back, by this login.
fn restore_command(place: &PlaceArgs, login: &LoginArgs) -> String {
    let root = Some(place.root.as_path()).filter(|root| *root != Path::new("/"));
    restore_line(place.journal.as_deref(), root, login.user.as_deref(), login.option_file.as_deref())
}

/// The same from the flags themselves.
pub(crate) fn restore_line(
    journal: Option<&Path>,
    root: Option<&Path>,
    user: Option<&str>,
    option_file: Option<&Path>,
) -> String {
    let mut command = CommandLine::new("headroom knob restore");
    command.path("--journal", journal);
    command.path("--root", root);
    command.flag("--user", user);
    command.path("--option-file", option_file);
    command.line()
}

impl PlaceArgs {
    /// Where the journal lies.
    fn journals(&self, environment: &Environment) -> anyhow::Result<PathBuf> {
        self.journal.clone().map_or_else(|| environment.journals("knobs"), Ok)
    }

    fn host(&self) -> Host {
        Host::new(self.root.clone())
    }
}

impl LoginArgs {
    /// How servers are reached; nobody is asked yet.
    fn connect(&self, environment: &Environment) -> anyhow::Result<Connect> {
        connect_as(self.user.as_deref(), self.option_file.as_deref(), environment)
    }

    fn address(&self) -> Option<String> {
        self.server.as_ref().map(Address::to_string)
    }
}

/// How servers are reached with this login; nobody is asked yet.
///
/// # Errors
/// The option file cannot be read.
pub(crate) fn connect_as(
    user: Option<&str>,
    option_file: Option<&Path>,
    environment: &Environment,
) -> anyhow::Result<Connect> {
    Ok(knob::session::as_account(credentials_as(user, option_file, environment)?))
}

/// Who logs in: by flags, option file and environment.
///
/// # Errors
/// The option file cannot be read.
pub(crate) fn credentials_as(
    user: Option<&str>,
    option_file: Option<&Path>,
    environment: &Environment,
) -> anyhow::Result<Credentials> {
    let mut config = Config::bare(Vec::new(), Vec::new());
    config.fleet.credentials.user = user.map(str::to_owned);
    config.fleet.credentials.option_file = option_file.map(Path::to_owned);
    credentials::resolve(&config, environment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn that_nothing_is_changed_is_said_of_a_journal_and_not_of_the_host() {
        let said = nothing(" here or at db1:3306", Path::new("/home/a/knobs"));
        assert!(said.starts_with("Nothing is changed here or at db1:3306, by the journal in /home/a/knobs;"));
    }
}
