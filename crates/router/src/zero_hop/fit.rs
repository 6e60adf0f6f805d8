//! Fit: whether a listener's connections may bypass the router, and if not, why. Pure.

use config::{ClientTlsMode, Insight, Listener as ListenerConfig, TlsMode};
use fleet::Address;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The addresses of a listener whose connections may bypass the router, and on what terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fit {
    /// The addresses.
    pub(super) dialled: Vec<SocketAddr>,
    /// One new session in this many goes through the listener all the same; 0 is none.
    pub(super) one_in: u32,
    /// One in this many is mirrored; 0 is none.
    pub(super) mirror: u32,
    /// One in this many is measured where it is mirrored; 0 is none.
    pub(super) measure: u32,
    /// Not every client may come: sockets bound to an address of their own are looked at by the listener.
    pub(super) checks: bool,
    /// In words, for the status.
    pub(super) words: String,
}

/// Which bypassed sessions the kernel mirrors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MirrorScope {
    /// It cannot, or nobody wants any.
    None,
    /// Those that insight measures.
    Measured,
    /// All, so that it is known of each when it may be closed.
    All,
}

/// Whether connections to `listener`, bound at `bound`, may bypass the router; `to_servers` is what the
/// router does with TLS to servers, and `mirrors` which bypassed sessions the kernel mirrors.
pub(super) fn fit(
    listener: &ListenerConfig,
    bound: &Address,
    to_servers: TlsMode,
    mirrors: MirrorScope,
) -> Result<Fit, String> {
    let Address::Tcp { host, port } = bound else {
        return Err("a unix socket leads nowhere but here".to_owned());
    };
    if !listener.bypass {
        return Err("zero_hop = \"off\" is set for it: all pass through".to_owned());
    }
    let measured = measured(listener);
    if measured == 1 && mirrors == MirrorScope::None {
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
    // A socket that is bound to no address comes from the one that it dials, or from 127.0.0.1.
    let sources = dialled.iter().flat_map(|at| match at.ip() {
        IpAddr::V4(ip) if ip.is_loopback() => vec![at.ip(), Ipv4Addr::LOCALHOST.into()],
        ip => vec![ip],
    });
    if let Some(out) = sources.into_iter().find(|ip| !listener.access.admits(*ip)) {
        return Err(format!("allow leaves out {out}, so all pass through and are looked at"));
    }
    let (one_in, mirror, measure) = match mirrors {
        MirrorScope::None => (measured, 0, 0),
        MirrorScope::Measured => (0, measured, measured),
        MirrorScope::All => (0, 1, measured),
    };
    let words = match (one_in, measure) {
        (0, 0) => format!("all new sessions{only} bypass the router"),
        (0, 1) => format!("all new sessions{only} bypass the router, mirrored for insight"),
        (0, n) => format!("all new sessions{only} bypass the router, 1 of {n} mirrored for insight"),
        (n, _) => format!("{} of {n} new sessions{only} bypass the router", n - 1),
    };
    let checks = listener.access.allow.is_some();
    Ok(Fit { dialled, one_in, mirror, measure, checks, words })
}

/// One session in this many is measured; 0 is none.
pub(super) fn measured(listener: &ListenerConfig) -> u32 {
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

    fn of(address: &str, insight: Insight, mirrors: MirrorScope) -> Result<Fit, String> {
        let address: Address = address.parse().unwrap();
        fit(
            &ListenerConfig { insight, ..ListenerConfig::new(address.clone(), ListenerRole::Reader) },
            &address,
            TlsMode::Disabled,
            mirrors,
        )
    }

    #[test]
    fn a_listener_that_needs_the_path_keeps_its_connections_and_says_why() {
        assert!(
            of("/run/reader.sock", Insight::Off, MirrorScope::Measured).unwrap_err().contains("unix socket")
        );
        assert!(of("127.0.0.1:3306", Insight::On, MirrorScope::None).unwrap_err().contains("measured"));
        let mut listener = ListenerConfig::new("127.0.0.1:3306".parse().unwrap(), ListenerRole::Reader);
        let words = |listener: &ListenerConfig, tls| {
            fit(listener, &listener.address, tls, MirrorScope::All).unwrap_err()
        };
        assert!(words(&listener, TlsMode::Required).contains("[router.tls]"));
        listener.access.allow = Some(vec!["10.0.0.0/8".parse().unwrap()]);
        assert!(words(&listener, TlsMode::Disabled).contains("allow leaves out 127.0.0.1"));
        listener.address = "10.0.0.5:3306".parse().unwrap();
        listener.access.allow = Some(vec!["127.0.0.0/8".parse().unwrap()]);
        assert!(words(&listener, TlsMode::Disabled).contains("allow leaves out 10.0.0.5"));
        listener.access.allow = Some(vec!["10.0.0.0/8".parse().unwrap()]);
        let fitted = fit(&listener, &listener.address, TlsMode::Disabled, MirrorScope::All).unwrap();
        assert!(fitted.checks, "whoever is bound to another address is looked at");
        listener.access = config::Access::default();
        listener.tls.mode = ClientTlsMode::Required;
        assert!(words(&listener, TlsMode::Disabled).contains("tls = \"required\""));
        listener.bypass = false;
        assert!(words(&listener, TlsMode::Disabled).contains("zero_hop = \"off\""));
    }

    #[test]
    fn one_of_sixteen_is_measured_unless_told_otherwise_on_the_way_that_there_is() {
        let said = |insight, mirrors| of("127.0.0.1:3306", insight, mirrors).unwrap().words;
        assert_eq!(said(Insight::Sampled, MirrorScope::None), "15 of 16 new sessions bypass the router");
        let mirrored = "all new sessions bypass the router, 1 of 16 mirrored for insight";
        assert_eq!(said(Insight::Sampled, MirrorScope::Measured), mirrored);
        assert_eq!(
            said(Insight::On, MirrorScope::Measured),
            "all new sessions bypass the router, mirrored for insight"
        );
        let off = of("127.0.0.1:3306", Insight::Off, MirrorScope::Measured).unwrap();
        assert_eq!((off.one_in, off.mirror), (0, 0));
    }

    #[test]
    fn all_sessions_are_followed_whatever_insight_measures() {
        for (insight, measure) in [(Insight::Off, 0), (Insight::Sampled, 16), (Insight::On, 1)] {
            let address: Address = "127.0.0.1:3306".parse().unwrap();
            let listener =
                ListenerConfig { insight, ..ListenerConfig::new(address.clone(), ListenerRole::Reader) };
            let fitted = fit(&listener, &address, TlsMode::Disabled, MirrorScope::All).unwrap();
            assert_eq!((fitted.one_in, fitted.mirror, fitted.measure), (0, 1, measure));
        }
    }

    #[test]
    fn of_a_listener_on_every_address_the_loopback_is_bypassed() {
        let dialled = |address| of(address, Insight::Off, MirrorScope::None).unwrap().dialled;
        assert_eq!(dialled("0.0.0.0:3306"), ["127.0.0.1:3306".parse().unwrap()]);
        assert_eq!(dialled("[::]:3306").len(), 2);
    }
}
