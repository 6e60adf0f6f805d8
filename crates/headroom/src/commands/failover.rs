//! `headroom failover`: a replica takes over from a dead primary, and the dead one comes back as a replica.

mod remembered;

use crate::commands::switchover::{OperatorArgs, Resuming, TakeOverArgs, perform, resume, say_not_done};
use crate::environment::Environment;
use crate::source::{self, SourceArgs};
use anyhow::{Context, anyhow};
use clap::Args;
use config::FleetConfig;
use fleet::{ServerName, Snapshot};
use probe::host;
use std::process::ExitCode;
use std::time::Duration;
use switchover::Flags;
use switchover::check::Level;
use switchover::facts;
use switchover::failover::confirm::Rule;
use switchover::failover::events::{self, StoppedEvents};
use switchover::failover::own_writes;
use switchover::failover::rejoin::{self, RejoinOutcome};
use switchover::failover::risk::{self, Guard, LossRisk, SourceEvidence};
use switchover::failover::scene::Scene;
use switchover::failover::source as failover_source;
use switchover::failover::text;
use switchover::failover::unfinished::{self, Found, Successor};
use switchover::journal::Journal;
use switchover::perform::{Deadlines, FenceBy, Logins};
use switchover::step::State;
use term::{Paint, exit, terminal};

const EXAMPLES: &str = "\
Examples:
  headroom failover --check --config headroom.toml --admin-option-file admin.cnf
      Changes nothing: who is dead, who would take over, what could be lost.
  headroom failover --config headroom.toml --admin-option-file admin.cnf --fence '/usr/local/bin/power-off \"$1\"'
      Confirms, asks, fences, promotes. The command gets name and address of the dead server as $1 and $2.
  headroom failover --rejoin db1 --config headroom.toml --admin-option-file admin.cnf --replication-option-file repl.cnf
      The old primary follows the new one, when it has nothing of its own; else it stays read-only and that is shown.

Exit codes: 0 done; 1 no is the answer: not dead, not fenced, nobody can take over, undone, or something could
be lost and was not accepted; 2 error, or a person has to decide, as where another failover promoted a replica
that was written to; 64 the command line was not understood.
Guide: docs/guide/failover.md.";

/// Beyond `--confirm`, how long it may take to see again that it is dead.
const CONFIRMED_AGAIN: Duration = Duration::from_secs(8);

/// Why nothing is done where the answer was no.
const NOT_AGREED: &str = "it was not agreed to";

/// Let a replica take over from a dead primary.
///
/// Only when the primary does not answer for some time and none of its replicas is connected to it. The
/// replica that has received most takes over, once it has applied it. The dead primary is fenced by a
/// command, or semi-sync proves that it cannot acknowledge; otherwise what could be lost is named, and has to
/// be accepted.
#[derive(Args, Debug, Clone)]
#[command(after_help = EXAMPLES)]
pub(crate) struct FailoverArgs {
    /// The replica that shall take over [default: the one that has received most].
    #[arg(conflicts_with_all = ["resume", "rejoin"])]
    candidate: Option<String>,
    /// Where the fleet is found.
    #[command(flatten)]
    source: SourceArgs,
    /// Only show who is dead, who would take over and what could be lost; nothing is changed.
    #[arg(long, conflicts_with_all = ["resume", "rejoin"])]
    check: bool,
    /// Go on with one that was interrupted, or undo it where nobody was promoted yet.
    #[arg(long, conflicts_with = "rejoin")]
    resume: bool,
    /// With --resume, on a host that does not have the journal: by what the servers themselves show.
    #[arg(long, requires = "resume")]
    from_servers: bool,
    #[command(flatten)]
    take_over: TakeOverArgs,
    /// Bring this old primary back as a replica, when it has nothing that the new one lacks.
    #[arg(long, value_name = "SERVER")]
    rejoin: Option<String>,
    /// Keeps the dead primary from coming back to clients: run by /bin/sh with its name and address as $1 and
    /// $2 (HEADROOM_SERVER, HEADROOM_ADDRESS); must end with 0.
    #[arg(long, value_name = "COMMAND")]
    fence: Option<String>,
    /// The primary answers, but its commits hang (a stalled or full disk): replace it all the same, once that
    /// is confirmed.
    #[arg(long, conflicts_with_all = ["resume", "rejoin"])]
    gray: bool,
    /// Go on although acknowledged writes could be lost, or nothing fences the old primary.
    #[arg(long)]
    accept_loss: bool,
    /// You know that the primary waited for acknowledgements until it died (`Rpl_semi_sync_master_status` was
    /// ON): nobody can ask it any more, and its replicas do not tell.
    #[arg(long, conflicts_with_all = ["resume", "rejoin"])]
    semi_sync_was_on: bool,
    /// A running router, by its admin address: it is asked for servers that only the dead primary could name
    /// [default: $HEADROOM_ADMIN, else as the file says, else 127.0.0.1:9306].
    #[arg(long, value_name = "ADDR", conflicts_with_all = ["resume", "rejoin"])]
    router: Option<String>,
    /// The primary's name, where it cannot be found out.
    #[arg(long, value_name = "SERVER")]
    primary: Option<String>,
    /// Do not ask before a replica is promoted.
    #[arg(long, short)]
    yes: bool,
    /// Our own looks must fail for at least this long.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = fleet::parse_duration)]
    confirm: Duration,
    /// How long replicas may take to notice (`replica_net_timeout`); then it is not confirmed.
    #[arg(long, value_name = "TIME", default_value = "70s", value_parser = fleet::parse_duration)]
    within: Duration,
    /// How long the candidate may take to apply what it received.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = fleet::parse_duration)]
    apply: Duration,
    /// As whom, and where it is written down.
    #[command(flatten)]
    operator: OperatorArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs `headroom failover`.
pub(crate) async fn run(args: FailoverArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    if args.resume && !args.from_servers {
        let how = Resuming { undo: false, take_over: args.take_over, json: args.json };
        return resume(&args.operator, &args.source, how, environment).await;
    }
    if !args.resume {
        args.take_over.refuse_alone("--resume")?;
    }
    let mut config = source::with_account(&args.source, environment)?;
    let admin = args.operator.admin(&config.fleet.credentials)?;
    let mut snapshot = observe::survey(&config.fleet).await;
    if args.from_servers {
        return args.finish(&snapshot, &config.fleet, admin, environment).await;
    }
    if let Some(old) = &args.rejoin {
        return args.rejoin(old, &snapshot, &config.fleet, admin, environment).await;
    }
    let router = environment.router(args.router.as_deref()).map(str::to_owned);
    let router = router.or_else(|| config.admin.map(|admin| admin.to_string()));
    let remembered = remembered::ask(router.as_deref(), &config.fleet, &snapshot).await;
    if let Some(remembered) = remembered.as_ref().filter(|remembered| !remembered.missing.is_empty()) {
        terminal::complain(&remembered.words());
        config.fleet.seeds.extend(remembered.missing.iter().cloned());
        snapshot = observe::survey(&config.fleet).await;
    }
    let asked_router = remembered.as_ref().map(|remembered| remembered.router.as_str());
    let deadline = config.fleet.deadline.max(Duration::from_secs(2));
    let known = snapshot.primary().filter(|_| args.gray).map(|server| server.name.clone());
    let primary = args.primary.as_deref().map(ServerName::new).or(known);
    let flags = args.flags();
    let scene = match Scene::read(&snapshot, primary.as_ref(), &admin, deadline, &flags).await {
        Err(error @ switchover::Error::HasPrimary { .. }) => return not_done(&error.to_string(), args.json),
        scene => scene?,
    };
    let dead = scene.primary.name.clone();
    let rule = Rule { over: args.confirm, ..Rule::default() };
    if !args.gray && scene.all_stopped() {
        match scene.nobody_was_promoted(&admin, deadline, &flags).await {
            Err(error @ switchover::Error::Refused { .. }) => return left_to_person(&error, args.json),
            looked => looked?,
        }
        if args.check {
            return not_done(&text::all_stopped(&scene), args.json);
        }
        terminal::complain(&text::all_stopped(&scene));
        scene.start_receivers(&admin, deadline).await?;
    }
    if let Err(error) = args.confirm(&scene, &admin, &rule, args.within, deadline).await {
        return not_done(&error.to_string(), args.json);
    }
    // Again, now that it is dead: what was received is final only from here on.
    let mut scene = Scene::read(&snapshot, Some(&dead), &admin, deadline, &flags).await?;
    let mut chosen = scene.choose(args.candidate.as_deref().map(ServerName::new).as_ref());
    let kept = match &chosen {
        Ok(candidate) => own_writes::none_is_lost(&scene, candidate, &admin, deadline, &flags).await,
        Err(_) => Ok(()),
    };
    match kept {
        Ok(()) => {}
        Err(error) if args.accept_loss => terminal::complain(&format!("accepted: {error}")),
        Err(error) => chosen = Err(error),
    }
    let evidence = args.source_evidence(&scene, &admin, deadline).await;
    let loss = scene.rule_out_loss(&evidence);
    if args.check {
        scene.read_own_grants(&admin, deadline).await;
        return args.show(&scene, &chosen, &loss, asked_router, environment);
    }
    let candidate = match chosen {
        Ok(candidate) => candidate,
        Err(error) => return nobody(error, args.json),
    };
    if !args.gray {
        terminal::complain(&text::others_unknown(&scene, asked_router));
    }
    let mut fence = match args.fence_by(loss) {
        Ok(fence) => fence,
        Err(why) => return not_done(&why, args.json),
    };
    if !args.yes {
        if !terminal::ask(&format!("Promote {candidate} in the place of {dead}?"))? {
            return not_done(NOT_AGREED, args.json);
        }
        // The answer may have taken minutes: it is looked again, and decided on what is seen now.
        let briefly = rule.over + CONFIRMED_AGAIN;
        if let Err(error) = args.confirm(&scene, &admin, &rule, briefly, deadline).await {
            return not_done(&error.to_string(), args.json);
        }
        scene = Scene::read(&snapshot, Some(&dead), &admin, deadline, &flags).await?;
        if let Err(error) = scene.choose(Some(&candidate)) {
            return nobody(error, args.json);
        }
        let evidence = args.source_evidence(&scene, &admin, deadline).await;
        fence = match args.fence_by(scene.rule_out_loss(&evidence)) {
            Ok(fence) => fence,
            Err(why) => return not_done(&why, args.json),
        };
    }
    let plan = scene.plan(&candidate, fence, args.deadlines(), &host())?;
    let plan = if args.gray { plan.of_gray_primary() } else { plan };
    let mut journal = Journal::create(&args.operator.journals(environment)?, &plan)?;
    let logins = Logins { admin, replication: Default::default(), flags };
    perform(&plan, &logins, &mut journal, State::START, false, args.json, environment).await
}

/// Why nothing was done, in words or as JSON.
fn not_done(why: &str, json: bool) -> anyhow::Result<ExitCode> {
    let words = if json { why.to_owned() } else { format!("not done: {why}") };
    say_not_done(&words, json)?;
    Ok(exit::no())
}

/// The same where no flag lets it go on: whatever is done next, a person has to choose what is lost.
fn left_to_person(why: &switchover::Error, json: bool) -> anyhow::Result<ExitCode> {
    not_done(&why.to_string(), json)?;
    Ok(exit::error())
}

/// The same where nobody takes over, or one who does would lose something: that is an answer. That a server
/// was not read is none.
fn nobody(why: switchover::Error, json: bool) -> anyhow::Result<ExitCode> {
    match why {
        why @ switchover::Error::Refused { .. } => not_done(&why.to_string(), json),
        why => Err(why.into()),
    }
}

impl FailoverArgs {
    fn flags(&self) -> Flags {
        self.operator.flags(&self.source)
    }

    /// Looks until it is sure, and says what was seen.
    async fn confirm(
        &self,
        scene: &Scene,
        admin: &config::Credentials,
        rule: &Rule,
        within: Duration,
        deadline: Duration,
    ) -> Result<(), switchover::Error> {
        let dead = &scene.primary.name;
        let confirmed = if self.gray {
            terminal::complain(&format!("looking at the commits of {dead}"));
            let confirmed = scene.confirm_gray(admin, rule, deadline).await;
            confirmed.map(|evidence| format!("{dead} is gray: {evidence}"))
        } else {
            terminal::complain(&format!("looking at {dead} and at what its replicas see of it"));
            scene.confirm(admin, rule, within).await.map(|confirmed| {
                format!(
                    "{dead} is dead: {} looks failed over {:.1} s, and no replica is connected to it",
                    confirmed.looks,
                    confirmed.took.as_secs_f64()
                )
            })
        };
        confirmed.map(|evidence| terminal::complain(&evidence))
    }

    /// Whether the primary waited for acknowledgements: a gray one can still be asked.
    async fn source_evidence(
        &self,
        scene: &Scene,
        admin: &config::Credentials,
        deadline: Duration,
    ) -> SourceEvidence {
        match (self.semi_sync_was_on, self.gray) {
            (true, _) => SourceEvidence::Stated,
            (false, true) => failover_source::ask(&scene.primary, admin, deadline).await,
            (false, false) => SourceEvidence::Unknown,
        }
    }

    /// What keeps the old primary from acknowledging more, or why it must not go on.
    fn fence_by(&self, loss: Result<String, LossRisk>) -> Result<FenceBy, String> {
        match risk::decide(self.fence.is_some(), loss, self.accept_loss) {
            Ok(Guard::Hook) => Ok(FenceBy::Command { command: self.fence.clone().unwrap_or_default() }),
            Ok(Guard::SemiSync(facts)) => {
                terminal::complain(&facts);
                Ok(FenceBy::SemiSync { facts })
            }
            Ok(Guard::Accepted) => Ok(FenceBy::Nothing),
            Err(why) => Err(why.to_string()),
        }
    }

    fn show(
        &self,
        scene: &Scene,
        chosen: &Result<ServerName, switchover::Error>,
        loss: &Result<String, LossRisk>,
        asked_router: Option<&str>,
        environment: &Environment,
    ) -> anyhow::Result<ExitCode> {
        if self.json {
            terminal::print_json(&text::Checked::of(scene, chosen, loss, self.gray, asked_router))?;
        } else {
            let paint = Paint::for_stdout(environment.no_colour);
            terminal::print(&text::check(scene, chosen, loss, self.gray, asked_router, paint))?;
        }
        let may = scene.own_privileges(chosen.as_ref().ok()).level != Level::Stop;
        Ok(if chosen.is_ok() && loss.is_ok() && may { exit::DONE } else { exit::no() })
    }

    fn deadlines(&self) -> Deadlines {
        Deadlines { await_ms: self.apply.as_millis() as u64, ..Deadlines::default() }
    }

    /// Ends what another host began and did not end.
    async fn finish(
        &self,
        snapshot: &Snapshot,
        config: &FleetConfig,
        admin: config::Credentials,
        environment: &Environment,
    ) -> anyhow::Result<ExitCode> {
        let deadline = config.deadline.max(Duration::from_secs(2));
        let by = host();
        let flags = self.flags();
        let successor = Successor { who: &admin, by: &by, deadlines: self.deadlines(), flags: &flags };
        let unfinished = match unfinished::find(snapshot, successor, deadline).await? {
            Found::Nothing => {
                say_not_done("the servers show no failover that was begun and is not over", self.json)?;
                return Ok(exit::DONE);
            }
            Found::NobodyPromoted(mut stopped) => {
                terminal::complain(&text::nobody_promoted(&stopped));
                if !self.yes && !terminal::ask("Let them look again?")? {
                    return not_done(NOT_AGREED, self.json);
                }
                if self.take_over.is_asked() {
                    for ended in stopped.end_sessions(&admin, deadline).await? {
                        terminal::complain(&format!("ended {ended}"));
                    }
                    // Its program may have gone on until then.
                    stopped = match unfinished::find(snapshot, successor, deadline).await? {
                        Found::NobodyPromoted(now) => now,
                        Found::Nothing | Found::Promoted(_) => {
                            let again = flags.after("headroom failover --resume --from-servers");
                            return Err(anyhow!(
                                "its program went on until its sessions were ended: {again}"
                            ));
                        }
                    };
                }
                stopped.start(&admin, deadline).await?;
                let again = flags.after("headroom failover");
                say_not_done(&format!("undone; if it is dead, begin again: {again}"), self.json)?;
                return Ok(exit::no());
            }
            Found::Promoted(unfinished) => unfinished,
        };
        terminal::complain(&unfinished.why);
        let plan = &unfinished.plan;
        let logins = Logins { admin, replication: Default::default(), flags };
        self.take_over.end_sessions(plan, &logins).await?;
        if switchover::perform::is_under_way(plan, &logins).await {
            return Err(anyhow!(
                "its tool is still at work: wait until that has ended; if its host was lost: --take-over"
            ));
        }
        if !self.yes && !terminal::ask(&format!("Go on, so that all follow {}?", plan.candidate.name))? {
            return not_done(NOT_AGREED, self.json);
        }
        let mut journal = Journal::create(&self.operator.journals(environment)?, plan)?;
        let state = State::Forward { step: unfinished.from };
        perform(plan, &logins, &mut journal, state, false, self.json, environment).await
    }

    async fn rejoin(
        &self,
        old: &str,
        snapshot: &Snapshot,
        config: &FleetConfig,
        admin: config::Credentials,
        environment: &Environment,
    ) -> anyhow::Result<ExitCode> {
        let deadline = config.deadline.max(Duration::from_secs(20));
        let old = ServerName::new(old);
        let Some(returned) = snapshot.server(&old) else {
            return Err(anyhow!("{old} is not known; headroom fleet shows the servers"));
        };
        let (new, protection) = rejoin::new_primary(snapshot, &old, &admin, deadline).await?;
        let facts =
            facts::read(&old, &returned.reach, &admin, deadline).await.context("reading the old primary")?;
        let logins = Logins { admin, replication: self.operator.replication()?, flags: self.flags() };
        let paint = Paint::for_stdout(environment.no_colour);
        let outcome = rejoin::rejoin(&facts, &new, &protection, &logins, deadline).await?;
        let StoppedEvents { notes, remarks } = match outcome {
            RejoinOutcome::Follows => events::stop(&facts, &new, &logins.admin, deadline).await,
            RejoinOutcome::Refused { .. } => StoppedEvents::default(),
        };
        let code = match outcome {
            RejoinOutcome::Follows if remarks.is_empty() => exit::DONE,
            RejoinOutcome::Follows => exit::error(),
            RejoinOutcome::Refused { .. } => exit::no(),
        };
        match outcome {
            outcome if self.json => {
                let follows = (outcome == RejoinOutcome::Follows).then(|| new.server.clone());
                let (own_transactions, mend) = match outcome {
                    RejoinOutcome::Follows => (None, None),
                    RejoinOutcome::Refused { own, mend } => (Some(own.to_string()), Some(mend)),
                };
                terminal::print_json(&text::Rejoined {
                    server: old,
                    follows,
                    own_transactions,
                    mend,
                    notes,
                    remarks,
                })?;
            }
            RejoinOutcome::Follows => {
                let mut text = format!("{} {old} follows {}\n", paint.green("done:"), new.server);
                for remark in &remarks {
                    text.push_str(&format!("{} {remark}\n", paint.yellow("look at:")));
                }
                for note in &notes {
                    text.push_str(&format!("{} {note}\n", paint.dim("note:")));
                }
                terminal::print(&text)?;
            }
            RejoinOutcome::Refused { own, mend } => {
                terminal::print(&format!(
                    "{} {old} has {own} that {} does not have; it is closed to writes and follows nobody\n-> {mend}\n",
                    paint.red("not done:"),
                    new.server
                ))?;
            }
        }
        Ok(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_person_has_to_decide_is_not_the_answer_no() {
        let refused = || switchover::Error::Refused { server: ServerName::new("a2"), why: "w".to_owned() };
        assert_eq!(left_to_person(&refused(), true).unwrap(), exit::error());
        assert_eq!(nobody(refused(), true).unwrap(), exit::no());
        let late = switchover::Error::TooLate {
            server: ServerName::new("a2"),
            what: "has not answered".to_owned(),
            seconds: 2.0,
            detail: String::new(),
        };
        assert!(nobody(late, true).is_err(), "it is not known what a2 has");
    }
}
