//! `headroom route`: from the configuration to a running router, and out again on a signal.

mod process;

use crate::commands::check;
use crate::credentials;
use crate::environment::{self, Environment};
use crate::source::{self, ListenerArgs, SourceArgs, Sourced};
use anyhow::Context;
use clap::Args;
use config::Config;
use console::admin;
use console::control::take_over::{self, Taken};
use console::control::{self, Directory};
use console::fleet_view;
use daemon::engine::Engine;
use daemon::signals::{Signal, Signals};
use daemon::systemd::{self, notify};
use daemon::{core_dump, watchdog};
use fleet::{Address, duration_text};
use process::Process;
use router::Sockets;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use term::log::{self, LogFormat};
use term::{Paint, exit, terminal};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// What was found is shown after this long at the latest; clients are served before that already.
const FIRST_LOOK: Duration = Duration::from_secs(5);
/// Why a process stops that another has taken over from; systemd hears nothing of it.
const HANDED_OVER: &str = "handed over";

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
    let mut sourced = source::for_route(&args.source, &args.listeners)?;
    // What is still to be written when we leave is written then.
    let _log = log::start(args.log_format, args.log.as_deref().or(environment.log.as_deref()))?;
    core_dump::forbid(environment.core_dumps);
    let signals = Signals::new()?;
    sourced.config.fleet.credentials = credentials::resolve(&sourced.config, environment)?;
    raise_descriptor_limit();
    let hook = environment::hook(sourced.config.webhook.as_ref())?;
    let address = control::address(&sourced.config);
    let directory = environment.control_directory();
    let taken = match &directory {
        Ok(directory) if args.take_over => take_over::take_over(directory, &address)?,
        Err(error) if args.take_over => anyhow::bail!("--take-over: {error:#}"),
        _ => None,
    };
    if args.take_over && taken.is_none() {
        tracing::warn!("--take-over: no process runs with this admin address; this is an ordinary start");
    }
    let orders = taken.as_ref().and_then(|taken| taken.orders.clone());
    let (mut sockets, before) = inherited(taken, environment)?;
    let admin = match sourced.config.admin {
        Some(address) => Some(ReadyAdmin::new(admin_listener(address, &mut sockets).await?, address)?),
        None => None,
    };
    let engine = Engine::start(&sourced.config, sourced.identity(), &mut sockets).await?;
    if let Some(orders) = &orders {
        // Before the first server is known: nobody is sent to one that is being drained.
        engine.continue_orders(orders);
        for drain in &orders.drains {
            tracing::info!(server = drain.server, left_ms = drain.left_ms, "going on with a drain");
        }
    }
    tell_room(&sourced.config, engine.most_sessions());
    for address in sockets.addresses() {
        tracing::warn!(%address, "an inherited socket is of no listener here; it is left alone");
    }
    drop(sockets);
    let process = Arc::new(Process::new(engine, hook, args, environment.clone(), sourced.clone()));
    if let Some(ready) = admin {
        process.serve_admin(ready);
    }
    terminal::print(&opening(&sourced, process.admin_address()))?;
    if let Some(before) = before {
        // With the fleet known, so that whoever comes is served as fast as before.
        process.engine().first_look(FIRST_LOOK).await;
        // A drain may have been ordered or ended meanwhile.
        if let Some(orders) = before.ready()? {
            process.engine().continue_orders(&orders);
        }
        tracing::info!("took over; the process before us lets its sessions end");
    }
    let mut control = ControlSockets::open(&process, directory, address)?;
    let ready = format!("MAINPID={}\nREADY=1", std::process::id());
    notify(environment.notify_socket.as_deref(), &ready);
    process.store_sockets();
    if let Some((rounds, _)) = process.engine().life() {
        watchdog::keep(environment.notify_socket.as_deref(), environment.watchdog, rounds);
    }
    if process.takes_faults() {
        faults_from_stdin(process.clone());
    }
    let code = tokio::select! {
        code = serve(&process, signals, &mut control) => code,
        why = failed(&process) => {
            tracing::error!("this process ends, so that it is started anew: {why}");
            exit::error()
        }
        () = announce(&process, environment) => exit::error(),
    };
    control.withdraw();
    Ok(code)
}

/// Why the data plane cannot go on; never, where it can.
async fn failed(process: &Process) -> String {
    let Some((_, mut failure)) = process.engine().life() else { return std::future::pending().await };
    match failure.wait_for(Option::is_some).await {
        Ok(why) => why.clone().unwrap_or_default(),
        // Stopped in order.
        Err(_) => std::future::pending().await,
    }
}

/// Makes the faults that standard input names, on a thread of its own.
fn faults_from_stdin(process: Arc<Process>) {
    tracing::warn!("--faults-from-stdin: parts of this router are made to fail on purpose");
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            match line.parse() {
                Ok(fault) => {
                    tracing::warn!(fault = line, "made on purpose");
                    process.engine().inject(fault);
                }
                Err(error) => tracing::warn!("{error}"),
            }
        }
    });
}

/// The sockets of the process before us, or those that systemd opened.
fn inherited(taken: Option<Taken>, environment: &Environment) -> anyhow::Result<(Sockets, Option<Taken>)> {
    let (fds, before) = match (taken, environment.listen_fds) {
        (Some(mut taken), _) => (std::mem::take(&mut taken.sockets), Some(taken)),
        (None, Some(count)) => (systemd::listening_sockets(count)?, None),
        (None, None) => (Vec::new(), None),
    };
    Ok((Sockets::new(fds).context("an inherited descriptor is no listening socket")?, before))
}

async fn admin_listener(address: SocketAddr, sockets: &mut Sockets) -> anyhow::Result<TcpListener> {
    match sockets.remove(&Address::tcp(address.ip().to_string(), address.port())) {
        Some(fd) => {
            let listener = std::net::TcpListener::from(fd);
            listener.set_nonblocking(true)?;
            Ok(TcpListener::from_std(listener)?)
        }
        None => admin::bind(address).await,
    }
}

/// Where another process that takes over, and commands of our user, find this one. Clients are served without
/// it, too.
struct ControlSockets {
    directory: anyhow::Result<Directory>,
    /// What this process is known by.
    address: String,
    /// Set once this process is known by another address.
    moved: Arc<AtomicBool>,
    /// Another process has taken over.
    handed_over: Arc<Notify>,
}

impl ControlSockets {
    fn open(
        process: &Arc<Process>,
        directory: anyhow::Result<Directory>,
        address: String,
    ) -> std::io::Result<Self> {
        if let Err(error) = &directory {
            tracing::error!(
                "no command reaches this process (drain, undrain, record), and no other can take over from it: {error:#}"
            );
        }
        let sockets = Self { directory, address, moved: Arc::default(), handed_over: Arc::default() };
        sockets.answer(process)?;
        Ok(sockets)
    }

    fn answer(&self, process: &Arc<Process>) -> std::io::Result<()> {
        let Ok(directory) = &self.directory else { return Ok(()) };
        process.serve_commands(directory.clone(), self.address.clone(), self.moved.clone())?;
        let (giving, ordered) = (process.clone(), process.clone());
        let (leaving, telling) = (process.clone(), self.handed_over.clone());
        take_over::offer(
            directory.clone(),
            self.address.clone(),
            move || giving.listening(),
            move || ordered.engine().orders(),
            move || leaving.hand_over(),
            move || telling.notify_one(),
            self.moved.clone(),
        )
    }

    /// After a reload: answers under the address that commands and the next process will look for.
    fn follow(&mut self, process: &Arc<Process>) {
        let address = process.control_address();
        if address == self.address {
            return;
        }
        self.moved.store(true, Relaxed);
        self.withdraw();
        (self.address, self.moved) = (address, Arc::default());
        if let Err(error) = self.answer(process) {
            tracing::error!(%error, address = self.address, "no command reaches this process at its new address");
        }
    }

    /// Removes the files.
    fn withdraw(&self) {
        if let Ok(directory) = &self.directory {
            control::withdraw(directory, &self.address);
        }
    }
}

/// Two descriptors a session: the soft limit that shells give is far below what the listeners allow.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let before = getrlimit(Resource::Nofile);
    // Where even this is forbidden, what there is has to do: what it is enough for is told.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: before.maximum, maximum: before.maximum });
}

/// Says how many sessions the limit of file descriptors is enough for.
fn tell_room(config: &Config, room: Option<usize>) {
    let Some(room) = room else { return };
    let wanted = config.listeners.iter().fold(0usize, |sum, l| sum.saturating_add(l.max_sessions));
    if room < wanted {
        tracing::warn!(
            sessions = room,
            max_sessions = wanted,
            "the limit of file descriptors is below what max_sessions of all listeners takes; clients beyond it are \
             refused (two descriptors a session: LimitNOFILE=, ulimit -Hn)"
        );
    } else {
        tracing::debug!(
            sessions = room,
            "the limit of file descriptors is enough for max_sessions of all listeners"
        );
    }
}

/// Shows the first look, then stays out of the way.
async fn announce(process: &Process, environment: &Environment) {
    let snapshot = process.engine().first_look(FIRST_LOOK).await;
    let view = fleet_view::view(&snapshot, Instant::now());
    // Nobody may be reading any more; routing goes on.
    let _ = terminal::print(&fleet_view::text(&view, Paint::for_stdout(environment.no_colour)));
    std::future::pending::<()>().await;
}

/// Answers signals until one of them says stop.
async fn serve(process: &Arc<Process>, mut signals: Signals, control: &mut ControlSockets) -> ExitCode {
    let handed_over = control.handed_over.clone();
    loop {
        tokio::select! {
            signal = signals.next() => match signal {
                Signal::Reload => {
                    process.reload().await;
                    control.follow(process);
                }
                Signal::Renew => process.renew(),
                Signal::Stop(name) => return stop(process, name, signals).await,
            },
            () = handed_over.notified() => return stop(process, HANDED_OVER, signals).await,
        }
    }
}

/// Lets sessions end while they are idle; a second signal ends them at once.
async fn stop(process: &Arc<Process>, name: &str, mut signals: Signals) -> ExitCode {
    let deadline = process.stop_deadline();
    let sessions = process.sessions();
    if name != HANDED_OVER {
        notify(process.notify_socket(), "STOPPING=1");
        systemd::take_back(process.notify_socket());
    }
    tracing::info!(
        sessions,
        "{name}: no new clients; sessions end as they become idle, all of them within {} (a second signal: now)",
        duration_text(deadline)
    );
    let impatient = async { while !matches!(signals.next().await, Signal::Stop(_)) {} };
    tokio::select! {
        cut = process.stop(deadline) => {
            tracing::info!(cut, "stopped");
            exit::DONE
        }
        () = impatient => {
            tracing::warn!("stopped at once by a second signal");
            exit::error()
        }
    }
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

/// A token for the admin server, and what it serves at.
struct AdminServer {
    address: SocketAddr,
    asked_for: SocketAddr,
    stop: CancellationToken,
    /// The listening socket once more.
    ear: OwnedFd,
}

/// An admin server that cannot fail any more.
struct ReadyAdmin {
    listener: TcpListener,
    server: AdminServer,
}

impl ReadyAdmin {
    fn new(listener: TcpListener, asked_for: SocketAddr) -> std::io::Result<Self> {
        let (address, ear) = (listener.local_addr()?, listener.as_fd().try_clone_to_owned()?);
        Ok(Self { listener, server: AdminServer { address, asked_for, stop: CancellationToken::new(), ear } })
    }
}
