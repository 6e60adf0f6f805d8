//! `[admin]`: the status page, JSON and metrics.

use super::listener::addresses_clash;
use super::section::Section;
use super::{Listener, value};
use fleet::Address;
use std::net::SocketAddr;
use std::time::Duration;
use toml::Spanned;

/// The admin address: status page, JSON and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admin {
    /// Where it listens.
    pub address: SocketAddr,
    /// Whether the operator said that the network may reach it. It has no password.
    pub open: bool,
    /// Who may read it there, and how old it may be.
    pub access: AdminAccess,
}

/// What the admin address answers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminAccess {
    /// Host names that requests may be for, beside addresses and `localhost`: a page from elsewhere can let a
    /// name of its own resolve to this address.
    pub names: Vec<String>,
    /// An answer is given again for this long: whoever asks in a loop costs no more than whoever asks once in
    /// this time.
    pub cache: Duration,
}

impl Default for AdminAccess {
    fn default() -> Self {
        Self { names: Vec::new(), cache: Duration::from_secs(1) }
    }
}

impl Admin {
    /// Where the status page is unless told otherwise.
    pub const DEFAULT_ADDRESS: SocketAddr =
        SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9306);
}

/// Why a listener and the admin address cannot live together, if they cannot.
pub fn admin_clashes(admin: SocketAddr, listener: &Listener) -> Option<String> {
    let as_address = Address::tcp(admin.ip().to_string(), admin.port());
    addresses_clash(&as_address, &listener.address).then(|| {
        format!(
            "the admin address {admin} and the {} listener {} are the same",
            listener.role, listener.address
        )
    })
}

/// Reads `[admin]`; `None` where it is switched off.
pub(super) fn read(document: &mut Section<'_>) -> Option<Spanned<Admin>> {
    let default = AdminAccess::default();
    let mut section = document.section("admin");
    let enabled = section.flag("enabled").unwrap_or(true);
    let address = section.text("address", |text| {
        let numeric = value::numeric(text);
        numeric.parse::<SocketAddr>().map_err(|_| {
            let right = format!("write an IP address and a port: {}", Admin::DEFAULT_ADDRESS);
            (format!("'{text}' is not an address to listen on"), right)
        })
    });
    let admin = Admin {
        address: address.map_or(Admin::DEFAULT_ADDRESS, Spanned::into_inner),
        open: section.flag("open").unwrap_or_default(),
        access: AdminAccess {
            names: section.list("names", value::host_name).unwrap_or(default.names),
            cache: section.duration("cache", Duration::ZERO).unwrap_or(default.cache),
        },
    };
    let span = section.place_of("address");
    section.finish();
    enabled.then(|| Spanned::new(span, admin))
}
