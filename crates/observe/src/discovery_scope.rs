//! Where discovery may go: networks and names that servers found by asking must lie in.
//!
//! Whoever may replicate from one of our servers can register any address there, and we would log in at that
//! address. So an address that the operator did not write is followed only inside `discover_within`. Its
//! default is what the seeds show of the fleet's place:
//!
//! | a seed (or the address where it was reached) | allows |
//! |---|---|
//! | a private IPv4 address | its block of RFC 1918: `10.0.0.0/8`, `172.16.0.0/12`, `192.168.0.0/16` |
//! | a loopback address, a unix socket | loopback |
//! | any other IPv4 address | its /24 |
//! | an IPv6 address | its /64; of the private ones (`fd..`) the /48 |
//! | a name, `db1.example.net` | `*.example.net`; of a cluster of AWS its instances too |
//! | a name without a dot, `db1` | names without a dot, but for `localhost`: here that is another host |
//!
//! What the operator wrote elsewhere (`[[map]]`, a `[[server]]` by name or network) is allowed, too. A name
//! that matches nothing is followed if every address it leads to lies in an allowed network; that is looked
//! at right before each login.

use crate::zone::matches_pattern;
use config::{FleetConfig, Matcher};
use fleet::Address;
use ipnet::IpNet;
use std::fmt;
use std::net::IpAddr;

/// Domains of one label that nobody outside a site can have names in.
const SITE_DOMAINS: [&str; 8] =
    ["internal", "local", "lan", "localdomain", "intranet", "corp", "home", "test"];

/// What discovery may follow.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct DiscoveryScope {
    nets: Vec<IpNet>,
    /// Patterns of host names or `host:port`.
    names: Vec<String>,
    /// Host names without a dot.
    plain_names: bool,
    /// Not written by the operator: grows with the addresses where seeds are reached.
    by_seeds: bool,
}

/// Whether an address may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follow {
    Yes,
    /// It is a name that says nothing: if it leads into an allowed network.
    IfItLeadsInside,
    No,
}

impl DiscoveryScope {
    pub(crate) fn new(config: &FleetConfig) -> Self {
        let mut within = Self::default();
        match &config.discover_within {
            Some(written) => written.iter().for_each(|matcher| within.allow(matcher)),
            None => {
                within.by_seeds = true;
                config.seeds.iter().for_each(|seed| within.allow_seed(seed));
            }
        }
        config.servers.iter().for_each(|rule| within.allow(&rule.matcher));
        for (says, reach) in &config.address_map {
            for address in [says, reach] {
                within.add_name(address.to_string());
            }
        }
        within
    }

    /// A seed was reached at this address.
    pub(crate) fn reached(&mut self, seed: IpAddr) {
        if self.by_seeds {
            self.add_net(network_of(seed));
        }
    }

    /// Whether `address` may be asked.
    pub(crate) fn follow(&self, address: &Address) -> Follow {
        let Address::Tcp { host, .. } = address else { return Follow::No };
        let full = address.to_string();
        if self.names.iter().any(|pattern| matches_pattern(pattern, host) || matches_pattern(pattern, &full))
        {
            return Follow::Yes;
        }
        match host.parse::<IpAddr>() {
            Ok(ip) if self.contains(ip) => Follow::Yes,
            Ok(_) => Follow::No,
            Err(_) if self.plain_names && !host.contains('.') && !address.is_local_only() => Follow::Yes,
            Err(_) if self.nets.is_empty() => Follow::No,
            Err(_) => Follow::IfItLeadsInside,
        }
    }

    /// Whether an address lies in an allowed network.
    pub(crate) fn contains(&self, ip: IpAddr) -> bool {
        self.nets.iter().any(|net| net.contains(&ip.to_canonical()))
    }

    fn allow(&mut self, matcher: &Matcher) {
        match matcher {
            Matcher::Net(net) => self.add_net(*net),
            Matcher::Name(name) => self.add_name(name.clone()),
            Matcher::Label(..) => {}
        }
    }

    fn allow_seed(&mut self, seed: &Address) {
        let Address::Tcp { host, .. } = seed else {
            self.add_net(network_of(IpAddr::from([127, 0, 0, 1])));
            return self.add_net(network_of(IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1])));
        };
        if let Ok(ip) = host.parse() {
            return self.add_net(network_of(ip));
        }
        let host = host.trim_end_matches('.');
        self.add_name(host.to_owned());
        match host.split_once('.') {
            None => self.plain_names = true,
            Some((_, domain)) if domain.contains('.') || SITE_DOMAINS.contains(&domain) => {
                self.add_name(format!("*.{domain}"));
                let instances = ["cluster-custom-", "cluster-ro-", "cluster-"]
                    .iter()
                    .find_map(|p| domain.strip_prefix(p));
                if let Some(instances) = instances.filter(|_| crate::answer::managed::is_cloud_name(seed)) {
                    self.add_name(format!("*.{instances}"));
                }
            }
            Some(_) => {}
        }
    }

    fn add_net(&mut self, net: IpNet) {
        if !self.nets.contains(&net) {
            self.nets.push(net);
        }
    }

    fn add_name(&mut self, name: String) {
        if !self.names.contains(&name) {
            self.names.push(name);
        }
    }
}

/// The network that an address of the fleet stands for.
fn network_of(ip: IpAddr) -> IpNet {
    let prefix = match ip.to_canonical() {
        IpAddr::V4(v4) => match v4.octets() {
            [10 | 127, ..] => 8,
            [172, 16..=31, ..] => 12,
            [192, 168, ..] => 16,
            _ => 24,
        },
        IpAddr::V6(v6) if v6.is_loopback() => 128,
        IpAddr::V6(v6) if v6.octets()[0] & 0xfe == 0xfc => 48,
        IpAddr::V6(_) => 64,
    };
    let ip = ip.to_canonical();
    IpNet::new(ip, prefix).map_or_else(|_| IpNet::from(ip), |net| net.trunc())
}

impl fmt::Display for DiscoveryScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.names.iter().map(|name| format!("\"{name}\""));
        let plain = self.plain_names.then(|| "names without a dot".to_owned());
        let all: Vec<String> = self.nets.iter().map(ToString::to_string).chain(names).chain(plain).collect();
        match all.len() {
            0 => f.write_str("nothing"),
            n if n > 8 => write!(f, "{} and {} more", all[..8].join(", "), n - 8),
            _ => f.write_str(&all.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(seeds: &[&str]) -> FleetConfig {
        FleetConfig { seeds: seeds.iter().map(|s| s.parse().unwrap()).collect(), ..FleetConfig::default() }
    }

    fn follow(config: &FleetConfig, address: &str) -> Follow {
        DiscoveryScope::new(config).follow(&address.parse().unwrap())
    }

    #[test]
    fn by_default_discovery_stays_in_the_networks_and_domains_of_the_seeds() {
        for (seed, address, expected) in [
            ("10.1.2.3", "10.200.0.1", Follow::Yes),
            ("10.1.2.3", "192.168.0.1", Follow::No),
            ("10.1.2.3", "8.8.8.8", Follow::No),
            ("192.168.7.1", "192.168.9.9:3307", Follow::Yes),
            ("203.0.113.7", "203.0.113.99", Follow::Yes),
            ("203.0.113.7", "203.0.114.1", Follow::No),
            ("127.1.0.1", "127.3.0.1", Follow::Yes),
            ("127.0.0.1", "10.0.0.1", Follow::No),
            ("[fd00:1:2:3::1]", "[fd00:1:2:9::1]", Follow::Yes),
            ("[2001:db8:1:2::1]", "[2001:db8:1:3::1]", Follow::No),
            ("db1.prod.example.net", "db2.prod.example.net", Follow::Yes),
            ("db1.prod.example.net", "db2.evil.net", Follow::No),
            ("db1.example.net", "10.0.0.1", Follow::No),
            ("example.net", "other.net", Follow::No),
            ("db1.internal", "db2.internal", Follow::Yes),
            ("db1", "db2", Follow::Yes),
            ("db1", "db2.evil.net", Follow::No),
            ("db1", "localhost", Follow::No),
            ("localhost", "localhost:3307", Follow::Yes),
            ("10.1.2.3", "db2.anything.net", Follow::IfItLeadsInside),
            ("c.cluster-h4.eu-1.rds.amazonaws.com", "i2.h4.eu-1.rds.amazonaws.com", Follow::Yes),
            ("c.cluster-h4.eu-1.rds.amazonaws.com", "i2.other.eu-1.rds.amazonaws.com", Follow::No),
            ("/run/mysqld.sock", "127.0.0.1:3307", Follow::Yes),
        ] {
            assert_eq!(follow(&config(&[seed]), address), expected, "{seed} tells of {address}");
        }
    }

    #[test]
    fn a_seed_reached_by_name_allows_the_network_it_was_reached_in() {
        let mut within = DiscoveryScope::new(&config(&["db1.example.net"]));
        within.reached("10.0.0.5".parse().unwrap());
        assert_eq!(within.follow(&"10.0.7.7".parse().unwrap()), Follow::Yes);
        assert!(within.contains("::ffff:10.0.7.7".parse().unwrap()));
    }

    #[test]
    fn what_the_operator_wrote_is_the_limit_with_rules_and_maps() {
        let mut config = config(&["10.1.2.3"]);
        config.discover_within =
            Some(vec![Matcher::Net("10.9.0.0/16".parse().unwrap()), Matcher::Name("*.db.internal".into())]);
        config.address_map = vec![("172.16.0.1:3306".parse().unwrap(), "127.0.0.1:13306".parse().unwrap())];
        for (address, expected) in [
            ("10.9.1.1", Follow::Yes),
            ("10.1.2.4", Follow::No),
            ("b.db.internal", Follow::Yes),
            ("172.16.0.1:3306", Follow::Yes),
            ("172.16.0.1:3307", Follow::No),
            ("127.0.0.1:13306", Follow::Yes),
        ] {
            assert_eq!(follow(&config, address), expected, "{address}");
        }
        let mut within = DiscoveryScope::new(&config);
        within.reached("10.1.2.3".parse().unwrap());
        assert_eq!(within.follow(&"10.1.2.4".parse().unwrap()), Follow::No, "the list is the limit");
        assert_eq!(
            within.to_string(),
            "10.9.0.0/16, \"*.db.internal\", \"172.16.0.1:3306\", \"127.0.0.1:13306\""
        );
    }
}
