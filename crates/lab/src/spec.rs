//! What a lab is made of: zones, servers, who replicates from whom, distances. From TOML or built in code.
//!
//! ```toml
//! primary = "a1"                    # default: the first server of the first zone that has one
//!
//! [[zone]]
//! name = "a"                        # its servers are a1, a2, ...
//! servers = 2
//!
//! [[zone]]
//! name = "b"
//! servers = 1
//!
//! [[replica]]                       # default: every other server replicates from the primary
//! server = "b1"
//! of = "a2"
//!
//! [server]
//! program = "/usr/sbin/mariadbd"    # default: the first of mariadbd, mysqld found on this machine
//! buffer_pool_mib = 64
//! performance_schema = true         # demand per zone is measured from it
//! durable = false                   # true: redo and binary log are synced at each commit
//! [server.options]                  # any further option of the server
//! max_connections = 600
//!
//! [network]
//! within_zone_ms = 0.12             # round-trip time
//! between_zones_ms = 0.7
//! jitter = 0.1                      # each way takes up to this share longer
//! [[network.pair]]
//! zones = ["a", "b"]
//! round_trip_ms = 0.5
//! ```
//! The default distances are those that Slack measured on EC2: 0.12 ms within an availability zone, 0.41 to
//! 0.7 ms between two.

use crate::layout::{Layout, MAX_SERVERS, MAX_ZONES, ServerSlot};
use crate::program::{Flavour, Program};
use fleet::{ServerName, Zone};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

mod raw;

/// A lab to be.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// Zones in order, each with its number of servers (0 is a zone with clients only).
    pub zones: Vec<(Zone, u8)>,
    /// The server that takes writes; `None` is the first there is.
    pub primary: Option<String>,
    /// Servers that replicate from another one than the primary: (replica, its source).
    pub replicas: Vec<(String, String)>,
    pub server: ServerSpec,
    pub network: Network,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ServerSpec {
    /// `mariadbd`, `mysqld` or a wrapper around one; `None` searches this machine.
    pub program: Option<PathBuf>,
    /// InnoDB buffer pool of each server, MiB.
    pub buffer_pool_mib: u32,
    /// Whether `performance_schema` is on.
    pub performance_schema: bool,
    /// Whether redo log and binary log are synced at each commit; off, what a killed process acknowledged
    /// still survives, what a lost machine acknowledged does not.
    pub durable: bool,
    /// Further options, as in the server's own option file.
    pub options: BTreeMap<String, String>,
}

/// Distances between zones, as round-trip times.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    pub within: Duration,
    /// Between two zones.
    pub between: Duration,
    /// Pairs of zones (or a zone with itself) that differ, by name, either order.
    pub pairs: Vec<(Zone, Zone, Duration)>,
    /// Each way takes up to this share longer, evenly distributed; 0 is none, at most 10.
    pub jitter: f64,
}

/// Why a description is not a possible lab.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SpecError {
    /// A file says something that cannot be read or cannot be.
    #[error("{origin}:{line}:{column}: {problem}")]
    File {
        /// File name.
        origin: String,
        /// Counted from 1.
        line: usize,
        /// Counted from 1, in characters.
        column: usize,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// Replicas of zones that are not there.
    #[error("{numbers} numbers of replicas for {zones} zones; give one a zone")]
    TooManyNumbers { numbers: usize, zones: usize },
    /// A description built in code cannot be.
    #[error("lab: {0}")]
    Value(String),
}

/// What is wrong, and with which part of the description: lets a file's complaint carry its place.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) part: Part,
    pub(crate) text: String,
}

/// A part of the description that can be wrong.
#[derive(Debug, PartialEq)]
pub(crate) enum Part {
    Zone(usize),
    Primary,
    Replica(usize),
    Pair(usize),
    Network,
    Server,
}

impl Spec {
    /// Zones with their numbers of servers, everything else as usual. `Spec::new(&[("a", 2), ("b", 1)])` has
    /// the primary a1 and the replicas a2 and b1.
    pub fn new(zones: &[(&str, u8)]) -> Self {
        Self {
            zones: zones.iter().map(|(name, servers)| (Zone::new(name), *servers)).collect(),
            primary: None,
            replicas: Vec::new(),
            server: ServerSpec::default(),
            network: Network::default(),
        }
    }

    /// Zones with their numbers of replicas; the last number holds for the rest. The primary comes on top, in
    /// the first zone.
    ///
    /// # Errors
    /// There are more numbers than zones.
    pub fn with_replicas(zones: &[String], replicas: &[u8]) -> Result<Self, SpecError> {
        if replicas.len() > zones.len() {
            return Err(SpecError::TooManyNumbers { numbers: replicas.len(), zones: zones.len() });
        }
        let last = replicas.last().copied().unwrap_or(1);
        let count = |index: usize| {
            let replicas = replicas.get(index).copied().unwrap_or(last);
            replicas.saturating_add(u8::from(index == 0))
        };
        let zones = zones.iter().enumerate().map(|(index, zone)| (zone.as_str(), count(index)));
        Ok(Self::new(&zones.collect::<Vec<_>>()))
    }

    /// Reads a description; `origin` is the file name for complaints. Unknown keys are refused.
    pub fn parse(text: &str, origin: &str) -> Result<Self, SpecError> {
        let located = |span: Range<usize>, problem: String| {
            let (line, column) = line_and_column(text, span.start);
            SpecError::File { origin: origin.to_owned(), line, column, problem }
        };
        let (spec, places) =
            raw::read(text).map_err(|e| located(e.span().unwrap_or(0..0), e.message().to_owned()))?;
        spec.plan().map_err(|p| located(places.of(&p.part), p.text))?;
        Ok(spec)
    }

    /// Makes another server the primary.
    #[must_use]
    pub fn primary(mut self, server: &str) -> Self {
        self.primary = Some(server.to_owned());
        self
    }

    /// Lets a server replicate from another replica.
    #[must_use]
    pub fn replica_of(mut self, replica: &str, source: &str) -> Self {
        self.replicas.push((replica.to_owned(), source.to_owned()));
        self
    }

    /// Round-trip times within a zone and between zones.
    #[must_use]
    pub fn round_trip(mut self, within: Duration, between: Duration) -> Self {
        self.network.within = within;
        self.network.between = between;
        self
    }

    /// Runs this server program.
    #[must_use]
    pub fn program(mut self, program: impl Into<PathBuf>) -> Self {
        self.server.program = Some(program.into());
        self
    }

    /// Adds an option to every server's option file.
    #[must_use]
    pub fn option(mut self, name: &str, value: &str) -> Self {
        self.server.options.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Family and version of the server program that its servers will run, asked of the program: the version
    /// as [`crate::Lab::version`] has it.
    ///
    /// # Errors
    /// There is no such program, or it is no database server.
    pub fn server_program(&self) -> Result<(Flavour, String), crate::Error> {
        let program = Program::find(self.server.program.as_deref())?;
        Ok((program.flavour, program.to_string()))
    }

    /// Whether there can be such a lab. [`crate::Lab::up`] asks that too, before it starts anything.
    ///
    /// # Errors
    /// What cannot be.
    pub fn check(&self) -> Result<(), SpecError> {
        self.layout().map(drop)
    }

    /// Checks everything and says where each server stands.
    pub(crate) fn layout(&self) -> Result<Layout, SpecError> {
        self.plan().map_err(|p| SpecError::Value(p.text))
    }

    fn plan(&self) -> Result<Layout, Problem> {
        let mut servers = self.place_servers()?;
        let find = |servers: &[ServerSlot], part: Part, name: &str| {
            let found = servers.iter().position(|s| s.name.as_str() == name);
            let names = || servers.iter().map(|s| s.name.to_string()).collect::<Vec<_>>().join(", ");
            found.ok_or_else(|| problem(part, format!("there is no server '{name}'; there are {}", names())))
        };
        let primary = match &self.primary {
            Some(name) => find(&servers, Part::Primary, name)?,
            None => 0,
        };
        for (index, place) in servers.iter_mut().enumerate() {
            place.source = (index != primary).then_some(primary);
        }
        for (i, (replica, source)) in self.replicas.iter().enumerate() {
            let replica = find(&servers, Part::Replica(i), replica)?;
            let source = find(&servers, Part::Replica(i), source)?;
            if replica == primary {
                return Err(problem(
                    Part::Replica(i),
                    "the primary replicates from nobody; name another primary",
                ));
            }
            servers[replica].source = Some(source);
            if !leads_to(&servers, replica, primary) {
                return Err(problem(Part::Replica(i), "these servers replicate from each other in a circle"));
            }
        }
        let zones = self.zones.iter().map(|(z, _)| z.clone()).collect();
        self.check_values()?;
        Ok(Layout { zones, servers, primary })
    }

    fn place_servers(&self) -> Result<Vec<ServerSlot>, Problem> {
        if self.zones.len() > MAX_ZONES {
            return Err(problem(Part::Zone(MAX_ZONES), format!("a lab has at most {MAX_ZONES} zones")));
        }
        let mut servers: Vec<ServerSlot> = Vec::new();
        for (zone, (name, count)) in self.zones.iter().enumerate() {
            let wrong = |text: String| Err(problem(Part::Zone(zone), text));
            if !is_name(name.as_str()) {
                return wrong(format!(
                    "'{name}' is no zone name: a lower-case letter, then letters, digits, '-'"
                ));
            }
            if self.zones[..zone].iter().any(|(other, _)| other == name) {
                return wrong(format!("zone '{name}' is there twice"));
            }
            if *count > MAX_SERVERS {
                return wrong(format!("a zone has at most {MAX_SERVERS} servers"));
            }
            for number in 1..=*count {
                let name = ServerName::new(&format!("{name}{number}"));
                if servers.iter().any(|s| s.name == name) {
                    return wrong(format!("two servers would be called '{name}'; rename this zone"));
                }
                servers.push(ServerSlot { name, zone, number, source: None });
            }
        }
        if servers.is_empty() {
            return Err(problem(Part::Zone(0), "a lab needs at least one zone with a server"));
        }
        Ok(servers)
    }

    fn check_values(&self) -> Result<(), Problem> {
        let network = &self.network;
        if !(0.0..=10.0).contains(&network.jitter) {
            return Err(problem(
                Part::Network,
                format!("jitter is a share between 0 and 10, not {}", network.jitter),
            ));
        }
        for (i, (a, b, _)) in network.pairs.iter().enumerate() {
            if let Some(z) = [a, b].into_iter().find(|z| !self.zones.iter().any(|(name, _)| name == *z)) {
                return Err(problem(Part::Pair(i), format!("there is no zone '{z}'")));
            }
        }
        let limit = Duration::from_secs(60);
        let times = network.pairs.iter().map(|p| p.2).chain([network.within, network.between]);
        if times.into_iter().any(|t| t > limit) {
            return Err(problem(Part::Network, "a round trip takes at most 60 s"));
        }
        if self.server.buffer_pool_mib < 8 {
            return Err(problem(Part::Server, "buffer_pool_mib is at least 8"));
        }
        let broken = |text: &str| text.chars().any(|c| c == '\n' || c == '\r' || c == '\0');
        match self.server.options.iter().find(|(name, value)| broken(name) || broken(value)) {
            Some((name, _)) => Err(problem(Part::Server, format!("option '{name}' spans lines"))),
            None => Ok(()),
        }
    }
}

impl Default for ServerSpec {
    fn default() -> Self {
        Self {
            program: None,
            buffer_pool_mib: 64,
            performance_schema: true,
            durable: false,
            options: BTreeMap::new(),
        }
    }
}

impl Default for Network {
    fn default() -> Self {
        Self {
            within: Duration::from_micros(120),
            between: Duration::from_micros(700),
            pairs: Vec::new(),
            jitter: 0.1,
        }
    }
}

impl Network {
    /// Round-trip time between two zones (or within one).
    pub fn round_trip(&self, from: &Zone, to: &Zone) -> Duration {
        let pair = self.pairs.iter().find(|(a, b, _)| (a == from && b == to) || (a == to && b == from));
        match pair {
            Some((_, _, time)) => *time,
            None if from == to => self.within,
            None => self.between,
        }
    }
}

fn problem(part: Part, text: impl Into<String>) -> Problem {
    Problem { part, text: text.into() }
}

fn is_name(name: &str) -> bool {
    let tail = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    name.len() <= 32 && name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(tail)
}

fn leads_to(servers: &[ServerSlot], from: usize, primary: usize) -> bool {
    let mut at = from;
    for _ in 0..servers.len() {
        match servers[at].source {
            Some(source) => at = source,
            None => return at == primary,
        }
    }
    false
}

/// Line and column (in characters) of a byte offset, both from 1.
fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    (line, column)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_primary_comes_on_top_of_the_replicas_of_the_first_zone() {
        let named = ["a", "b", "c"].map(str::to_owned);
        let counts = |replicas: &[u8]| {
            let spec = Spec::with_replicas(&named, replicas).unwrap();
            spec.zones.into_iter().map(|(zone, count)| (zone.to_string(), count)).collect::<Vec<_>>()
        };
        let expected = |counts: [u8; 3]| named.iter().cloned().zip(counts).collect::<Vec<_>>();
        assert_eq!(counts(&[1]), expected([2, 1, 1]));
        assert_eq!(counts(&[1, 1, 0]), expected([2, 1, 0]));
        assert!(matches!(
            Spec::with_replicas(&named, &[1; 4]),
            Err(SpecError::TooManyNumbers { numbers: 4, zones: 3 })
        ));
    }
}
