//! The data plane alone in front of fixed servers, for measuring it beside other relays:
//! `plain LISTEN SERVER [SERVER ...] [threads=N]` relays LISTEN to the servers as if each were a healthy
//! replica, until killed.

use config::{Listener, RouterConfig};
use fleet::{Address, Lag, LagSource, ListenerRole, Replication, Role, Server, ServerName, Snapshot, State};
use router::Router;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let address: Address = arguments.next().ok_or("plain LISTEN SERVER [SERVER ...]")?.parse()?;
    let mut servers = Vec::new();
    let mut config = RouterConfig::default();
    for text in arguments {
        if let Some(threads) = text.strip_prefix("threads=") {
            config.threads = Some(threads.parse()?);
            continue;
        }
        servers.push(replica(&text, text.parse()?));
    }
    let snapshot = Snapshot { round: 1, settled: true, servers, ..Snapshot::empty(Instant::now()) };
    let (_keep, snapshots) = tokio::sync::watch::channel(Arc::new(snapshot));
    let listener = Listener::new(address, ListenerRole::Reader);
    let _router = Router::start(config, vec![listener], snapshots, |_, _| {})?;
    loop {
        std::thread::park();
    }
}

fn replica(name: &str, reach: Address) -> Server {
    let mut server = Server::unasked(ServerName::new(name), reach);
    server.role = Role::Replica;
    server.state = State::Answering;
    server.replication = Replication::Running;
    server.lag =
        Some(Lag { at_least: Duration::ZERO, uncertainty: Duration::ZERO, source: LagSource::GtidSamples });
    server
}
