//! A `headroom.toml` for a router in one zone of a lab. Pure: from what the lab says of itself.

use crate::Error;
use crate::account::Account;
use crate::layout;
use crate::status::Status;
use std::fmt::Write;
use std::net::SocketAddrV4;

/// Where the router of a zone listens, unless its owner knows better: inside the zone, on the lab's own port, so that
/// routers of several zones and several labs never clash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouterAddresses {
    /// Reads: 127.Z.0.251.
    pub reader: SocketAddrV4,
    /// Writes: 127.Z.0.252.
    pub writer: SocketAddrV4,
    /// Status page and metrics: 127.Z.0.253.
    pub admin: SocketAddrV4,
}

impl Status {
    /// Where the router of a zone listens by its [`Status::router_config`].
    pub fn router_addresses(&self, zone: &str) -> Result<RouterAddresses, Error> {
        let index = self.zones.iter().position(|z| z == zone);
        let index =
            index.ok_or_else(|| Error::Unknown { name: zone.to_owned(), known: self.zones.clone() })?;
        let at = |service| SocketAddrV4::new(layout::router(index, service), self.port);
        Ok(RouterAddresses { reader: at(0), writer: at(1), admin: at(2) })
    }

    /// The configuration of a router in a zone: who the servers are and how the zone reaches them, which addresses lie
    /// in which zone, the account to ask with, and listeners at [`Status::router_addresses`].
    pub fn router_config(&self, zone: &str) -> Result<String, Error> {
        let addresses = self.router_addresses(zone)?;
        let quoted = |text: &dyn std::fmt::Display| toml::Value::String(text.to_string()).to_string();
        let reached = self.servers.iter().filter_map(|s| Some((s, s.reach.get(zone)?)));
        let seeds: Vec<String> = reached.clone().take(2).map(|(_, reach)| quoted(reach)).collect();
        let credentials = self.credentials.get(&Account::Headroom).map(|path| quoted(&path.display()));
        let mut text = format!("[fleet]\nseeds = [{}]\n\n", seeds.join(", "));
        // Writing to a String cannot fail.
        let mut line = |line: std::fmt::Arguments<'_>| {
            let _ = writeln!(text, "{line}");
        };
        if let Some(file) = credentials {
            line(format_args!("[credentials]\noption_file = {file}\n"));
        }
        line(format_args!("[router]\nzone = {}\n", quoted(&zone)));
        line(format_args!("[[listener]]\naddress = {}\nrole = \"reader\"\n", quoted(&addresses.reader)));
        line(format_args!("[[listener]]\naddress = {}\nrole = \"writer\"\n", quoted(&addresses.writer)));
        line(format_args!("[admin]\naddress = {}", quoted(&addresses.admin)));
        for (index, name) in self.zones.iter().enumerate() {
            let block = layout::block(index);
            line(format_args!("\n[[zone]]\nname = {}\nmembers = [{}]", quoted(name), quoted(&block)));
        }
        for (server, reach) in reached {
            let says = quoted(&server.real);
            line(format_args!("\n[[server]]\nmatch = {says}\nname = {}", quoted(&server.name)));
            line(format_args!("\n[[map]]\nsays = {says}\nreach = {}", quoted(reach)));
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ProcessState;
    use crate::status::{Role, ServerStatus};
    use fleet::config::Config;

    #[test]
    fn the_configuration_of_every_zone_is_one_that_headroom_takes() {
        let server = ServerStatus {
            name: "a1".to_owned(),
            zone: "a".to_owned(),
            real: "127.1.0.1:20000".parse().unwrap(),
            reach: [("a", "127.1.1.1:20000"), ("b", "127.2.1.1:20000")]
                .map(|(zone, at)| (zone.to_owned(), at.parse().unwrap()))
                .into(),
            socket: "/lab/a1/sock".into(),
            pid: None,
            process: ProcessState::Dead,
            role: Role::Primary,
            source: None,
            answer: None,
            faults: Vec::new(),
        };
        let status = Status {
            dir: "/lab".into(),
            owner: 1,
            version: "MariaDB 10.11.19".to_owned(),
            port: 20_000,
            zones: vec!["a".to_owned(), "b".to_owned()],
            servers: vec![server],
            links: Vec::new(),
            network_faults: Vec::new(),
            database: "app".to_owned(),
            credentials: [(Account::Headroom, "/lab/odd \"name\".cnf".into())].into(),
        };
        for zone in ["a", "b"] {
            let text = status.router_config(zone).unwrap();
            let config = Config::parse(&text, "headroom.toml").unwrap_or_else(|e| panic!("{e}\n{text}"));
            assert_eq!(config.fleet.zones.len(), 2);
            assert_eq!(config.fleet.address_map[0].0.to_string(), "127.1.0.1:20000");
            assert_eq!(config.listeners.len(), 2);
        }
        assert!(status.router_config("c").is_err());
    }
}
