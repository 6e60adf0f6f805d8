//! `[[server]]`: what the operator says of single servers.

use super::Matcher;
use super::matcher::matcher;
use super::section::Section;
use fleet::{Weight, Zone};
use toml::Spanned;

/// What the operator says of servers that match.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerRule {
    pub matcher: Matcher,
    /// How to call it (only with a rule that matches one server).
    pub name: Option<String>,
    /// Relative capacity.
    pub weight: Option<Weight>,
    pub zone: Option<Zone>,
    /// Kept out of routing: an admin or analytics node.
    pub reserved: bool,
    /// Told the client's address by a PROXY protocol header (MariaDB's `proxy-protocol-networks`).
    pub proxy_protocol: bool,
    /// Labels, `key=value`.
    pub labels: Vec<(String, String)>,
}

/// Reads every `[[server]]`.
pub(super) fn read(document: &mut Section<'_>) -> Vec<Spanned<ServerRule>> {
    let mut servers = Vec::new();
    for mut section in document.sections("server") {
        let matcher = section.text("match", matcher);
        section.require("match", "say which servers: match = \"db3*\"");
        let name = section.plain("name");
        let no_reads = "reserved = true keeps all new sessions away from a server";
        let weight =
            section.number_or("weight", (0.001, 1000.0), |weight| (weight == 0.0).then_some(no_reads));
        let weight = weight.and_then(|weight| Weight::new(weight).ok());
        let zone = section.plain("zone").map(|name| Zone::new(&name));
        let reserved = section.flag("reserved").unwrap_or_default();
        let proxy_protocol = section.flag("proxy_protocol").unwrap_or_default();
        let labels = section.pairs("labels");
        if let Some(matcher) = matcher {
            let (span, matcher) = (matcher.span(), matcher.into_inner());
            let rule = ServerRule { matcher, name, weight, zone, reserved, proxy_protocol, labels };
            servers.push(Spanned::new(span, rule));
        }
        section.finish();
    }
    servers
}
