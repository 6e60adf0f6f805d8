//! A lab's description as the file says it, with the place of each part, before anything is checked.

use super::{Network, Part, ServerSpec, Spec};
use fleet::Zone;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;
use toml::Spanned;

/// Where each part stands in the file, as byte ranges.
pub(super) struct Places {
    zones: Vec<Range<usize>>,
    primary: Range<usize>,
    replicas: Vec<Range<usize>>,
    pairs: Vec<Range<usize>>,
    network: Range<usize>,
    server: Range<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSpec {
    primary: Option<Spanned<String>>,
    zone: Vec<Spanned<RawZone>>,
    #[serde(default)]
    replica: Vec<Spanned<RawReplica>>,
    server: Option<Spanned<RawServer>>,
    network: Option<Spanned<RawNetwork>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawZone {
    name: String,
    servers: u8,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawReplica {
    server: String,
    of: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawServer {
    program: Option<PathBuf>,
    buffer_pool_mib: Option<u32>,
    performance_schema: Option<bool>,
    durable: Option<bool>,
    #[serde(default)]
    options: BTreeMap<String, RawValue>,
}

/// A server option as people write it: `600`, `"ROW"`, `true`.
#[derive(Deserialize)]
#[serde(untagged)]
enum RawValue {
    Switch(bool),
    Whole(i64),
    Number(f64),
    Text(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawNetwork {
    within_zone_ms: Option<Milliseconds>,
    between_zones_ms: Option<Milliseconds>,
    jitter: Option<f64>,
    #[serde(default)]
    pair: Vec<Spanned<RawPair>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPair {
    zones: (String, String),
    round_trip_ms: Milliseconds,
}

/// A time in milliseconds, finite and not negative.
#[derive(Deserialize)]
#[serde(try_from = "f64")]
struct Milliseconds(Duration);

impl TryFrom<f64> for Milliseconds {
    type Error = String;

    fn try_from(ms: f64) -> Result<Self, String> {
        let time = Duration::try_from_secs_f64(ms / 1e3);
        time.map(Self).map_err(|_| format!("{ms} is not a time in milliseconds; 0 or more is"))
    }
}

/// Reads the text; the error carries the byte range of what it complains about.
pub(super) fn read(text: &str) -> Result<(Spec, Places), toml::de::Error> {
    let raw: RawSpec = toml::from_str(text)?;
    let network_pairs = raw.network.as_ref().map_or(&[][..], |n| &n.get_ref().pair);
    let places = Places {
        zones: raw.zone.iter().map(Spanned::span).collect(),
        primary: raw.primary.as_ref().map_or(0..0, Spanned::span),
        replicas: raw.replica.iter().map(Spanned::span).collect(),
        pairs: network_pairs.iter().map(Spanned::span).collect(),
        network: raw.network.as_ref().map_or(0..0, Spanned::span),
        server: raw.server.as_ref().map_or(0..0, Spanned::span),
    };
    Ok((raw.into_spec(), places))
}

impl Places {
    pub(super) fn of(&self, part: &Part) -> Range<usize> {
        match part {
            Part::Zone(i) => self.zones.get(*i).cloned().unwrap_or(0..0),
            Part::Primary => self.primary.clone(),
            Part::Replica(i) => self.replicas[*i].clone(),
            Part::Pair(i) => self.pairs[*i].clone(),
            Part::Network => self.network.clone(),
            Part::Server => self.server.clone(),
        }
    }
}

impl RawSpec {
    fn into_spec(self) -> Spec {
        let zone = |z: Spanned<RawZone>| {
            let z = z.into_inner();
            (Zone::new(&z.name), z.servers)
        };
        let replica = |r: Spanned<RawReplica>| {
            let r = r.into_inner();
            (r.server, r.of)
        };
        Spec {
            zones: self.zone.into_iter().map(zone).collect(),
            primary: self.primary.map(Spanned::into_inner),
            replicas: self.replica.into_iter().map(replica).collect(),
            server: self.server.map(|s| s.into_inner().into_spec()).unwrap_or_default(),
            network: self.network.map(|n| n.into_inner().into_spec()).unwrap_or_default(),
        }
    }
}

impl RawServer {
    fn into_spec(self) -> ServerSpec {
        let usual = ServerSpec::default();
        let text = |v: RawValue| match v {
            RawValue::Switch(v) => if v { "ON" } else { "OFF" }.to_owned(),
            RawValue::Whole(v) => v.to_string(),
            RawValue::Number(v) => v.to_string(),
            RawValue::Text(v) => v,
        };
        ServerSpec {
            program: self.program,
            buffer_pool_mib: self.buffer_pool_mib.unwrap_or(usual.buffer_pool_mib),
            performance_schema: self.performance_schema.unwrap_or(usual.performance_schema),
            durable: self.durable.unwrap_or(usual.durable),
            options: self.options.into_iter().map(|(name, value)| (name, text(value))).collect(),
        }
    }
}

impl RawNetwork {
    fn into_spec(self) -> Network {
        let usual = Network::default();
        let pair = |p: Spanned<RawPair>| {
            let p = p.into_inner();
            (Zone::new(&p.zones.0), Zone::new(&p.zones.1), p.round_trip_ms.0)
        };
        Network {
            within: self.within_zone_ms.map_or(usual.within, |t| t.0),
            between: self.between_zones_ms.map_or(usual.between, |t| t.0),
            pairs: self.pair.into_iter().map(pair).collect(),
            jitter: self.jitter.unwrap_or(usual.jitter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"
primary = "a1"
[[zone]]
name = "a"
servers = 2
[[zone]]
name = "b"
servers = 1
[[replica]]
server = "b1"
of = "a2"
[server]
buffer_pool_mib = 32
[server.options]
max_connections = 100
log_bin_trust_function_creators = true
[network]
between_zones_ms = 1.5
[[network.pair]]
zones = ["a", "b"]
round_trip_ms = 0.5
"#;

    #[test]
    fn a_whole_description_is_read() {
        let spec = Spec::parse(WHOLE, "lab.toml").unwrap();
        let layout = spec.layout().unwrap();
        assert_eq!(layout.servers[2].source, Some(1));
        assert_eq!(spec.network.round_trip(&Zone::new("b"), &Zone::new("a")), Duration::from_micros(500));
        assert_eq!(spec.server.options["log_bin_trust_function_creators"], "ON");
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_place() {
        for (text, place, part) in [
            ("[[zone]]\nname = \"a\"\nservers = 1\ncolour = 2\n", "x:4:1", "colour"),
            ("[[zone]]\nname = \"a\"\nservers = 300\n", "x:3:11", "300"),
            ("primary = \"z9\"\n[[zone]]\nname = \"a\"\nservers = 1\n", "x:1:11", "no server 'z9'"),
            ("[[zone]]\nname = \"A\"\nservers = 1\n", "x:1:1", "no zone name"),
            ("[[zone]]\nname = \"a\"\nservers = 0\n", "x:1:1", "at least one zone with a server"),
            ("[[zone]]\nname = \"a\"\nservers = 1\n[network]\njitter = -1.0\n", "x:4:1", "jitter"),
        ] {
            let error = Spec::parse(text, "x").unwrap_err().to_string();
            assert!(error.starts_with(place) && error.contains(part), "{error}");
        }
    }

    #[test]
    fn replicas_in_a_circle_are_refused() {
        let spec = Spec::new(&[("a", 3)]).replica_of("a2", "a3").replica_of("a3", "a2");
        assert!(spec.layout().unwrap_err().to_string().contains("circle"));
    }
}
