//! A `headroom.toml` for each zone of a lab, as its routers would have it: zones as address blocks, the address map of the
//! links, the monitoring account. Written into the lab's directory, gone with it.

use lab::{Account, Status};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;

/// Ports of the router of the first zone; the next zones count on in steps of ten.
const FIRST_PORT: u16 = 13_306;
const FIRST_ADMIN_PORT: u16 = 9_306;

/// Where the file of a zone is.
pub(super) fn path(status: &Status, zone: &str) -> PathBuf {
    status.dir.join(format!("headroom-{zone}.toml"))
}

/// Reader and writer listener of the router in the zone with this index.
pub(super) fn listeners(zone: usize) -> (SocketAddrV4, SocketAddrV4) {
    let port = FIRST_PORT.saturating_add(u16::try_from(zone).unwrap_or(u16::MAX).saturating_mul(10));
    let at = |port| SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
    (at(port), at(port.saturating_add(1)))
}

/// Writes a file for every zone.
pub(super) fn write_all(status: &Status) -> std::io::Result<()> {
    for index in 0..status.zones.len() {
        std::fs::write(path(status, &status.zones[index]), text(status, index))?;
    }
    Ok(())
}

/// The file of one zone.
fn text(status: &Status, index: usize) -> String {
    let own = &status.zones[index];
    let (reader, writer) = listeners(index);
    let seeds: Vec<String> =
        status.servers.iter().take(2).map(|server| format!("\"{}\"", reach_or_real(server, own))).collect();
    let credentials =
        status.credentials.get(&Account::Headroom).map(|path| path.display().to_string()).unwrap_or_default();
    let mut text = format!(
        "# A router in zone {own} of the lab in {}.\n\n[fleet]\nseeds = [{}]\n\n[credentials]\noption_file = \"{credentials}\"\n\n\
         [router]\nzone = \"{own}\"\n\n[[listener]]\naddress = \"{reader}\"\nrole = \"reader\"\n\n\
         [[listener]]\naddress = \"{writer}\"\nrole = \"writer\"\n\n[admin]\naddress = \"127.0.0.1:{}\"\n",
        status.dir.display(),
        seeds.join(", "),
        FIRST_ADMIN_PORT.saturating_add(u16::try_from(index).unwrap_or(0)),
    );
    for zone in &status.zones {
        if let Some(number) = zone_number(status, zone) {
            text.push_str(&format!("\n[[zone]]\nname = \"{zone}\"\nmembers = [\"127.{number}.0.0/16\"]\n"));
        }
    }
    for server in &status.servers {
        text.push_str(&format!("\n[[server]]\nmatch = \"{}\"\nname = \"{}\"\n", server.real, server.name));
        if let Some(reach) = server.reach.get(own) {
            text.push_str(&format!("\n[[map]]\nsays = \"{}\"\nreach = \"{reach}\"\n", server.real));
        }
    }
    text
}

fn reach_or_real(server: &lab::ServerStatus, zone: &str) -> SocketAddrV4 {
    server.reach.get(zone).copied().unwrap_or(server.real)
}

/// The second byte of the addresses of a zone: of what its links listen on.
fn zone_number(status: &Status, zone: &str) -> Option<u8> {
    status.servers.iter().find_map(|server| Some(server.reach.get(zone)?.ip().octets()[1]))
}
