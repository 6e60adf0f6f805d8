//! `headroom route`: from the configuration to a running router, and out again on a signal.

use crate::commands::check;
use crate::credentials;
use crate::environment::{self, Environment};
use crate::source::{self, ListenerArgs, SourceArgs};
use crate::telemetry::Telemetry;
use clap::Args;
use config::Sourced;
use console::control::{self, take_over};
use console::fleet_view;
use console::objectives::WebhookSender;
use daemon::admin_server::ReadyAdmin;
use daemon::control_sockets::ControlSockets;
use daemon::engine::Engine;
use daemon::process::{Origin, Process};
use daemon::serve::{self, End};
use daemon::signals::Signals;
use daemon::systemd::{self, notify};
use daemon::{core_dump, descriptors, identity, watchdog};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use term::log::LogFormat;
use term::{Paint, exit, terminal};

/// What was found is shown after this long at the latest; clients are served before that already.
const FIRST_LOOK: Duration = Duration::from_secs(5);

const ROUTE_EXAMPLES: &str = "\
Examples:
  headroom route --server db1:3306 --reader 127.0.0.1:3306 --writer 127.0.0.1:3307
      No file: from db1 the others are found; reads on port 3306, writes on 3307.
  headroom route --config /etc/headroom/headroom.toml --zone us-east-1a
      One file for all hosts, the zone from the command line.
  headroom route --check --config headroom.toml
      Is the file right? Complaints with line and column, exit code 2; asks no server (headroom check does).

Password: never on the command line, where every user of the machine could read it. From the configuration
(password_file, password_env), from the option file (~/.my.cnf or --option-file), from HEADROOM_PASSWORD or MYSQL_PWD.

Signals: HUP reads the configuration file again (a bad one is rejected, keeping the previous one); USR2 starts this program
again (a newer version, if it has been replaced), which takes over; TERM and INT stop taking connections and wait for
sessions to become idle; a second one stops at once.";

/// Give every new connection the nearest server that has room.
///
/// Accepts clients on reader and writer listeners and connects each to a server: readers to the nearest
/// replica with room, writers to the primary. Without --config and --server, ./headroom.toml or
/// /etc/headroom/headroom.toml is read.
#[derive(Args, Debug, Clone)]
#[command(after_help = ROUTE_EXAMPLES)]
pub(crate) struct RouteArgs {
    /// Where the fleet is found.
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// Listeners and admin address in place of a file.
    #[command(flatten)]
    pub(crate) listeners: ListenerArgs,
    /// Take the listening sockets over from the process that runs with the same admin address: no connect is
    /// refused. That one lets its sessions end and exits. Without one, this is an ordinary start.
    #[arg(long, conflicts_with = "check")]
    pub(crate) take_over: bool,
    /// Only check the configuration: exit code 0 if it is right, 2 with complaints if not.
    #[arg(long)]
    pub(crate) check: bool,
    /// With --check: print the answer as JSON.
    #[arg(long, requires = "check")]
    pub(crate) json: bool,
    /// Make the faults that standard input names, a line each: for the soak, which holds the other end.
    #[arg(long, hide = true, conflicts_with = "check")]
    pub(crate) faults_from_stdin: bool,
    /// How log lines look on standard error.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) log_format: LogFormat,
    /// What is logged: error, warn, info, debug, or per part (router=debug) [default: $HEADROOM_LOG, else
    /// info].
    #[arg(long, value_name = "FILTER", value_parser = term::log_filter::right)]
    pub(crate) log: Option<String>,
}

/// Runs until a signal ends it.
pub(crate) async fn run(args: RouteArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    if args.check {
        return check::without_servers(source::for_route(&args.source, &args.listeners), args.json);
    }
    // What is still to be written when we leave is written then.
    let filter = args.log.as_deref().or(environment.log.as_deref());
    let (_log, telemetry) = Telemetry::start(args.log_format, filter)?;
    core_dump::forbid(environment.core_dumps);
    let signals = Signals::new()?;
    descriptors::raise_limit();
    let (sourced, hook) = read(&args, environment)?;
    let address = control::address(&sourced.config);
    let directory = environment.control_directory();
    let taken = match &directory {
        Ok(directory) if args.take_over => take_over::take_over(directory, &address)?,
        Err(error) if args.take_over => anyhow::bail!("--take-over: {}", exit::reason(error)),
        _ => None,
    };
    if args.take_over && taken.is_none() {
        tracing::warn!("--take-over: no process runs with this admin address; this is an ordinary start");
    }
    let orders = taken.as_ref().and_then(|taken| taken.orders.clone());
    let (mut sockets, before) = systemd::inherited(taken, environment.listen_fds)?;
    let admin = match sourced.config.admin {
        Some(address) => Some(ReadyAdmin::inherit_or_bind(address, &mut sockets).await?),
        None => None,
    };
    let engine = Engine::start(&sourced.config, identity::of(&sourced), &mut sockets).await?;
    if let Some(orders) = &orders {
        // Before the first server is known: nobody is sent to one that is being drained.
        engine.continue_orders(orders);
        for drain in &orders.drains {
            tracing::info!(server = drain.server, left_ms = drain.left_ms, "going on with a drain");
        }
    }
    descriptors::tell_room(&sourced.config, engine.most_sessions());
    for address in sockets.addresses() {
        tracing::warn!(%address, "an inherited socket is of no listener here; it is closed");
    }
    drop(sockets);
    let makes_faults = args.faults_from_stdin;
    let process = Arc::new(Process::new(engine, hook, origin(args, environment), sourced.clone()));
    if let Some(ready) = admin {
        process.serve_admin(ready);
    }
    // For people: on a full disk clients are served without it.
    let _ = terminal::print(&opening(&sourced, process.admin_address()));
    if let Some(before) = before {
        // With the fleet known, so that whoever comes is served as fast as before.
        process.engine().first_look(FIRST_LOOK).await;
        let orders = before.ready()?;
        process.engine().predecessor_left(&orders.clone().unwrap_or_default());
        // A drain may have been ordered or ended meanwhile.
        if let Some(orders) = orders {
            process.engine().continue_orders(&orders);
        }
        tracing::info!("took over; the process before us lets its sessions end");
    }
    let telemetry = telemetry.of_router(&process, &address);
    let mut control = ControlSockets::open(&process, directory, address)?;
    let ready = format!("MAINPID={}\nREADY=1", std::process::id());
    notify(environment.notify_socket.as_deref(), &ready);
    process.store_sockets();
    if let Some((rounds, _)) = process.engine().life() {
        watchdog::keep(environment.notify_socket.as_deref(), environment.watchdog, rounds);
    }
    if makes_faults {
        serve::make_faults_from_stdin(process.clone());
    }
    let code = tokio::select! {
        end = serve::until_stopped(&process, signals, &mut control) => match end {
            End::InOrder => exit::DONE,
            End::AtOnce => exit::error(),
        },
        why = process.failed() => {
            tracing::error!("this process ends, so that it is started anew: {why}");
            exit::error()
        }
        () = announce(&process, environment) => exit::error(),
    };
    control.withdraw();
    if code == exit::DONE {
        telemetry.stop().await;
    }
    Ok(code)
}

/// The configuration with the account that it names, and what calls its webhook.
fn read(args: &RouteArgs, environment: &Environment) -> anyhow::Result<(Sourced, Option<WebhookSender>)> {
    let mut sourced = source::for_route(&args.source, &args.listeners)?;
    sourced.config.fleet.credentials = credentials::resolve(&sourced.config, environment)?;
    let hook = environment::hook(sourced.config.webhook.as_ref())?;
    Ok((sourced, hook))
}

/// The same flags and environment for a reload, and for the process after this one.
fn origin(args: RouteArgs, environment: &Environment) -> Origin {
    let mut command_line = environment::command_line();
    if !args.take_over {
        command_line.push("--take-over".into());
    }
    let (notify_socket, environment) = (environment.notify_socket.clone(), environment.clone());
    Origin { read: Box::new(move || read(&args, &environment)), command_line, notify_socket }
}

/// Shows the first look, then stays out of the way.
async fn announce(process: &Process, environment: &Environment) {
    let snapshot = process.engine().first_look(FIRST_LOOK).await;
    let view = fleet_view::view(&snapshot, Instant::now());
    // Nobody may be reading any more; routing goes on.
    let _ = terminal::print(&fleet_view::text(&view, Paint::for_stdout(environment.no_colour)));
    std::future::pending::<()>().await;
}

/// Where clients and people come, as text.
fn opening(sourced: &Sourced, admin: Option<SocketAddr>) -> String {
    let mut text = format!("Headroom {} routes", env!("CARGO_PKG_VERSION"));
    text.push_str(&match &sourced.file {
        Some(file) => format!(" by {}:\n", file.display()),
        None => ":\n".to_owned(),
    });
    for listener in &sourced.config.listeners {
        text.push_str(&format!("  {}s  {}\n", listener.role, listener.address));
    }
    text.push_str(&match admin {
        Some(address) => format!("  status   http://{address}/\n\n"),
        None => "  status   switched off\n\n".to_owned(),
    });
    text
}
