//! Flags and help texts of `watch` and `agent`.

use super::compare::{Past, past};
use super::hosts::AgentsArgs;
use crate::cli::{LogFormat, SourceArgs};
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// What is watched, and how it is judged: the same for `watch` and `agent`.
#[derive(Args, Debug, Clone)]
pub(crate) struct SightArgs {
    /// Where the fleet is found; without any, this host alone is watched.
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// Length of the windows that are judged, 2s to 60s.
    #[arg(long, value_name = "DURATION", value_parser = window, default_value = "10s")]
    pub(crate) window: Duration,
    /// The router in front of the servers, by its admin address: it tells of flows and endpoints. Or 'off' [default:
    /// $HEADROOM_ADMIN, else as the file says, else 127.0.0.1:9306].
    #[arg(long, value_name = "ADDR")]
    pub(crate) router: Option<String>,
}

const WATCH_EXAMPLES: &str = "\
Examples:
  headroom watch                               this host
  headroom watch --server 127.0.0.1:3306       this host and the fleet of that server
  headroom watch --server db1:3306 --once --json | jq -r '.servers[] | [.name, .verdict.text] | @tsv'
  headroom watch --agent https://db1:9307 --agent https://db2:9307 --agent-ca ca.pem --agent-token-file token
      The hosts and servers of these agents, each judged where it runs; with --listen 127.0.0.1:9308 as a page too.
  headroom watch --compare 20m..10m 10m..now
      What a change ten minutes ago has done, by the history of the agent on this machine.

Nothing is written to a server. Evidence of a host (CPU, disk, packets) is read where this runs: for servers elsewhere
the verdict stands on what they say themselves, unless an agent there is asked. The agents' token: --agent-token-file,
else HEADROOM_AGENT_TOKEN. With --once exit code 1 when a bottleneck is named.";

/// Name the bottleneck of this host and of its servers, with evidence.
///
/// Reads this host from /proc and each server of the fleet once a second, and names the bottleneck of each: how sure,
/// on which figures, what would be next, what to try. Without one: how much of the tightest ceiling is used.
#[derive(Args, Debug, Clone)]
#[command(after_help = WATCH_EXAMPLES)]
pub(crate) struct WatchArgs {
    /// What is watched.
    #[command(flatten)]
    pub(crate) sight: SightArgs,
    /// Agents whose hosts and servers are shown, in place of a fleet asked from here.
    #[command(flatten)]
    pub(crate) agents: AgentsArgs,
    /// Two stretches of an agent's history side by side, with ratios and intervals: how long ago each began and ended, as in
    /// 20m..10m 10m..now. The agent is that of --agent [default: http://127.0.0.1:9307].
    #[arg(long, num_args = 2, value_names = ["BEFORE", "AFTER"], value_parser = past,
          conflicts_with_all = ["once", "config", "server"])]
    pub(crate) compare: Option<Vec<Past>>,
    /// One window, then the answer.
    #[arg(long)]
    pub(crate) once: bool,
    /// Print JSON; without --once a line a second.
    #[arg(long)]
    pub(crate) json: bool,
}

const AGENT_EXAMPLES: &str = "\
Examples:
  headroom agent                                     this host
  headroom agent --server 127.0.0.1:3306             this host and the fleet of that server
  curl -s http://127.0.0.1:9307/watch.json | jq -r .verdict.text
  headroom agent --server 127.0.0.1:3306 --listen 0.0.0.0:9307 --tls-cert agent.pem --tls-key agent-key.pem --token-file token
      Beyond loopback: with TLS and a token, never with less.

Token: never on the command line, where every user of the machine could read it. From --token-file, else
HEADROOM_AGENT_TOKEN. Certificate, key and token are read again when the files change, and on HUP, which reads the
configuration file again too; bad ones are rejected and the previous ones stay in force.";

/// What `watch` shows, for other programs: JSON and OpenMetrics, on loopback or with a token and TLS.
#[derive(Args, Debug, Clone)]
#[command(after_help = AGENT_EXAMPLES)]
pub(crate) struct AgentArgs {
    /// What is watched.
    #[command(flatten)]
    pub(crate) sight: SightArgs,
    /// Answer here; an address that others can reach takes a token and a certificate.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9307", value_parser = crate::listen::address)]
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

fn window(text: &str) -> Result<Duration, String> {
    let window = fleet::parse_duration(text).map_err(|error| error.to_string())?;
    let sound = Duration::from_secs(2)..=Duration::from_secs(60);
    if sound.contains(&window) { Ok(window) } else { Err(format!("'{text}' is not between 2s and 60s")) }
}
