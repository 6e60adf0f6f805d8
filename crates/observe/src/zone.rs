//! Where hosts stand: by the rules of the configuration, else by what the cloud says of our own host, else by
//! measured round-trip time.
//!
//! A rule is matched with what a server is called, not with how we reach it: behind an address map the
//! address we dial belongs to the tunnel, not to the server.

pub(crate) mod metadata;
pub(crate) mod round_trip;

use config::{Matcher, ServerRule, ZoneRule};
use fleet::{Address, Zone};
use std::net::IpAddr;

/// What rules are matched with.
#[derive(Clone, Debug, Default)]
pub(crate) struct Host {
    /// Every name it goes by: server name, host name, `host:port`.
    pub(crate) names: Vec<String>,
    pub(crate) addresses: Vec<IpAddr>,
    /// `key=value`, given by rules.
    pub(crate) labels: Vec<(String, String)>,
}

/// What the rules say of one server.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RuleOutcome {
    pub(crate) name: Option<String>,
    pub(crate) weight: Option<fleet::Weight>,
    pub(crate) zone: Option<Zone>,
    /// The rule that keeps it out of routing, in words.
    pub(crate) reserved: Option<String>,
    /// It takes a PROXY protocol header.
    pub(crate) proxy_protocol: bool,
}

impl Host {
    /// A server: what it is called, what it says it is called (`report_host`), and the address its name led
    /// to. An address that it says itself counts before one that we see, which may be the end of a tunnel.
    pub(crate) fn server(
        called: &Address,
        reports: Option<&Address>,
        reach: &Address,
        peer: Option<IpAddr>,
    ) -> Self {
        let names = [Some(called), reports].into_iter().flatten();
        let names =
            names.flat_map(|a| [Some(a.to_string()), a.host().map(str::to_owned)]).flatten().collect();
        let literal = |a: &Address| a.host().and_then(|host| host.parse().ok());
        let addresses = match reports.and_then(literal).or_else(|| literal(called)) {
            Some(ip) => vec![ip],
            None if called == reach => peer.into_iter().collect(),
            None => Vec::new(),
        };
        Self { names, addresses, labels: Vec::new() }
    }

    /// A client host as a server shows it: an address or a name.
    pub(crate) fn client(host: &str, resolved: &[IpAddr]) -> Self {
        let addresses = host.parse().map_or_else(|_| resolved.to_vec(), |ip| vec![ip]);
        Self { names: vec![host.to_owned()], addresses, labels: Vec::new() }
    }

    fn matches(&self, matcher: &Matcher) -> bool {
        match matcher {
            Matcher::Net(net) => self.addresses.iter().any(|ip| net.contains(ip)),
            Matcher::Name(pattern) => self.names.iter().any(|name| matches_pattern(pattern, name)),
            Matcher::Label(key, value) => self.labels.iter().any(|(k, v)| k == key && v == value),
        }
    }
}

/// Applies every rule that matches, in order; the first to state something wins. Labels that a rule gives are
/// seen by the rules after it.
pub(crate) fn apply(rules: &[ServerRule], host: &mut Host) -> RuleOutcome {
    let mut said = RuleOutcome::default();
    for rule in rules {
        if !host.matches(&rule.matcher) {
            continue;
        }
        said.name = said.name.or_else(|| rule.name.clone());
        said.weight = said.weight.or(rule.weight);
        said.zone = said.zone.or_else(|| rule.zone.clone());
        said.proxy_protocol |= rule.proxy_protocol;
        if rule.reserved && said.reserved.is_none() {
            said.reserved = Some(words(&rule.matcher));
        }
        host.labels.extend(rule.labels.iter().cloned());
        host.names.extend(rule.name.clone());
    }
    said
}

/// The zone whose rule matches first.
pub(crate) fn by_rule(zones: &[ZoneRule], host: &Host) -> Option<Zone> {
    zones.iter().find(|rule| rule.members.iter().any(|m| host.matches(m))).map(|rule| rule.zone.clone())
}

fn words(matcher: &Matcher) -> String {
    match matcher {
        Matcher::Net(net) => net.to_string(),
        Matcher::Name(name) => name.clone(),
        Matcher::Label(key, value) => format!("label {key}={value}"),
    }
}

/// Host names compare without case; `*` stands for any run of characters.
pub(crate) fn matches_pattern(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.to_ascii_lowercase(), name.to_ascii_lowercase());
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.len() >= last.len() && rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(matcher: Matcher) -> ServerRule {
        ServerRule {
            matcher,
            name: None,
            weight: None,
            zone: None,
            reserved: false,
            proxy_protocol: false,
            labels: Vec::new(),
        }
    }

    fn zone(name: &str, members: Vec<Matcher>) -> ZoneRule {
        ZoneRule { zone: Zone::new(name), members, demand: None }
    }

    fn net(text: &str) -> Matcher {
        Matcher::Net(text.parse().unwrap())
    }

    #[test]
    fn patterns_stand_for_runs_of_characters() {
        for (pattern, name, matches) in [
            ("db1", "DB1", true),
            ("db*", "db12", true),
            ("*.eu-west-1a.*", "db.eu-west-1a.internal", true),
            ("*-a", "db-a", true),
            ("a*a", "a", false),
            ("db1", "db12", false),
            ("*", "", true),
            ("db1:3306", "db1:3306", true),
        ] {
            assert_eq!(matches_pattern(pattern, name), matches, "{pattern} {name}");
        }
    }

    #[test]
    fn behind_an_address_map_the_called_address_counts() {
        let (called, reach) = (Address::tcp("127.1.0.1", 3306), Address::tcp("127.3.1.1", 3306));
        let end_of_tunnel: Option<IpAddr> = "127.3.1.1".parse().ok();
        let host = Host::server(&called, None, &reach, end_of_tunnel);
        let zones = [zone("c", vec![net("127.3.0.0/16")]), zone("a", vec![net("127.1.0.0/16")])];
        assert_eq!(by_rule(&zones, &host), Some(Zone::new("a")));
        let named = Address::tcp("db", 1);
        assert_eq!(by_rule(&zones, &Host::server(&named, None, &named, end_of_tunnel)), Some(Zone::new("c")));
        let says = Host::server(&reach, Some(&called), &reach, end_of_tunnel);
        assert_eq!(by_rule(&zones, &says), Some(Zone::new("a")), "what it says itself counts first");
    }

    #[test]
    fn labels_given_by_one_rule_are_seen_by_the_next_and_by_zones() {
        let label = || ("use".to_owned(), "analytics".to_owned());
        let rules = [
            ServerRule { labels: vec![label()], ..rule(Matcher::Name("bi*".into())) },
            ServerRule { reserved: true, ..rule(Matcher::Label("use".into(), "analytics".into())) },
        ];
        let address = Address::tcp("bi7", 3306);
        let mut host = Host::server(&address, None, &address, None);
        let said = apply(&rules, &mut host);
        assert_eq!(said.reserved.as_deref(), Some("label use=analytics"));
        let zones = [zone("z", vec![Matcher::Label("use".into(), "analytics".into())])];
        assert_eq!(by_rule(&zones, &host), Some(Zone::new("z")));
    }

    #[test]
    fn reserving_by_network_holds_for_servers_that_come_later() {
        let rules = [ServerRule { reserved: true, ..rule(net("10.9.0.0/16")) }];
        for (host, reserved) in [("10.9.0.1", true), ("10.9.200.7", true), ("10.8.0.1", false)] {
            let address = Address::tcp(host, 3306);
            let said = apply(&rules, &mut Host::server(&address, None, &address, None));
            assert_eq!(said.reserved.is_some(), reserved, "{host}");
        }
    }
}
