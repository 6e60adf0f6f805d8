//! `headroom guard`: automatic failover, where that was switched on; paused, resumed and shown from any host.

use crate::commands::switchover::OperatorArgs;
use crate::environment::Environment;
use crate::source::{self, SourceArgs};
use crate::telemetry::Telemetry;
use anyhow::Context;
use clap::{Args, Subcommand};
use config::{AskingBudget, Config, Credentials, FleetConfig};
use console::admin_client;
use console::service::{self, ServiceStatus};
use daemon::systemd::notify;
use fleet::ServerName;
use observe::Watcher;
use probe::host;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use switchover::failover::confirm::Rule;
use switchover::guard::decide::Caution;
use switchover::guard::lock::LEASE;
use switchover::guard::status::{self, GuardOverview, PauseReport};
use switchover::guard::{Guard, GuardOptions, GuardStatus};
use switchover::perform::Deadlines;
use term::log::LogFormat;
use term::{StopSignals, exit, terminal};
use tokio::net::TcpListener;
use tokio::sync::watch;

const EXAMPLES: &str = "\
Examples:
  headroom guard --dry-run --config headroom.toml --admin-option-file admin.cnf
      Says what it would do, and changes nothing.
  headroom guard --config headroom.toml --admin-option-file admin.cnf --fence '/usr/local/bin/power-off \"$1\"'
      Fails over by itself. Run one on each of two or three hosts: one is active, the others wait.
  headroom guard pause --for 2h --why 'a new disk' --config headroom.toml --admin-option-file admin.cnf
  headroom guard status --config headroom.toml --admin-option-file admin.cnf

Exit codes: 0 stopped in order (or paused, resumed; status: one is active); 1 status: none is active, or paused;
2 error; 64 the command line was not understood.
Guide: docs/guide/failover.md.";

const ROUTER_EVERY: Duration = Duration::from_millis(500);

/// How long replicas may take to show a pause.
const SHOWN: Duration = Duration::from_secs(10);

/// Fail over by itself when the primary dies, where nothing acknowledged can be lost.
///
/// Does what `headroom failover` does, without asking: only when the replicas agree that the primary is
/// dead, when semi-sync or a command fences it, and when no acknowledged write can be lost. Where that is not
/// sure, and for a second failover soon after the first, it asks for a person: in its log and its metrics.
#[derive(Args, Debug, Clone)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct GuardArgs {
    /// Without one: guard.
    #[command(subcommand)]
    command: Option<GuardCommand>,
    #[command(flatten)]
    run: RunArgs,
}

#[derive(Subcommand, Debug, Clone)]
enum GuardCommand {
    /// Let no guard act, for a time or until `resume`.
    Pause {
        #[command(flatten)]
        fleet: FleetArgs,
        /// Ends by itself after this time.
        #[arg(long = "for", value_name = "TIME", value_parser = fleet::parse_duration)]
        time: Option<Duration>,
        /// Shown by `status` and in the guards' logs.
        #[arg(long, value_name = "TEXT", default_value = "")]
        why: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Let guards act again, also soon after a failover: somebody has looked.
    Resume {
        #[command(flatten)]
        fleet: FleetArgs,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Who is active, paused or not, the last failover, and what one now could lose.
    Status {
        #[command(flatten)]
        fleet: FleetArgs,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

/// Where the fleet is, and as whom.
#[derive(Args, Debug, Clone)]
struct FleetArgs {
    /// Where the fleet is found.
    #[command(flatten)]
    source: SourceArgs,
    /// As whom, and where it is written down.
    #[command(flatten)]
    operator: OperatorArgs,
}

#[derive(Args, Debug, Clone)]
struct RunArgs {
    #[command(flatten)]
    fleet: FleetArgs,
    /// Decide and say so; change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Keeps the dead primary from coming back to clients: run by /bin/sh with its name and address as $1 and
    /// $2 (HEADROOM_SERVER, HEADROOM_ADDRESS); must end with 0.
    #[arg(long, value_name = "COMMAND")]
    fence: Option<String>,
    /// Replace a primary, too, that answers while its commits hang, when a router says so and its own look
    /// confirms it.
    #[arg(long, requires = "router")]
    act_on_gray: bool,
    /// Admin address of a router that is asked whether the primary's commits hang; several may be given.
    #[arg(long, value_name = "ADDR")]
    router: Vec<String>,
    /// No second failover within this time, unless somebody has said `resume` since.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = fleet::parse_duration)]
    not_again_within: Duration,
    /// Looks at the primary must fail for at least this long.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = fleet::parse_duration)]
    confirm: Duration,
    /// How long replicas may take to notice (`replica_net_timeout`); then it is not confirmed, and tried
    /// again.
    #[arg(long, value_name = "TIME", default_value = "70s", value_parser = fleet::parse_duration)]
    within: Duration,
    /// How long the candidate may take to apply what it received.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = fleet::parse_duration)]
    apply: Duration,
    /// Answer here: /healthz, /metrics, /status.json; loopback only.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9308", value_parser = daemon::listen::address)]
    listen: SocketAddr,
    /// How log lines look on standard error.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log_format: LogFormat,
}

/// Runs `headroom guard`.
pub(crate) async fn run(args: GuardArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    match args.command {
        None => args.run.guard(environment).await,
        Some(GuardCommand::Pause { fleet, time, why, json }) => {
            let written = fleet.pause(time, &why, environment).await?;
            show(
                &written,
                "paused: no guard acts until headroom guard resume, or until the time is over",
                json,
            )
        }
        Some(GuardCommand::Resume { fleet, json }) => {
            let (config, admin) = fleet.read(environment)?;
            let snapshot = observe::survey(&config.fleet).await;
            let written =
                status::pause(&snapshot, &admin, false, None, &host(), "", deadline(&config)).await?;
            show(&written, "resumed: the active guard acts when the primary dies", json)
        }
        Some(GuardCommand::Status { fleet, json }) => {
            let (config, admin) = fleet.read(environment)?;
            let snapshot = observe::survey(&config.fleet).await;
            let flags = fleet.operator.flags(&fleet.source);
            let found = GuardOverview::read(&snapshot, &admin, deadline(&config), &flags).await;
            if json {
                terminal::print_json(&found)?;
            } else {
                terminal::print(&found.text())?;
            }
            Ok(if found.is_guarded() && found.pause.is_none() { exit::DONE } else { exit::no() })
        }
    }
}

fn show(written: &PauseReport, words: &str, json: bool) -> anyhow::Result<ExitCode> {
    if json {
        terminal::print_json(written)?;
    } else {
        terminal::complain(words);
    }
    Ok(exit::DONE)
}

impl FleetArgs {
    fn read(&self, environment: &Environment) -> anyhow::Result<(Config, Credentials)> {
        let config = source::with_account(&self.source, environment)?;
        let admin = self.operator.admin(&config.fleet.credentials)?;
        Ok((config, admin))
    }

    /// Returns once the guards can know: those that run look at the primary and its replicas each interval;
    /// one that is started when the primary is dead reads the replicas alone.
    async fn pause(
        &self,
        time: Option<Duration>,
        why: &str,
        environment: &Environment,
    ) -> anyhow::Result<PauseReport> {
        let (config, admin) = self.read(environment)?;
        let (snapshot, deadline) = (observe::survey(&config.fleet).await, deadline(&config));
        let mut written = status::pause(&snapshot, &admin, true, time, &host(), why, deadline).await?;
        let waits = |left: &[ServerName]| {
            terminal::complain(&format!(
                "written on the primary; waiting until {} shows it, at most {} s",
                text(left),
                SHOWN.as_secs()
            ));
        };
        let looks = tokio::time::sleep(config.fleet.interval);
        let shown = status::replicas_without(written.generation, &snapshot, &admin, SHOWN, deadline, waits);
        let (late, ()) = tokio::join!(shown, looks);
        if !late.is_empty() {
            terminal::complain(&format!(
                "{} does not show it yet (headroom fleet shows how far behind it is): a guard that starts only now, with \
                 the primary dead, may not know it there",
                text(&late)
            ));
        }
        written.late = late;
        Ok(written)
    }
}

/// How often a guard looks: a server takes its lock away where it has asked nothing for a while, and what the
/// primary said is soon too old.
fn looks_every(configured: Duration) -> Duration {
    configured.min(LEASE / 4)
}

/// Routers ask less often as they become more, since their own sessions meet a failure first. A guard has
/// none, and there are few: it goes on at its interval.
fn uncounted(fleet: FleetConfig) -> FleetConfig {
    let asking = AskingBudget { counted: false, ..fleet.asking };
    FleetConfig { asking, ..fleet }
}

impl RunArgs {
    async fn guard(self, environment: &Environment) -> anyhow::Result<ExitCode> {
        if !self.listen.ip().is_loopback() {
            let why = "--listen takes an address of this machine alone, such as 127.0.0.1:9308";
            return Err(exit::usage_error(why));
        }
        let (_log, telemetry) = Telemetry::start(self.log_format, environment.log.as_deref())?;
        let (config, admin) = self.fleet.read(environment)?;
        let options = GuardOptions {
            interval: looks_every(config.fleet.interval),
            deadline: config.fleet.deadline,
            rule: Rule { over: self.confirm, ..Rule::default() },
            within: self.within,
            caution: Caution { not_again_within: self.not_again_within, act_on_gray: self.act_on_gray },
            dry_run: self.dry_run,
            fence: self.fence,
            deadlines: Deadlines { await_ms: self.apply.as_millis() as u64, ..Deadlines::default() },
            journals: self.fleet.operator.journals(environment)?,
            by: format!("guard on {}", host()),
            flags: self.fleet.operator.flags(&self.fleet.source),
        };
        // HUP too: what has begun is finished, whatever becomes of the terminal.
        let mut stop = StopSignals::listen()?;
        let listener = TcpListener::bind(self.listen)
            .await
            .with_context(|| format!("cannot listen on {}: choose another with --listen", self.listen))?;
        // An attempt tells nothing while it confirms and applies.
        let fresh = self.within + self.apply;
        let watcher = Watcher::start(uncounted(config.fleet));
        let gray = (!self.router.is_empty()).then(|| admin_client::watch_gray(&self.router, ROUTER_EVERY));
        let guard = Guard::new(options, admin, watcher.snapshots(), gray)?;
        tracing::info!(address = %listener.local_addr()?, dry_run = self.dry_run, "guards; /healthz, /metrics, /status.json");
        let (tell, latest) = watch::channel(said(None, fresh));
        let telemetry = telemetry.of_guard(latest.clone(), self.listen);
        let socket = environment.notify_socket.as_deref();
        notify(socket, "READY=1");
        let told = |status: &GuardStatus| {
            tell.send_replace(said(Some(status), fresh));
            notify(socket, &format!("STATUS={}\nWATCHDOG=1", status.line()));
        };
        tokio::select! {
            () = guard.run(stop.received(), told) => {}
            served = service::serve(listener, latest) => served?,
        }
        notify(socket, "STOPPING=1");
        telemetry.stop().await;
        watcher.stop().await;
        Ok(exit::DONE)
    }
}

fn said(status: Option<&GuardStatus>, fresh: Duration) -> ServiceStatus {
    let json = status.and_then(|status| serde_json::to_string_pretty(status).ok());
    ServiceStatus {
        at: Instant::now(),
        fresh,
        json: json.unwrap_or_else(|| "{}".to_owned()) + "\n",
        metrics: status.map_or("# EOF\n".to_owned(), GuardStatus::metrics),
    }
}

fn text(servers: &[ServerName]) -> String {
    servers.iter().map(ServerName::as_str).collect::<Vec<_>>().join(", ")
}

fn deadline(config: &Config) -> Duration {
    config.fleet.deadline.max(Duration::from_secs(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_keeps_its_lock_and_its_interval_whatever_routers_do() {
        let usual = FleetConfig::default();
        assert_eq!(looks_every(usual.interval), usual.interval);
        assert!(looks_every(Duration::from_secs(60)) * 2 < LEASE);
        let fleet = uncounted(FleetConfig { interval: Duration::from_secs(1), ..usual });
        assert!(!fleet.asking.counted && fleet.interval == Duration::from_secs(1));
    }
}
