//! Where everything of a lab stands: the addresses of servers, links and clients. Pure arithmetic on
//! 127.0.0.0/8.
//!
//! Zones are numbered from 1 in the order given, servers from 1 within their zone. One port serves the whole
//! lab.
//!
//! | what | address |
//! |---|---|
//! | server n of zone Z, where it really listens | 127.Z.0.n |
//! | the same server as zone F reaches it (a link) | 127.F.Z.n |
//! | client k of zone F (applications, routers) | 127.F.0.(200+k) |
//! | router of zone F: reads, writes, status | 127.F.0.251 to 127.F.0.253 |
//! | whoever comes from zone F without an address of its own | 127.F.0.254 |
//!
//! So 127.F.0.0/24 is zone F, its servers and its clients; the rest of 127.F.0.0/16 is how it reaches
//! servers, wherever they stand. F = Z is a link too, so that the cost of the relay is the same everywhere.

use fleet::{ServerName, Zone};
use std::net::Ipv4Addr;

/// Servers in one zone at most: they share the last byte with clients.
pub(crate) const MAX_SERVERS: u8 = 199;
/// Zones at most: one byte, 0 and 255 left out.
pub(crate) const MAX_ZONES: usize = 254;
/// Clients with an address of their own in one zone, numbered from 0.
pub(crate) const MAX_CLIENTS: u8 = 50;
const ANY_CLIENT: u8 = 254;
const FIRST_CLIENT: u8 = 200;
const ROUTER: u8 = 251;

/// Zones and servers with their numbers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Layout {
    /// Zone number is index + 1.
    pub(crate) zones: Vec<Zone>,
    /// All servers, zone by zone.
    pub(crate) servers: Vec<ServerSlot>,
    /// Index of the server that takes writes at the start.
    pub(crate) primary: usize,
}

/// One server's place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ServerSlot {
    /// Zone name and number: `a1`.
    pub(crate) name: ServerName,
    pub(crate) zone: usize,
    /// From 1 within its zone.
    pub(crate) number: u8,
    /// Index of the server it replicates from at the start; `None` for the primary.
    pub(crate) source: Option<usize>,
}

impl Layout {
    pub(crate) fn zone(&self, name: &str) -> Option<usize> {
        self.zones.iter().position(|z| z.as_str() == name)
    }

    pub(crate) fn server(&self, name: &str) -> Option<usize> {
        self.servers.iter().position(|s| s.name.as_str() == name)
    }

    /// Where a server really listens.
    pub(crate) fn real(&self, server: usize) -> Ipv4Addr {
        let place = &self.servers[server];
        Ipv4Addr::new(127, zone_byte(place.zone), 0, place.number)
    }

    /// How zone `from` reaches a server.
    pub(crate) fn link(&self, from: usize, server: usize) -> Ipv4Addr {
        let place = &self.servers[server];
        Ipv4Addr::new(127, zone_byte(from), zone_byte(place.zone), place.number)
    }

    /// The links between any two zones, as (zone it starts in, server it leads to).
    pub(crate) fn links(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        (0..self.zones.len()).flat_map(|from| (0..self.servers.len()).map(move |to| (from, to)))
    }
}

/// The address of client `k` of a zone, `k` below [`MAX_CLIENTS`].
pub(crate) fn client(zone: usize, k: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, zone_byte(zone), 0, FIRST_CLIENT + k.min(MAX_CLIENTS - 1))
}

/// Where the router of a zone listens: `service` 0 is for reads, 1 for writes, 2 for its status.
pub(crate) fn router(zone: usize, service: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, zone_byte(zone), 0, ROUTER + service)
}

/// The address block of a zone's servers and clients: not of how the zone reaches servers elsewhere.
pub(crate) fn block(zone: usize) -> String {
    format!("127.{}.0.0/24", zone_byte(zone))
}

/// What a link out of `zone` calls `peer` towards the server: its own address if it has one in the zone, else
/// the address that stands for all who have none (the kernel gives 127.0.0.1 to sockets that did not choose).
pub(crate) fn source(zone: usize, peer: Ipv4Addr) -> Ipv4Addr {
    let own = peer.octets()[1] == zone_byte(zone);
    if own { peer } else { Ipv4Addr::new(127, zone_byte(zone), 0, ANY_CLIENT) }
}

/// The second byte of every address of a zone.
fn zone_byte(zone: usize) -> u8 {
    u8::try_from(zone + 1).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Spec;
    use std::collections::HashSet;

    fn layout() -> Layout {
        Spec::new(&[("a", 2), ("b", 1), ("c", 0)]).layout().unwrap()
    }

    #[test]
    fn every_address_of_a_lab_is_its_own() {
        let layout = layout();
        let mut seen = HashSet::new();
        for s in 0..layout.servers.len() {
            assert!(seen.insert(layout.real(s)));
        }
        for (from, to) in layout.links() {
            assert!(seen.insert(layout.link(from, to)));
        }
        for k in 0..MAX_CLIENTS {
            assert!(seen.insert(client(0, k)));
        }
        assert!(seen.insert(source(0, Ipv4Addr::LOCALHOST)));
    }

    #[test]
    fn a_zone_reaches_every_server_inside_its_own_block() {
        let layout = layout();
        let b1 = layout.server("b1").unwrap();
        assert_eq!(layout.real(b1), Ipv4Addr::new(127, 2, 0, 1));
        assert_eq!(layout.link(0, b1), Ipv4Addr::new(127, 1, 2, 1));
        assert_eq!(layout.link(1, b1), Ipv4Addr::new(127, 2, 2, 1));
    }

    #[test]
    fn a_client_keeps_its_address_through_the_link_if_it_has_one_in_the_zone() {
        assert_eq!(source(1, client(1, 3)), Ipv4Addr::new(127, 2, 0, 203));
        assert_eq!(source(1, client(0, 3)), Ipv4Addr::new(127, 2, 0, 254));
        assert_eq!(source(1, Ipv4Addr::LOCALHOST), Ipv4Addr::new(127, 2, 0, 254));
    }
}
