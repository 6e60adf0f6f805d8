//! Fit: whether a listener's connections may bypass the router, and if not, why. Pure.

use fleet::Address;
use fleet::config::{ClientTlsMode, Insight, Listener, TlsMode};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// What applications dial whose connections go past.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fit {
    /// The addresses.
    pub(super) dialled: Vec<SocketAddr>,
    /// One new session in so many goes through the listener all the same; 0 is none.
    pub(super) one_in: u32,
    /// One in so many is mirrored for insight; 0 is none.
    pub(super) mirror: u32,
    /// In words, for the status.
    pub(super) words: String,
}

/// Whether connections to `listener`, bound at `bound`, may go past; `to_servers` is what the router does with TLS to them, and
/// `mirrors` whether the kernel tells what passes on sessions past it.
pub(super) fn fit(
    listener: &Listener,
    bound: &Address,
    to_servers: TlsMode,
    mirrors: bool,
) -> Result<Fit, String> {
    let Address::Tcp { host, port } = bound else {
        return Err("a unix socket leads nowhere but here".to_owned());
    };
    let measured = measured(listener);
    if measured == 1 && !mirrors {
        return Err(
            "every session is measured, and the kernel does not mirror any: all pass through".to_owned()
        );
    }
    if listener.tls.mode != ClientTlsMode::Passthrough {
        return Err(format!(
            "tls = \"{}\" is this process's doing, so all pass through",
            listener.tls.mode.word()
        ));
    }
    if !listener.access.proxies.is_empty() {
        return Err("proxy_protocol_from is this process's doing, so all pass through".to_owned());
    }
    if !listener.access.admits(Ipv4Addr::LOCALHOST.into()) {
        return Err("allow leaves out 127.0.0.1, so all pass through and are looked at".to_owned());
    }
    if to_servers != TlsMode::Disabled {
        return Err("[router.tls] is this process's doing, so all pass through".to_owned());
    }
    let ip: IpAddr = host.parse().map_err(|_| format!("{host} is no numeric address"))?;
    let loopback = |ip: IpAddr| SocketAddr::new(ip, *port);
    let (dialled, only) = match ip {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => {
            (vec![loopback(Ipv4Addr::LOCALHOST.into())], " to 127.0.0.1 (others come to all addresses)")
        }
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => {
            let both = vec![loopback(Ipv6Addr::LOCALHOST.into()), loopback(Ipv4Addr::LOCALHOST.into())];
            (both, " to [::1] and 127.0.0.1 (others come to all addresses)")
        }
        ip => (vec![SocketAddr::new(ip, *port)], ""),
    };
    let (one_in, mirror) = if mirrors { (0, measured) } else { (measured, 0) };
    let words = match (one_in, mirror) {
        (0, 0) => format!("all new sessions{only} bypass the router"),
        (0, 1) => format!("all new sessions{only} bypass the router, mirrored for insight"),
        (0, n) => format!("all new sessions{only} bypass the router, 1 of {n} mirrored for insight"),
        (n, _) => format!("{} of {n} new sessions{only} bypass the router", n - 1),
    };
    Ok(Fit { dialled, one_in, mirror, words })
}

/// One session in so many is measured; 0 is none.
pub(super) fn measured(listener: &Listener) -> u32 {
    match listener.insight {
        Insight::Off => 0,
        Insight::Sampled => listener.insight_one_in,
        Insight::On => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet::ListenerRole;

    fn of(address: &str, insight: Insight, mirrors: bool) -> Result<Fit, String> {
        let address: Address = address.parse().unwrap();
        fit(
            &Listener { insight, ..Listener::new(address.clone(), ListenerRole::Reader) },
            &address,
            TlsMode::Disabled,
            mirrors,
        )
    }

    #[test]
    fn a_listener_that_needs_the_path_keeps_its_connections_and_says_why() {
        assert!(of("/run/reader.sock", Insight::Off, true).unwrap_err().contains("unix socket"));
        assert!(of("127.0.0.1:3306", Insight::On, false).unwrap_err().contains("measured"));
        let mut listener = Listener::new("127.0.0.1:3306".parse().unwrap(), ListenerRole::Reader);
        let words = |listener: &Listener, tls| fit(listener, &listener.address, tls, true).unwrap_err();
        assert!(words(&listener, TlsMode::Required).contains("[router.tls]"));
        listener.access.allow = Some(vec!["10.0.0.0/8".parse().unwrap()]);
        assert!(words(&listener, TlsMode::Disabled).contains("allow"));
        listener.access = fleet::config::Access::default();
        listener.tls.mode = ClientTlsMode::Required;
        assert!(words(&listener, TlsMode::Disabled).contains("tls = \"required\""));
    }

    #[test]
    fn one_of_sixteen_is_measured_unless_told_otherwise_on_the_way_that_there_is() {
        let said = |insight, mirrors| of("127.0.0.1:3306", insight, mirrors).unwrap().words;
        assert_eq!(said(Insight::Sampled, false), "15 of 16 new sessions bypass the router");
        let mirrored = "all new sessions bypass the router, 1 of 16 mirrored for insight";
        assert_eq!(said(Insight::Sampled, true), mirrored);
        assert_eq!(said(Insight::On, true), "all new sessions bypass the router, mirrored for insight");
        let off = of("127.0.0.1:3306", Insight::Off, true).unwrap();
        assert_eq!((off.one_in, off.mirror), (0, 0));
    }

    #[test]
    fn of_a_listener_on_every_address_the_loopback_goes_past() {
        let dialled = |address| of(address, Insight::Off, false).unwrap().dialled;
        assert_eq!(dialled("0.0.0.0:3306"), ["127.0.0.1:3306".parse().unwrap()]);
        assert_eq!(dialled("[::]:3306").len(), 2);
    }
}
