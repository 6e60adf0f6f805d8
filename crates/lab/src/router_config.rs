//! A `headroom.toml` for a router in one zone of a lab. Pure: from what the lab says of itself.

use crate::Error;
use crate::account::Account;
use crate::layout;
use crate::status::Status;
use std::fmt::Write;
use std::net::SocketAddrV4;
use std::path::PathBuf;

/// What the owner of a router adds to the plain configuration of its zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouterOptions {
    /// Servers, by name, that get no reads.
    pub reserved: Vec<String>,
    /// Threads of the data plane; one for each core without.
    pub threads: Option<usize>,
    /// `zero_hop`: `auto`, `off` or `require`; what Headroom does by itself without.
    pub zero_hop: Option<&'static str>,
    /// Reads on a unix socket too.
    pub reader_socket: Option<PathBuf>,
    /// Writes on a unix socket too.
    pub writer_socket: Option<PathBuf>,
}

/// Where the router of a zone listens, unless its owner knows better: inside the zone, on the lab's own port,
/// so that routers of several zones and several labs never clash.
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

    /// The configuration of a router in a zone: who the servers are and how the zone reaches them, which
    /// addresses lie in which zone, the account to ask with, and listeners at [`Status::router_addresses`];
    /// and what `options` add.
    pub fn router_config(&self, zone: &str, options: &RouterOptions) -> Result<String, Error> {
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
        line(format_args!("[router]\nzone = {}", quoted(&zone)));
        if let Some(threads) = options.threads {
            line(format_args!("threads = {threads}"));
        }
        if let Some(zero_hop) = options.zero_hop {
            line(format_args!("zero_hop = {}", quoted(&zero_hop)));
        }
        if self.version.starts_with("MySQL") {
            // These servers offer no TLS, and all of a lab is on one machine.
            line(format_args!("\n[router.tls]\nallow_public_key_retrieval = true"));
        }
        let mut listener = |address: &dyn std::fmt::Display, role: &str| {
            line(format_args!("\n[[listener]]\naddress = {}\nrole = \"{role}\"", quoted(address)));
        };
        listener(&addresses.reader, "reader");
        listener(&addresses.writer, "writer");
        for (socket, role) in [(&options.reader_socket, "reader"), (&options.writer_socket, "writer")] {
            if let Some(path) = socket {
                listener(&path.display(), role);
            }
        }
        line(format_args!("\n[admin]\naddress = {}", quoted(&addresses.admin)));
        for (index, name) in self.zones.iter().enumerate() {
            let block = layout::block(index);
            line(format_args!("\n[[zone]]\nname = {}\nmembers = [{}]", quoted(name), quoted(&block)));
        }
        for (server, reach) in reached {
            let says = quoted(&server.real);
            line(format_args!("\n[[server]]\nmatch = {says}\nname = {}", quoted(&server.name)));
            if options.reserved.contains(&server.name) {
                line(format_args!("reserved = true"));
            }
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
    use config::Config;

    #[test]
    fn the_configuration_of_every_zone_is_one_that_headroom_takes() {
        let status = status();
        for zone in ["a", "b"] {
            let config = parsed(&status, zone, &RouterOptions::default());
            assert_eq!(config.fleet.zones.len(), 2);
            assert_eq!(config.fleet.address_map[0].0.to_string(), "127.1.0.1:20000");
            assert_eq!(config.listeners.len(), 2);
        }
        assert!(status.router_config("c", &RouterOptions::default()).is_err());
    }

    #[test]
    fn passwords_for_mysql_without_tls_go_on_as_they_do_for_its_own_clients() {
        let allowed = |version: &str| {
            let status = Status { version: version.to_owned(), ..status() };
            parsed(&status, "a", &RouterOptions::default()).router.tls.allow_public_key_retrieval
        };
        assert!(allowed("MySQL 9.7.4") && !allowed("MariaDB 10.11.19"));
    }

    #[test]
    fn what_the_owner_adds_stands_in_the_configuration() {
        let options = RouterOptions {
            reserved: vec!["a1".to_owned()],
            threads: Some(3),
            zero_hop: Some("off"),
            reader_socket: Some("/lab/read \"here\".sock".into()),
            writer_socket: Some("/lab/write.sock".into()),
        };
        let config = parsed(&status(), "a", &options);
        assert_eq!(config.listeners.len(), 4);
        assert_eq!(config.router.threads, Some(3));
        assert!(config.fleet.servers.iter().any(|rule| rule.reserved));
    }

    fn parsed(status: &Status, zone: &str, options: &RouterOptions) -> Config {
        let text = status.router_config(zone, options).unwrap();
        Config::parse(&text, "headroom.toml").unwrap_or_else(|e| panic!("{e}\n{text}"))
    }

    /// A lab of one server and two zones.
    fn status() -> Status {
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
        Status {
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
        }
    }
}
