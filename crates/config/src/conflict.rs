//! What only shows across values: two listeners at one address, a zone whose rule can never match, a deadline longer
//! than the one around it. The functions on addresses are shared with the command line, which has no places to name.

use super::access::{SAY_WHO_MAY_COME, open_to_the_network};
use super::complaint::Ledger;
use super::file::Draft;
use super::{Listener, Matcher};
use fleet::{Address, Zone, duration_text};
use std::net::{IpAddr, SocketAddr};

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

/// Looks at everything that needs more than one value to be wrong.
pub(super) fn find(draft: &Draft, ledger: &mut Ledger<'_>) {
    deadlines(draft, ledger);
    lag_limit(draft, ledger);
    zones(draft, ledger);
    unreachable_members(draft, ledger);
    servers(draft, ledger);
    listeners(draft, ledger);
    admin(draft, ledger);
    maps(draft, ledger);
}

fn deadlines(draft: &Draft, ledger: &mut Ledger<'_>) {
    let (attempt, connect) = (draft.router.attempt_deadline, draft.router.connect_deadline);
    if attempt > connect {
        let (attempt, connect) = (duration_text(attempt), duration_text(connect));
        let wrong = format!("one attempt may take {attempt}, longer than the whole connect ({connect})");
        let right = format!("attempt_deadline must be at most connect_deadline = \"{connect}\"");
        ledger.add(&draft.attempt_deadline.span, wrong, right);
    }
}

/// Without a heartbeat lag is known between two bounds: an interval apart under steady writes, two while a
/// round is late. A limit inside these bounds would shut out replicas that are not behind at all.
fn lag_limit(draft: &Draft, ledger: &mut Ledger<'_>) {
    let (limit, interval) = (draft.max_lag.value, draft.fleet.interval);
    if limit < interval * 3 {
        let wrong = format!(
            "max_lag = {} is finer than lag can be measured by asking every {}",
            duration_text(limit),
            duration_text(interval)
        );
        let mut right = format!("write max_lag = \"{}\" or more", duration_text(interval * 3));
        if limit / 3 >= std::time::Duration::from_millis(50) {
            right += &format!(", or interval = \"{}\" or less", duration_text(limit / 3));
        }
        ledger.add(&draft.max_lag.span, wrong, right);
    }
}

fn zones(draft: &Draft, ledger: &mut Ledger<'_>) {
    for (index, zone) in draft.zones.iter().enumerate() {
        if draft.zones[..index].iter().any(|before| before.value.zone == zone.value.zone) {
            let wrong = format!("zone '{}' is there twice", zone.value.zone);
            ledger.add(&zone.span, wrong, "put all its members in one [[zone]]");
        }
        if zone.value.zone.as_str() == "auto" {
            ledger.add(
                &zone.span,
                "a zone cannot be called 'auto'",
                "that word means: find out; call it otherwise",
            );
        }
    }
    let sum: f64 = draft.zones.iter().filter_map(|zone| zone.value.demand).sum();
    if sum > 1.0 + 1e-9
        && let Some(last) = draft.zones.iter().rfind(|zone| zone.value.demand.is_some())
    {
        ledger.add(
            &last.span,
            format!("the demand of all zones adds up to {sum:.3}"),
            "shares add up to at most 1",
        );
    }
}

/// The first rule that matches wins, so a block inside an earlier block of another zone is never reached.
fn unreachable_members(draft: &Draft, ledger: &mut Ledger<'_>) {
    for (index, (zone, member)) in draft.members.iter().enumerate() {
        let shadow = |(other, before): &&(Zone, super::section::Placed<Matcher>)| {
            other != zone
                && match (&before.value, &member.value) {
                    (Matcher::Net(outer), Matcher::Net(inner)) => outer.contains(inner),
                    (a, b) => a == b,
                }
        };
        if let Some((other, before)) = draft.members[..index].iter().find(shadow) {
            let wrong = format!(
                "{} of zone '{zone}' is never reached: {} of zone '{other}' comes first and has it",
                text(&member.value),
                text(&before.value)
            );
            ledger.add(&member.span, wrong, "put the narrower zone first, or correct one of the two");
        }
    }
}

fn servers(draft: &Draft, ledger: &mut Ledger<'_>) {
    for (index, rule) in draft.servers.iter().enumerate() {
        let Some(name) = &rule.value.name else { continue };
        let many = match &rule.value.matcher {
            Matcher::Net(net) => net.prefix_len() != net.max_prefix_len(),
            Matcher::Name(pattern) => pattern.contains('*'),
            Matcher::Label(..) => true,
        };
        if many {
            let wrong = format!(
                "the name '{name}' would go to every server that {} matches",
                text(&rule.value.matcher)
            );
            ledger.add(&rule.span, wrong, "match one host to name it, or remove the name");
        }
        if draft.servers[..index].iter().any(|before| before.value.name.as_ref() == Some(name)) {
            ledger.add(&rule.span, format!("two servers are named '{name}'"), "a name belongs to one server");
        }
    }
}

fn listeners(draft: &Draft, ledger: &mut Ledger<'_>) {
    for (index, listener) in draft.listeners.iter().enumerate() {
        let clash = draft.listeners[..index].iter().find_map(|b| listeners_clash(&b.value, &listener.value));
        if let Some(wrong) = clash {
            ledger.add(&listener.span, wrong, "give each listener an address or port of its own");
        }
        if let Some(wrong) = open_to_the_network(&listener.value) {
            ledger.add(&listener.span, wrong, SAY_WHO_MAY_COME);
        }
    }
}

fn admin(draft: &Draft, ledger: &mut Ledger<'_>) {
    let Some(admin) = &draft.admin else { return };
    let address = admin.value.address;
    if !address.ip().is_loopback() && !admin.value.open {
        let wrong =
            format!("the admin address {address} can be reached from the network, and it has no password");
        let right = "use 127.0.0.1, or write open = true if the network may see the status page";
        ledger.add(&admin.span, wrong, right);
    }
    if let Some(wrong) = draft.listeners.iter().find_map(|l| admin_clashes(address, &l.value)) {
        ledger.add(&admin.span, wrong, "give the admin address a port of its own");
    }
}

fn maps(draft: &Draft, ledger: &mut Ledger<'_>) {
    for (index, map) in draft.maps.iter().enumerate() {
        if draft.maps[..index].iter().any(|before| before.value.0 == map.value.0) {
            let wrong = format!("{} is mapped twice", map.value.0);
            ledger.add(&map.span, wrong, "keep one [[map]] for each address");
        }
    }
}

fn addresses_clash(a: &Address, b: &Address) -> bool {
    match (a, b) {
        (Address::Unix(a), Address::Unix(b)) => a == b,
        (Address::Tcp { host: a, port: p }, Address::Tcp { host: b, port: q }) => {
            p == q && (a == b || is_any(a) || is_any(b))
        }
        _ => false,
    }
}

fn is_any(host: &str) -> bool {
    host.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified())
}

fn text(matcher: &Matcher) -> String {
    match matcher {
        Matcher::Net(net) => net.to_string(),
        Matcher::Name(name) => format!("'{name}'"),
        Matcher::Label(key, value) => format!("{key}={value}"),
    }
}
