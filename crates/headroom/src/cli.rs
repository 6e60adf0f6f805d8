//! The command line: what can be asked for, with the help texts. What the flags mean is in the module of each command.

use crate::source::SourceArgs;
use crate::{commands, help_text};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

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
    Route(commands::route::RouteArgs),
    /// Ask the servers once: who is primary, how far behind, in which zone.
    Fleet(FleetArgs),
    /// Ask a running `headroom route` how things stand.
    Status(commands::status::StatusArgs),
    /// Name the bottleneck of this host and of its servers, with evidence.
    Watch(commands::watch::WatchArgs),
    /// Measure what this host can do at most: disk, CPUs, memory, the way to each server.
    Probe(Box<crate::probe_command::ProbeArgs>),
    /// What `watch` shows, for other programs: JSON and OpenMetrics.
    Agent(commands::agent::AgentArgs),
    /// Which statements, endpoints and servers take the time, as a running `headroom route` measures it.
    Top(commands::top::TopArgs),
    /// Empty a server: no new sessions, and the present ones leave when they can.
    Drain(commands::drain::DrainArgs),
    /// Let a drained server take sessions again.
    Undrain(commands::drain::UndrainArgs),
    /// Move the primary: writes are held, not refused, and what fails before the end is undone.
    Switchover(Box<crate::switchover_command::SwitchoverArgs>),
    /// Let a replica take over from a dead primary, and bring the dead one back as a replica.
    Failover(Box<crate::failover_command::FailoverArgs>),
    /// What lets connections bypass the router and go straight to a server: show it, remove it.
    #[command(subcommand)]
    ZeroHop(commands::zero_hop::ZeroHopCommand),
    /// Settings of this host and of a server: shown, changed with read-back, put back.
    #[command(subcommand)]
    Knob(crate::knob_command::KnobCommand),
    /// Compare settings by an experiment: which matter, how much, how sure.
    #[command(subcommand)]
    Trial(crate::trial_command::TrialCommand),
    /// Real servers with replication, zones, distance and faults on this machine.
    #[command(subcommand)]
    Lab(LabCommand),
    /// Send a workload to servers or routers and report rates, latencies and errors.
    #[command(subcommand)]
    Load(crate::load_command::LoadCommand),
    /// Find the largest rate that still meets an objective.
    Measure(Box<crate::measure_command::MeasureArgs>),
    /// Record what clients send, for a replay.
    Record(crate::record_command::RecordArgs),
    /// Send a recording again, and compare.
    Replay(Box<crate::replay_command::ReplayArgs>),
    /// Turn runs of the history into one HTML page.
    Report(commands::report::ReportArgs),
    /// Show the product's main job on real servers of this machine.
    Demo(crate::demo::DemoArgs),
    /// Measure the relay beside HAProxy and a direct connection.
    Bench(crate::bench::BenchArgs),
}

const FLEET_EXAMPLES: &str = "\
Examples:
  headroom fleet --server db1:3306
  headroom fleet --config headroom.toml --json | jq -r '.servers[] | [.name, .role, .zone] | @tsv'

Exit code 1 when no primary can be named.";

/// Ask the servers once: who is primary, how far behind, in which zone.
///
/// Prints each server with role, zone, lag and state, and why; below, what the operator should know. It needs no
/// running router and changes nothing.
#[derive(Args, Debug, Clone)]
#[command(after_help = FLEET_EXAMPLES)]
pub(crate) struct FleetArgs {
    /// Where the fleet is found.
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Real servers with replication, zones, distance and faults on this machine.
#[derive(Subcommand, Debug, Clone)]
pub(crate) enum LabCommand {
    /// Start servers and replication; Ctrl-C stops them and leaves nothing behind.
    Up(crate::lab_command::UpArgs),
    /// Stop a lab that was started with --detach, or that was left behind.
    Down(crate::lab_command::DownArgs),
    /// Show the servers of a running lab and how to connect.
    Status(crate::lab_command::StatusArgs),
    /// Break something on purpose, or mend it again.
    Fault(crate::lab_command::FaultArgs),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_flags_is_sound() {
        Cli::command().debug_assert();
    }
}
