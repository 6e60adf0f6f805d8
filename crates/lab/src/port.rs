//! The one port of a lab: free on every address that the lab needs.

use crate::layout::Layout;
use crate::link::{LinkEnd, Listener, Pace};
use crate::{Error, Network};
use rand::seq::SliceRandom;
use rustix::io::Errno;
use std::net::SocketAddrV4;

/// Below the range from which Linux takes ports for outgoing connections.
const PORTS: std::ops::RangeInclusive<u16> = 20_000..=32_000;
const ATTEMPTS: usize = 100;

/// Finds a port and takes it on the links' addresses. They are held from here on, so that two labs never get
/// the same port; the servers' addresses are free until the servers take them.
pub(crate) fn take(layout: &Layout, network: &Network) -> Result<(u16, Vec<LinkEnd>), Error> {
    let mut ports: Vec<u16> = PORTS.collect();
    ports.shuffle(&mut rand::rng());
    let mut last = Errno::ADDRINUSE;
    for port in ports.into_iter().take(ATTEMPTS) {
        match bind_all(layout, network, port) {
            Ok(ends) => return Ok((port, ends)),
            Err(error) => last = error,
        }
    }
    let addresses = layout.servers.len() * (layout.zones.len() + 1);
    Err(Error::NoPort { first: *PORTS.start(), last: *PORTS.end(), addresses, source: last.into() })
}

fn bind_all(layout: &Layout, network: &Network, port: u16) -> Result<Vec<LinkEnd>, Errno> {
    let bind = |(from, server)| {
        let real = SocketAddrV4::new(layout.real(server), port);
        let listener = Listener::bind(SocketAddrV4::new(layout.link(from, server), port))?;
        Ok(LinkEnd { listener, from, server: real, pace: Pace::of(network, layout, from, server) })
    };
    let ends = layout.links().map(bind).collect::<Result<_, Errno>>()?;
    for server in 0..layout.servers.len() {
        Listener::bind(SocketAddrV4::new(layout.real(server), port))?;
    }
    Ok(ends)
}
