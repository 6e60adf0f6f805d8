//! The command line: what can be asked for, with the help texts. What the flags mean is in the module of each command.

use crate::help_text;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use fleet::Address;
use ipnet::IpNet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

const EXIT_CODES: &str = "\
Exit codes: 0 done; 1 the answer is no (no primary known, a bottleneck, figures that must not be used, refused); 2 error; 64 wrong command line.

Guides: docs/guide/. Every option of the configuration file: headroom.example.toml.";

/// Reads go to the nearest MySQL or MariaDB replica that has room.
///
/// Headroom finds, shows and gives back the performance left in a tier of one primary and its replicas. It sits beside
/// each application, asks the servers themselves who is primary, how far behind and where the reads come from, and
/// gives every new connection the nearest server with room. Authentication passes through end to end.
#[derive(Parser, Debug)]
#[command(name = "headroom", version = crate::version::VERSION, after_help = EXIT_CODES, max_term_width = 110)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Reads the command line.
///
/// # Errors
/// It is not understood, or it asks for help; the error's text is what to print.
pub(crate) fn parse() -> Result<Cli, clap::Error> {
    Cli::from_arg_matches(&help_text::fit(Cli::command()).try_get_matches()?)
}

/// What to do.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Give every new connection the nearest server that has room.
    Route(RouteArgs),
    /// Ask the servers once: who is primary, how far behind, in which zone.
    Fleet(crate::commands::fleet::FleetArgs),
    /// Ask a running `headroom route` how things stand.
    Status(StatusArgs),
    /// Name the bottleneck of this host and of its servers, with evidence.
    Watch(crate::watch_command::WatchArgs),
    /// Measure what this host can do at most: disk, CPUs, memory, the way to each server.
    Probe(Box<crate::commands::probe::ProbeArgs>),
    /// What `watch` shows, for other programs: JSON and OpenMetrics.
    Agent(crate::watch_command::AgentArgs),
    /// Which statements, endpoints and servers take the time, as a running `headroom route` measures it.
    Top(crate::top::TopArgs),
    /// Empty a server: no new sessions, and the present ones leave when they can.
    Drain(DrainArgs),
    /// Let a drained server take sessions again.
    Undrain(UndrainArgs),
    /// Move the primary: writes are held, not refused, and what fails before the end is undone.
    Switchover(Box<crate::commands::switchover::SwitchoverArgs>),
    /// Let a replica take over from a dead primary, and bring the dead one back as a replica.
    Failover(Box<crate::commands::failover::FailoverArgs>),
    /// What lets connections bypass the router and go straight to a server: show it, remove it.
    #[command(subcommand)]
    ZeroHop(crate::commands::zero_hop::ZeroHopCommand),
    /// Settings of this host and of a server: shown, changed with read-back, put back.
    #[command(subcommand)]
    Knob(crate::commands::knob::KnobCommand),
    /// Compare settings by an experiment: which matter, how much, how sure.
    #[command(subcommand)]
    Trial(crate::commands::trial::TrialCommand),
    /// Real servers with replication, zones, distance and faults on this machine.
    #[command(subcommand)]
    Lab(crate::commands::lab::LabCommand),
    /// Send a workload to servers or routers and report rates, latencies and errors.
    #[command(subcommand)]
    Load(crate::commands::load::LoadCommand),
    /// Find the largest rate that still meets an objective.
    Measure(Box<crate::commands::measure::MeasureArgs>),
    /// Record what clients send, for a replay.
    Record(crate::commands::record::RecordArgs),
    /// Send a recording again, and compare.
    Replay(Box<crate::commands::replay::ReplayArgs>),
    /// Turn runs of the history into one HTML page.
    Report(crate::report_command::ReportArgs),
    /// Show the product's main job on real servers of this machine.
    Demo(crate::demo::DemoArgs),
    /// Measure the relay beside HAProxy and a direct connection.
    Bench(crate::bench::BenchArgs),
}

const ROUTE_EXAMPLES: &str = "\
Examples:
  headroom route --server db1:3306 --reader 127.0.0.1:3306 --writer 127.0.0.1:3307
      No file: from db1 the others are found; reads on port 3306, writes on 3307.
  headroom route --config /etc/headroom/headroom.toml --zone us-east-1a
      One file for all hosts, the zone from the command line.
  headroom route --check --config headroom.toml
      Is the file right? Complaints with line and column, exit code 2; says nothing more than 'right' otherwise.

Password: never on the command line, where every user of the machine could read it. From the configuration
(password_file, password_env), from the option file (~/.my.cnf or --option-file), from HEADROOM_PASSWORD or MYSQL_PWD.

Signals: HUP reads the configuration file again (a bad one is rejected, keeping the previous one); USR2 starts this program
again (a newer version, if it has been replaced), which takes over; TERM and INT stop taking connections and wait for
sessions to become idle; a second one stops at once.";

/// Give every new connection the nearest server that has room.
///
/// Accepts clients on reader and writer listeners and connects each to a server: readers to the nearest replica with
/// room, writers to the primary. Without --config and --server, ./headroom.toml or /etc/headroom/headroom.toml is read.
#[derive(Args, Debug, Clone)]
#[command(after_help = ROUTE_EXAMPLES)]
pub(crate) struct RouteArgs {
    /// Where the fleet is found.
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// Accept readers here: an address (127.0.0.1:3306) or the path of a unix socket. Repeatable.
    #[arg(long, value_name = "ADDR", conflicts_with = "config")]
    pub(crate) reader: Vec<Address>,
    /// Accept writers here. Repeatable.
    #[arg(long, value_name = "ADDR", conflicts_with = "config")]
    pub(crate) writer: Vec<Address>,
    /// Who may come to --reader and --writer, as address blocks (10.0.0.0/8). Repeatable; needed where others than this
    /// host can reach them.
    #[arg(long, value_name = "CIDR", conflicts_with = "config")]
    pub(crate) allow: Vec<IpNet>,
    /// Status page, JSON and metrics here, or 'off' [default: 127.0.0.1:9306, or as the file says].
    #[arg(long, value_name = "ADDR", value_parser = admin_flag)]
    pub(crate) admin: Option<AdminFlag>,
    /// Take the listening sockets over from the process that runs with the same admin address: no connect is refused.
    /// That one lets its sessions end and exits. Without one, this is an ordinary start.
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
    /// What is logged: error, warn, info, debug, or per part (router=debug) [default: $HEADROOM_LOG, else info].
    #[arg(long, value_name = "FILTER", value_parser = crate::log_filter::right)]
    pub(crate) log: Option<String>,
}

/// Where the fleet is found and who we are to it: the same for `route` and `fleet`.
#[derive(Args, Debug, Clone)]
pub(crate) struct SourceArgs {
    /// Configuration file (see headroom.example.toml).
    #[arg(long, short, value_name = "FILE", conflicts_with = "server")]
    pub(crate) config: Option<PathBuf>,
    /// A server to start from, in place of a file; the others are found by asking it. Repeatable.
    #[arg(long, short, value_name = "HOST:PORT")]
    pub(crate) server: Vec<Address>,
    /// Our own zone [default: found out].
    #[arg(long, value_name = "NAME")]
    pub(crate) zone: Option<String>,
    /// Account that asks the servers [default: from the option file, else $HEADROOM_USER, else headroom].
    #[arg(long, short, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Option file with user, password and TLS, in the format of ~/.my.cnf (which is the default).
    #[arg(long, value_name = "FILE")]
    pub(crate) option_file: Option<PathBuf>,
}

/// `--admin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdminFlag {
    /// No admin address.
    Off,
    /// Here.
    At(SocketAddr),
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Where a running router answers.
#[derive(Args, Debug, Clone)]
pub(crate) struct AdminArgs {
    /// Admin address of the running router [default: $HEADROOM_ADMIN, else 127.0.0.1:9306].
    #[arg(long, value_name = "ADDR")]
    pub(crate) admin: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

const STATUS_EXAMPLES: &str = "\
Examples:
  headroom status
  headroom status --admin 10.0.0.7:9306 --json | jq .fallbacks

The same as a page for a browser: http://127.0.0.1:9306/";

/// Ask a running `headroom route` how things stand.
#[derive(Args, Debug, Clone)]
#[command(after_help = STATUS_EXAMPLES)]
pub(crate) struct StatusArgs {
    /// Where it answers.
    #[command(flatten)]
    pub(crate) admin: AdminArgs,
}

const DRAIN_EXAMPLES: &str = "\
Examples:
  headroom drain db3                    before maintenance of db3
  headroom drain db3 --deadline 10s     after ten seconds also sessions in a transaction are closed
  headroom undrain db3                  afterwards

It is the router of this host that is told, so run it on each application host, as the router's user. The primary, and the last
server that takes reads, are drained with --force only.";

/// Empty a server: no new sessions, and the present ones leave when they can.
///
/// Sessions are closed while they are idle and outside a transaction, so that the application's pool reconnects to
/// another server. What is left at the deadline is closed then.
#[derive(Args, Debug, Clone)]
#[command(after_help = DRAIN_EXAMPLES)]
pub(crate) struct DrainArgs {
    /// The server's name, as `headroom status` shows it.
    pub(crate) server: String,
    /// The server is empty after this long [default: drain_deadline of the configuration, 1m].
    #[arg(long, value_name = "DURATION", value_parser = fleet::parse_duration)]
    pub(crate) deadline: Option<Duration>,
    /// Also if it is the primary or the last server that takes reads: what that would end is said without it.
    #[arg(long)]
    pub(crate) force: bool,
    /// Where the router answers.
    #[command(flatten)]
    pub(crate) admin: AdminArgs,
}

/// Let a drained server take sessions again.
#[derive(Args, Debug, Clone)]
#[command(after_help = "Example:\n  headroom undrain db3")]
pub(crate) struct UndrainArgs {
    /// The server's name, as `headroom status` shows it.
    pub(crate) server: String,
    /// Where the router answers.
    #[command(flatten)]
    pub(crate) admin: AdminArgs,
}

fn admin_flag(text: &str) -> Result<AdminFlag, String> {
    if text == "off" {
        return Ok(AdminFlag::Off);
    }
    crate::listen::address(text).map(AdminFlag::At).map_err(|why| format!("{why}, or off"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_flags_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn admin_takes_an_address_or_off() {
        assert_eq!(admin_flag("off"), Ok(AdminFlag::Off));
        assert!(admin_flag("9306").is_err());
        assert!(matches!(admin_flag("localhost:9306"), Ok(AdminFlag::At(at)) if at.ip().is_loopback()));
    }
}
