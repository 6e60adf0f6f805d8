//! What watches a lab from one of its zones, and how its application connects to a router in front of it.

use config::{Credentials, FleetConfig, OwnZone};
use fleet::{Address, Zone};
use lab::{Account, Lab};
use mysql_async::OptsBuilder;
use std::net::SocketAddrV4;

/// The servers of the lab through its links, as they are seen from this zone.
pub(crate) fn fleet(lab: &Lab, zone: &str) -> FleetConfig {
    let tcp = |a: SocketAddrV4| Address::tcp(a.ip().to_string(), a.port());
    let map = lab.address_map(zone).unwrap();
    FleetConfig {
        seeds: vec![tcp(map[0].0)],
        address_map: map.iter().map(|(real, reach)| (tcp(*real), tcp(*reach))).collect(),
        own_zone: OwnZone::Named(Zone::new(zone)),
        credentials: Credentials {
            user: Some(Account::Headroom.user().to_owned()),
            password: Some(lab.password(Account::Headroom).to_owned()),
            ..Credentials::default()
        },
        ..FleetConfig::default()
    }
}

pub(crate) fn opts(lab: &Lab, listener: &Address) -> OptsBuilder {
    let Address::Tcp { port, .. } = listener else { unreachable!("tests that use this listen on TCP") };
    OptsBuilder::default()
        .ip_or_hostname("127.0.0.1")
        .tcp_port(*port)
        .prefer_socket(false)
        .user(Some(Account::App.user()))
        .pass(Some(lab.password(Account::App)))
}
