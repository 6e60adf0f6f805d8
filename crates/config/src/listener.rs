//! `[[listener]]`: an address that clients come to, and what holds for its sessions.

use super::access::{self, Access};
use super::section::Section;
use super::{ClientTls, Insight, tls, value};
use fleet::{Address, ListenerRole};
use std::net::IpAddr;
use toml::Spanned;

/// An address we accept clients on.
#[derive(Clone, Debug, PartialEq)]
pub struct Listener {
    /// Where. A host name is not allowed.
    pub address: Address,
    /// Who may come.
    pub access: Access,
    /// What its clients want.
    pub role: ListenerRole,
    /// Sessions beyond this are refused with MySQL's error 1040.
    pub max_sessions: usize,
    /// Clients that have come and are not logged in yet: beyond this they are refused with the same error.
    pub max_connecting: usize,
    pub tls: ClientTls,
    /// Whether its sessions may bypass the router where `[router] zero_hop` lets them.
    pub bypass: bool,
    /// Which of its sessions are measured.
    pub insight: Insight,
    /// With [`Insight::Sampled`], and only where sessions could bypass the router: one new session in this
    /// many passes through it and is measured. At least 1.
    pub insight_one_in: u32,
}

impl Listener {
    /// Sessions a listener takes unless told otherwise.
    pub const DEFAULT_MAX_SESSIONS: usize = 10_000;
    /// Clients that a listener lets log in at the same time unless told otherwise.
    pub const DEFAULT_MAX_CONNECTING: usize = 5_000;
    /// One session in this many is measured where sessions bypass the router, unless told otherwise.
    pub const DEFAULT_INSIGHT_ONE_IN: u32 = 16;

    /// A listener with the default of everything but where and for whom.
    pub fn new(address: Address, role: ListenerRole) -> Self {
        Self {
            address,
            access: Access::default(),
            role,
            max_sessions: Self::DEFAULT_MAX_SESSIONS,
            max_connecting: Self::DEFAULT_MAX_CONNECTING,
            tls: ClientTls::default(),
            bypass: true,
            insight: Insight::default(),
            insight_one_in: Self::DEFAULT_INSIGHT_ONE_IN,
        }
    }
}

/// What is wrong with a listener that others can reach and that does not say who may come.
pub fn open_to_the_network(listener: &Listener) -> Option<String> {
    let ip: IpAddr = listener.address.host()?.parse().ok()?;
    (!ip.to_canonical().is_loopback() && listener.access.allow.is_none()).then(|| {
        format!("the listener {} can be reached from the network, and nothing says by whom", listener.address)
    })
}

/// Why two listeners cannot live together, if they cannot.
pub fn listeners_clash(a: &Listener, b: &Listener) -> Option<String> {
    if !addresses_clash(&a.address, &b.address) {
        return None;
    }
    Some(match (a.role == b.role, a.address == b.address) {
        (true, true) => format!("two listeners have the address {}", a.address),
        (false, true) => {
            format!("{} cannot be the {} and the {} listener", a.address, a.role, b.role)
        }
        (_, false) => format!("the listeners {} and {} overlap", a.address, b.address),
    })
}

/// Whether both cannot be listened on at once.
pub(super) fn addresses_clash(a: &Address, b: &Address) -> bool {
    match (a, b) {
        (Address::Unix(a), Address::Unix(b)) => a == b,
        (Address::Tcp { host: a, port: p }, Address::Tcp { host: b, port: q }) => {
            p == q && (a == b || takes(a, b) || takes(b, a))
        }
        _ => false,
    }
}

/// Whether `any` is an address that takes the clients of `host`, too: `[::]` takes those of IPv4 as well, and
/// 0.0.0.0 none of an IPv6 address.
fn takes(any: &str, host: &str) -> bool {
    let (Ok(any), Ok(host)) = (any.parse::<IpAddr>(), host.parse::<IpAddr>()) else { return false };
    any.is_unspecified() && (any.is_ipv6() || host.is_unspecified() || host.to_canonical().is_ipv4())
}

/// Reads every `[[listener]]`.
pub(super) fn read(document: &mut Section<'_>) -> Vec<Spanned<Listener>> {
    let roles = [("reader", ListenerRole::Reader), ("writer", ListenerRole::Writer)];
    let mut listeners = Vec::new();
    for mut section in document.sections("listener") {
        let address = section.text("address", value::listening_address);
        section.require("address", "write where clients come: address = \"127.0.0.1:3306\"");
        let role = section.choice("role", &roles);
        section.require("role", "write role = \"reader\" or role = \"writer\"");
        let most = (1, 1_000_000);
        let max_sessions = section.count("max_sessions", most);
        let max_connecting = section.count("max_connecting", most);
        let at = address.as_ref().map(Spanned::get_ref);
        let access = access::read(&mut section, at);
        let tls = tls::from_clients(&mut section, at);
        let bypass = section.choice("zero_hop", &[("auto", true), ("off", false)]).unwrap_or(true);
        let insight = section.choice("insight", &Insight::ALL).unwrap_or_default();
        let insight_one_in =
            section.count("insight_one_in", most).unwrap_or(Listener::DEFAULT_INSIGHT_ONE_IN);
        if let (Some(address), Some(role)) = (address, role) {
            let listener = Listener {
                access,
                role,
                max_sessions: max_sessions.map_or(Listener::DEFAULT_MAX_SESSIONS, |n| n as usize),
                max_connecting: max_connecting.map_or(Listener::DEFAULT_MAX_CONNECTING, |n| n as usize),
                tls,
                bypass,
                insight,
                insight_one_in,
                address: address.get_ref().clone(),
            };
            listeners.push(Spanned::new(address.span(), listener));
        }
        section.finish();
    }
    listeners
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_clash_where_the_kernel_refuses_the_second() {
        let clash = |a: &str, b: &str| {
            let (a, b): (Address, Address) = (a.parse().unwrap(), b.parse().unwrap());
            assert_eq!(addresses_clash(&a, &b), addresses_clash(&b, &a), "{a} {b}");
            addresses_clash(&a, &b)
        };
        for other in ["127.0.0.1:1", "0.0.0.0:1", "[::]:1", "[::ffff:10.0.0.1]:1"] {
            assert!(clash("0.0.0.0:1", other), "{other}");
        }
        for other in ["127.0.0.1:1", "[2001:db8::5]:1"] {
            assert!(clash("[::]:1", other), "{other}");
        }
        assert!(!clash("0.0.0.0:1", "[2001:db8::5]:1"));
        assert!(!clash("0.0.0.0:1", "127.0.0.1:2") && !clash("127.0.0.1:1", "127.0.0.2:1"));
    }
}
