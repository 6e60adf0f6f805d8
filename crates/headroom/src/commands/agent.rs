//! `headroom agent`: what `headroom watch` shows, for other programs, over HTTP.

use super::watch::{WatchTarget, WatchTargetArgs, watch_target};
use crate::commands::probe::known_ceilings;
use crate::environment::{self, Environment};
use crate::telemetry::Telemetry;
use ::agent::{Files, Keys, Monitor, MonitorOptions, Reconfigure};
use anyhow::bail;
use clap::Args;
use console::objectives::Objectives;
use daemon::core_dump;
use daemon::systemd::notify;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use term::log::LogFormat;
use term::{exit, interrupted};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

const AGENT_EXAMPLES: &str = "\
Examples:
  headroom agent                                     this host
  headroom agent --server 127.0.0.1:3306             this host and the fleet of that server
  curl -s http://127.0.0.1:9307/watch.json | jq -r .verdict.text
  headroom agent --server 127.0.0.1:3306 --listen 0.0.0.0:9307 --tls-cert agent.pem --tls-key agent-key.pem --token-file token
      Beyond loopback: with TLS and a token, never with less.

Token: never on the command line, where every user of the machine could read it. From --token-file, else
HEADROOM_AGENT_TOKEN. Certificate, key and token are read again when the files change, and on HUP, which reads the
configuration file and the ceilings again too; bad ones are rejected and the previous ones stay in force.";

/// What `watch` shows, for other programs: JSON and OpenMetrics, on loopback or with a token and TLS.
#[derive(Args, Debug, Clone)]
#[command(after_help = AGENT_EXAMPLES)]
pub(crate) struct AgentArgs {
    /// What is watched.
    #[command(flatten)]
    pub(crate) target: WatchTargetArgs,
    /// Answer here; an address that others can reach takes a token and a certificate.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9307", value_parser = daemon::listen::address)]
    pub(crate) listen: SocketAddr,
    /// Certificate, with what links it to its authority, PEM: the agent then speaks HTTPS only.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Its key, PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// File whose first line is the token that every request must bring [default: $HEADROOM_AGENT_TOKEN].
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// How log lines look on standard error.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) log_format: LogFormat,
}

/// Runs `headroom agent`.
pub(crate) async fn run(args: AgentArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let (_log, telemetry) = Telemetry::start(args.log_format, environment.log.as_deref())?;
    core_dump::forbid(environment.core_dumps);
    let keys = Keys::read(Files {
        pair: args.tls_cert.clone().zip(args.tls_key.clone()),
        token: args.token_file.clone(),
        variable: environment.agent_token.clone(),
    })?;
    let listener = ::agent::bind(args.listen, &keys).await?;
    let WatchTarget { fleet, router, objectives, webhook } = watch_target(&args.target, environment)?;
    let hook = environment::hook(webhook.as_ref())?;
    let objectives = Objectives::new(&objectives, hook);
    let has_fleet = fleet.is_some();
    let ceilings = known_ceilings(args.target.store.as_deref(), environment)?;
    let watching =
        MonitorOptions::against(ceilings, args.target.window).asking(router).promising(objectives.clone());
    let monitor = Monitor::start(fleet, watching);
    let telemetry = telemetry.of_agent(monitor.views(), args.listen);
    let hang_up = signal(SignalKind::hangup())?;
    tokio::spawn(again(hang_up, args, environment.clone(), monitor.changes(), objectives, has_fleet));
    let systemd = environment.notify_socket.as_deref();
    notify(systemd, "READY=1");
    let served = ::agent::serve(listener, &keys, &monitor, interrupted()).await;
    notify(systemd, "STOPPING=1");
    telemetry.stop().await;
    monitor.stop().await;
    served.map(|()| exit::DONE)
}

/// Reads the configuration and the ceilings again on HUP and takes it over, or says why not and changes
/// nothing.
async fn again(
    mut hang_up: Signal,
    args: AgentArgs,
    environment: Environment,
    changes: mpsc::Sender<Reconfigure>,
    objectives: Objectives,
    mut has_fleet: bool,
) {
    while hang_up.recv().await.is_some() {
        let read = watch_target(&args.target, &environment).and_then(|target| {
            if has_fleet && target.fleet.is_none() {
                bail!("nothing says where the servers are any more");
            }
            let hook = environment::hook(target.webhook.as_ref())?;
            Ok((target, hook, known_ceilings(args.target.store.as_deref(), &environment)?))
        });
        match read {
            Ok((WatchTarget { fleet, router, objectives: promised, .. }, hook, ceilings)) => {
                has_fleet = fleet.is_some();
                objectives.change(&promised, hook);
                if changes.send(Reconfigure { fleet, router, ceilings }).await.is_err() {
                    return;
                }
                tracing::info!("configuration read again");
            }
            Err(error) => tracing::error!("reload rejected, keeping the previous configuration: {error:#}"),
        }
    }
}
