//! `headroom switchover`: checks, moves the primary, and shows what came of it.

mod left;
mod warm;

use crate::environment::Environment;
use crate::source::{SourceArgs, SourceError};
use crate::{credentials, option_files, source};
use anyhow::{Context, anyhow, bail};
use clap::Args;
use config::{Credentials, FleetConfig};
use fleet::ServerName;
use probe::host;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use switchover::check::{self, Level, Limits};
use switchover::failover::text::NotDone;
use switchover::journal::{self, Journal, JournalRecord};
use switchover::perform::{self, Deadlines, Kind, Logins, Outcome, Plan};
use switchover::step::{self, State};
use switchover::survey::Survey;
use switchover::{Flags, text};
use term::{CommandLine, Paint, StopFlag, exit, terminal};
use warm::WarmArgs;

const EXAMPLES: &str = "\
Examples:
  headroom switchover db2 --check --config headroom.toml --admin-option-file admin.cnf --replication-option-file repl.cnf
      Changes nothing: every check with its facts, and the command that mends what does not hold.
  headroom switchover db2 --config headroom.toml --admin-option-file admin.cnf --replication-option-file repl.cnf
      Checks, asks, moves the primary to db2. Ctrl-C before the point of no return undoes what was done.
  headroom switchover db2 --wait-warm --warm-with reads.hrec --warm-option-file app.cnf --config headroom.toml ...
      First warms db2 with the reads of a recording.
  headroom switchover --resume --admin-option-file admin.cnf --replication-option-file repl.cnf
      After a crash of this program or host: goes on, or undoes, from its journal.

Exit codes: 0 moved (or every check passed); 1 not moved, everything is as before (or a check says stop);
2 error, or a person has to decide; 64 the command line was not understood.
Guide: docs/guide/switchover.md.";

/// Without semi-sync: the time for which it is counted what a crash would lose.
const EXPOSURE: Duration = Duration::from_secs(1);

/// Move the primary: writes are held, not refused, and what fails before the end is undone.
///
/// Checks the fleet, lets the candidate catch up, tells the routers to hold new writes, lets open
/// transactions end, freezes the primary so that administrators cannot write either, waits until the
/// candidate has everything, promotes it, and lets the former primary and the other replicas follow it.
#[derive(Args, Debug, Clone)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SwitchoverArgs {
    /// The replica that shall take writes, by its name in `headroom fleet`.
    #[arg(required_unless_present_any = ["resume", "undo"], conflicts_with_all = ["resume", "undo"])]
    candidate: Option<String>,
    /// Where the fleet is found.
    #[command(flatten)]
    source: SourceArgs,
    /// Only run the checks; nothing is changed.
    #[arg(long, conflicts_with_all = ["dry_run", "resume", "undo"])]
    check: bool,
    /// Run the checks and show each step that would be done; nothing is changed.
    #[arg(long, conflicts_with_all = ["resume", "undo"])]
    dry_run: bool,
    /// Do everything up to the freeze, undo it, and show how long each step took: routers hold writes for a
    /// moment, and nothing moves.
    #[arg(long, conflicts_with_all = ["check", "dry_run", "resume", "undo"])]
    drill: bool,
    /// With --resume or --undo, on a host that does not have the journal: the servers' own record of it.
    #[arg(long)]
    from_servers: bool,
    /// Go on with one that was interrupted, or undo it where it had not promoted the candidate yet.
    #[arg(long, conflicts_with = "undo")]
    resume: bool,
    /// Undo one that was left in doubt. Only when the candidate is lost for good: it must not come back
    /// writable.
    #[arg(long)]
    undo: bool,
    #[command(flatten)]
    take_over: TakeOverArgs,
    #[command(flatten)]
    warm: WarmArgs,
    /// Do not ask before the primary is moved.
    #[arg(long, short)]
    yes: bool,
    /// As whom, and where it is written down.
    #[command(flatten)]
    operator: OperatorArgs,
    /// How far behind the candidate may be when we begin.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = fleet::parse_duration)]
    max_lag: Duration,
    /// A transaction that is open for longer stops the switchover before it begins.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = fleet::parse_duration)]
    max_transaction: Duration,
    /// How long routers may take until none of their sessions is left on the primary, beside the time in
    /// which many of them look twice; after that it goes on, and the freeze refuses the writes of those that
    /// are.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = fleet::parse_duration)]
    hold: Duration,
    /// How long open transactions may take to end while writes wait; then everything is undone.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = fleet::parse_duration)]
    drain: Duration,
    /// How long the freeze may wait for a lock; then everything is undone and the holder named.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = fleet::parse_duration)]
    freeze: Duration,
    /// How long the candidate may take to have the last writes, once the primary is frozen; then everything
    /// is undone.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = fleet::parse_duration)]
    last_writes: Duration,
    /// How long before the hold routers are told [default: two of the intervals at which they ask, 1500ms at
    /// least].
    #[arg(long, value_name = "TIME", value_parser = fleet::parse_duration)]
    prepare: Option<Duration>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Of `switchover` and `failover`.
#[derive(Args, Debug, Clone, Copy)]
pub(crate) struct TakeOverArgs {
    /// With --resume, or --undo of a switchover: end the sessions of the program that began it. Only when
    /// that is dead, or its host was lost: servers notice that after minutes.
    #[arg(long)]
    take_over: bool,
}

impl TakeOverArgs {
    /// For whoever begins anew; `with` are the flags that it goes with.
    pub(crate) fn refuse_alone(self, with: &str) -> anyhow::Result<()> {
        if self.take_over { Err(exit::usage_error(format!("--take-over goes with {with}"))) } else { Ok(()) }
    }

    pub(crate) fn is_asked(self) -> bool {
        self.take_over
    }

    /// Ends the sessions of the program that began it, if that was asked for.
    pub(crate) async fn end_sessions(self, plan: &Plan, logins: &Logins) -> anyhow::Result<()> {
        if self.take_over {
            for ended in perform::end_sessions(plan, logins).await? {
                terminal::complain(&format!("ended {ended}"));
            }
        }
        Ok(())
    }
}

/// How to go on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resuming {
    pub(crate) undo: bool,
    pub(crate) take_over: TakeOverArgs,
    pub(crate) json: bool,
}

/// Flags of whoever changes roles: of `switchover` and `failover`.
#[derive(Args, Debug, Clone)]
pub(crate) struct OperatorArgs {
    /// Option file with the account that changes roles [default: the one that asks the servers].
    #[arg(long, value_name = "FILE")]
    pub(crate) admin_option_file: Option<PathBuf>,
    /// Option file with the account by which the former primary replicates afterwards.
    #[arg(long, value_name = "FILE")]
    pub(crate) replication_option_file: Option<PathBuf>,
    /// Journals lie here [default: /var/lib/headroom/switchover for root, else
    /// ~/.local/share/headroom/switchover].
    #[arg(long, value_name = "DIR")]
    pub(crate) journal: Option<PathBuf>,
}

/// Runs `headroom switchover`.
pub(crate) async fn run(args: SwitchoverArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let directory = args.operator.journals(environment)?;
    if args.resume || args.undo {
        if args.from_servers {
            return resume_from_servers(&args, &directory, environment).await;
        }
        let how = Resuming { undo: args.undo, take_over: args.take_over, json: args.json };
        return resume(&args.operator, &args.source, how, environment).await;
    }
    args.take_over.refuse_alone("--resume or --undo")?;
    if args.from_servers {
        return Err(exit::usage_error("--from-servers goes with --resume or --undo"));
    }
    let config = source::with_account(&args.source, environment)?;
    let admin = args.operator.admin(&config.fleet.credentials)?;
    let candidate = ServerName::new(args.candidate.as_deref().unwrap_or_default());
    let snapshot = observe::survey(&config.fleet).await;
    if !args.warm.wait(&snapshot, &candidate, &admin, args.json, environment).await? {
        return Ok(exit::no());
    }
    let deadline = config.fleet.deadline.max(Duration::from_secs(5));
    let replication = match args.operator.replication_option_file {
        Some(_) => Some(args.operator.replication()?),
        None => None,
    };
    let mut survey = Survey::read(&snapshot, &candidate, &admin, deadline).await?;
    if let Some(replication) = &replication {
        survey.try_replication_login(replication, &admin, deadline).await;
    }
    survey.measure_exposure(&admin, EXPOSURE, deadline).await;
    let routers = survey.count_routers(&config.fleet, &admin, deadline).await;
    let interval = routers.map_or(config.fleet.interval, |routers| routers.interval);
    let limits = Limits {
        lag: args.max_lag,
        transaction: args.max_transaction,
        prepare: args.prepare.unwrap_or_else(|| check::told_before(interval)),
        interval: config.fleet.interval,
        routers,
    };
    let findings = survey.checks(limits, replication.is_some());
    let plan = survey.plan(args.deadlines(limits.prepare), &host());
    let paint = Paint::for_stdout(environment.no_colour);
    let worst = check::worst(&findings);
    if args.check || args.dry_run || worst == Level::Stop {
        if args.json {
            terminal::print_json(&text::Checked {
                plan: &plan,
                findings: &findings,
                silent: &survey.silent,
            })?;
        } else {
            terminal::print(&text::checks(&findings, &survey.silent, paint))?;
            if args.dry_run {
                terminal::print(&text::steps(&plan))?;
            }
        }
        return Ok(if worst == Level::Stop { exit::no() } else { exit::DONE });
    }
    if !args.json {
        terminal::print(&text::checks(&findings, &survey.silent, paint))?;
    }
    let doing = if args.drill { "Try to move" } else { "Move" };
    if !args.yes
        && !terminal::ask(&format!(
            "{doing} the primary from {} to {}?",
            plan.primary.name, plan.candidate.name
        ))?
    {
        say_not_done("not moved", args.json)?;
        return Ok(exit::no());
    }
    let mut journal = Journal::create(&directory, &plan)?;
    let logins = Logins { admin, replication: args.operator.replication()?, flags: args.flags() };
    perform(&plan, &logins, &mut journal, State::START, args.drill, args.json, environment).await
}

/// Why nothing was done, for people or for a program.
pub(crate) fn say_not_done(why: &str, json: bool) -> anyhow::Result<()> {
    if json {
        return terminal::print_json(&NotDone { done: false, why: why.to_owned() });
    }
    terminal::complain(why);
    Ok(())
}

/// Does the steps and shows what came of them; a drill is interrupted where the freeze would begin.
pub(crate) async fn perform(
    plan: &Plan,
    logins: &Logins,
    journal: &mut Journal,
    state: State,
    drill: bool,
    json: bool,
    environment: &Environment,
) -> anyhow::Result<ExitCode> {
    let stop = StopFlag::listen(|| terminal::complain("interrupted: what can be undone is undone"));
    let (drilled, mut reached) = (stop.flag(), false);
    let mut progress = |progress: perform::Progress<'_>| {
        if drill && matches!(progress, perform::Progress::Begins { step: step::Step::Freeze, undo: false }) {
            reached = true;
            drilled.store(true, Relaxed);
        }
        if let Some(line) = text::progress(plan, &progress) {
            terminal::complain(&line);
        }
    };
    let outcome = perform::run(plan, logins, journal, state, &|| stop.is_set(), &mut progress).await;
    drop(stop);
    let mut outcome = outcome?;
    if reached && let State::Undone { why } = &mut outcome.state {
        "it was a drill: every step before the freeze works".clone_into(why);
    }
    if json {
        terminal::print_json(&outcome)?;
    } else {
        terminal::print(&text::outcome(
            plan,
            &outcome,
            journal.path(),
            &logins.flags,
            Paint::for_stdout(environment.no_colour),
        ))?;
    }
    Ok(if reached && outcome.is_as_before(&plan.kind) { exit::DONE } else { code(&plan.kind, &outcome) })
}

/// On a host without the journal. Whether the candidate takes writes says on which side of the point of no
/// return it was; undoing what was never done changes nothing.
async fn resume_from_servers(
    args: &SwitchoverArgs,
    directory: &std::path::Path,
    environment: &Environment,
) -> anyhow::Result<ExitCode> {
    let config = source::with_account(&args.source, environment)?;
    let admin = args.operator.admin(&config.fleet.credentials)?;
    let snapshot = observe::survey(&config.fleet).await;
    let deadline = config.fleet.deadline.max(Duration::from_secs(5));
    let Some(plan) = perform::left_behind(&snapshot, &admin, deadline).await? else {
        say_not_done("the servers know of no switchover that was begun and is not over", args.json)?;
        return Ok(exit::DONE);
    };
    let logins = Logins { admin, replication: args.operator.replication()?, flags: args.flags() };
    args.take_over.end_sessions(&plan, &logins).await?;
    let promoted = perform::promoted(&plan, &logins).await;
    let state = if args.undo {
        step::give_up(step::Step::Promote, None, promoted).map_err(|error| {
            go_on_instead(error, "headroom switchover --resume --from-servers", &logins.flags)
        })?
    } else {
        State::resume(step::Step::Promote, None, promoted)
    };
    if matches!(state, State::Undoing { .. })
        && may_open_a_server(&plan.kind, &state)
        && let Some(why) = perform::written_elsewhere(&plan, &logins, &snapshot).await
    {
        bail!("{why}: somebody moved the primary since this was begun, and nothing was touched");
    }
    let mut journal = Journal::create(directory, &plan)?;
    if !gives_up_promotion(args.undo, &plan.kind, promoted) {
        journal.doubt_promotion();
    }
    perform(&plan, &logins, &mut journal, state, false, args.json, environment).await
}

/// Goes on with, or gives up, what the newest journal tells of; an older one where that is over or damaged.
pub(crate) async fn resume(
    operator: &OperatorArgs,
    source: &SourceArgs,
    how: Resuming,
    environment: &Environment,
) -> anyhow::Result<ExitCode> {
    let Some((mut journal, lines)) = left::find(operator, source, how.json, environment).await? else {
        return Ok(exit::DONE);
    };
    let path = journal.path().to_owned();
    let Some(JournalRecord::Plan { plan, .. }) = lines.first() else {
        bail!("{} does not begin with a plan", path.display())
    };
    let admin = operator.admin_alone(source, environment)?;
    let replication = match plan.kind {
        Kind::Switchover => operator.replication()?,
        // Replicas keep the account that they have.
        Kind::Failover { .. } => Default::default(),
    };
    let logins = Logins { admin, replication, flags: operator.flags(source) };
    if let Some(epoch) = perform::superseded(plan, &logins).await {
        bail!(left::superseded(&path, plan, epoch));
    }
    how.take_over.end_sessions(plan, &logins).await?;
    let promoted = perform::promoted(plan, &logins).await;
    let state = match journal::last(&lines) {
        Some((step, false, ended)) if how.undo => {
            let resume = format!("{} --resume", plan.kind.command());
            step::give_up(step, ended.as_ref(), promoted)
                .map_err(|error| go_on_instead(error, &resume, &logins.flags))?
        }
        _ => journal::go_on(&lines, promoted),
    };
    let snapshot = match promoted != Some(true) && may_open_a_server(&plan.kind, &state) {
        true => fleet_now(source, &logins.admin, environment).await,
        false => None,
    };
    let moved = match &snapshot {
        _ if goes_on_after_the_promotion(&state) => {
            perform::moved_by_hand(plan, &logins, snapshot.as_ref()).await
        }
        Some(snapshot) => perform::written_elsewhere(plan, &logins, snapshot).await,
        None => None,
    };
    if let Some(why) = moved {
        bail!(
            "{why}: somebody moved the primary since {} was begun, and nothing was touched",
            path.display()
        );
    }
    if gives_up_promotion(how.undo, &plan.kind, promoted) {
        journal.give_up_promotion();
    }
    let plan = plan.clone();
    perform(&plan, &logins, &mut journal, state, false, how.json, environment).await
}

/// What to type where undoing is refused.
fn go_on_instead(refused: step::AlreadyPromoted, resume: &str, flags: &Flags) -> anyhow::Error {
    let (resume, failover) = (flags.after(resume), flags.after("headroom failover"));
    anyhow!("{refused}. Go on with: {resume}; if it is lost for good: {failover}")
}

/// Whether what is left opens a server to writes: the candidate, or the primary of a move that is undone.
fn may_open_a_server(kind: &Kind, state: &State) -> bool {
    let thaws = matches!(state, State::Undoing { step, .. } if *step >= step::Step::Freeze);
    goes_on_after_the_promotion(state) || (thaws && *kind == Kind::Switchover)
}

/// A fleet is known after three looks. Where they are far apart, nobody would take writes all the while.
fn looks_every(configured: Duration) -> Duration {
    configured.min(FleetConfig::default().interval)
}

/// The servers as they are now; `None` where nothing names one: an option file is enough to resume.
async fn fleet_now(
    source: &SourceArgs,
    admin: &Credentials,
    environment: &Environment,
) -> Option<fleet::Snapshot> {
    let mut config = source::for_fleet(source).ok()?.config;
    config.fleet.credentials = credentials::resolve(&config, environment).unwrap_or_else(|_| admin.clone());
    config.fleet.interval = looks_every(config.fleet.interval);
    Some(observe::survey(&config.fleet).await)
}

/// Whether `--undo` gives up what the candidate may have written. In a switchover one that answers is
/// compared all the same: the former primary is about to take writes.
fn gives_up_promotion(undo: bool, kind: &Kind, promoted: Option<bool>) -> bool {
    undo && (promoted.is_none() || *kind != Kind::Switchover)
}

/// Then what is left is done whatever became of the servers.
fn goes_on_after_the_promotion(state: &State) -> bool {
    matches!(state, State::Forward { step } if *step > step::Step::Promote)
}

impl SwitchoverArgs {
    fn flags(&self) -> Flags {
        self.operator.flags(&self.source)
    }

    fn deadlines(&self, prepare: Duration) -> Deadlines {
        let ms = |time: Duration| time.as_millis() as u64;
        Deadlines {
            prepare_ms: ms(prepare),
            hold_ms: ms(self.hold),
            drain_ms: ms(self.drain),
            freeze_ms: ms(self.freeze),
            await_ms: ms(self.last_writes),
            ..Deadlines::default()
        }
    }
}

impl OperatorArgs {
    /// What was named of the fleet, the accounts and the journals: whatever is typed next needs it too.
    pub(crate) fn flags(&self, source: &SourceArgs) -> Flags {
        let SourceArgs { config, server, zone, user, option_file } = source;
        let Self { admin_option_file, replication_option_file, journal } = self;
        let mut line = CommandLine::new("");
        line.path("--config", config.as_deref());
        for server in server {
            line.flag("--server", Some(&server.to_string()));
        }
        line.flag("--zone", zone.as_deref());
        line.flag("--user", user.as_deref());
        line.path("--option-file", option_file.as_deref());
        line.path("--admin-option-file", admin_option_file.as_deref());
        line.path("--replication-option-file", replication_option_file.as_deref());
        line.path("--journal", journal.as_deref());
        Flags::new(line.line())
    }

    pub(crate) fn journals(&self, environment: &Environment) -> anyhow::Result<PathBuf> {
        if let Some(directory) = &self.journal {
            return Ok(directory.clone());
        }
        environment.journals("switchover")
    }

    /// The account that changes roles: its option file on top of what the configuration says.
    pub(crate) fn admin(&self, watching: &Credentials) -> anyhow::Result<Credentials> {
        let Some(path) = &self.admin_option_file else { return Ok(watching.clone()) };
        credentials::owner_only(path, "a password", None).map_err(|why| anyhow!(why))?;
        let mut admin = Credentials { tls: watching.tls.clone(), ..Credentials::default() };
        option_files::read(path)?.complete(&mut admin);
        Ok(admin)
    }

    /// When resuming, the configuration may not be at hand: the option file is enough. Where there is one,
    /// its TLS holds.
    fn admin_alone(&self, source: &SourceArgs, environment: &Environment) -> anyhow::Result<Credentials> {
        let sourced = source::for_fleet(source);
        if self.admin_option_file.is_some() {
            return match sourced {
                Ok(sourced) => self.admin(&sourced.config.fleet.credentials),
                Err(SourceError::Nothing) => self.admin(&Credentials::default()),
                Err(wrong) => Err(wrong.into()),
            };
        }
        let mut config = sourced?.config;
        config.fleet.credentials = credentials::resolve(&config, environment)?;
        Ok(config.fleet.credentials)
    }

    pub(crate) fn replication(&self) -> anyhow::Result<(String, String)> {
        let Some(path) = &self.replication_option_file else {
            return Err(anyhow!(
                "the former primary has to follow afterwards: --replication-option-file FILE names user and password"
            ));
        };
        credentials::owner_only(path, "a password", None).map_err(|why| anyhow!(why))?;
        let login = option_files::read(path)?;
        let user = login.user.with_context(|| format!("{} names no user", path.display()))?;
        Ok((user, login.password.unwrap_or_default()))
    }
}

/// Notes need no look, and so count for nothing here.
fn code(kind: &Kind, outcome: &Outcome) -> ExitCode {
    match outcome.state {
        State::Done if outcome.remarks.is_empty() => exit::DONE,
        _ if outcome.is_as_before(kind) => exit::no(),
        _ => exit::error(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn who_resumes_does_not_wait_for_the_interval_of_many_routers() {
        assert_eq!(looks_every(Duration::from_secs(60)), FleetConfig::default().interval);
        assert_eq!(looks_every(Duration::from_millis(100)), Duration::from_millis(100));
    }

    #[test]
    fn what_may_open_a_server_is_preceded_by_a_look_at_the_fleet() {
        let failover = Kind::Failover { fence: perform::FenceBy::Nothing, gray: false };
        let undoing = |step| State::Undoing { step, why: "w".to_owned() };
        for (state, of_switchover, of_failover) in [
            (State::Forward { step: step::Step::Mark }, true, true),
            (undoing(step::Step::StopReplication), true, false),
            (undoing(step::Step::Freeze), true, false),
            (undoing(step::Step::Drain), false, false),
            (State::Done, false, false),
        ] {
            assert_eq!(may_open_a_server(&Kind::Switchover, &state), of_switchover, "{state:?}");
            assert_eq!(may_open_a_server(&failover, &state), of_failover, "{state:?}");
        }
    }

    #[test]
    fn a_move_that_is_complete_is_done_whatever_was_noted_on_the_way() {
        let outcome = |state: State, remarks: &[&str], notes: &[&str]| Outcome {
            state,
            primary_takes_writes: Some(true),
            steps: Vec::new(),
            writes_held_ms: None,
            routers: perform::Routers::default(),
            remarks: remarks.iter().map(ToString::to_string).collect(),
            notes: notes.iter().map(ToString::to_string).collect(),
        };
        let undone = || State::Undone { why: "w".to_owned() };
        let code = |outcome| code(&Kind::Switchover, &outcome);
        assert_eq!(code(outcome(State::Done, &[], &["b1 is late on purpose"])), exit::DONE);
        assert_eq!(code(outcome(undone(), &[], &["a router did not confirm"])), exit::no());
        assert_eq!(code(outcome(State::Done, &["b1 does not follow"], &[])), exit::error());
        assert_eq!(code(outcome(undone(), &["undoing record: no answer"], &[])), exit::error());
        let silent = Outcome { primary_takes_writes: None, ..outcome(undone(), &[], &[]) };
        assert_eq!(super::code(&Kind::Switchover, &silent), exit::error(), "it may be dead");
        let failover = Kind::Failover { fence: perform::FenceBy::Nothing, gray: false };
        assert_eq!(super::code(&failover, &silent), exit::no(), "nobody asks a dead one");
    }

    #[test]
    fn where_undoing_is_refused_what_to_type_has_the_flags_too() {
        let flags = Flags::new("--config f.toml --admin-option-file admin.cnf");
        let refused = step::give_up(step::Step::Mark, None, None).unwrap_err();
        let words = go_on_instead(refused, "headroom switchover --resume", &flags).to_string();
        for command in ["headroom switchover --resume", "headroom failover"] {
            assert!(words.contains(&flags.after(command)), "{words}");
        }
    }

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        args: SwitchoverArgs,
    }

    fn typed(words: &str) -> SwitchoverArgs {
        Typed::try_parse_from(words.split_whitespace()).unwrap().args
    }

    #[test]
    fn what_is_typed_next_has_the_flags_that_name_the_fleet_the_accounts_and_the_journals() {
        for flags in [
            "",
            "--config headroom.toml --admin-option-file admin.cnf --replication-option-file repl.cnf",
            "--server db1:3306 --server db2:3306 --zone a --user watch --option-file o.cnf --journal /j",
        ] {
            let first = typed(&format!("headroom db2 --yes --max-lag 1s {flags}"));
            let next = first.flags().after("headroom --resume");
            assert_eq!(next, format!("headroom --resume {flags}").trim_end());
            assert_eq!(typed(&next).flags(), first.flags());
        }
        let quoted = Typed::try_parse_from(["headroom", "db2", "--config", "my fleet.toml"]).unwrap();
        assert_eq!(quoted.args.flags(), Flags::new("--config 'my fleet.toml'"));
    }
}
