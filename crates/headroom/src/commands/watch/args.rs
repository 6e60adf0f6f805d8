//! Flags and help texts of `watch`; what is watched is the same for `agent`.

use crate::source::SourceArgs;
use ::agent::PastStretch;
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// What is watched, and how it is judged: the same for `watch` and `agent`.
#[derive(Args, Debug, Clone)]
pub(crate) struct WatchTargetArgs {
    /// Where the fleet is found; without any, this host alone is watched.
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// Length of the windows that are judged, 2s to 60s.
    #[arg(long, value_name = "DURATION", value_parser = window, default_value = "10s")]
    pub(crate) window: Duration,
    /// The router in front of the servers, by its admin address: it tells of flows and endpoints. Or 'off'
    /// [default: $HEADROOM_ADMIN, else as the file says, else 127.0.0.1:9306].
    #[arg(long, value_name = "ADDR")]
    pub(crate) router: Option<String>,
    /// The history that has `headroom probe`'s ceilings of this host [default: the user's own and
    /// /var/lib/headroom/history.sqlite, whichever has the newer probe]. It is only read.
    #[arg(long, value_name = "FILE")]
    pub(crate) store: Option<PathBuf>,
}

/// Agents on other hosts.
#[derive(Args, Debug, Clone)]
pub(crate) struct AgentsArgs {
    /// An agent to ask, https://host:9307; http:// on this machine only. Repeatable.
    #[arg(long, value_name = "URL", conflicts_with_all = ["config", "server", "window", "store"])]
    pub(crate) agent: Vec<String>,
    /// PEM file of the authority that vouches for the agents [default: those that the web trusts].
    #[arg(long, value_name = "FILE", requires = "agent")]
    pub(crate) agent_ca: Option<PathBuf>,
    /// File whose first line is the agents' token [default: $HEADROOM_AGENT_TOKEN].
    #[arg(long, value_name = "FILE", requires = "agent")]
    pub(crate) agent_token_file: Option<PathBuf>,
    /// Show the agents as a page here too: all hosts at a glance, and each with its history. On this machine
    /// only.
    #[arg(long, value_name = "ADDR", requires = "agent", conflicts_with_all = ["once", "compare"],
          value_parser = daemon::listen::address)]
    pub(crate) listen: Option<SocketAddr>,
}

/// What has no meaning beside a rule that is explained: nothing is watched for that.
const NOTHING_WATCHED: [&str; 14] = [
    "config",
    "server",
    "zone",
    "user",
    "option_file",
    "window",
    "router",
    "store",
    "agent",
    "agent_ca",
    "agent_token_file",
    "listen",
    "compare",
    "once",
];

const WATCH_EXAMPLES: &str = "\
Examples:
  headroom watch                               this host
  headroom watch --server 127.0.0.1:3306       this host and the fleet of that server
  headroom watch --server db1:3306 --once --json | jq -r '.servers[] | [.name, .verdict.text] | @tsv'
  headroom watch --agent https://db1:9307 --agent https://db2:9307 --agent-ca ca.pem --agent-token-file token
      The hosts and servers of these agents, each judged where it runs; with --listen 127.0.0.1:9309 as a page too.
  headroom watch --compare 20m..10m 10m..now
      What a change ten minutes ago has done, by the history of the agent on this machine.

Nothing is written to a server. Evidence of a host (CPU, disk, packets) is read where this runs: for servers elsewhere
the verdict stands on what they say themselves, unless an agent there is asked. The agents' token: --agent-token-file,
else HEADROOM_AGENT_TOKEN. With --once exit code 1 when a bottleneck is named, else 2 when this host, a server or an
agent could not be read, or its sessions could not be seen.";

/// Name the bottleneck of this host and of its servers, with evidence.
///
/// Reads this host from /proc and each server of the fleet once a second, and names the bottleneck of each:
/// how sure, on which figures, what would be next, what to try. Without one: how much of the tightest ceiling
/// is used.
#[derive(Args, Debug, Clone)]
#[command(after_help = WATCH_EXAMPLES)]
pub(crate) struct WatchArgs {
    /// What is watched.
    #[command(flatten)]
    pub(crate) target: WatchTargetArgs,
    /// Agents whose hosts and servers are shown, in place of a fleet asked from here.
    #[command(flatten)]
    pub(crate) agents: AgentsArgs,
    /// Two stretches of an agent's history side by side, with ratios and intervals: how long ago each began
    /// and ended, as in 20m..10m 10m..now. The agent is that of --agent [default: http://127.0.0.1:9307].
    #[arg(long, num_args = 2, value_names = ["BEFORE", "AFTER"],
          conflicts_with_all = ["once", "config", "server", "store"])]
    pub(crate) compare: Option<Vec<PastStretch>>,
    /// Print what a rule says (by its name in the JSON, as cpu-limit): thresholds, their source, what to try.
    #[arg(long, value_name = "RULE", conflicts_with_all = NOTHING_WATCHED)]
    pub(crate) explain: Option<String>,
    /// One window, then the answer.
    #[arg(long)]
    pub(crate) once: bool,
    /// Print JSON; without --once a line a second.
    #[arg(long)]
    pub(crate) json: bool,
}

fn window(text: &str) -> Result<Duration, String> {
    let window = fleet::parse_duration(text).map_err(|error| error.to_string())?;
    let sound = Duration::from_secs(2)..=Duration::from_secs(60);
    if sound.contains(&window) { Ok(window) } else { Err(format!("'{text}' is not between 2s and 60s")) }
}
